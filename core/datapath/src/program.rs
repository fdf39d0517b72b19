//! Actions compiled for execution: what every packet of a megaflow goes through.
//!
//! Compilation makes the common things cheap and the impossible ones explicit: trailing actions that nothing would see
//! are cut off, so that **the last operation consumes the packet**; what is not built yet becomes a drop with its own
//! reason; nesting is bounded.

use crate::rewrite::{Expected, Rewrite, Shared, with_rewrites};
use conntrack::Action as Track;
use dpif::{Ct, DpAction, DropReason, HashAlg, SetField, Userspace};
use flow::{Flow, Mac};
use std::sync::Arc;

/// How deep lists may be nested in lists.
const MAX_NESTING: usize = 16;

/// A compiled list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Operations; the last one consumes the packet.
    pub ops: Vec<Op>,
    /// What it amounts to: kept with the megaflow, so that most packets are sent without a look at the operations.
    pub sum: Sum,
    /// The first operation, if that is a rewrite.
    rewrite: Option<Arc<Rewrite>>,
}

/// What a program amounts to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Sum {
    /// Sends by this port.
    Send(u32),
    /// Its first operation is a rewrite, and for packets that it fits the program does nothing else but to send them by
    /// this port.
    RewriteAndSend(u32),
    /// Drops.
    Drop(DropReason),
    /// Anything else.
    #[default]
    Long,
}

/// One operation on all packets of a group.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Op {
    /// Consumes if last, else works on a copy.
    Output(u32),
    /// As `Output`.
    Userspace(Box<Userspace>),
    /// As `Output`.
    Recirc(u32),
    /// As `Output`.
    Clone(Program),
    /// As `Output`; share of the packets.
    Sample(u32, Program),
    /// As `Output`: longest packet of the second program, program of the longer ones, and the second.
    CheckLen(usize, Program, Program),
    /// Always last.
    Drop(DropReason),
    /// Stands for some operations that follow, where it fits the packet.
    Rewrite(Arc<Rewrite>),
    Set(SetField),
    PushVlan {
        tpid: u16,
        tci: u16,
    },
    PopVlan,
    PushMpls {
        ethertype: u16,
        lse: u32,
    },
    PopMpls {
        ethertype: u16,
    },
    AddMpls {
        ethertype: u16,
        lse: u32,
    },
    PushEth {
        dst: Mac,
        src: Mac,
    },
    PopEth,
    /// The header's bytes.
    PushNsh(Box<[u8]>),
    /// Packets whose header cannot be removed end here.
    PopNsh,
    Hash {
        symmetric: bool,
        basis: u32,
    },
    /// What it does outside of the packet counts, too.
    Ct(Box<Track>),
    CtClear,
    /// Some packets may end here. Last, it is followed by a drop of the others.
    Meter(u32),
    Trunc(u32),
}

impl Op {
    /// It puts the transport header where nobody finds it who would finish a checksum or cut a packet later.
    pub(crate) fn hides_transport(&self) -> bool {
        matches!(self, Op::PushMpls { .. } | Op::AddMpls { .. } | Op::PopEth | Op::PushNsh(_))
    }

    /// It changes the bytes of the packet, and nothing of it ends here unless it cannot be changed so.
    pub(crate) fn is_edit(&self) -> bool {
        match self {
            Op::Set(field) => {
                !matches!(field, SetField::Priority(_) | SetField::Mark(_) | SetField::Tunnel(_))
            }
            Op::PushVlan { .. } | Op::PopVlan | Op::PushMpls { .. } | Op::PopMpls { .. } => true,
            Op::AddMpls { .. } | Op::PushEth { .. } | Op::PopEth | Op::PushNsh(_) | Op::PopNsh => true,
            _ => false,
        }
    }

    /// The packet (or a copy of it) ends here.
    fn consumes(&self) -> bool {
        matches!(
            self,
            Op::Output(_)
                | Op::Userspace(_)
                | Op::Recirc(_)
                | Op::Clone(_)
                | Op::Sample(..)
                | Op::CheckLen(..)
                | Op::Drop(_)
        )
    }
}

impl Program {
    /// Of operations of which the last one consumes.
    fn new(ops: Vec<Op>) -> Program {
        let sum = match ops[..] {
            [Op::Output(port)] => Sum::Send(port),
            [Op::Drop(reason)] => Sum::Drop(reason),
            [Op::Rewrite(ref rewrite), ref rest @ .., Op::Output(port)]
                if rest.len() == usize::from(rewrite.ops) =>
            {
                Sum::RewriteAndSend(port)
            }
            _ => Sum::Long,
        };
        let rewrite = match ops.first() {
            Some(Op::Rewrite(rewrite)) => Some(Arc::clone(rewrite)),
            _ => None,
        };
        Program { ops, sum, rewrite }
    }

    /// Uses one rewrite with other programs whose first is equal.
    pub(crate) fn share(&mut self, shared: &mut Shared) {
        let (Some(rewrite), Some(Op::Rewrite(first))) = (&mut self.rewrite, self.ops.first_mut()) else {
            return;
        };
        shared.share(rewrite);
        *first = Arc::clone(rewrite);
    }

    /// Compiles a list for packets of any layout.
    pub fn compile(actions: &[DpAction]) -> Program {
        compile(actions, 0)
    }

    /// Compiles the list of a megaflow: `flow` is of one of its packets, `mask` what it matches.
    pub fn compile_for(actions: &[DpAction], flow: &Flow, mask: &Flow) -> Program {
        let program = compile(actions, 0);
        match program.sum {
            Sum::Long => program.with_rewrites(Expected::of(flow, mask)),
            _ => program,
        }
    }

    /// What it begins with, if that is a rewrite.
    #[inline(always)]
    pub(crate) fn rewrite(&self) -> Option<&Rewrite> {
        self.rewrite.as_deref()
    }

    /// The same program with rewrites for packets that are as expected.
    pub(crate) fn with_rewrites(self, expected: Option<Expected>) -> Program {
        if expected.is_none() {
            return self;
        }
        Program::new(with_rewrites(self.ops, expected))
    }

    /// The same in the memory of a program that nobody needs any more.
    pub(crate) fn compile_in(mut memory: Vec<Op>, actions: &[DpAction]) -> Program {
        memory.clear();
        compile_nested(memory, actions, 0)
    }
}

fn compile(actions: &[DpAction], nesting: usize) -> Program {
    // Programs are as many as megaflows: no more room than they need, which is one operation at least.
    compile_nested(Vec::with_capacity(actions.len().max(1)), actions, nesting)
}

fn compile_nested(mut ops: Vec<Op>, actions: &[DpAction], nesting: usize) -> Program {
    if nesting > MAX_NESTING {
        ops.push(Op::Drop(DropReason::ActionRecursionTooDeep));
        return Program::new(ops);
    }
    for action in actions {
        ops.push(simple(action, nesting));
        if matches!(ops.last(), Some(Op::Drop(_))) {
            break;
        }
    }
    let matters = |op: &Op| op.consumes() || matches!(op, Op::Meter(_) | Op::Ct(_));
    ops.truncate(ops.iter().rposition(matters).map_or(0, |last| last + 1));
    if !ops.last().is_some_and(Op::consumes) {
        ops.push(Op::Drop(DropReason::NoOutput));
    }
    Program::new(ops)
}

fn simple(action: &DpAction, nesting: usize) -> Op {
    match action {
        DpAction::Output(port) => Op::Output(port.0),
        DpAction::Userspace(u) => Op::Userspace(u.clone()),
        DpAction::Set(field) => Op::Set(field.clone()),
        &DpAction::PushVlan { tpid, tci } => Op::PushVlan { tpid, tci },
        DpAction::PopVlan => Op::PopVlan,
        &DpAction::PushMpls { ethertype, lse } => Op::PushMpls { ethertype, lse },
        &DpAction::PopMpls { ethertype } => Op::PopMpls { ethertype },
        &DpAction::PushEth { dst, src } => Op::PushEth { dst, src },
        DpAction::PopEth => Op::PopEth,
        &DpAction::AddMpls { ethertype, lse } => Op::AddMpls { ethertype, lse },
        DpAction::PushNsh(push) => match push.nsh.header(&push.md2) {
            Ok(header) => Op::PushNsh(header.into()),
            Err(flow::nsh::TooLong) => Op::Drop(DropReason::MalformedForAction),
        },
        DpAction::PopNsh => Op::PopNsh,
        &DpAction::Recirc(id) => Op::Recirc(id),
        &DpAction::Hash { alg, basis } => Op::Hash { symmetric: alg == HashAlg::SymL4, basis },
        DpAction::CtClear => Op::CtClear,
        DpAction::Clone(list) => Op::Clone(compile(list, nesting + 1)),
        DpAction::CheckPktLen(check) => {
            let side = |list: &[DpAction]| compile(list, nesting + 1);
            Op::CheckLen(usize::from(check.pkt_len), side(&check.greater), side(&check.less_equal))
        }
        DpAction::Sample(s) => Op::Sample(s.probability, compile(&s.actions, nesting + 1)),
        &DpAction::Trunc(max) => Op::Trunc(max),
        &DpAction::Drop(reason) => Op::Drop(reason),
        DpAction::Ct(ct) => track(ct),
        &DpAction::Meter(id) => Op::Meter(id),
        DpAction::TunnelPush(_) | DpAction::TunnelPop(_) => Op::Drop(DropReason::TunnelUnsupported),
        DpAction::LbOutput(_) => Op::Drop(DropReason::InvalidBond),
        // The caller compiles branches, which need what follows them.
    }
}

/// A bare `nat` does what connections say, of which none says anything. No addresses are translated otherwise, and no
/// protocol is read for the connections that it announces.
fn track(ct: &Ct) -> Op {
    if ct.nat.as_ref().is_some_and(|nat| nat.snat.is_some()) {
        return Op::Drop(DropReason::CtNatUnsupported);
    }
    if ct.helper.is_some() {
        return Op::Drop(DropReason::CtHelperUnsupported);
    }
    let &Ct { zone, commit, force, mark, label, .. } = ct;
    Op::Ct(Box::new(Track { zone, commit: commit || force, force, mark, label }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpif::CheckPktLen;
    use units::PortNo;

    const OUT: DpAction = DpAction::Output(PortNo(1));

    #[test]
    fn the_last_operation_consumes() {
        let program = Program::compile(&[OUT, DpAction::PopVlan]);
        assert_eq!((&program.ops[..], program.sum), (&[Op::Output(1)][..], Sum::Send(1)));
        assert_eq!(Program::compile(&[]).ops, [Op::Drop(DropReason::NoOutput)]);
        assert_eq!(Program::compile(&[DpAction::PopVlan]).ops, [Op::Drop(DropReason::NoOutput)]);
        assert_eq!(Program::compile(&[DpAction::PopVlan, OUT]).ops, [Op::PopVlan, Op::Output(1)]);
        let metered = Program::compile(&[OUT, DpAction::Meter(3), DpAction::PopVlan]);
        assert_eq!(metered.ops, [Op::Output(1), Op::Meter(3), Op::Drop(DropReason::NoOutput)]);
        let tracked = Program::compile(&[DpAction::Ct(Box::default()), DpAction::PopVlan]);
        assert_eq!(tracked.ops, [Op::Ct(Box::default()), Op::Drop(DropReason::NoOutput)]);
    }

    #[test]
    fn what_follows_a_branch_is_not_part_of_it() {
        let check = CheckPktLen { pkt_len: 100, greater: vec![DpAction::PopVlan, OUT], less_equal: vec![] };
        let program = Program::compile(&[DpAction::CheckPktLen(Box::new(check)), OUT]);
        let side = |ops: &[Op]| Program::new(ops.to_vec());
        let none = side(&[Op::Drop(DropReason::NoOutput)]);
        let branch = Op::CheckLen(100, side(&[Op::PopVlan, Op::Output(1)]), none);
        assert_eq!(program.ops, [branch, Op::Output(1)]);
    }

    #[test]
    fn what_is_not_built_is_a_counted_drop() {
        let nat = |snat| Some(dpif::CtNat { snat, ..Default::default() });
        let ct = |nat, helper| DpAction::Ct(Box::new(Ct { nat, helper, ..Ct::default() }));
        for (unsupported, reason) in [
            (ct(nat(Some(true)), None), DropReason::CtNatUnsupported),
            (ct(None, Some("ftp".to_owned())), DropReason::CtHelperUnsupported),
        ] {
            let program = Program::compile(&[unsupported, OUT]);
            assert_eq!(program.ops, [Op::Drop(reason)]);
        }
        let program = Program::compile(&[ct(nat(None), None), OUT]);
        assert_eq!(program.ops, [Op::Ct(Box::default()), Op::Output(1)]);
        let mut list = vec![OUT];
        for _ in 0..100 {
            list = vec![DpAction::Clone(list)];
        }
        Program::compile(&list);
    }
}
