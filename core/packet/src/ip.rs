//! Layer 3: IPv4 (RFC 791), IPv6 and its extension headers (RFC 8200, AH: RFC 4302).

use crate::view::{be16, be32, part, view};

/// UDP ports of DHCP (RFC 2131 §4.1).
pub mod dhcp_port {
    #![allow(missing_docs)]
    pub const SERVER: u16 = 67;
    pub const CLIENT: u16 = 68;
}

/// IP protocols.
pub mod ipproto {
    #![allow(missing_docs)]
    pub const HOPOPTS: u8 = 0;
    pub const ICMP: u8 = 1;
    pub const IGMP: u8 = 2;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const ROUTING: u8 = 43;
    pub const FRAGMENT: u8 = 44;
    pub const GRE: u8 = 47;
    pub const AH: u8 = 51;
    pub const ICMPV6: u8 = 58;
    pub const DSTOPTS: u8 = 60;
    pub const SCTP: u8 = 132;
}

/// Which part of a datagram a packet contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragment {
    /// The complete datagram.
    #[default]
    No,
    /// The first fragment, with the L4 header.
    First,
    /// A later fragment.
    Later,
}

view!(
    /// IPv4 without options.
    Ipv4, 20
);

impl<'a> Ipv4<'a> {
    /// A header whose lengths fit the data, and its payload without options and padding.
    #[inline]
    pub fn parse_checked(data: &'a [u8]) -> Option<(Ipv4<'a>, &'a [u8])> {
        let (ip, _) = Ipv4::parse(data)?;
        let (header, total) = (ip.header_len(), usize::from(ip.total_len()));
        let padding = data.len().checked_sub(total)?;
        let true_len = header >= Ipv4::LEN && padding <= usize::from(u16::MAX);
        data.get(header..total).filter(|_| true_len).map(|payload| (ip, payload))
    }

    /// Length of the header with options, from its length field, in bytes.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.0[0] & 0x0f) * 4
    }

    /// Type of service.
    #[inline]
    pub fn tos(&self) -> u8 {
        self.0[1]
    }

    /// Length of header and payload, from the total length field, in bytes.
    #[inline]
    pub fn total_len(&self) -> u16 {
        be16::<2, 20>(self.0)
    }

    /// Time to live.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.0[8]
    }

    /// Protocol of the payload.
    #[inline]
    pub fn proto(&self) -> u8 {
        self.0[9]
    }

    /// Source.
    #[inline]
    pub fn src(&self) -> u32 {
        be32::<12, 20>(self.0)
    }

    /// Destination.
    #[inline]
    pub fn dst(&self) -> u32 {
        be32::<16, 20>(self.0)
    }

    /// Whether it is a fragment.
    #[inline]
    pub fn fragment(&self) -> Fragment {
        match be16::<6, 20>(self.0) & 0x3fff {
            0 => Fragment::No,
            0x2000 => Fragment::First,
            _ => Fragment::Later,
        }
    }
}

view!(
    /// IPv6 without extension headers.
    Ipv6, 40
);

/// The result of skipping IPv6 extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Payload<'a> {
    /// Protocol of the payload; `FRAGMENT` for a later fragment.
    pub proto: u8,
    /// Whether it is a fragment.
    pub fragment: Fragment,
    /// The payload.
    pub data: &'a [u8],
}

impl<'a> Ipv6<'a> {
    /// A header whose length fits the data, and its payload without padding.
    #[inline]
    pub fn parse_checked(data: &'a [u8]) -> Option<(Ipv6<'a>, &'a [u8])> {
        let (ip, rest) = Ipv6::parse(data)?;
        let payload = rest.get(..usize::from(ip.payload_len()))?;
        (rest.len() - payload.len() <= usize::from(u16::MAX)).then_some((ip, payload))
    }

    /// Traffic class.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (be32::<0, 40>(self.0) >> 20) as u8
    }

    /// Flow label, 20 bits.
    #[inline]
    pub fn label(&self) -> u32 {
        be32::<0, 40>(self.0) & 0xf_ffff
    }

    /// Length of extension headers and payload, in bytes.
    #[inline]
    pub fn payload_len(&self) -> u16 {
        be16::<4, 40>(self.0)
    }

    /// Protocol of the next header.
    #[inline]
    pub fn next_header(&self) -> u8 {
        self.0[6]
    }

    /// Hop limit.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.0[7]
    }

    /// Source.
    #[inline]
    pub fn src(&self) -> [u8; 16] {
        part::<8, 16, 40>(self.0)
    }

    /// Destination.
    #[inline]
    pub fn dst(&self) -> [u8; 16] {
        part::<24, 16, 40>(self.0)
    }
}

/// Returns whether this is the protocol number of an IPv6 extension header.
#[inline]
pub fn is_extension(proto: u8) -> bool {
    matches!(proto, ipproto::HOPOPTS | ipproto::ROUTING | ipproto::DSTOPTS | ipproto::AH | ipproto::FRAGMENT)
}

/// Skips IPv6 extension headers. Each has at least eight bytes, so the length of the data bounds the loop. `None`: a header is truncated.
pub fn skip_extensions(next_header: u8, data: &[u8]) -> Option<Ipv6Payload<'_>> {
    let mut at = Ipv6Payload { proto: next_header, fragment: Fragment::No, data };
    loop {
        if !is_extension(at.proto) {
            return Some(at);
        }
        let &[next, len, b2, b3, ..] = at.data.first_chunk::<8>()?;
        let size = match at.proto {
            ipproto::AH => (usize::from(len) + 2) * 4,
            ipproto::FRAGMENT => 8,
            _ => (usize::from(len) + 1) * 8,
        };
        let rest = at.data.get(size..)?;
        let was_fragment = at.proto == ipproto::FRAGMENT;
        (at.proto, at.data) = (next, rest);
        let offset_and_more = u16::from_be_bytes([b2, b3]);
        if was_fragment && offset_and_more != 0 {
            at.fragment = Fragment::First;
            if offset_and_more & 0xfff8 != 0 {
                return Some(Ipv6Payload { proto: ipproto::FRAGMENT, fragment: Fragment::Later, data: rest });
            }
        }
    }
}
