//! The outer IP header of a received packet.

use crate::checks::ChecksumCounts;
use crate::popped::PopError;
use crate::wire::{self, flag};
use flow::Tunnel;
use packet::checksum;
use packet::ip::Fragment;
use packet::rx_checksums::RxChecksum;
use packet::{Ipv4, Ipv6};

/// An outer IP header, parsed.
pub(crate) struct OuterIp<'a> {
    /// Addresses, TOS, TTL and flags of the header.
    pub(crate) tunnel: Tunnel,
    /// IP protocol of the payload.
    pub(crate) proto: u8,
    /// The payload, without padding.
    pub(crate) payload: &'a [u8],
    /// Offset of the payload in the frame.
    pub(crate) at: usize,
    /// The partial sum of the pseudo header: the addresses, without protocol and length.
    pub(crate) pseudo: u32,
}

impl OuterIp<'_> {
    /// Skips the extension headers of IPv6. By default, Linux adds one before GRE: destination options with the encapsulation limit
    /// (RFC 2473 §4.1.1).
    pub(crate) fn without_extensions(self) -> Result<Self, PopError> {
        let inner = packet::ip::skip_extensions(self.proto, self.payload).ok_or(PopError::Short)?;
        if inner.fragment != Fragment::No {
            return Err(PopError::Fragment);
        }
        let at = self.at + self.payload.len() - inner.data.len();
        Ok(OuterIp { proto: inner.proto, payload: inner.data, at, ..self })
    }
}

/// Parses the Ethernet and the IP header of a frame without VLAN tags. `stated`: what the device reported about the checksum of an IPv4
/// header.
pub(crate) fn outer<'a>(
    frame: &'a [u8],
    stated: RxChecksum,
    checks: &mut ChecksumCounts,
) -> Result<OuterIp<'a>, PopError> {
    let rest = frame.get(wire::ETHERNET..).ok_or(PopError::Short)?;
    match frame.get(12..14) {
        Some([0x08, 0x00]) => v4(rest, stated, checks),
        Some([0x86, 0xdd]) => v6(rest),
        _ => Err(PopError::NotIp),
    }
}

fn v4<'a>(rest: &'a [u8], stated: RxChecksum, checks: &mut ChecksumCounts) -> Result<OuterIp<'a>, PopError> {
    let first = *rest.first().ok_or(PopError::Short)?;
    if first >> 4 != 4 {
        return Err(PopError::Version);
    }
    // The checksum is checked before options and fragments, as in Open vSwitch.
    let header = rest.get(..usize::from(first & 0xf) * 4).filter(|header| header.len() >= wire::IPV4);
    let header = header.ok_or(PopError::Short)?;
    if !checks.is_ip_right(stated, || checksum::checksum(header) == 0) {
        return Err(PopError::Checksum);
    }
    let (ip, payload) = Ipv4::parse_checked(rest).ok_or(PopError::Short)?;
    if ip.header_len() != wire::IPV4 {
        return Err(PopError::IpOptions);
    }
    if ip.fragment() != Fragment::No {
        return Err(PopError::Fragment);
    }
    let dont_fragment = if rest[6] & 0x40 != 0 { flag::DF } else { 0 };
    let tunnel = Tunnel {
        ip_src: ip.src(),
        ip_dst: ip.dst(),
        ip_tos: ip.tos(),
        ip_ttl: ip.ttl(),
        flags: dont_fragment,
        ..Tunnel::default()
    };
    let pseudo = checksum::add(0, &rest[12..wire::IPV4]);
    Ok(OuterIp { tunnel, proto: ip.proto(), payload, at: wire::ETHERNET + wire::IPV4, pseudo })
}

fn v6(rest: &[u8]) -> Result<OuterIp<'_>, PopError> {
    let (ip, payload) = Ipv6::parse_checked(rest).ok_or(PopError::Short)?;
    if rest[0] >> 4 != 6 {
        return Err(PopError::Version);
    }
    let tunnel = Tunnel {
        ipv6_src: ip.src(),
        ipv6_dst: ip.dst(),
        ip_tos: ip.traffic_class(),
        ip_ttl: ip.hop_limit(),
        ..Tunnel::default()
    };
    let pseudo = checksum::add(0, &rest[8..wire::IPV6]);
    Ok(OuterIp { tunnel, proto: ip.next_header(), payload, at: wire::ETHERNET + wire::IPV6, pseudo })
}
