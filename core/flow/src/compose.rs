//! Makes a packet that has the fields of a [`Flow`], and correct lengths and checksums; for tests and
//! `netdev-dummy/receive`.

use crate::flow::{Flow, MPLS_MAX, VLAN_CFI, frag};
use packet::checksum;
use packet::ether::ethertype;
use packet::ip::ipproto;

/// TCP flags SYN, FIN and RST: a segment with one of them gets no data.
const TCP_NO_DATA: u16 = 0x007;

/// Makes a packet of this flow. `payload` is appended to the L4 header if the protocol carries data.
pub fn compose(flow: &Flow, payload: &[u8]) -> Vec<u8> {
    compose_parts(flow, payload, 0)
}

/// Makes a packet of this flow with a length of `size` bytes, filled up with zeros; `None` if the headers are longer.
pub fn compose_sized(flow: &Flow, size: u16) -> Option<Vec<u8>> {
    let size = usize::from(size);
    let fill = size.checked_sub(compose(flow, &[]).len())?;
    let mut out = compose_parts(flow, &[], fill);
    out.resize(size, 0);
    if flow.dl_type == ethertype::NONE {
        // The frame has a length instead of an Ethernet type.
        out.get_mut(12..14)?.copy_from_slice(&(size as u16).to_be_bytes());
    }
    Some(out)
}

/// Makes a packet of this flow, and appends `fill` zeros to the L4 data of an IP packet, whatever the protocol.
fn compose_parts(flow: &Flow, payload: &[u8], fill: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(128 + payload.len());
    out.extend_from_slice(&flow.dl_dst.0);
    out.extend_from_slice(&flow.dl_src.0);
    if flow.dl_type == ethertype::NONE {
        out.extend_from_slice(&14u16.to_be_bytes());
        return out;
    }
    for tag in flow.vlans.iter().filter(|v| v.tci & VLAN_CFI != 0) {
        out.extend_from_slice(&tag.tpid.to_be_bytes());
        out.extend_from_slice(&(tag.tci & !VLAN_CFI).to_be_bytes());
    }
    out.extend_from_slice(&flow.dl_type.to_be_bytes());
    match flow.dl_type {
        ethertype::IPV4 => ipv4(flow, l4(flow, payload, fill), &mut out),
        ethertype::IPV6 => ipv6(flow, l4(flow, payload, fill), &mut out),
        t if ethertype::is_arp(t) => arp(flow, &mut out),
        t if ethertype::is_mpls(t) => mpls(flow, &mut out),
        // Without context headers of variable length, every NSH has a valid length, so `header` does not fail.
        ethertype::NSH => out.extend(flow.nsh.header(&[]).unwrap_or_default()),
        _ => {}
    }
    out
}

/// Makes a packet like [`compose`], with a payload of `len` consecutive byte values.
pub fn compose_len(flow: &Flow, len: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
    compose(flow, &payload)
}

fn mpls(flow: &Flow, out: &mut Vec<u8>) {
    let inner = flow.mpls_lse.iter().take(MPLS_MAX - 1).position(|lse| lse & 0x100 != 0);
    let count = inner.map_or(MPLS_MAX, |i| i + 1);
    for lse in flow.mpls_lse.iter().take(count) {
        out.extend_from_slice(&lse.to_be_bytes());
    }
}

fn arp(flow: &Flow, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 1, 8, 0, 6, 4, 0, flow.nw_proto]);
    if matches!(flow.nw_proto, 1 | 2) {
        out.extend_from_slice(&flow.arp_sha.0);
        out.extend_from_slice(&flow.nw_src.to_be_bytes());
        out.extend_from_slice(&flow.arp_tha.0);
        out.extend_from_slice(&flow.nw_dst.to_be_bytes());
    } else {
        out.extend_from_slice(&[0; 20]);
    }
}

fn ipv4(flow: &Flow, body: Vec<u8>, out: &mut Vec<u8>) {
    let offset: u16 = match (flow.nw_frag & frag::ANY != 0, flow.nw_frag & frag::LATER != 0) {
        (false, _) => 0,
        (true, false) => 0x2000,
        (true, true) => 0x2000 | 100,
    };
    let start = out.len();
    let total = (20 + body.len()) as u16;
    out.extend_from_slice(&[0x45, flow.nw_tos]);
    out.extend_from_slice(&total.to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&offset.to_be_bytes());
    out.extend_from_slice(&[flow.nw_ttl, flow.nw_proto, 0, 0]);
    out.extend_from_slice(&flow.nw_src.to_be_bytes());
    out.extend_from_slice(&flow.nw_dst.to_be_bytes());
    let sum = checksum::checksum(&out[start..]);
    put16(&mut out[start..], 10, sum);
    let pseudo = checksum::pseudo_v4(flow.nw_src, flow.nw_dst, flow.nw_proto, body.len() as u16);
    finish_l4(flow, body, pseudo, out);
}

fn ipv6(flow: &Flow, body: Vec<u8>, out: &mut Vec<u8>) {
    let first = 6 << 28 | u32::from(flow.nw_tos) << 20 | flow.ipv6_label & 0xf_ffff;
    out.extend_from_slice(&first.to_be_bytes());
    out.extend_from_slice(&(body.len() as u16).to_be_bytes());
    out.extend_from_slice(&[flow.nw_proto, flow.nw_ttl]);
    out.extend_from_slice(&flow.ipv6_src);
    out.extend_from_slice(&flow.ipv6_dst);
    let pseudo = checksum::pseudo_v6(&flow.ipv6_src, &flow.ipv6_dst, flow.nw_proto, body.len() as u32);
    finish_l4(flow, body, pseudo, out);
}

/// L4 header and data; the checksum is zero.
fn l4(flow: &Flow, payload: &[u8], fill: usize) -> Vec<u8> {
    let mut b = l4_headers(flow, payload);
    b.resize(b.len() + fill, 0);
    let len = b.len() as u16;
    if flow.nw_proto == ipproto::UDP && flow.nw_frag & frag::LATER == 0 {
        put16(&mut b, 4, len);
    }
    b
}

fn l4_headers(flow: &Flow, payload: &[u8]) -> Vec<u8> {
    let mut b = Vec::with_capacity(40 + payload.len());
    if flow.nw_frag & frag::LATER != 0 {
        return b;
    }
    let (kind, code) = (flow.tp_src as u8, flow.tp_dst as u8);
    let ports = |b: &mut Vec<u8>| {
        b.extend_from_slice(&flow.tp_src.to_be_bytes());
        b.extend_from_slice(&flow.tp_dst.to_be_bytes());
    };
    match flow.nw_proto {
        ipproto::TCP => {
            ports(&mut b);
            b.extend_from_slice(&[0; 8]);
            b.extend_from_slice(&(5 << 12 | flow.tcp_flags & 0xfff).to_be_bytes());
            b.extend_from_slice(&[0; 6]);
            if flow.tcp_flags & TCP_NO_DATA == 0 {
                b.extend_from_slice(payload);
            }
        }
        ipproto::UDP => {
            ports(&mut b);
            b.extend_from_slice(&[0; 4]);
            b.extend_from_slice(payload);
        }
        ipproto::SCTP => {
            ports(&mut b);
            b.extend_from_slice(&[0; 8]);
        }
        ipproto::ICMP => {
            b.extend_from_slice(&[kind, code, 0, 0, 0, 0, 0, 0]);
            if matches!(kind, 0 | 8) && code == 0 {
                b.extend_from_slice(payload);
            }
        }
        ipproto::IGMP => {
            b.extend_from_slice(&[kind, code, 0, 0]);
            b.extend_from_slice(&flow.igmp_group_ip4.to_be_bytes());
        }
        ipproto::ICMPV6 => {
            b.extend_from_slice(&[kind, code, 0, 0]);
            b.extend_from_slice(&flow.igmp_group_ip4.to_be_bytes());
            match kind {
                135 | 136 if code == 0 => neighbour(flow, &mut b),
                128 | 129 if code == 0 => b.extend_from_slice(payload),
                _ => {}
            }
        }
        _ => {}
    }
    b
}

fn neighbour(flow: &Flow, b: &mut Vec<u8>) {
    b.extend_from_slice(&flow.nd_target);
    for (kind, mac) in [(1, flow.arp_sha), (2, flow.arp_tha)] {
        if mac.to_u64() != 0 {
            b.extend_from_slice(&[kind, 1]);
            b.extend_from_slice(&mac.0);
        }
    }
}

/// Computes the checksum of the L4 header, and appends header and data to `out`. `pseudo`: sum of the pseudo header.
fn finish_l4(flow: &Flow, mut body: Vec<u8>, pseudo: u32, out: &mut Vec<u8>) {
    let with_pseudo = checksum::finish(checksum::add(pseudo, &body));
    let plain = checksum::checksum(&body);
    match flow.nw_proto {
        ipproto::TCP => put16(&mut body, 16, with_pseudo),
        // In UDP, checksum 0 means that there is none, so 0 is sent as 0xffff.
        ipproto::UDP => put16(&mut body, 6, if with_pseudo == 0 { 0xffff } else { with_pseudo }),
        ipproto::ICMP | ipproto::IGMP => put16(&mut body, 2, plain),
        ipproto::ICMPV6 => put16(&mut body, 2, with_pseudo),
        _ => {}
    }
    out.append(&mut body);
}

fn put16(header: &mut [u8], at: usize, value: u16) {
    if let Some(place) = header.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::extract_from;
    use crate::flow::{Mac, Vlan};
    use proptest::prelude::*;

    fn ip_flow(proto: u8) -> Flow {
        Flow {
            dl_src: Mac([2, 0, 0, 0, 0, 1]),
            dl_dst: Mac([2, 0, 0, 0, 0, 2]),
            dl_type: 0x0800,
            nw_src: 0x0a00_0001,
            nw_dst: 0x0a00_0002,
            nw_proto: proto,
            nw_ttl: 64,
            ..Flow::ZERO
        }
    }

    #[test]
    fn checksums_hold() {
        for proto in [1, 6, 17] {
            let bytes = compose_len(&ip_flow(proto), 33);
            assert_eq!(checksum::checksum(&bytes[14..34]), 0);
            let l4 = &bytes[34..];
            let pseudo = checksum::pseudo_v4(0x0a00_0001, 0x0a00_0002, proto, l4.len() as u16);
            let sum = if proto == 1 { 0 } else { pseudo };
            assert_eq!(checksum::finish(checksum::add(sum, l4)), 0, "protocol {proto}");
        }
    }

    #[test]
    fn packets_of_a_given_size() {
        for proto in [1, 6, 17] {
            let bytes = compose_sized(&ip_flow(proto), 100).unwrap();
            assert_eq!(bytes.len(), 100);
            assert_eq!(u16::from_be_bytes([bytes[16], bytes[17]]), 86);
            assert_eq!(extract_from(&bytes, 0), ip_flow(proto));
        }
        assert_eq!(compose_sized(&ip_flow(6), 50), None);
    }

    prop_compose! {
        fn flows()(
            proto in prop::sample::select(vec![1u8, 2, 6, 17, 58, 132]),
            dl_type in prop::sample::select(vec![0x0800u16, 0x86dd]),
            numbers: [u16; 4], tags in 0..3usize, frag_bits in prop::sample::select(vec![0u8, 1, 3]),
            src: [u8; 16], ttl: u8, label in 0..0x10_0000u32,
        ) -> Flow {
            let mut f = Flow { dl_type, ..ip_flow(proto) };
            f.nw_ttl = ttl;
            let is_icmp = matches!(proto, 1 | 2 | 58);
            (f.tp_src, f.tp_dst) = if is_icmp { (numbers[0] & 0xff, numbers[1] & 0xff) }
                                   else { (numbers[0], numbers[1]) };
            for tag in f.vlans.iter_mut().take(tags) {
                *tag = Vlan { tpid: 0x8100, tci: numbers[2] | VLAN_CFI };
            }
            if dl_type == 0x86dd {
                (f.nw_src, f.nw_dst, f.ipv6_src, f.ipv6_label) = (0, 0, src, label);
            } else {
                f.nw_frag = frag_bits;
            }
            if frag_bits == 3 && dl_type == 0x0800 {
                (f.tp_src, f.tp_dst) = (0, 0);
            } else if proto == 6 {
                f.tcp_flags = numbers[3] & 0xfff;
            }
            f
        }
    }

    proptest! {
        #[test]
        fn what_is_composed_is_extracted(flow in flows(), len in 0..100usize) {
            let bytes = compose_len(&flow, len);
            let found = extract_from(&bytes, 0);
            prop_assert_eq!(found, flow);
        }
    }
}
