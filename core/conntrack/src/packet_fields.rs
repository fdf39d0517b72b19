//! Reads the key of a packet's connection, and the fields that change the connection's state.
//!
//! A packet is *invalid* if it has no key: it is truncated or a fragment, it has a wrong checksum or a zero port, or its ICMP type belongs
//! to no connection.

use crate::checks::ChecksumCounts;
use crate::key::{Endpoint, Key, icmp_counterpart, icmp_port, is_icmp};
use crate::tcp::Segment;
use packet::checksum::{add, checksum, finish, pseudo_v4, pseudo_v6};
use packet::ether::ethertype;
use packet::ip::{Fragment, skip_extensions};
use packet::rx_checksums::RxChecksum;
use packet::{Icmp, Icmpv6, Ipv4, Ipv6, Sctp, Tcp, Udp, ipproto};

/// A packet to be tracked.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Ethernet type.
    pub ethertype: u16,
    /// The packet from the network header on; padding may follow.
    pub l3: &'a [u8],
    /// What is known of the checksums of the IPv4 header and of the transport header. [`RxChecksum::Unknown`]: the checksum is verified
    /// here.
    pub sums: [RxChecksum; 2],
}

/// Checksums that must be verified.
pub const UNVERIFIED: [RxChecksum; 2] = [RxChecksum::Unknown; 2];
/// Checksums that need not be verified.
pub const VERIFIED: [RxChecksum; 2] = [RxChecksum::Unfinished; 2];

/// The fields of a packet that connection tracking uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PacketFields {
    /// The key of the connection, in the packet's direction.
    pub(crate) key: Key,
    /// The packet is an ICMP error about a packet of the connection (RFC 792, RFC 4443), and itself no packet of the connection.
    pub(crate) related: bool,
    pub(crate) content: Content,
}

/// The fields of a packet that change the state of its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Content {
    Tcp(Segment),
    /// An ICMP message that is not an error.
    Icmp {
        /// The message is a request: a reply alone begins no connection.
        is_request: bool,
    },
    #[default]
    UdpOrOther,
}

/// Bytes of the transport header that an ICMP error quotes at least (RFC 792).
const QUOTED: usize = 8;

/// A packet whose network header was read.
struct Transport<'a> {
    /// The key without ports.
    key: Key,
    /// Transport header and payload.
    data: &'a [u8],
    /// Sum of the pseudo header.
    pseudo: u32,
    /// What is known of the transport checksum.
    sum: RxChecksum,
}

/// Reads a packet from its network header on, and counts the checksums that it verifies. `None`: the packet is invalid.
pub(crate) fn read(packet: &Packet<'_>, zone: u16, checks: &mut ChecksumCounts) -> Option<PacketFields> {
    let &Packet { ethertype, l3, sums: [ip_sum, sum] } = packet;
    let transport = match ethertype {
        ethertype::IPV4 => {
            let (ip, data) = Ipv4::parse_checked(l3)?;
            let header = &l3[..ip.header_len()];
            if ip.fragment() != Fragment::No || !checks.is_ip_right(ip_sum, || checksum(header) == 0) {
                return None;
            }
            let pseudo = pseudo_v4(ip.src(), ip.dst(), ip.proto(), data.len() as u16);
            Transport { key: key_of_v4(&ip, zone), data, pseudo, sum }
        }
        ethertype::IPV6 => {
            let (ip, payload) = Ipv6::parse_checked(l3)?;
            let inner = skip_extensions(ip.next_header(), payload)?;
            if inner.fragment != Fragment::No {
                return None;
            }
            let pseudo = pseudo_v6(&ip.src(), &ip.dst(), inner.proto, inner.data.len() as u32);
            Transport { key: key_of_v6(&ip, inner.proto, zone), data: inner.data, pseudo, sum }
        }
        _ => return None,
    };
    if sum == RxChecksum::Wrong {
        checks.transport_wrong += 1;
        return None;
    }
    transport.fields(checks)
}

fn key_of_v4(ip: &Ipv4<'_>, zone: u16) -> Key {
    let end = |address: u32| Endpoint { address: [0, address.into()], port: 0 };
    Key { zone, v6: false, proto: ip.proto(), src: end(ip.src()), dst: end(ip.dst()) }
}

fn key_of_v6(ip: &Ipv6<'_>, proto: u8, zone: u16) -> Key {
    let end = |address: [u8; 16]| {
        let bits = u128::from_be_bytes(address);
        Endpoint { address: [(bits >> 64) as u64, bits as u64], port: 0 }
    };
    Key { zone, v6: true, proto, src: end(ip.src()), dst: end(ip.dst()) }
}

impl Transport<'_> {
    fn fields(self, checks: &mut ChecksumCounts) -> Option<PacketFields> {
        let Transport { key, data, sum, .. } = self;
        match key.proto {
            ipproto::TCP => {
                let (tcp, payload) = Tcp::parse_checked(data)?;
                let key = with_ports(key, tcp.src(), tcp.dst())?;
                let options = &data[Tcp::LEN..tcp.header_len()];
                let segment = Segment::new(&tcp, options, payload.len() as u32);
                self.if_intact(checks, PacketFields { key, related: false, content: Content::Tcp(segment) })
            }
            ipproto::UDP => {
                let (udp, _) = Udp::parse(data)?;
                if !(Udp::LEN..=data.len()).contains(&udp.len_field().into()) {
                    return None;
                }
                let key = with_ports(key, udp.src(), udp.dst())?;
                let fields = PacketFields { key, related: false, content: Content::UdpOrOther };
                // Over IPv4, zero means that the packet has no checksum.
                if udp.checksum() == 0 && !key.v6 { Some(fields) } else { self.if_intact(checks, fields) }
            }
            ipproto::SCTP => {
                let (sctp, _) = Sctp::parse(data)?;
                let key = with_ports(key, sctp.src(), sctp.dst())?;
                let good =
                    has_complete_chunks(data) && checks.is_transport_right(sum, || is_sctp_intact(data));
                good.then_some(PacketFields { key, related: false, content: Content::UdpOrOther })
            }
            ipproto::ICMP if !key.v6 => self.icmp(checks),
            ipproto::ICMPV6 if key.v6 => self.icmpv6(checks),
            _ => Some(PacketFields { key, related: false, content: Content::UdpOrOther }),
        }
    }

    /// Returns `fields` if the transport checksum, which covers the pseudo header, is right.
    fn if_intact(&self, checks: &mut ChecksumCounts, fields: PacketFields) -> Option<PacketFields> {
        let verify = || finish(add(self.pseudo, self.data)) == 0;
        checks.is_transport_right(self.sum, verify).then_some(fields)
    }

    fn icmp(&self, checks: &mut ChecksumCounts) -> Option<PacketFields> {
        let (icmp, quoted) = Icmp::parse(self.data)?;
        if !checks.is_transport_right(self.sum, || checksum(self.data) == 0) {
            return None;
        }
        match icmp.icmp_type() {
            // Destination unreachable, source quench, redirect, time exceeded, parameter problem.
            3 | 4 | 5 | 11 | 12 => {
                let (ip, _) = Ipv4::parse(quoted)?;
                let data = quoted.get(ip.header_len().max(Ipv4::LEN)..)?;
                if ip.header_len() < Ipv4::LEN || ip.fragment() == Fragment::Later {
                    return None;
                }
                self.error_about(key_of_v4(&ip, self.key.zone), data)
            }
            kind => self.query(kind, icmp.code(), icmp.id()),
        }
    }

    fn icmpv6(&self, checks: &mut ChecksumCounts) -> Option<PacketFields> {
        let (icmp, quoted) = Icmpv6::parse(self.data)?;
        if !checks.is_transport_right(self.sum, || finish(add(self.pseudo, self.data)) == 0) {
            return None;
        }
        match icmp.icmp_type() {
            // Destination unreachable, packet too big, time exceeded, parameter problem.
            1..=4 => {
                let (ip, rest) = Ipv6::parse(quoted)?;
                let inner = skip_extensions(ip.next_header(), rest)?;
                if inner.fragment != Fragment::No {
                    return None;
                }
                self.error_about(key_of_v6(&ip, inner.proto, self.key.zone), inner.data)
            }
            kind => self.query(kind, icmp.code(), icmp.id()),
        }
    }

    /// The fields of an ICMP request or reply. `None` for other messages.
    fn query(&self, kind: u8, code: u8, id: u16) -> Option<PacketFields> {
        let key = message_key(self.key, kind, code, id)?;
        let is_request = matches!((key.v6, kind), (false, 8 | 13 | 15) | (true, 128));
        Some(PacketFields { key, related: false, content: Content::Icmp { is_request } })
    }

    /// The fields of an ICMP error about a packet with key `cause`, whose transport header begins `data`. `None`: the error is not
    /// addressed to the source of that packet.
    fn error_about(&self, cause: Key, data: &[u8]) -> Option<PacketFields> {
        if cause.src.address != self.key.dst.address {
            return None;
        }
        let key = quoted_key(cause, data)?.reverse();
        Some(PacketFields { key, related: true, content: Content::UdpOrOther })
    }
}

/// Adds ports to a key. `None`: a port is 0, which is invalid.
fn with_ports(key: Key, src: u16, dst: u16) -> Option<Key> {
    let end = |end: Endpoint, port: u16| Endpoint { port: port.into(), ..end };
    (src != 0 && dst != 0).then(|| Key { src: end(key.src, src), dst: end(key.dst, dst), ..key })
}

/// The key of a quoted packet. `None`: the ports or the ICMP header are missing or invalid.
fn quoted_key(key: Key, data: &[u8]) -> Option<Key> {
    let head = data.first_chunk::<QUOTED>();
    let word = |at: usize| head.map(|h| u16::from_be_bytes([h[at], h[at + 1]]));
    match key.proto {
        ipproto::TCP | ipproto::UDP | ipproto::SCTP => with_ports(key, word(0)?, word(2)?),
        proto if is_icmp(proto) && key.v6 == (proto == ipproto::ICMPV6) => {
            message_key(key, head?[0], head?[1], word(4)?)
        }
        _ => Some(key),
    }
}

/// The key of an ICMP request or reply. The port of each endpoint contains the type that this endpoint sends. `None`: the message is
/// neither.
fn message_key(key: Key, kind: u8, code: u8, id: u16) -> Option<Key> {
    let answer = icmp_counterpart(key.v6, kind);
    let end = |end: Endpoint, kind| Endpoint { port: icmp_port(id, kind, 0), ..end };
    (code == 0 && answer != kind).then(|| Key { src: end(key.src, kind), dst: end(key.dst, answer), ..key })
}

/// Returns whether the checksum of an SCTP packet is right (RFC 9260 §6.8). The checksum field is bytes 8 to 11 and counts as zero.
fn is_sctp_intact(data: &[u8]) -> bool {
    match data.first_chunk::<{ Sctp::LEN }>() {
        Some(&[.., a, b, c, d]) => {
            let sum = packet::checksum::crc32c(&[&data[..8], &[0; 4], &data[Sctp::LEN..]]);
            sum == u32::from_le_bytes([a, b, c, d])
        }
        None => false,
    }
}

/// Returns whether an SCTP packet consists of complete chunks, each padded to a multiple of four bytes (RFC 9260 §3.2).
fn has_complete_chunks(data: &[u8]) -> bool {
    let Some((_, mut rest)) = Sctp::parse(data) else { return false };
    while let Some(&[_, _, high, low]) = rest.first_chunk::<4>() {
        let len = usize::from(u16::from_be_bytes([high, low]));
        match rest.get(len.next_multiple_of(4)..) {
            Some(after) if len >= 4 => rest = after,
            _ => return false,
        }
    }
    rest.is_empty()
}
