//! Pushes and pops headers of a `Flow`, which then has the fields of the changed packet.
//!
//! The bits of the received packet on which the result depends are added to the mask.

use flow::flow::{MPLS_MAX, VLANS_MAX};
use flow::{Flow, VLAN_CFI, Vlan};

/// Bottom-of-stack bit of an MPLS label stack entry.
pub const MPLS_BOS: u32 = 0x100;
/// The mask of a complete tag.
const ALL_TAG: Vlan = Vlan { tpid: 0xffff, tci: 0xffff };

/// Number of tags that the flow has.
pub fn vlan_count(flow: &Flow) -> usize {
    flow.vlans.iter().take_while(|v| v.tci & VLAN_CFI != 0).count()
}

/// Removes the outer tag, if there is one.
pub fn pop_vlan(flow: &mut Flow, mask: &mut Flow) {
    let n = vlan_count(flow);
    if n > 1 {
        mask.vlans[1..n].fill(ALL_TAG);
    }
    if n > 0 {
        flow.vlans[..n].rotate_left(1);
        flow.vlans[n - 1] = Vlan::default();
    }
}

/// Pushes a tag with priority 0 and VLAN 0. If the flow already has the maximum number of tags, its innermost tag is dropped:
/// the extraction of a packet with more tags ignores the innermost tags, too.
pub fn push_vlan(flow: &mut Flow, mask: &mut Flow, tpid: u16) {
    mask.vlans[..vlan_count(flow)].fill(ALL_TAG);
    flow.vlans.copy_within(..VLANS_MAX - 1, 1);
    flow.vlans[0] = Vlan { tpid, tci: VLAN_CFI };
}

/// Returns whether this is an Ethernet type of MPLS.
pub fn is_mpls(dl_type: u16) -> bool {
    dl_type == 0x8847 || dl_type == 0x8848
}

/// Number of label stack entries that the flow has: the entries up to the bottom of the stack, or the non-zero entries if
/// the flow does not reach to the bottom.
pub fn mpls_count(flow: &Flow, mask: Option<&mut Flow>) -> usize {
    if !is_mpls(flow.dl_type) {
        return 0;
    }
    let bottom = flow.mpls_lse.iter().position(|lse| lse & MPLS_BOS != 0);
    if let Some(mask) = mask {
        let seen = bottom.map_or(MPLS_MAX, |i| i + 1);
        for (m, lse) in mask.mpls_lse[..seen].iter_mut().zip(&flow.mpls_lse) {
            *m |= if *lse == 0 { u32::MAX } else { MPLS_BOS };
        }
    }
    bottom.map_or_else(|| flow.mpls_lse.iter().filter(|lse| **lse != 0).count(), |i| i + 1)
}

/// Pushes a copy of the outermost entry; without labels, pushes an entry with TC and TTL of the IP header. `n`: number of entries
/// before the push; less than `MPLS_MAX`. `clear`: if this is the first entry, network and transport fields are set to 0.
pub fn push_mpls(flow: &mut Flow, n: usize, ethertype: u16, mask: Option<&mut Flow>, clear: bool) {
    if n > 0 {
        if let Some(mask) = mask {
            mask.mpls_lse[..n].fill(u32::MAX);
        }
        flow.mpls_lse.copy_within(..n, 1);
        flow.mpls_lse[0] = flow.mpls_lse[1] & !MPLS_BOS;
    } else {
        let label = if flow.dl_type == 0x86dd { 2 } else { 0 };
        let (mut tc, mut ttl) = (0, 64);
        if flow.is_ip() {
            tc = u32::from(flow.nw_tos & 0xfc) >> 2;
            if flow.nw_ttl != 0 {
                ttl = u32::from(flow.nw_ttl);
            }
            if let Some(mask) = mask {
                mask.nw_tos |= 0xfc;
                mask.nw_ttl = 0xff;
            }
        }
        flow.mpls_lse[0] = label << 12 | (tc & 7) << 9 | MPLS_BOS | ttl;
        if clear {
            clear_l3(flow);
        }
    }
    flow.dl_type = ethertype;
}

/// Pops the outermost entry; returns false if that is not possible.
pub fn pop_mpls(flow: &mut Flow, n: usize, ethertype: u16, mut mask: Option<&mut Flow>) -> bool {
    if n == 0 {
        return false;
    }
    if let Some(mask) = &mut mask
        && n == MPLS_MAX
    {
        mask.mpls_lse[n - 1] |= MPLS_BOS;
    }
    if n == MPLS_MAX && flow.mpls_lse[n - 1] & MPLS_BOS == 0 {
        return false;
    }
    if let Some(mask) = mask {
        mask.mpls_lse[1..n].fill(u32::MAX);
    }
    flow.mpls_lse[..n].rotate_left(1);
    flow.mpls_lse[n - 1] = 0;
    flow.dl_type = ethertype;
    true
}

/// Clears the fields of the headers after the MPLS labels.
fn clear_l3(flow: &mut Flow) {
    let (dl_dst, dl_src, vlans, mpls_lse) = (flow.dl_dst, flow.dl_src, flow.vlans, flow.mpls_lse);
    *flow = keep_metadata(Flow { dl_dst, dl_src, vlans, mpls_lse, ..Flow::ZERO }, flow);
}

/// A flow with the packet fields of `packet` and the metadata of `kept`, including the packet type and the tunnel's options.
pub fn keep_metadata(packet: Flow, kept: &Flow) -> Flow {
    Flow {
        tunnel: kept.tunnel,
        metadata: kept.metadata,
        regs: kept.regs,
        skb_priority: kept.skb_priority,
        pkt_mark: kept.pkt_mark,
        in_port: kept.in_port,
        recirc_id: kept.recirc_id,
        conj_id: kept.conj_id,
        ct_mark: kept.ct_mark,
        ct_zone: kept.ct_zone,
        ct_state: kept.ct_state,
        ct_nw_proto: kept.ct_nw_proto,
        ct_label: kept.ct_label,
        packet_type: kept.packet_type,
        actset_output: kept.actset_output,
        tlv: kept.tlv,
        layout: kept.layout,
        ..packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::Tlv;

    #[test]
    fn tags_push_and_pop() {
        let (mut f, mut m) = (Flow::ZERO, Flow::ZERO);
        push_vlan(&mut f, &mut m, 0x8100);
        f.vlans[0].tci |= 5;
        assert_eq!(m, Flow::ZERO);
        push_vlan(&mut f, &mut m, 0x88a8);
        assert_eq!((vlan_count(&f), f.vlans[1].tci & 0xfff, m.vlans[0]), (2, 5, ALL_TAG));
        pop_vlan(&mut f, &mut m);
        assert_eq!(f.vlan_vid(), Some(5));
        pop_vlan(&mut f, &mut m);
        pop_vlan(&mut f, &mut m);
        assert_eq!(f, Flow::ZERO);
    }

    #[test]
    fn labels_push_and_pop() {
        let tlv = Tlv { present: 1, ..Tlv::NONE };
        let mut f = Flow { dl_type: 0x0800, nw_ttl: 7, nw_proto: 6, tlv, ..Flow::ZERO };
        push_mpls(&mut f, 0, 0x8847, None, true);
        assert_eq!((f.mpls_lse[0], f.nw_proto, mpls_count(&f, None)), (0x107, 0, 1));
        assert_eq!(f.tlv.present, 1, "the tunnel's options stay");
        push_mpls(&mut f, 1, 0x8847, None, true);
        assert_eq!(mpls_count(&f, None), 2);
        assert!(pop_mpls(&mut f, 2, 0x8847, None) && pop_mpls(&mut f, 1, 0x0800, None));
        assert_eq!((f.dl_type, f.mpls_lse), (0x0800, [0; 3]));
        assert!(!pop_mpls(&mut f, 0, 0x0800, None));
    }
}
