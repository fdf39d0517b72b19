//! Commit of MPLS labels (RFC 3032): `push_mpls`, `add_mpls`, `pop_mpls`, and writing the outermost entry.

use crate::header::{is_mpls, mpls_count, pop_mpls, push_mpls};
use dpif::{DpAction, Masked, SetField};
use flow::Flow;

/// Number of equal entries at the bottom of both label stacks.
fn common_labels(flow: &Flow, flow_n: usize, base: &Flow, base_n: usize) -> usize {
    let (a, b) = (&flow.mpls_lse[..flow_n], &base.mpls_lse[..base_n]);
    a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count()
}

/// Emits the actions that change the label stack of `base` into that of `flow`. `in_front`: labels are pushed in front of
/// all headers, including the Ethernet header.
pub(crate) fn commit_mpls(flow: &Flow, base: &mut Flow, out: &mut Vec<DpAction>, in_front: bool) {
    let (flow_n, mut base_n) = (mpls_count(flow, None), mpls_count(base, None));
    let mut common = common_labels(flow, flow_n, base, base_n);
    while base_n > common {
        if base_n - 1 == common && flow_n > common {
            // Only the outermost entry differs: write it.
            let lse = flow.mpls_lse[flow_n - base_n];
            out.push(DpAction::Set(SetField::Mpls(Masked::new(lse, u32::MAX))));
            base.mpls_lse[0] = lse;
            common += 1;
        } else {
            let last = is_mpls(flow.dl_type) || base_n == 1;
            let ethertype = if last { flow.dl_type } else { 0x8847 };
            out.push(DpAction::PopMpls { ethertype });
            if !pop_mpls(base, base_n, ethertype, None) {
                return;
            }
            base_n -= 1;
        }
    }
    while base_n < flow_n {
        let lse = flow.mpls_lse[flow_n - base_n - 1];
        let ethertype = flow.dl_type;
        out.push(match in_front {
            true => DpAction::AddMpls { ethertype, lse },
            false => DpAction::PushMpls { ethertype, lse },
        });
        // The network fields of `base` are not cleared: the flow may be restored to its state before the push, and then they
        // are valid again.
        push_mpls(base, base_n, flow.dl_type, None, false);
        base.mpls_lse[0] = lse;
        base_n += 1;
    }
}
