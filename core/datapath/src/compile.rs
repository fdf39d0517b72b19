//! Compiles actions to a program.
//!
//! Trailing actions without effect are removed, so that **the last operation consumes the packet**. An unsupported
//! action becomes a drop with its own reason. Nesting is bounded.

use crate::program::{Op, Program, Push};
use conntrack::{Action as Track, Helper, Nat, Side};
use dpif::{Ct, CtNat, DpAction, DropReason, HashAlg, SetField};
use tunnel::Template;

/// Maximum nesting depth of lists.
const MAX_NESTING: usize = 16;

/// Maximum number of operations that are moved into the branches of a comparison of lengths.
const MAX_MOVED: usize = 16;

impl Program {
    /// Compiles a list of actions for packets of any layout.
    pub fn compile(actions: &[DpAction]) -> Program {
        compile(actions, 0)
    }

    /// Compiles a list of actions into the memory of a program that is no longer needed.
    pub(crate) fn compile_in(mut memory: Vec<Op>, actions: &[DpAction]) -> Program {
        memory.clear();
        compile_nested(memory, actions, 0)
    }
}

impl Op {
    /// Returns whether the length of the network packet may be unknown after the operation.
    fn hides_length(&self) -> bool {
        self.hides_transport()
            || matches!(self, Op::PushVlan { .. } | Op::PopMpls { .. } | Op::PushEth { .. } | Op::PopNsh)
    }

    /// Returns whether the operation can be moved behind a comparison of lengths that follows it, without a change of
    /// the result.
    fn keeps_length(&self) -> bool {
        matches!(self, Op::Set(_)) && self.is_edit()
            || matches!(
                self,
                Op::Output(_) | Op::Enqueue(..) | Op::Meter(_) | Op::CtClear | Op::ForgetConnection
            )
    }

    /// The nested programs of the operation.
    fn branches(&self) -> impl Iterator<Item = &Program> {
        let [first, second] = match self {
            Op::Clone(inner) | Op::Sample(_, inner) => [Some(&**inner), None],
            Op::CheckLen(_, longer, rest) => [Some(&**longer), Some(&**rest)],
            _ => [None; 2],
        };
        first.into_iter().chain(second)
    }

    /// Returns whether the packet may belong to another connection after the operation.
    fn changes_connection(&self) -> bool {
        match self {
            Op::Set(SetField::Ipv4(field)) => field.mask.src | field.mask.dst != 0,
            Op::Set(SetField::Ipv6(field)) => [field.mask.src, field.mask.dst] != [[0; 16]; 2],
            Op::Set(SetField::Tcp(field) | SetField::Udp(field) | SetField::Sctp(field)) => {
                field.mask.src | field.mask.dst != 0
            }
            Op::Set(SetField::Icmp(_) | SetField::Icmpv6(_)) => true,
            Op::PushMpls { .. } | Op::AddMpls { .. } | Op::PopMpls { .. } | Op::PushNsh(_) | Op::PopNsh => {
                true
            }
            // The outer packet belongs to another connection than the inner one. If the packet enters another bridge,
            // it has no connection anyway, because it gets new metadata there.
            Op::TunnelPush(push) => push.recirculated_on.is_none(),
            _ => false,
        }
    }

    /// Returns whether the packet may be tracked by this operation, or by an operation or a pass that it leads to.
    fn may_lead_to_ct(&self) -> bool {
        matches!(self, Op::Ct(_) | Op::Recirc(_) | Op::Clone(_) | Op::Sample(..) | Op::CheckLen(..))
    }

    /// Returns whether this operation reads the packet's mark or connection tracking metadata, or passes them to the
    /// control half, to a later pass, or to the record of a dropped packet.
    fn reads_metadata(&self) -> bool {
        match self {
            Op::Set(_)
            | Op::Rewrite(_)
            | Op::TunnelPush(_)
            | Op::Output(_)
            | Op::Enqueue(..)
            | Op::LbOutput(_)
            | Op::CtClear => false,
            Op::Hash { .. } | Op::Meter(_) | Op::Trunc(_) | Op::NotePadding => false,
            Op::Clone(inner) | Op::Sample(_, inner) => inner.ops.iter().any(Op::reads_metadata),
            op => !op.is_edit(),
        }
    }

    /// Returns whether the packet (or a copy of it) ends with this operation.
    fn consumes(&self) -> bool {
        matches!(
            self,
            Op::Output(_)
                | Op::Enqueue(..)
                | Op::LbOutput(_)
                | Op::Userspace(_)
                | Op::Recirc(_)
                | Op::Clone(_)
                | Op::Sample(..)
                | Op::CheckLen(..)
                | Op::TunnelPop(_)
                | Op::Drop(_)
        )
    }
}

fn compile(actions: &[DpAction], nesting: usize) -> Program {
    // There is a program for each megaflow, so no more memory is allocated than it needs, which is at least one
    // operation.
    compile_nested(Vec::with_capacity(actions.len().max(1)), actions, nesting)
}

fn compile_nested(mut ops: Vec<Op>, actions: &[DpAction], nesting: usize) -> Program {
    if nesting > MAX_NESTING {
        ops.push(Op::Drop(DropReason::ActionRecursionTooDeep));
        return Program::new(ops);
    }
    let mut changed = false;
    for (i, action) in actions.iter().enumerate() {
        let mut op = compile_action(action, nesting);
        if let (DpAction::TunnelPush(of), Op::TunnelPush(push), Some(DpAction::Recirc(_))) =
            (action, &mut op, actions.get(i + 1))
        {
            push.recirculated_on = Some(of.out_port.0);
        }
        changed |= op.changes_connection();
        if op.may_lead_to_ct() && std::mem::take(&mut changed) {
            ops.push(Op::ForgetConnection);
        }
        ops.push(op);
        if matches!(ops.last(), Some(Op::Drop(_))) {
            break;
        }
    }
    let matters = |op: &Op| op.consumes() || matches!(op, Op::Meter(_) | Op::Ct(_));
    ops.truncate(ops.iter().rposition(matters).map_or(0, |last| last + 1));
    if !ops.last().is_some_and(Op::consumes) {
        ops.push(Op::Drop(DropReason::NoOutput));
    }
    // A clone as the last operation has no effect on later operations, so its actions are inlined.
    while let Some(Op::Clone(_)) = ops.last() {
        if let Some(Op::Clone(inner)) = ops.pop() {
            ops.extend(inner.ops);
        }
    }
    name_queues(&mut ops);
    remove_unread(&mut ops);
    compare_first(&mut ops);
    if nesting == 0 && needs_padding(&ops, false) {
        ops.insert(0, Op::NotePadding);
    }
    Program::new(ops)
}

/// Returns whether a length is compared after an operation that hides it. `hidden`: an operation before `ops` has
/// hidden the length already.
fn needs_padding(ops: &[Op], hidden: bool) -> bool {
    let mut hidden = hidden;
    ops.iter().any(|op| {
        let needs = hidden && matches!(op, Op::CheckLen(..))
            || op.branches().any(|branch| needs_padding(&branch.ops, hidden));
        hidden |= op.hides_length();
        needs
    })
}

/// Moves operations in front of a final comparison of lengths into both of its branches. Then each packet goes
/// through one program without branches.
fn compare_first(ops: &mut Vec<Op>) {
    let Some((Op::CheckLen(_, longer, rest), before)) = ops.split_last() else { return };
    let compares = |program: &Program| program.ops.iter().any(|op| matches!(op, Op::CheckLen(..)));
    let may_move = before.len() <= MAX_MOVED && before.iter().all(Op::keeps_length);
    if !may_move || compares(longer) || compares(rest) {
        return;
    }
    let Some(Op::CheckLen(max, longer, rest)) = ops.pop() else { return };
    let side = |branch: Box<Program>| {
        let mut all: Vec<Op> = ops.iter().cloned().chain(branch.ops).collect();
        let tracks = all.iter().rposition(Op::may_lead_to_ct).unwrap_or(0);
        let mut at = 0;
        all.retain(|op| {
            at += 1;
            at <= tracks || !matches!(op, Op::ForgetConnection)
        });
        remove_unread(&mut all);
        Box::new(Program::new(all))
    };
    *ops = vec![Op::CheckLen(max, side(longer), side(rest))];
}

/// Replaces the selection of a QoS queue and the following outputs by outputs to that queue, if no other operation
/// depends on the selection.
fn name_queues(ops: &mut Vec<Op>) {
    let selects = |op: &Op| matches!(op, Op::Set(SetField::Priority(queue)) if queue.mask == u32::MAX);
    let may_follow = |op: &Op| match op {
        Op::Output(_) | Op::Meter(_) | Op::Trunc(_) | Op::Ct(_) | Op::CtClear | Op::ForgetConnection => true,
        op => selects(op) || op.is_edit(),
    };
    let Some(first) = ops.iter().position(selects).filter(|first| ops[*first..].iter().all(may_follow))
    else {
        return;
    };
    let mut selected = None;
    let mut name = |op| match op {
        Op::Set(SetField::Priority(queue)) => {
            selected = Some(queue.value);
            None
        }
        Op::Output(port) => Some(selected.map_or(Op::Output(port), |queue| Op::Enqueue(port, queue))),
        op => Some(op),
    };
    let named: Vec<Op> = ops.drain(first..).filter_map(&mut name).collect();
    ops.extend(named);
}

/// Removes each `ct_clear` and each packet mark on which no later operation depends. Packets that are only rewritten
/// and sent then stay in their batch, because nothing needs this metadata.
fn remove_unread(ops: &mut Vec<Op>) {
    let needed = ops.iter().rposition(Op::reads_metadata).map_or(0, |last| last + 1);
    let mut at = 0;
    ops.retain(|op| {
        at += 1;
        at <= needed || !matches!(op, Op::CtClear | Op::Set(SetField::Mark(_)))
    });
}

fn compile_action(action: &DpAction, nesting: usize) -> Op {
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
            Err(flow::nsh::InvalidContextLength) => Op::Drop(DropReason::MalformedForAction),
        },
        DpAction::PopNsh => Op::PopNsh,
        &DpAction::Recirc(id) => Op::Recirc(id),
        &DpAction::Hash { alg, basis } => Op::Hash { symmetric: alg == HashAlg::SymL4, basis },
        DpAction::CtClear => Op::CtClear,
        DpAction::Clone(list) => Op::Clone(Box::new(compile(list, nesting + 1))),
        DpAction::CheckPktLen(check) => {
            let side = |list: &[DpAction]| Box::new(compile(list, nesting + 1));
            Op::CheckLen(usize::from(check.pkt_len), side(&check.greater), side(&check.less_equal))
        }
        DpAction::Sample(s) => Op::Sample(s.probability, Box::new(compile(&s.actions, nesting + 1))),
        &DpAction::Trunc(max) => Op::Trunc(max),
        &DpAction::Drop(reason) => Op::Drop(reason),
        DpAction::Ct(ct) => compile_ct(ct),
        &DpAction::Meter(id) => Op::Meter(id),
        DpAction::TunnelPush(push) => match Template::new(&push.header.0, push.tunnel_type) {
            Some(template) => {
                Op::TunnelPush(Box::new(Push { template, port: push.tunnel_port.0, recirculated_on: None }))
            }
            None => Op::Drop(DropReason::TunnelPushError),
        },
        DpAction::TunnelPop(port) => Op::TunnelPop(port.0),
        DpAction::LbOutput(out) => Op::LbOutput(out.bond_id),
    }
}

fn compile_ct(ct: &Ct) -> Op {
    let &Ct { zone, commit, force, mark, label, .. } = ct;
    let timeout = ct.timeout.as_ref().and_then(|t| u16::try_from(t.id).ok()).unwrap_or(0);
    let nat = ct.nat.as_ref().map(compile_nat);
    let helper = ct.helper.as_deref().and_then(Helper::of_name);
    Op::Ct(Box::new(Track { zone, commit: commit || force, force, mark, label, nat, timeout, helper }))
}

fn compile_nat(nat: &CtNat) -> Nat {
    let side = nat.snat.map(|source| if source { Side::Source } else { Side::Destination });
    let &CtNat { addresses, ports, persistent, random, .. } = nat;
    Nat { side, addresses, ports, persistent, random }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Summary;
    use dpif::CheckPktLen;
    use units::PortNo;

    const OUT: DpAction = DpAction::Output(PortNo(1));

    #[test]
    fn the_last_operation_consumes() {
        let program = Program::compile(&[OUT, DpAction::PopVlan]);
        assert_eq!(
            (&program.ops[..], program.summary),
            (&[Op::Output(1)][..], Summary::Send { port: 1, op_flags: 0 })
        );
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
        let side = |ops: &[Op]| Box::new(Program::new(ops.to_vec()));
        let none = side(&[Op::Drop(DropReason::NoOutput)]);
        let branch = Op::CheckLen(100, side(&[Op::PopVlan, Op::Output(1)]), none);
        assert_eq!(program.ops, [branch, Op::Output(1)]);
    }

    fn check(greater: &[DpAction], less_equal: &[DpAction]) -> DpAction {
        let (greater, less_equal) = (greater.to_vec(), less_equal.to_vec());
        DpAction::CheckPktLen(Box::new(CheckPktLen { pkt_len: 100, greater, less_equal }))
    }

    #[test]
    fn lengths_are_compared_first() {
        let meter = DpAction::Meter(3);
        const TWO: DpAction = DpAction::Output(PortNo(2));
        let program = Program::compile(&[meter.clone(), DpAction::CtClear, check(&[OUT], &[TWO])]);
        let side = |ops: &[Op]| Box::new(Program::new(ops.to_vec()));
        let sides = [1, 2].map(|port| side(&[Op::Meter(3), Op::Output(port)]));
        let [longer, rest] = sides.clone();
        assert_eq!(program.ops, [Op::CheckLen(100, longer, rest)]);
        assert_eq!(program.summary, Summary::ByLength);
        assert!(sides.iter().all(|side| side.summary != Summary::Other));
        // A tag that is pushed before the comparison changes the length, and hides the length of the network packet.
        let push = DpAction::PushVlan { tpid: 0x8100, tci: 0x1001 };
        let tagged = Program::compile(&[push.clone(), check(&[OUT], &[TWO])]);
        assert!(matches!(tagged.ops[..], [Op::NotePadding, Op::PushVlan { .. }, Op::CheckLen(..)]));
        // A tag that is pushed in a branch does not matter to the comparison.
        let after = Program::compile(&[check(&[push, OUT], &[TWO])]);
        assert_eq!(after.summary, Summary::ByLength);
    }

    #[test]
    fn nesting_is_bounded_and_helpers_have_names() {
        let ct =
            |helper: &str| DpAction::Ct(Box::new(Ct { helper: Some(helper.to_owned()), ..Ct::default() }));
        let program = Program::compile(&[ct("ftp"), ct("sip"), OUT]);
        let ftp = Track { helper: Some(Helper::Ftp), ..Track::default() };
        assert_eq!(program.ops, [Op::Ct(Box::new(ftp)), Op::Ct(Box::default()), Op::Output(1)]);
        let mut list = vec![OUT];
        for _ in 0..100 {
            list = vec![DpAction::Clone(list)];
        }
        Program::compile(&list);
    }
}
