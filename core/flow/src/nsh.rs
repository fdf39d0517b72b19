//! The network service header (NSH, RFC 8300): its fields in a flow, and the header that is made from them.

use packet::nsh::{LEN_MAX, MD1_LEN};
pub use packet::nsh::{MD_TYPE_1, MD_TYPE_2, next};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Maximum length of the context headers in bytes.
pub const CONTEXT_MAX: usize = LEN_MAX - packet::nsh::Nsh::LEN;

/// Fields of a network service header.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Nsh {
    /// The O bit and the unassigned bit after it.
    pub flags: u8,
    /// Number of remaining hops.
    pub ttl: u8,
    /// The metadata type, which determines the form of the context headers.
    pub md_type: u8,
    /// Protocol number of the payload: one of `packet::nsh::next`.
    pub np: u8,
    /// Service path (24 bits) and index (8 bits).
    pub path: u32,
    /// The context header of metadata type 1; zero for other types, whose context headers are not parsed.
    pub context: [u32; 4],
}

/// The context headers of metadata type 2 are too long, or their length is not a multiple of 4 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidContextLength;

impl Nsh {
    /// A new header as RFC 8300 §2.2 defines it: TTL 63, index 255.
    pub const NEW: Nsh = Nsh { flags: 0, ttl: 63, md_type: MD_TYPE_1, np: 0, path: 255, context: [0; 4] };

    /// Parses a header at the front of the data; `None` if the header is not valid.
    pub fn parse(data: &[u8]) -> Option<Nsh> {
        let (nsh, context, _) = packet::nsh::Nsh::parse_checked(data)?;
        let mut out = Nsh {
            flags: nsh.flags(),
            ttl: nsh.ttl(),
            md_type: nsh.md_type(),
            np: nsh.next_protocol(),
            path: nsh.path(),
            context: [0; 4],
        };
        if out.md_type == MD_TYPE_1 {
            for (word, bytes) in out.context.iter_mut().zip(context.as_chunks().0) {
                *word = u32::from_be_bytes(*bytes);
            }
        }
        Some(out)
    }

    /// Service path.
    pub fn spi(&self) -> u32 {
        self.path >> 8
    }

    /// Service index.
    pub fn si(&self) -> u8 {
        self.path as u8
    }

    /// Encodes the header. `md2`: context headers, if the metadata type is not 1.
    pub fn header(&self, md2: &[u8]) -> Result<Vec<u8>, InvalidContextLength> {
        let len = if self.md_type == MD_TYPE_1 { MD1_LEN } else { 8 + md2.len() };
        if len > LEN_MAX || !len.is_multiple_of(4) {
            return Err(InvalidContextLength);
        }
        let mut out = Vec::with_capacity(len);
        out.extend_from_slice(&self.first_word(len).to_be_bytes());
        out.extend_from_slice(&[self.md_type, self.np]);
        out.extend_from_slice(&self.path.to_be_bytes());
        if self.md_type == MD_TYPE_1 {
            self.context.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
        } else {
            out.extend_from_slice(md2);
        }
        Ok(out)
    }

    /// The first 16 bits: version, flags, TTL, length.
    fn first_word(&self, len: usize) -> u16 {
        u16::from(self.flags & 3) << 12 | u16::from(self.ttl & 0x3f) << 6 | (len / 4) as u16
    }

    /// Writes the fields into an existing header. Its length, and its context headers if the metadata type is not 1, stay
    /// unchanged.
    pub fn write(&self, header: &mut [u8]) {
        let Some((base, rest)) = header.split_first_chunk_mut::<8>() else { return };
        // Writes flags and TTL; version and length stay unchanged.
        let first = self.first_word(0) & 0x3fc0 | u16::from_be_bytes([base[0], base[1]]) & !0x3fc0;
        base[..2].copy_from_slice(&first.to_be_bytes());
        base[2..4].copy_from_slice(&[self.md_type, self.np]);
        base[4..].copy_from_slice(&self.path.to_be_bytes());
        if self.md_type == MD_TYPE_1 {
            for (bytes, word) in rest.as_chunks_mut::<4>().0.iter_mut().zip(&self.context) {
                *bytes = word.to_be_bytes();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_header_has_the_fields_it_was_made_of(flags in 0..4u8, ttl in 0..64u8, np: u8, path: u32,
                                                  context: [u32; 4], tlvs in 0..61usize, type_1: bool) {
            let md_type = if type_1 { 1 } else { 2 };
            let context = if type_1 { context } else { [0; 4] };
            let nsh = Nsh { flags, ttl, md_type, np, path, context };
            let bytes = nsh.header(&vec![7; tlvs * 4]).unwrap();
            prop_assert_eq!(Nsh::parse(&bytes), Some(nsh));
            prop_assert_eq!(bytes.len(), if type_1 { 24 } else { 8 + tlvs * 4 });
            let mut other = Nsh { md_type, ..Nsh::NEW }.header(&vec![7; tlvs * 4]).unwrap();
            nsh.write(&mut other);
            prop_assert_eq!(other, bytes);
        }
    }

    #[test]
    fn what_does_not_fit_is_no_header() {
        let nsh = Nsh { md_type: 2, ..Nsh::NEW };
        assert_eq!(nsh.header(&[0; 248]), Err(InvalidContextLength));
        assert_eq!(nsh.header(&[0; 3]), Err(InvalidContextLength));
    }
}
