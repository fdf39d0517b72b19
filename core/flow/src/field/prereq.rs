//! Checks prerequisites: the conditions under which a packet has a field.

use super::{FieldId, Prereq};
use crate::flow::{Flow, VLAN_CFI, ct_state, frag};
use crate::matching::Match;

const ARP: [u16; 2] = [0x0806, 0x8035];
const MPLS: [u16; 2] = [0x8847, 0x8848];
const NSH: u16 = 0x894f;

fn is_l4(flow: &Flow, proto: u8) -> bool {
    matches!(flow.network_type(), 0x0800 | 0x86dd) && flow.nw_proto == proto
}

fn is_nd(flow: &Flow, types: &[u16]) -> bool {
    flow.network_type() == 0x86dd && flow.nw_proto == 58 && flow.tp_dst == 0 && types.contains(&flow.tp_src)
}

impl FieldId {
    /// Returns whether a packet of this flow has the field.
    pub fn prereqs_ok(self, flow: &Flow) -> bool {
        let valid = ct_state::NEW | ct_state::ESTABLISHED | ct_state::REPLY_DIR;
        self.prereq_holds(flow, flow.ct_state & valid != 0)
    }

    /// Returns whether all packets of a match have the field.
    pub fn prereqs_ok_match(self, m: &Match) -> bool {
        use ct_state::*;
        let state = m.flow.ct_state;
        let valid = state & (NEW | ESTABLISHED | RELATED | REPLY_DIR | SRC_NAT | DST_NAT) != 0
            || state & TRACKED != 0 && m.mask.ct_state & INVALID != 0 && state & INVALID == 0;
        self.prereq_holds(&m.flow, valid)
    }

    fn prereq_holds(self, f: &Flow, ct_valid: bool) -> bool {
        let dl_type = f.network_type();
        match self.info().prereq {
            Prereq::None => true,
            Prereq::Ethernet => f.packet_type == 0,
            Prereq::Arp => ARP.contains(&dl_type),
            Prereq::VlanVid => f.packet_type == 0 && f.vlans[0].tci & VLAN_CFI != 0,
            Prereq::Ipv4 => dl_type == 0x0800,
            Prereq::Ipv6 => dl_type == 0x86dd,
            Prereq::IpAny => dl_type == 0x0800 || dl_type == 0x86dd,
            Prereq::CtValid => ct_valid,
            Prereq::Mpls => MPLS.contains(&dl_type),
            Prereq::Tcp => is_l4(f, 6) && f.nw_frag & frag::LATER == 0,
            Prereq::Udp => is_l4(f, 17) && f.nw_frag & frag::LATER == 0,
            Prereq::Sctp => is_l4(f, 132) && f.nw_frag & frag::LATER == 0,
            Prereq::Icmpv4 => dl_type == 0x0800 && f.nw_proto == 1,
            Prereq::Icmpv6 => dl_type == 0x86dd && f.nw_proto == 58,
            Prereq::Nd => is_nd(f, &[135, 136]),
            Prereq::NdSolicit => is_nd(f, &[135]),
            Prereq::NdAdvert => is_nd(f, &[136]),
            Prereq::Nsh => dl_type == NSH,
        }
    }
}
