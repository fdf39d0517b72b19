//! Commit of the outermost header: `push_eth`, `push_nsh`, `add_mpls` and the actions that remove them.
//!
//! If `flow` and `base` (the committed fields) have different packet types, they differ in the outermost header. Either an action changed the
//! header (`Pending`), or the flow was restored to an earlier state (after a bucket of a group, or after output to a
//! layer 3 port): then the packet's header is restored as well.

use crate::commit_mpls::commit_mpls;
use crate::header::{is_mpls, keep_metadata};
use crate::packet_type::{ETHERNET, ETHERTYPE_NSH, NSH, layer_3};
use dpif::{DpAction, Masked, PushNsh, SetField};
use flow::nsh::MD_TYPE_1;
use flow::{Flow, Nsh};

/// The change of the outermost header that the next commit emits.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Pending {
    /// No change, unless the packet types differ.
    #[default]
    Nothing,
    /// The outer header of the flow is added to the packet. Contains the encoded context headers of an NSH with metadata type 2; otherwise
    /// it is empty.
    Encap(Vec<u8>),
    /// The outer header of the packet, which the flow no longer has, is removed.
    Decap,
}

pub(crate) fn commit_outer(flow: &Flow, base: &mut Flow, pending: Pending, out: &mut Vec<DpAction>) {
    match pending {
        Pending::Encap(md2) => push_outer(flow, base, md2, out),
        Pending::Decap => pop_outer(flow, base, out),
        Pending::Nothing if flow.packet_type != base.packet_type => change_packet_type(flow, base, out),
        Pending::Nothing => {}
    }
}

fn push_outer(flow: &Flow, base: &mut Flow, md2: Vec<u8>, out: &mut Vec<DpAction>) {
    match flow.packet_type {
        ETHERNET => push_ethernet(flow, base, out),
        NSH => {
            out.push(DpAction::PushNsh(Box::new(PushNsh { nsh: flow.nsh, md2 })));
            *base = keep_metadata(*flow, base);
        }
        _ => commit_mpls(flow, base, out, true),
    }
    base.packet_type = flow.packet_type;
}

fn push_ethernet(flow: &Flow, base: &mut Flow, out: &mut Vec<DpAction>) {
    out.push(DpAction::PushEth { dst: flow.dl_dst, src: flow.dl_src });
    (base.packet_type, base.dl_src, base.dl_dst) = (ETHERNET, flow.dl_src, flow.dl_dst);
}

/// Removes the outermost header. After the removal of an NSH or of the last label, the packet is recirculated and parsed again, so
/// `base` need not have the fields of its payload.
fn pop_outer(flow: &Flow, base: &mut Flow, out: &mut Vec<DpAction>) {
    match (base.packet_type, base.packet_type as u16) {
        (ETHERNET, _) => {
            out.push(DpAction::PopEth);
            (base.packet_type, base.dl_src, base.dl_dst) =
                (flow.packet_type, Default::default(), Default::default());
        }
        (NSH, _) => out.push(DpAction::PopNsh),
        (_, kind) if is_mpls(kind) => {
            commit_mpls(flow, base, out, false);
            base.packet_type = flow.packet_type;
        }
        _ => {}
    }
}

/// Gives the packet the packet type of the flow, although no action is pending.
fn change_packet_type(flow: &Flow, base: &mut Flow, out: &mut Vec<DpAction>) {
    let same_inside = base.packet_type == layer_3(flow.dl_type);
    if flow.packet_type == ETHERNET && same_inside {
        return push_ethernet(flow, base, out);
    }
    pop_outer(flow, base, out);
    // Only the header around the inner packet was removed, so the inner packet has the fields of the flow.
    *base = keep_metadata(*flow, base);
    base.packet_type = flow.packet_type;
}

/// Commits the fields of the NSH. All fields are written if the datapath does not support masked writes, or if the mask has
/// all bits.
pub(crate) fn commit_nsh(
    flow: &Flow,
    base: &mut Flow,
    mask: &mut Flow,
    masked_set: bool,
    out: &mut Vec<DpAction>,
) {
    let in_packet = |nsh: Nsh| without_absent_context(nsh, nsh.md_type);
    if flow.dl_type != ETHERTYPE_NSH || in_packet(flow.nsh) == in_packet(base.nsh) {
        return;
    }
    if !masked_set {
        mask.nsh = Flow::ONES.nsh;
    }
    let write = match mask.nsh == Flow::ONES.nsh {
        true => Masked::new(flow.nsh, mask.nsh),
        false => Masked::new(flow.masked(mask).nsh, mask.nsh).writable(flow.nsh.md_type),
    };
    out.push(DpAction::Set(SetField::Nsh(Box::new(write))));
    base.nsh = flow.nsh;
}

/// Sets `context` to zero unless the packet's metadata type `md_type` is 1: only such a packet has these context headers.
fn without_absent_context(nsh: Nsh, md_type: u8) -> Nsh {
    if md_type == MD_TYPE_1 { nsh } else { Nsh { context: [0; 4], ..nsh } }
}

trait Writable {
    /// Clears the fields that no action can write.
    fn writable(self, md_type: u8) -> Self;
}

impl Writable for Masked<Nsh> {
    fn writable(mut self, md_type: u8) -> Masked<Nsh> {
        for nsh in [&mut self.value, &mut self.mask] {
            *nsh = Nsh { md_type: 0, np: 0, ..without_absent_context(*nsh, md_type) };
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::Mac;

    fn ip() -> Flow {
        Flow { dl_type: 0x0800, nw_proto: 6, nw_src: 1, dl_src: Mac([2; 6]), ..Flow::ZERO }
    }

    fn run(flow: &Flow, base: &mut Flow, pending: Pending) -> Vec<DpAction> {
        let mut out = Vec::new();
        commit_outer(flow, base, pending, &mut out);
        out
    }

    #[test]
    fn restoring_the_flow_removes_an_added_header() {
        let before = ip();
        let mut base = before;
        let nsh = Nsh { np: 3, ..Nsh::NEW };
        let flow = Flow { packet_type: NSH, dl_type: 0x894f, nsh, ..Flow::ZERO };
        let push = PushNsh { nsh, md2: vec![] };
        assert_eq!(run(&flow, &mut base, Pending::Encap(vec![])), [DpAction::PushNsh(Box::new(push))]);
        assert_eq!(base, flow);
        assert_eq!(run(&flow, &mut base, Pending::Nothing), []);
        assert_eq!(run(&before, &mut base, Pending::Nothing), [DpAction::PopNsh]);
        assert_eq!(base, before);
    }

    #[test]
    fn ethernet_is_removed_and_restored_without_recirculation() {
        let frame = ip();
        let mut base = frame;
        let bare = Flow { packet_type: layer_3(0x0800), dl_src: Mac::default(), ..frame };
        assert_eq!(run(&bare, &mut base, Pending::Nothing), [DpAction::PopEth]);
        assert_eq!(base, bare);
        let want = DpAction::PushEth { dst: frame.dl_dst, src: frame.dl_src };
        assert_eq!(run(&frame, &mut base, Pending::Nothing), [want]);
        assert_eq!(base, frame);
    }

    #[test]
    fn only_bits_that_were_looked_at_are_written_unless_all_must_be() {
        let before = Nsh { np: 1, context: [1, 2, 3, 4], ..Nsh::NEW };
        let base = Flow { dl_type: 0x894f, nsh: before, ..Flow::ZERO };
        let flow = Flow { nsh: Nsh { ttl: 62, ..before }, ..base };
        let mut seen = Flow::ZERO;
        (seen.nsh.ttl, seen.nsh.np) = (0xff, 0xff);
        let write = |masked_set| {
            let (mut out, mut mask, mut base) = (Vec::new(), seen, base);
            commit_nsh(&flow, &mut base, &mut mask, masked_set, &mut out);
            (out.pop().unwrap(), mask.nsh)
        };
        let bits = Masked::new(Nsh { ttl: 62, ..Nsh::default() }, Nsh { ttl: 0xff, ..Nsh::default() });
        assert_eq!(write(true), (DpAction::Set(SetField::Nsh(Box::new(bits))), seen.nsh));
        let all = Flow::ONES.nsh;
        assert_eq!(write(false), (DpAction::Set(SetField::Nsh(Box::new(Masked::new(flow.nsh, all)))), all));
    }

    #[test]
    fn a_context_header_that_the_packet_does_not_have_is_not_written() {
        let write = |md_type| {
            let before = Nsh { md_type, ..Nsh::NEW };
            let base = Flow { dl_type: 0x894f, nsh: before, ..Flow::ZERO };
            let flow = Flow { nsh: Nsh { context: [0xab, 0, 0, 0], ..before }, ..base };
            let (mut out, mut mask, mut base) = (Vec::new(), Flow::ZERO, base);
            mask.nsh.context[0] = u32::MAX;
            commit_nsh(&flow, &mut base, &mut mask, true, &mut out);
            out.len()
        };
        assert_eq!((write(MD_TYPE_1), write(2)), (1, 0));
    }
}
