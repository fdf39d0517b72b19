//! The network service header (RFC 8300): base header and service path header; context headers follow.

use crate::view::{be16, be32, view};

/// Protocol numbers of a header's payload (RFC 8300 §2.2, "Next Protocol").
pub mod next {
    #![allow(missing_docs)]
    pub const IPV4: u8 = 1;
    pub const IPV6: u8 = 2;
    pub const ETHERNET: u8 = 3;
    pub const NSH: u8 = 4;
}

/// Metadata type 1: one context header of fixed length (16 bytes).
pub const MD_TYPE_1: u8 = 1;
/// Metadata type 2: context headers of variable length, or none.
pub const MD_TYPE_2: u8 = 2;
/// Length of a header of metadata type 1, in bytes.
pub const MD1_LEN: usize = 24;
/// Maximum length of a header: 63 words of four bytes.
pub const LEN_MAX: usize = 252;

view!(
    /// Base header and service path header.
    Nsh, 8
);

impl<'a> Nsh<'a> {
    /// A header of version 0 with a valid length, its context headers, and its payload.
    pub fn parse_checked(data: &'a [u8]) -> Option<(Nsh<'a>, &'a [u8], &'a [u8])> {
        let (nsh, _) = Nsh::parse(data)?;
        let len = nsh.header_len();
        let fits = match nsh.md_type() {
            MD_TYPE_1 => len == MD1_LEN,
            _ => len >= Nsh::LEN,
        };
        let (context, payload) = (data.get(Nsh::LEN..len)?, data.get(len..)?);
        (fits && nsh.0[0] >> 6 == 0).then_some((nsh, context, payload))
    }

    /// The O bit and the unassigned bit after it.
    pub fn flags(&self) -> u8 {
        self.0[0] >> 4 & 3
    }

    /// Number of remaining hops.
    pub fn ttl(&self) -> u8 {
        (be16::<0, 8>(self.0) >> 6 & 0x3f) as u8
    }

    /// Length of the header with context headers, from its length field, in bytes.
    pub fn header_len(&self) -> usize {
        usize::from(self.0[1] & 0x3f) * 4
    }

    /// The metadata type, with the unassigned bits before it.
    pub fn md_type(&self) -> u8 {
        self.0[2]
    }

    /// Protocol number of its payload: one of [`next`].
    pub fn next_protocol(&self) -> u8 {
        self.0[3]
    }

    /// Service path (24 bits) and index (8 bits).
    pub fn path(&self) -> u32 {
        be32::<4, 8>(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_with_a_wrong_version_or_length_are_refused() {
        // RFC 8300 §2.2: version, O, U, TTL 63, length 6; type 1, Ethernet; path 0x123456, index 255.
        let mut bytes = [0u8; 30];
        bytes[..8].copy_from_slice(&[0x2f, 0xc6, 1, 3, 0x12, 0x34, 0x56, 0xff]);
        let (nsh, context, payload) = Nsh::parse_checked(&bytes).unwrap();
        assert_eq!((nsh.flags(), nsh.ttl(), nsh.md_type(), nsh.next_protocol()), (2, 63, 1, next::ETHERNET));
        assert_eq!((nsh.path(), context.len(), payload.len()), (0x1234_56ff, 16, 6));
        for (at, bad) in [(0, 0x6f), (1, 0xc5), (1, 0xc8)] {
            let mut wrong = bytes;
            wrong[at] = bad;
            assert_eq!(Nsh::parse_checked(&wrong), None, "byte {at} is {bad:#x}");
        }
        assert_eq!(Nsh::parse_checked(&bytes[..23]), None);
        (bytes[1], bytes[2]) = (0xc2, MD_TYPE_2);
        assert_eq!(Nsh::parse_checked(&bytes).unwrap().1.len(), 0);
        bytes[1] = 0xc1;
        assert_eq!(Nsh::parse_checked(&bytes), None);
    }
}
