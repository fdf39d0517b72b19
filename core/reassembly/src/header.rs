//! Reads the headers of a fragment.

use packet::checksum::checksum;
use packet::ether::ethertype;
use packet::ip::is_extension;
use packet::{Ipv4, Ipv6, ipproto};

/// Maximum length of a datagram in bytes, by the length fields of both protocols.
const DATAGRAM_MAX: u32 = 65_535;
/// Unit of fragment offsets, in bytes.
const OFFSET_UNIT: u32 = 8;
const MORE_V4: u16 = 0x2000;
const OFFSET_V4: u16 = 0x1fff;
const MORE_V6: u16 = 1;
/// Length of an IPv6 fragment header in bytes.
const FRAGMENT_HEADER: usize = 8;

/// A fragment, as its headers describe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    pub(crate) v6: bool,
    /// IPv4: protocol of the datagram. IPv6: 0, because only the first fragment contains it.
    pub(crate) proto: u8,
    pub(crate) id: u32,
    /// Source address, most significant half first; an IPv4 address is in the low half.
    pub(crate) src: [u64; 2],
    pub(crate) dst: [u64; 2],
    /// Offset of the payload, in bytes from the network header.
    pub(crate) at: u32,
    /// Length of the payload, in bytes.
    pub(crate) len: u32,
    /// Offset of the fragment's payload in the datagram's payload.
    pub(crate) start: u32,
    /// More fragments follow.
    pub(crate) more: bool,
}

/// The kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// A datagram that is not a fragment, or not an IP packet.
    NotFragment,
    /// A fragment that cannot be parsed, or that cannot be part of any datagram.
    Malformed,
    /// A fragment.
    Fragment(Fragment),
}

/// Returns whether a packet, from its network header on, may be a fragment. Reads at most two bytes: `false` is certain, `true` is not.
#[inline]
pub fn may_be_fragment(dl_type: u16, l3: &[u8]) -> bool {
    match dl_type {
        ethertype::IPV4 => l3.get(6..8).is_some_and(|b| (b[0] & 0x3f) | b[1] != 0),
        ethertype::IPV6 => l3.get(6).is_some_and(|next| is_extension(*next)),
        _ => false,
    }
}

/// Reads a packet from its network header on; padding may follow.
pub fn read(dl_type: u16, l3: &[u8]) -> PacketKind {
    match dl_type {
        ethertype::IPV4 => read_v4(l3),
        ethertype::IPV6 => read_v6(l3),
        _ => PacketKind::NotFragment,
    }
}

fn read_v4(l3: &[u8]) -> PacketKind {
    let Some((ip, payload)) = Ipv4::parse_checked(l3) else { return PacketKind::Malformed };
    let word = |at: usize| u16::from_be_bytes([l3[at], l3[at + 1]]);
    let (id, field, header) = (word(4), word(6), ip.header_len());
    if field & (MORE_V4 | OFFSET_V4) == 0 {
        return PacketKind::NotFragment;
    }
    if checksum(&l3[..header]) != 0 {
        return PacketKind::Malformed;
    }
    let fragment = Fragment {
        v6: false,
        proto: ip.proto(),
        id: id.into(),
        src: [0, ip.src().into()],
        dst: [0, ip.dst().into()],
        at: header as u32,
        len: payload.len() as u32,
        start: u32::from(field & OFFSET_V4) * OFFSET_UNIT,
        more: field & MORE_V4 != 0,
    };
    fragment.validated()
}

fn read_v6(l3: &[u8]) -> PacketKind {
    let Some((ip, payload)) = Ipv6::parse_checked(l3) else { return PacketKind::Malformed };
    let (mut next, mut rest) = (ip.next_header(), payload);
    // Each header has at least eight bytes, so the length of the data bounds the loop.
    while is_extension(next) {
        let Some(&[following, len, high, low, a, b, c, d]) = rest.first_chunk::<FRAGMENT_HEADER>() else {
            return PacketKind::Malformed;
        };
        if next != ipproto::FRAGMENT {
            let size = match next {
                ipproto::AH => (usize::from(len) + 2) * 4,
                _ => (usize::from(len) + 1) * 8,
            };
            let Some(after) = rest.get(size..) else { return PacketKind::Malformed };
            (next, rest) = (following, after);
            continue;
        }
        let (field, data) = (u16::from_be_bytes([high, low]), &rest[FRAGMENT_HEADER..]);
        if field & !0b110 == 0 {
            // An atomic fragment (RFC 6946) contains the complete datagram.
            (next, rest) = (following, data);
            continue;
        }
        let halves = |address: [u8; 16]| {
            let bits = u128::from_be_bytes(address);
            [(bits >> 64) as u64, bits as u64]
        };
        let fragment = Fragment {
            v6: true,
            proto: 0,
            id: u32::from_be_bytes([a, b, c, d]),
            src: halves(ip.src()),
            dst: halves(ip.dst()),
            at: (Ipv6::LEN + payload.len() - data.len()) as u32,
            len: data.len() as u32,
            start: u32::from(field & !0b111),
            more: field & MORE_V6 != 0,
        };
        return fragment.validated();
    }
    PacketKind::NotFragment
}

impl Fragment {
    /// Checks that the payload of a fragment other than the last is a multiple of 8 bytes (RFC 791 §3.2, RFC 8200 §4.5), and that no
    /// fragment exceeds the longest datagram.
    fn validated(self) -> PacketKind {
        let is_cut = self.more && (self.len == 0 || !self.len.is_multiple_of(OFFSET_UNIT));
        if is_cut || self.end() > DATAGRAM_MAX { PacketKind::Malformed } else { PacketKind::Fragment(self) }
    }

    /// End of the fragment's payload in the datagram's payload.
    pub(crate) fn end(&self) -> u32 {
        self.start + self.len
    }

    /// Length of the packet from its network header on, without padding.
    pub(crate) fn size(&self) -> u32 {
        self.at + self.len
    }

    /// Returns whether the fragment is IPv6.
    pub fn is_v6(&self) -> bool {
        self.v6
    }
}
