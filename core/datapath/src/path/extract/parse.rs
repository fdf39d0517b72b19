//! The general parser: parses the headers of any packet one by one and fills its line.

use classifier::megaflow::Depth;
use cpu::Line;
use flow::VLAN_CFI;
use packet::ether::{Arp, Ethernet, TypeField, VlanTag, ethertype, ethertype_of};
use packet::ip::{Fragment, Ipv4, Ipv6, ipproto, skip_extensions};
use packet::{Icmp, Icmpv6, Igmp, Sctp, Tcp, Udp, nd};

fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn mac(bytes: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = bytes;
    u64::from_be_bytes([a, b, c, d, e, f, 0, 0])
}

/// A line to be filled, which initially contains the packet's metadata, and other results of parsing.
pub(super) struct Parse<'l> {
    pub(super) line: &'l mut Line,
    pub(super) tcp_flags: u16,
}

impl Parse<'_> {
    /// Parses a packet. `None` only means that parsing ended early: the fields that were filled before stay.
    #[inline(never)]
    pub(super) fn packet(&mut self, data: &[u8], packet_type: u16, tags: usize, depth: Depth) -> Option<()> {
        let (dl_type, rest) = if packet_type == 0 { self.l2(data, tags)? } else { (packet_type, data) };
        self.line[1] |= u64::from(dl_type);
        if depth < Depth::L3 {
            return None;
        }
        match dl_type {
            ethertype::IPV4 => self.ipv4(rest, depth),
            ethertype::IPV6 => self.ipv6(rest, depth),
            t if ethertype::is_arp(t) => self.arp(rest),
            _ => None,
        }
    }

    fn l2<'a>(&mut self, data: &'a [u8], tags: usize) -> Option<(u16, &'a [u8])> {
        let (eth, mut rest) = Ethernet::parse(data)?;
        TypeField::parse(rest)?;
        (self.line[1], self.line[2]) = (mac(eth.dst()), mac(eth.src()));
        for outer in [true, false].into_iter().take(tags) {
            let tag =
                VlanTag::parse(rest).filter(|(t, after)| ethertype::is_vlan(t.tpid()) && after.len() >= 2);
            let Some((tag, after)) = tag else { break };
            let (tpid, tci) = (u64::from(tag.tpid()), u64::from(tag.tci() | VLAN_CFI));
            if outer {
                self.line[0] |= tci;
                self.line[7] |= tpid << 32;
            } else {
                self.line[2] |= tci;
                self.line[7] |= tpid << 16;
            }
            rest = after;
        }
        ethertype_of(rest)
    }

    fn ip_word(&mut self, proto: u8, tos: u8, ttl: u8, fragment: Fragment) {
        let frag = match fragment {
            Fragment::No => 0,
            Fragment::First => flow::flow::frag::ANY,
            Fragment::Later => flow::flow::frag::ANY | flow::flow::frag::LATER,
        };
        self.line[4] = u64::from(u32::from_be_bytes([proto, tos, ttl, frag]));
    }

    fn ipv4(&mut self, data: &[u8], depth: Depth) -> Option<()> {
        let (ip, payload) = Ipv4::parse_checked(data)?;
        self.line[3] = pair(ip.src(), ip.dst());
        let fragment = ip.fragment();
        self.ip_word(ip.proto(), ip.tos(), ip.ttl(), fragment);
        self.l4(ip.proto(), fragment, payload, depth)
    }

    fn ipv6(&mut self, data: &[u8], depth: Depth) -> Option<()> {
        let (ip, payload) = Ipv6::parse_checked(data)?;
        let inner = skip_extensions(ip.next_header(), payload)?;
        self.ip_word(inner.proto, ip.traffic_class(), ip.hop_limit(), inner.fragment);
        self.l4(inner.proto, inner.fragment, inner.data, depth)
    }

    fn arp(&mut self, data: &[u8]) -> Option<()> {
        let (arp, _) = Arp::parse(data).filter(|(a, _)| a.is_ethernet_ipv4())?;
        self.line[3] = pair(arp.spa(), arp.tpa());
        self.line[4] = u64::from(u8::try_from(arp.op()).unwrap_or(0)) << 24;
        Some(())
    }

    fn l4(&mut self, proto: u8, fragment: Fragment, data: &[u8], depth: Depth) -> Option<()> {
        if fragment == Fragment::Later {
            return None;
        }
        let Transport { ports, word, tcp_flags } = transport(proto, data, depth)?;
        self.line[4] |= ports;
        self.line[7] |= word;
        self.tcp_flags = tcp_flags;
        Some(())
    }
}

/// Fields of a transport header.
#[derive(Default)]
pub(super) struct Transport {
    /// The upper half of word 4 of the line.
    pub(super) ports: u64,
    /// The transport header's part of word 7.
    pub(super) word: u64,
    pub(super) tcp_flags: u16,
}

#[inline(always)]
pub(super) fn transport(proto: u8, data: &[u8], depth: Depth) -> Option<Transport> {
    let mut tcp_flags = 0;
    let (src, dst, word) = if proto == ipproto::UDP && depth >= Depth::L4 {
        let (udp, _) = Udp::parse(data)?;
        (udp.src(), udp.dst(), 0)
    } else if proto == ipproto::TCP {
        let (tcp, _) = Tcp::parse_checked(data)?;
        tcp_flags = tcp.flags();
        (tcp.src(), tcp.dst(), tcp_flags)
    } else if depth >= Depth::L4 {
        rare_transport(proto, data)?
    } else {
        return None;
    };
    if depth < Depth::L4 {
        return Some(Transport { tcp_flags, ..Transport::default() });
    }
    let ports = u64::from(src) << 48 | u64::from(dst) << 32;
    Some(Transport { ports, word: u64::from(word) << 48, tcp_flags })
}

/// Reads less frequent transport headers. Returns their equivalents of source port, destination port and TCP flags.
#[inline(never)]
fn rare_transport(proto: u8, data: &[u8]) -> Option<(u16, u16, u16)> {
    let (src, dst) = match proto {
        ipproto::SCTP => Sctp::parse(data).map(|(sctp, _)| (sctp.src(), sctp.dst()))?,
        ipproto::ICMP => Icmp::parse(data).map(|(i, _)| (i.icmp_type().into(), i.code().into()))?,
        ipproto::IGMP => Igmp::parse(data).map(|(i, _)| (i.igmp_type().into(), i.code().into()))?,
        ipproto::ICMPV6 => {
            let (icmp, rest) = Icmpv6::parse(data)?;
            let option = if icmp.is_nd() { nd::neighbour(rest).first_option.into() } else { 0 };
            return Some((icmp.icmp_type().into(), icmp.code().into(), option));
        }
        _ => return None,
    };
    Some((src, dst, 0))
}
