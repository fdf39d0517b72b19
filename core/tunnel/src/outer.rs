//! The outer IP header of a received packet.

use crate::popped::PopError;
use crate::wire::{self, flag};
use flow::Tunnel;
use packet::checksum;
use packet::ip::Fragment;
use packet::{Ipv4, Ipv6};

/// A parsed outer IP header.
pub(crate) struct Outer<'a> {
    /// Its addresses, TOS and TTL.
    pub(crate) tunnel: Tunnel,
    /// The protocol of what follows.
    pub(crate) proto: u8,
    /// The payload, without padding.
    pub(crate) payload: &'a [u8],
    /// Offset of the payload in the frame.
    pub(crate) at: usize,
    /// The partial sum of the pseudo header, without protocol and length.
    pub(crate) pseudo: u32,
}

/// Parses Ethernet and IP. VLAN tags were removed before.
pub(crate) fn outer(frame: &[u8]) -> Result<Outer<'_>, PopError> {
    let rest = frame.get(wire::ETHERNET..).ok_or(PopError::Short)?;
    match frame.get(12..14) {
        Some([0x08, 0x00]) => v4(rest),
        Some([0x86, 0xdd]) => v6(rest),
        _ => Err(PopError::NotIp),
    }
}

fn v4(rest: &[u8]) -> Result<Outer<'_>, PopError> {
    let (ip, payload) = Ipv4::parse_checked(rest).ok_or(PopError::Short)?;
    if rest[0] >> 4 != 4 {
        return Err(PopError::Version);
    }
    if ip.header_len() != wire::IPV4 {
        return Err(PopError::IpOptions);
    }
    if checksum::checksum(&rest[..wire::IPV4]) != 0 {
        return Err(PopError::Checksum);
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
    Ok(Outer { tunnel, proto: ip.proto(), payload, at: wire::ETHERNET + wire::IPV4, pseudo })
}

fn v6(rest: &[u8]) -> Result<Outer<'_>, PopError> {
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
    Ok(Outer { tunnel, proto: ip.next_header(), payload, at: wire::ETHERNET + wire::IPV6, pseudo })
}
