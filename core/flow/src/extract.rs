//! Extracts a [`Flow`] from the bytes of a packet.
//!
//! The extraction never fails, because a packet may contain any bytes: a header that is truncated or has a wrong length
//! ends the extraction, and the remaining fields stay zero. Specifications: the RFCs named in crate `packet`.

use crate::flow::{Flow, MPLS_MAX, Mac, VLAN_CFI, VLANS_MAX, Vlan, frag};
use crate::nsh::Nsh;
use packet::ether::{MplsEntry, TypeField, VlanTag, ethertype, ethertype_of};
use packet::ip::{self, Fragment, ipproto};
use packet::{Arp, Ethernet, Icmp, Icmpv6, Igmp, Ipv4, Ipv6, Sctp, Tcp, Udp, nd};

/// Offsets of the layers of a packet; `None` for a layer that the packet does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    /// The first MPLS label stack entry.
    pub l2_5: Option<usize>,
    /// The network header.
    pub l3: Option<usize>,
    /// The header after the network header and its extensions.
    pub l4: Option<usize>,
    /// Number of bytes after the end of the network packet.
    pub l2_pad: usize,
}

/// Fills the packet fields of `flow`. The caller has set its metadata (in port, tunnel, registers, connection) and its
/// `packet_type`, which tells which header the data begins with. At most `vlan_limit` tags are parsed.
pub fn extract(data: &[u8], vlan_limit: usize, flow: &mut Flow) -> Layers {
    let mut layers = Layers::default();
    let at = |rest: &[u8]| data.len() - rest.len();
    let mut rest = data;
    if flow.packet_type == 0 {
        match l2(data, vlan_limit, flow) {
            Some(after) => rest = after,
            None => return layers,
        }
    } else {
        flow.dl_type = flow.packet_type as u16;
    }
    if ethertype::is_mpls(flow.dl_type) {
        layers.l2_5 = Some(at(rest));
        rest = mpls(rest, flow);
    }
    layers.l3 = Some(at(rest));
    let payload = match flow.dl_type {
        ethertype::IPV4 => ipv4(rest, flow),
        ethertype::IPV6 => ipv6(rest, flow),
        t if ethertype::is_arp(t) => {
            arp(rest, flow);
            None
        }
        ethertype::NSH => {
            flow.nsh = Nsh::parse(rest).unwrap_or_default();
            None
        }
        _ => None,
    };
    let Some((start, l4_data)) = payload else {
        let keeps_ct = flow.dl_type == ethertype::IPV4 || flow.dl_type == ethertype::IPV6;
        clear_ct_tuple(flow, keeps_ct);
        return layers;
    };
    layers.l4 = Some(at(rest) + start);
    layers.l2_pad = rest.len() - start - l4_data.len();
    clear_ct_tuple(flow, true);
    if flow.nw_frag & frag::LATER == 0 {
        l4(l4_data, flow);
    }
    layers
}

/// Clears the original direction tuple of a connection unless the packet has the same address family as the tuple.
fn clear_ct_tuple(flow: &mut Flow, is_ip: bool) {
    let v4 = is_ip && flow.dl_type == ethertype::IPV4;
    let v6 = is_ip && flow.dl_type == ethertype::IPV6;
    let tuple_is_v6 = flow.ct_ipv6_src != [0; 16] || flow.ct_ipv6_dst != [0; 16];
    let fits = flow.ct_state != 0 && (v4 && !tuple_is_v6 || v6 && tuple_is_v6);
    if !fits {
        (flow.ct_nw_proto, flow.ct_tp_src, flow.ct_tp_dst) = (0, 0, 0);
        (flow.ct_nw_src, flow.ct_nw_dst) = (0, 0);
        (flow.ct_ipv6_src, flow.ct_ipv6_dst) = ([0; 16], [0; 16]);
    }
}

fn l2<'a>(data: &'a [u8], vlan_limit: usize, flow: &mut Flow) -> Option<&'a [u8]> {
    let (eth, mut rest) = Ethernet::parse(data)?;
    TypeField::parse(rest)?;
    flow.dl_dst = Mac(eth.dst());
    flow.dl_src = Mac(eth.src());
    for slot in flow.vlans.iter_mut().take(vlan_limit.min(VLANS_MAX)) {
        // A tag that is not followed by a type is no tag: its TPID becomes the Ethernet type of the frame.
        let tag = VlanTag::parse(rest).filter(|(t, after)| ethertype::is_vlan(t.tpid()) && after.len() >= 2);
        let Some((tag, after)) = tag else { break };
        *slot = Vlan { tpid: tag.tpid(), tci: tag.tci() | VLAN_CFI };
        rest = after;
    }
    let (dl_type, payload) = ethertype_of(rest)?;
    flow.dl_type = dl_type;
    Some(payload)
}

fn mpls<'a>(data: &'a [u8], flow: &mut Flow) -> &'a [u8] {
    let mut rest = data;
    let mut count = 0;
    while let Some((entry, after)) = MplsEntry::parse(rest) {
        if count < MPLS_MAX {
            flow.mpls_lse[count] = entry.lse();
        }
        count += 1;
        rest = after;
        if entry.is_bottom() {
            break;
        }
    }
    rest
}

fn nw_frag(fragment: Fragment) -> u8 {
    match fragment {
        Fragment::No => 0,
        Fragment::First => frag::ANY,
        Fragment::Later => frag::ANY | frag::LATER,
    }
}

/// The offset of the payload in the data, and the payload; `None` if the header is invalid.
type Payload<'a> = Option<(usize, &'a [u8])>;

fn ipv4<'a>(data: &'a [u8], flow: &mut Flow) -> Payload<'a> {
    let (ip, payload) = Ipv4::parse_checked(data)?;
    (flow.nw_src, flow.nw_dst) = (ip.src(), ip.dst());
    (flow.nw_tos, flow.nw_ttl, flow.nw_proto) = (ip.tos(), ip.ttl(), ip.proto());
    flow.nw_frag = nw_frag(ip.fragment());
    Some((ip.header_len(), payload))
}

fn ipv6<'a>(data: &'a [u8], flow: &mut Flow) -> Payload<'a> {
    let (ip, payload) = Ipv6::parse_checked(data)?;
    (flow.ipv6_src, flow.ipv6_dst) = (ip.src(), ip.dst());
    let inner = ip::skip_extensions(ip.next_header(), payload)?;
    flow.ipv6_label = ip.label();
    (flow.nw_tos, flow.nw_ttl, flow.nw_proto) = (ip.traffic_class(), ip.hop_limit(), inner.proto);
    flow.nw_frag = nw_frag(inner.fragment);
    Some((Ipv6::LEN + payload.len() - inner.data.len(), inner.data))
}

fn arp(data: &[u8], flow: &mut Flow) {
    let Some((arp, _)) = Arp::parse(data).filter(|(a, _)| a.is_ethernet_ipv4()) else { return };
    (flow.nw_src, flow.nw_dst) = (arp.spa(), arp.tpa());
    // A flow has only eight bits of the opcode; a larger opcode is stored as 0.
    flow.nw_proto = u8::try_from(arp.op()).unwrap_or(0);
    (flow.arp_sha, flow.arp_tha) = (Mac(arp.sha()), Mac(arp.tha()));
}

fn l4(data: &[u8], flow: &mut Flow) {
    let ports = match flow.nw_proto {
        ipproto::TCP => Tcp::parse_checked(data).map(|(tcp, _)| {
            flow.tcp_flags = tcp.flags();
            (tcp.src(), tcp.dst())
        }),
        ipproto::UDP => Udp::parse(data).map(|(udp, _)| (udp.src(), udp.dst())),
        ipproto::SCTP => Sctp::parse(data).map(|(sctp, _)| (sctp.src(), sctp.dst())),
        ipproto::ICMP => {
            Icmp::parse(data).map(|(icmp, _)| (u16::from(icmp.icmp_type()), u16::from(icmp.code())))
        }
        ipproto::IGMP => Igmp::parse(data).map(|(igmp, _)| {
            flow.igmp_group_ip4 = igmp.group();
            (u16::from(igmp.igmp_type()), u16::from(igmp.code()))
        }),
        ipproto::ICMPV6 => Icmpv6::parse(data).map(|(icmp, rest)| {
            if icmp.is_nd() {
                neighbour(icmp.word(), rest, flow);
            }
            (u16::from(icmp.icmp_type()), u16::from(icmp.code()))
        }),
        _ => None,
    };
    if let Some((src, dst)) = ports {
        (flow.tp_src, flow.tp_dst) = (src, dst);
    }
}

fn neighbour(word: u32, data: &[u8], flow: &mut Flow) {
    let found = nd::neighbour(data);
    flow.igmp_group_ip4 = word;
    flow.nd_target = found.target;
    (flow.arp_sha, flow.arp_tha) = (Mac(found.sll), Mac(found.tll));
    flow.tcp_flags = u16::from(found.first_option);
}

/// The flow of a packet that has no metadata except its in port.
pub fn extract_from(data: &[u8], in_port: u32) -> Flow {
    let mut flow = Flow { in_port, ..Flow::ZERO };
    extract(data, VLANS_MAX, &mut flow);
    flow
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(tail: &str) -> Flow {
        let bytes = packet::hex::parse(&format!("ffffffffffff 0a0000000001 {tail}")).unwrap();
        extract_from(&bytes, 1)
    }

    #[test]
    fn an_echo_request() {
        let f = frame("0800 4500001c00000000 4001 0000 0a000001 0a000002 0800 0000 00000000");
        assert_eq!((f.dl_type, f.nw_proto, f.nw_ttl), (0x0800, 1, 64));
        assert_eq!((f.nw_src, f.nw_dst, f.tp_src, f.tp_dst), (0x0a00_0001, 0x0a00_0002, 8, 0));
    }

    #[test]
    fn a_length_that_lies_leaves_the_network_fields_zero() {
        let f = frame("0800 450000ff00000000 4001 0000 0a000001 0a000002 0800 0000 00000000");
        assert_eq!((f.dl_type, f.nw_proto, f.nw_src), (0x0800, 0, 0));
    }

    #[test]
    fn a_later_fragment_has_no_ports() {
        let f = frame("0800 4500001c00000003 4011 0000 0a000001 0a000002 0001 0002 0008 0000");
        assert_eq!((f.nw_frag, f.nw_proto, f.tp_src), (3, 17, 0));
    }

    #[test]
    fn tags_up_to_the_limit() {
        let bytes = packet::hex::parse("ffffffffffff0a0000000001 88a80005 8100600a 0800").unwrap();
        let mut f = Flow::ZERO;
        extract(&bytes, 1, &mut f);
        assert_eq!((f.vlans[0], f.vlans[1]), (Vlan { tpid: 0x88a8, tci: 0x1005 }, Vlan::default()));
        assert_eq!(f.dl_type, 0x8100);
        let f = extract_from(&bytes, 0);
        assert_eq!((f.vlans[1].tci, f.dl_type), (0x700a, 0x0800));
    }

    #[test]
    fn llc_frames() {
        assert_eq!(frame("0026 424203 000000").dl_type, 0x05ff);
        assert_eq!(frame("0010 aaaa03 000000 0806").dl_type, 0x0806);
        assert_eq!(frame("0010 aaaa03 00000c 2000").dl_type, 0x05ff);
    }

    #[test]
    fn a_wide_arp_opcode_is_none() {
        let f = frame("0806 0001080006040101 0a0000000001 0a000001 000000000000 0a000002");
        assert_eq!((f.nw_proto, f.nw_src), (0, 0x0a00_0001));
    }

    #[test]
    fn a_solicitation_with_its_option() {
        let f = frame(
            "86dd 60000000 0020 3aff fe800000000000000000000000000001 ff020000000000000000000000000002 \
             87000000 00000000 fe800000000000000000000000000002 0101 0a0000000001",
        );
        assert_eq!((f.tp_src, f.tcp_flags, f.arp_sha.to_u64()), (135, 1, 0x0a00_0000_0001));
        assert_eq!(f.nd_target[15], 2);
    }

    #[test]
    fn a_service_header_ends_the_extraction() {
        let f = frame("894f 0fc6 01 01 123456ff 00000001 00000002 00000003 00000004 4500");
        assert_eq!((f.nsh.ttl, f.nsh.md_type, f.nsh.np, f.nsh.spi(), f.nsh.si()), (63, 1, 1, 0x12_3456, 255));
        assert_eq!((f.nsh.context, f.nw_proto), ([1, 2, 3, 4], 0));
        assert_eq!(frame("894f 0fc6 01 01 123456ff 00000001").nsh, Nsh::default());
    }

    #[test]
    fn only_the_first_labels_are_kept() {
        let f = frame("8847 00001040 00002040 00003040 00004140 4500");
        assert_eq!(f.mpls_lse, [0x1040, 0x2040, 0x3040]);
        assert_eq!(f.nw_proto, 0);
    }

    proptest! {
        #[test]
        fn never_panics(data: Vec<u8>, limit in 0..4usize, dl_type in prop::sample::select(
            vec![0x0800u16, 0x0806, 0x86dd, 0x8100, 0x8847, 0x894f, 0x10])) {
            let mut data = data;
            if data.len() > 13 {
                data[12..14].copy_from_slice(&dl_type.to_be_bytes());
            }
            let layers = extract(&data, limit, &mut Flow::ZERO.clone());
            prop_assert!(layers.l4.unwrap_or(0) <= data.len());
        }
    }
}
