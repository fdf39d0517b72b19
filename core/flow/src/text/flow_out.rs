//! Prints a flow as text, with the fields that its packet has.

use super::NameMap;
use crate::flow::{Flow, Mac, VLANS_MAX, Vlan, frag};
use crate::matching::Match;
use crate::tlv::Tlv;

/// `FLOW_TNL_F_KEY`: the tunnel header has a key.
const TUNNEL_KEY: u16 = 8;

/// A mask of the fields that a packet of this flow has. Registers, `metadata` and `conj_id` are not part of the
/// packet.
pub fn exact_mask(flow: &Flow) -> Flow {
    let mut mask = Flow::ZERO;
    tunnel(flow, &mut mask);
    mask.skb_priority = u32::MAX;
    mask.pkt_mark = u32::MAX;
    mask.ct_state = u8::MAX;
    mask.ct_zone = u16::MAX;
    mask.ct_mark = u32::MAX;
    mask.ct_label = [u64::MAX; 2];
    mask.recirc_id = u32::MAX;
    mask.dp_hash = u32::MAX;
    mask.in_port = u32::MAX;
    mask.packet_type = u32::MAX;
    let dl_type = if flow.packet_type == 0 { l2(flow, &mut mask) } else { flow.packet_type as u16 };
    match dl_type {
        0x0800 => {
            (mask.nw_src, mask.nw_dst) = (u32::MAX, u32::MAX);
            (mask.ct_nw_src, mask.ct_nw_dst) = (u32::MAX, u32::MAX);
        }
        0x86dd => ipv6(flow, &mut mask),
        0x0806 | 0x8035 => {
            (mask.nw_src, mask.nw_dst) = (u32::MAX, u32::MAX);
            mask.nw_proto = u8::MAX;
            (mask.arp_sha, mask.arp_tha) = (Mac::BROADCAST, Mac::BROADCAST);
            return mask;
        }
        0x8847 | 0x8848 => {
            for (m, lse) in mask.mpls_lse.iter_mut().zip(flow.mpls_lse) {
                *m = u32::MAX;
                if lse & 0x100 != 0 {
                    break;
                }
            }
            return mask;
        }
        // Scripts that parse this text expect the NSH fields only if `dl_type` is NSH (not if only `packet_type` is). They also expect
        // the fields of an IP header after them, so this arm continues with `l4`; an NSH packet has zeros there.
        0x894f if flow.dl_type == dl_type => mask.nsh = Flow::ONES.nsh,
        _ => return mask,
    }
    l4(flow, &mut mask);
    mask
}

fn tunnel(flow: &Flow, mask: &mut Flow) {
    let (from, to) = (&flow.tunnel, &mut mask.tunnel);
    if from.ip_dst == 0 && from.ipv6_dst == [0; 16] {
        if from.tun_id != 0 {
            to.tun_id = u64::MAX;
        }
        return;
    }
    *to = Flow::ONES.tunnel;
    to.pad = 0;
    if from.flags & TUNNEL_KEY == 0 {
        to.tun_id = 0;
    }
    mask.tlv = Tlv { present: flow.tlv.present, ..Flow::ONES.tlv };
    mask.layout = flow.layout;
}

fn l2(flow: &Flow, mask: &mut Flow) -> u16 {
    (mask.dl_dst, mask.dl_src) = (Mac::BROADCAST, Mac::BROADCAST);
    mask.dl_type = u16::MAX;
    for i in 0..VLANS_MAX {
        mask.vlans[i] = Vlan { tpid: u16::MAX, tci: u16::MAX };
        if flow.vlans[i].tci == 0 {
            break;
        }
    }
    flow.dl_type
}

fn ipv6(flow: &Flow, mask: &mut Flow) {
    (mask.ipv6_src, mask.ipv6_dst) = ([0xff; 16], [0xff; 16]);
    mask.ipv6_label = u32::MAX;
    let is_nd = flow.nw_proto == 58 && flow.tp_dst == 0 && matches!(flow.tp_src, 135 | 136);
    if is_nd {
        (mask.arp_sha, mask.arp_tha) = (Mac::BROADCAST, Mac::BROADCAST);
        mask.nd_target = [0xff; 16];
    } else {
        (mask.ct_ipv6_src, mask.ct_ipv6_dst) = ([0xff; 16], [0xff; 16]);
    }
}

fn l4(flow: &Flow, mask: &mut Flow) {
    mask.nw_frag = frag::ANY | frag::LATER;
    (mask.nw_tos, mask.nw_ttl, mask.nw_proto) = (u8::MAX, u8::MAX, u8::MAX);
    mask.ct_nw_proto = u8::MAX;
    (mask.ct_tp_src, mask.ct_tp_dst) = (u16::MAX, u16::MAX);
    if flow.nw_frag & frag::LATER == 0 && matches!(flow.nw_proto, 1 | 2 | 6 | 17 | 58 | 132) {
        (mask.tp_src, mask.tp_dst) = (u16::MAX, u16::MAX);
        match flow.nw_proto {
            6 => mask.tcp_flags = u16::MAX,
            2 => mask.igmp_group_ip4 = u32::MAX,
            _ => {}
        }
    }
}

/// The text of a flow. Metadata fields that are zero are left out.
pub fn flow_text(flow: &Flow, names: &dyn NameMap) -> String {
    let mut mask = exact_mask(flow);
    mask.metadata = u64::MAX;
    mask.regs = [u32::MAX; crate::flow::REGS];
    let unless_zero = |m: &mut u32, v: u32| {
        if v == 0 {
            *m = 0;
        }
    };
    unless_zero(&mut mask.in_port, flow.in_port);
    unless_zero(&mut mask.skb_priority, flow.skb_priority);
    unless_zero(&mut mask.pkt_mark, flow.pkt_mark);
    unless_zero(&mut mask.recirc_id, flow.recirc_id);
    unless_zero(&mut mask.dp_hash, flow.dp_hash);
    unless_zero(&mut mask.ct_mark, flow.ct_mark);
    for (m, v) in mask.regs.iter_mut().zip(flow.regs) {
        unless_zero(m, v);
    }
    if flow.ct_state == 0 {
        mask.ct_state = 0;
    }
    if flow.ct_zone == 0 {
        mask.ct_zone = 0;
    }
    if flow.ct_label == [0; 2] {
        mask.ct_label = [0; 2];
    }
    if flow.metadata == 0 {
        mask.metadata = 0;
    }
    let valid = crate::FieldId::CtNwProto.prereqs_ok_match(&Match { flow: *flow, mask });
    if !valid || flow.ct_nw_proto == 0 {
        mask.ct_nw_proto = 0;
        (mask.ct_tp_src, mask.ct_tp_dst) = (0, 0);
        match flow.dl_type {
            0x0800 => (mask.ct_nw_src, mask.ct_nw_dst) = (0, 0),
            0x86dd => (mask.ct_ipv6_src, mask.ct_ipv6_dst) = ([0; 16], [0; 16]),
            _ => {}
        }
    }
    Match { flow: *flow, mask }.text(names)
}
