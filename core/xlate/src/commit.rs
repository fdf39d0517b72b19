//! Commit: before a packet is sent, emits the datapath actions that give the packet its intended fields.
//!
//! OpenFlow actions change only a `Flow`. `base` is the packet after the datapath actions emitted so far; `commit` emits
//! the actions that change `base` into `flow`. So a change that is undone before the output costs nothing, and each header
//! needs one action. The order is that of Open vSwitch (visible in `dpctl/dump-flows`): the outermost header, Ethernet,
//! NSH, network, transport, MPLS, VLAN, priority, mark.
//!
//! **Invariant**: every bit in which `flow` and `base` differ is in the mask, because the walk read or wrote this bit.

use crate::commit_mpls::commit_mpls;
use crate::commit_outer::{Pending, commit_nsh, commit_outer};
use crate::header::{is_mpls, vlan_count};
use dpif::{
    ArpKey, DpAction, EthKey, IcmpKey, Ipv4Key, Ipv6Key, Masked, NdExtKey, NdKey, PortsKey, SetField,
    SlowReason,
};
use flow::{Flow, Mac, Vlan};

/// Field values that a bitwise mask applies to.
trait MaskableValue: Copy + PartialEq {
    const NONE: Self;
    const ALL: Self;
    fn and(self, mask: Self) -> Self;
}

macro_rules! number_bits {
    ($($t:ty),*) => {$(
        impl MaskableValue for $t {
            const NONE: $t = 0;
            const ALL: $t = <$t>::MAX;
            fn and(self, mask: $t) -> $t { self & mask }
        }
    )*};
}
number_bits!(u8, u16, u32);

impl<const N: usize> MaskableValue for [u8; N] {
    const NONE: [u8; N] = [0; N];
    const ALL: [u8; N] = [0xff; N];
    fn and(self, mask: [u8; N]) -> [u8; N] {
        std::array::from_fn(|i| self[i] & mask[i])
    }
}

impl MaskableValue for Mac {
    const NONE: Mac = Mac([0; 6]);
    const ALL: Mac = Mac([0xff; 6]);
    fn and(self, mask: Mac) -> Mac {
        Mac(self.0.and(mask.0))
    }
}

/// The write that changes the header `base` into `key`; `None` if they are equal. Unchanged fields are removed from the mask.
macro_rules! header_write {
    ($key:expr, $base:expr, $mask:expr; $($field:ident),*) => {{
        let (mut key, base, mut mask) = ($key, $base, $mask);
        let mut differs = false;
        $(
            if key.$field == base.$field {
                mask.$field = MaskableValue::NONE;
            } else {
                differs = true;
            }
            key.$field = key.$field.and(mask.$field);
        )*
        differs.then(|| Masked::new(key, mask))
    }};
}

/// Emits the actions that change `base` into `flow`, and sets `base` to `flow`. Returns a reason for the slow path if
/// Open vSwitch's datapath cannot write one of the changed fields.
pub(crate) fn commit(
    flow: &Flow,
    base: &mut Flow,
    mask: &mut Flow,
    (pending, masked_set): (Pending, bool),
    out: &mut Vec<DpAction>,
) -> SlowReason {
    let mut slow = SlowReason::empty();
    mask.packet_type = u32::MAX;
    commit_outer(flow, base, pending, out);
    commit_ethernet(flow, base, mask, out);
    // Network and transport headers can be written only after the labels in front of them are popped.
    let unlabel = is_mpls(base.dl_type) && !is_mpls(flow.dl_type);
    if unlabel {
        commit_mpls(flow, base, out, false);
    }
    commit_nsh(flow, base, mask, masked_set, out);
    slow |= commit_network(flow, base, mask, out);
    commit_ports(flow, base, mask, out);
    slow |= commit_icmp(flow, base, mask, out);
    if !unlabel {
        commit_mpls(flow, base, out, false);
    }
    commit_vlan(flow, base, mask, out);
    commit_metadata(flow, base, mask, out);
    slow
}

fn commit_ethernet(flow: &Flow, base: &mut Flow, mask: &Flow, out: &mut Vec<DpAction>) {
    if flow.packet_type != 0 || base.packet_type != 0 {
        return;
    }
    let key = |f: &Flow| EthKey { src: f.dl_src, dst: f.dl_dst };
    if let Some(w) = header_write!(key(flow), key(base), key(mask); src, dst) {
        out.push(DpAction::Set(SetField::Eth(w)));
        (base.dl_src, base.dl_dst) = (flow.dl_src, flow.dl_dst);
    }
}

fn commit_network(flow: &Flow, base: &mut Flow, mask: &Flow, out: &mut Vec<DpAction>) -> SlowReason {
    if flow.nw_proto == 0 {
        return SlowReason::empty();
    }
    match base.dl_type {
        0x0800 => commit_ipv4(flow, base, mask, out),
        0x86dd => {
            commit_ipv6(flow, base, mask, out);
            if base.nw_proto == 58 {
                return commit_nd(flow, base, mask, out);
            }
        }
        0x0806 => return commit_arp(flow, base, mask, out),
        _ => {}
    }
    SlowReason::empty()
}

fn commit_ipv4(flow: &Flow, base: &mut Flow, mask: &Flow, out: &mut Vec<DpAction>) {
    let key = |f: &Flow| Ipv4Key {
        src: f.nw_src,
        dst: f.nw_dst,
        tos: f.nw_tos,
        ttl: f.nw_ttl,
        ..Ipv4Key::default()
    };
    if let Some(w) = header_write!(key(flow), key(base), key(mask); src, dst, tos, ttl) {
        out.push(DpAction::Set(SetField::Ipv4(w)));
        (base.nw_src, base.nw_dst) = (flow.nw_src, flow.nw_dst);
        (base.nw_tos, base.nw_ttl) = (flow.nw_tos, flow.nw_ttl);
    }
}

fn commit_ipv6(flow: &Flow, base: &mut Flow, mask: &Flow, out: &mut Vec<DpAction>) {
    let key = |f: &Flow| Ipv6Key {
        src: f.ipv6_src,
        dst: f.ipv6_dst,
        label: f.ipv6_label & 0xf_ffff,
        tclass: f.nw_tos,
        hlimit: f.nw_ttl,
        ..Ipv6Key::default()
    };
    if let Some(w) = header_write!(key(flow), key(base), key(mask); src, dst, label, tclass, hlimit) {
        out.push(DpAction::Set(SetField::Ipv6(Box::new(w))));
        (base.ipv6_src, base.ipv6_dst, base.ipv6_label) = (flow.ipv6_src, flow.ipv6_dst, flow.ipv6_label);
        (base.nw_tos, base.nw_ttl) = (flow.nw_tos, flow.nw_ttl);
    }
}

fn commit_nd(flow: &Flow, base: &mut Flow, mask: &Flow, out: &mut Vec<DpAction>) -> SlowReason {
    let mut slow = SlowReason::empty();
    let ext = |f: &Flow| NdExtKey { reserved: f.igmp_group_ip4, options_type: f.tcp_flags as u8 };
    if let Some(w) = header_write!(ext(flow), ext(base), ext(mask); reserved, options_type) {
        out.push(DpAction::Set(SetField::NdExt(w)));
        (base.igmp_group_ip4, base.tcp_flags) = (flow.igmp_group_ip4, flow.tcp_flags);
        slow = SlowReason::ACTION;
    }
    let key = |f: &Flow| NdKey { target: f.nd_target, sll: f.arp_sha, tll: f.arp_tha };
    if let Some(w) = header_write!(key(flow), key(base), key(mask); target, sll, tll) {
        out.push(DpAction::Set(SetField::Nd(Box::new(w))));
        (base.nd_target, base.arp_sha, base.arp_tha) = (flow.nd_target, flow.arp_sha, flow.arp_tha);
        slow = SlowReason::ACTION;
    }
    slow
}

fn commit_arp(flow: &Flow, base: &mut Flow, mask: &Flow, out: &mut Vec<DpAction>) -> SlowReason {
    let key = |f: &Flow| ArpKey {
        sip: f.nw_src,
        tip: f.nw_dst,
        op: if f.nw_proto == 0xff { u16::MAX } else { u16::from(f.nw_proto) },
        sha: f.arp_sha,
        tha: f.arp_tha,
    };
    let Some(w) = header_write!(key(flow), key(base), key(mask); sip, tip, op, sha, tha) else {
        return SlowReason::empty();
    };
    out.push(DpAction::Set(SetField::Arp(w)));
    (base.nw_src, base.nw_dst, base.nw_proto) = (flow.nw_src, flow.nw_dst, flow.nw_proto);
    (base.arp_sha, base.arp_tha) = (flow.arp_sha, flow.arp_tha);
    SlowReason::ACTION
}

fn commit_ports(flow: &Flow, base: &mut Flow, mask: &Flow, out: &mut Vec<DpAction>) {
    if !base.is_ip() {
        return;
    }
    let set: fn(Masked<PortsKey>) -> SetField = match flow.nw_proto {
        6 => SetField::Tcp,
        17 => SetField::Udp,
        132 => SetField::Sctp,
        _ => return,
    };
    let key = |f: &Flow| PortsKey { src: f.tp_src, dst: f.tp_dst };
    if let Some(w) = header_write!(key(flow), key(base), key(mask); src, dst) {
        out.push(DpAction::Set(set(w)));
        (base.tp_src, base.tp_dst) = (flow.tp_src, flow.tp_dst);
    }
}

/// Commits type and code of an ICMP header. Both are written together, so the mask gets both: 8 bits each, even if an action for
/// ports has set all 16.
fn commit_icmp(flow: &Flow, base: &mut Flow, mask: &mut Flow, out: &mut Vec<DpAction>) -> SlowReason {
    let set: fn(Masked<IcmpKey>) -> SetField = match (flow.dl_type, flow.nw_proto) {
        (0x0800, 1) => SetField::Icmp,
        (0x86dd, 58) => SetField::Icmpv6,
        _ => return SlowReason::empty(),
    };
    let key = |f: &Flow| IcmpKey { icmp_type: f.tp_src as u8, code: f.tp_dst as u8 };
    if key(flow) == key(base) {
        return SlowReason::empty();
    }
    let all = IcmpKey { icmp_type: MaskableValue::ALL, code: MaskableValue::ALL };
    out.push(DpAction::Set(set(Masked::new(key(flow), all))));
    (base.tp_src, base.tp_dst) = (flow.tp_src, flow.tp_dst);
    (mask.tp_src, mask.tp_dst) = (0xff, 0xff);
    SlowReason::ACTION
}

fn commit_vlan(flow: &Flow, base: &mut Flow, mask: &mut Flow, out: &mut Vec<DpAction>) {
    let (base_tags, flow_tags) = (&base.vlans[..vlan_count(base)], &flow.vlans[..vlan_count(flow)]);
    let common = base_tags.iter().rev().zip(flow_tags.iter().rev()).take_while(|(a, b)| a == b).count();
    for i in (0..base_tags.len() - common).rev() {
        out.push(DpAction::PopVlan);
        mask.vlans[i] = Vlan { tpid: u16::MAX, tci: u16::MAX };
    }
    for tag in flow_tags[..flow_tags.len() - common].iter().rev() {
        out.push(DpAction::PushVlan { tpid: tag.tpid, tci: tag.tci });
    }
    base.vlans = flow.vlans;
}

fn commit_metadata(flow: &Flow, base: &mut Flow, mask: &Flow, out: &mut Vec<DpAction>) {
    if flow.skb_priority != base.skb_priority {
        let w = Masked::new(flow.skb_priority & mask.skb_priority, mask.skb_priority);
        out.push(DpAction::Set(SetField::Priority(w)));
        base.skb_priority = flow.skb_priority;
    }
    if flow.pkt_mark != base.pkt_mark {
        let w = Masked::new(flow.pkt_mark & mask.pkt_mark, mask.pkt_mark);
        out.push(DpAction::Set(SetField::Mark(w)));
        base.pkt_mark = flow.pkt_mark;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::{pop_mpls, push_mpls};
    use flow::VLAN_CFI;

    fn run(flow: &Flow, base: &mut Flow) -> (Vec<DpAction>, SlowReason) {
        let (mut mask, mut out) = (Flow::ONES, Vec::new());
        let slow = commit(flow, base, &mut mask, (Pending::Nothing, true), &mut out);
        (out, slow)
    }

    #[test]
    fn equal_flows_need_nothing_and_a_second_commit_neither() {
        let mut base = Flow { dl_type: 0x0800, nw_proto: 6, ..Flow::ZERO };
        let flow = Flow { nw_dst: 7, dl_dst: Mac([1; 6]), tp_dst: 80, ..base };
        assert_eq!(run(&flow, &mut base).0.len(), 3);
        assert_eq!(base, flow);
        assert_eq!(run(&flow, &mut base).0, []);
    }

    #[test]
    fn only_the_fields_that_change_are_in_the_mask() {
        let mut base = Flow { dl_type: 0x0800, nw_proto: 6, nw_src: 1, nw_dst: 2, ..Flow::ZERO };
        let flow = Flow { nw_dst: 3, ..base };
        let (out, _) = run(&flow, &mut base);
        let key = Ipv4Key { dst: 3, ..Ipv4Key::default() };
        let mask = Ipv4Key { dst: u32::MAX, ..Ipv4Key::default() };
        assert_eq!(out, [DpAction::Set(SetField::Ipv4(Masked::new(key, mask)))]);
    }

    #[test]
    fn tags_that_both_have_stay() {
        let tag = |vid| Vlan { tpid: 0x8100, tci: VLAN_CFI | vid };
        let mut base = Flow { vlans: [tag(5), Vlan::default()], ..Flow::ZERO };
        let flow = Flow { vlans: [tag(9), tag(5)], ..Flow::ZERO };
        assert_eq!(run(&flow, &mut base).0, [DpAction::PushVlan { tpid: 0x8100, tci: VLAN_CFI | 9 }]);
        let flow = Flow { vlans: [tag(7), Vlan::default()], ..Flow::ZERO };
        let want =
            [DpAction::PopVlan, DpAction::PopVlan, DpAction::PushVlan { tpid: 0x8100, tci: VLAN_CFI | 7 }];
        assert_eq!(run(&flow, &mut base).0, want);
    }

    #[test]
    fn arp_takes_the_slow_path() {
        let mut base = Flow { dl_type: 0x0806, nw_proto: 1, ..Flow::ZERO };
        let flow = Flow { nw_proto: 2, ..base };
        assert_eq!(run(&flow, &mut base).1, SlowReason::ACTION);
    }

    #[test]
    fn labels_are_pushed_written_and_popped() {
        let mut base = Flow { dl_type: 0x0800, nw_proto: 6, ..Flow::ZERO };
        let mut flow = base;
        push_mpls(&mut flow, 0, 0x8847, None, true);
        let (out, _) = run(&flow, &mut base);
        assert_eq!(out, [DpAction::PushMpls { ethertype: 0x8847, lse: 0x140 }]);
        flow.mpls_lse[0] |= 5 << 12;
        assert_eq!(run(&flow, &mut base).0, [DpAction::Set(SetField::Mpls(Masked::new(0x5140, u32::MAX)))]);
        pop_mpls(&mut flow, 1, 0x0800, None);
        assert_eq!(run(&flow, &mut base).0, [DpAction::PopMpls { ethertype: 0x0800 }]);
    }
}
