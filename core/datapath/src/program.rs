//! Actions compiled for execution: the program of a megaflow.
//!
//! Compilation removes trailing actions without effect, so that **the last operation consumes the packet**.
//! An action that is not built yet becomes a drop with its own reason. Nesting is bounded.

use crate::recirculation::{Recirculation, Then};
use crate::rewrite::Rewrite;
use conntrack::{Action as Track, Helper, Nat, Side};
use dpif::{Ct, CtNat, DpAction, DropReason, HashAlg, Masked, SetField, Userspace};
use flow::Mac;
use std::sync::Arc;
use tunnel::{FastPut, Template};
use units::Ufid;

/// Maximum nesting depth of lists.
const MAX_NESTING: usize = 16;

/// Operations that are moved into the branches of a comparison of lengths at most.
const MAX_MOVED: usize = 16;

/// A compiled list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Operations; the last one consumes the packet.
    pub ops: Vec<Op>,
    /// Summary of the program, stored with the megaflow, so that most packets are sent without reading the
    /// operations.
    pub summary: Summary,
    /// The first operation after the meters and the tracking, if it is a rewrite.
    pub(crate) rewrite: Option<Arc<Rewrite>>,
    /// The header of a [`Summary::PushAndSend`] in the form that is fast to add. It is stored with the megaflow: with many remote ends,
    /// reading it from the operations would cost each packet another cache miss.
    header: Option<FastPut>,
    /// Index of the operation that tracks packets, if only meters come before it, or a rewrite in a [`Summary::Recirculate`];
    /// otherwise the number of operations.
    track: usize,
    /// Programs with the same number have equal operations; 0: not known.
    pub(crate) number: u64,
    /// The megaflow whose program it is; 0: none.
    pub ufid: Ufid,
}

/// The program begins with meters.
pub const METERS: u8 = 1;
/// The program begins with a rewrite, or has one after its meters.
pub const REWRITES: u8 = 2;
/// The program sends copies, rewrites more than once, or selects a QoS queue.
pub const COPIES: u8 = 4;
/// It tracks packets, behind its meters and before anything else.
pub const TRACKS: u8 = 8;
/// It samples packets before anything else.
pub const SAMPLES: u8 = 16;

/// Summary of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Summary {
    /// Samples packets, passes meters, then tracks packets, then rewrites them and sends copies in any order, and last sends by a
    /// port.
    Send {
        /// The port.
        port: u32,
        /// What else it does: some of [`SAMPLES`], [`METERS`], [`TRACKS`], [`REWRITES`], [`COPIES`].
        does: u8,
    },
    /// Rewrites packets or not, adds a tunnel's header, then sends.
    PushAndSend {
        /// The port to send to.
        port: u32,
        /// The tunnel port.
        tunnel: u32,
    },
    /// Sends by the link of this bond that has the packet's bucket.
    Balance(u32),
    /// Samples, rewrites, hashes or tracks packets or not, then recirculates them.
    Recirculate(Recirculation),
    /// Continues with one of two programs, by the length of the packet.
    ByLength,
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
    /// Consumes the packet if it is last, else works on a copy.
    Output(u32),
    /// As `Output`: by the link of this bond that has the packet's bucket.
    Balance(u32),
    /// As `Output`.
    Userspace(Box<Userspace>),
    /// As `Output`.
    Recirc(u32),
    /// As `Output`.
    Clone(Program),
    /// As `Output`: share of the packets in 1/2^32, and the program for them.
    Sample(u32, Program),
    /// As `Output`: maximum length in bytes for the second program, the program for longer packets, and the second program.
    CheckLen(usize, Program, Program),
    /// Notes how much padding the packet was received with: headers that are pushed may hide its length from a later `CheckLen`.
    NotePadding,
    /// Always last.
    Drop(DropReason),
    /// Replaces some of the following operations for packets that fit it.
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
    /// Drops packets whose header cannot be removed.
    PopNsh,
    Hash {
        symmetric: bool,
        basis: u32,
    },
    /// Always executed: it also has an effect outside the packet.
    Ct(Box<Track>),
    CtClear,
    /// Addresses or ports were changed, so the next `Ct` looks the packet up instead of trusting the connection that an earlier one found.
    ForgetConnection,
    /// Adds a tunnel's header.
    TunnelPush(Box<Push>),
    /// As `Output`: removes a tunnel's header; the inner packet is then received on this port.
    TunnelPop(u32),
    /// May drop some packets. If it is the last action, a drop of the others follows.
    Meter(u32),
    Trunc(u32),
}

/// A tunnel's header to be added.
#[derive(Clone, Debug, PartialEq)]
pub struct Push {
    /// The header.
    pub template: Template,
    /// The tunnel port.
    pub port: u32,
    /// If the packet is recirculated next, as one that this port has received.
    pub enters: Option<u32>,
}

impl Op {
    /// Returns whether the operation moves the transport header to a place where a later stage cannot find it
    /// to finish a checksum or to segment the packet.
    pub(crate) fn hides_transport(&self) -> bool {
        matches!(self, Op::PushMpls { .. } | Op::AddMpls { .. } | Op::PopEth | Op::PushNsh(_))
    }

    /// Returns whether the length of the network packet may not be found any more.
    fn hides_length(&self) -> bool {
        self.hides_transport()
            || matches!(self, Op::PushVlan { .. } | Op::PopMpls { .. } | Op::PushEth { .. } | Op::PopNsh)
    }

    /// Returns whether the operation can as well be executed after a comparison of lengths that follows it.
    fn keeps_length(&self) -> bool {
        matches!(self, Op::Set(_)) && self.is_edit()
            || matches!(self, Op::Output(_) | Op::Meter(_) | Op::CtClear | Op::ForgetConnection)
    }

    /// The programs that are a part of the operation.
    fn branches(&self) -> impl Iterator<Item = &Program> {
        let [first, second] = match self {
            Op::Clone(inner) | Op::Sample(_, inner) => [Some(inner), None],
            Op::CheckLen(_, longer, rest) => [Some(longer), Some(rest)],
            _ => [None; 2],
        };
        first.into_iter().chain(second)
    }

    /// Returns whether the operation only changes the bytes of the packet, and drops the packet at most if
    /// the change is impossible.
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

    /// Returns whether the packet may belong to another connection afterwards.
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
            // The outer packet belongs to another connection than the inner one. In another bridge it has no connection anyway,
            // because a packet that enters a bridge gets new metadata.
            Op::TunnelPush(push) => push.enters.is_none(),
            _ => false,
        }
    }

    /// Returns whether the packet may be tracked by this operation, within it or after it.
    fn may_lead_to_ct(&self) -> bool {
        matches!(self, Op::Ct(_) | Op::Recirc(_) | Op::Clone(_) | Op::Sample(..) | Op::CheckLen(..))
    }

    /// Returns whether the mark or the connection tracking metadata of the packet matter to this operation, or to the control half or a
    /// later pass that it leads to. What is traced of a dropped packet contains them, too.
    fn reads_metadata(&self) -> bool {
        match self {
            Op::Set(_)
            | Op::Rewrite(_)
            | Op::TunnelPush(_)
            | Op::Output(_)
            | Op::Balance(_)
            | Op::CtClear => false,
            Op::Hash { .. } | Op::Meter(_) | Op::Trunc(_) | Op::NotePadding => false,
            Op::Clone(inner) | Op::Sample(_, inner) => inner.ops.iter().any(Op::reads_metadata),
            op => !op.is_edit(),
        }
    }

    /// Returns whether the packet (or a copy of it) ends here.
    fn consumes(&self) -> bool {
        matches!(
            self,
            Op::Output(_)
                | Op::Balance(_)
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

impl Program {
    /// Makes a program of operations of which the last one consumes the packet.
    pub(crate) fn new(ops: Vec<Op>) -> Program {
        let summary = match ops[..] {
            [Op::Drop(reason)] => Summary::Drop(reason),
            [Op::Balance(bond)] => Summary::Balance(bond),
            [Op::CheckLen(..)] => Summary::ByLength,
            _ => sends(&ops).or_else(|| recirculates(&ops)).or_else(|| pushes(&ops)).unwrap_or(Summary::Long),
        };
        let rewrite = match ops.get(before_edits(&ops)) {
            Some(Op::Rewrite(rewrite)) => Some(Arc::clone(rewrite)),
            _ => None,
        };
        let header = match (summary, &ops[..]) {
            (Summary::PushAndSend { .. }, [.., Op::TunnelPush(push), _]) => push.template.fast_put().cloned(),
            _ => None,
        };
        let before = match summary {
            Summary::Recirculate(recirculation) if recirculation.tracks() => ops.len() - 2,
            _ => samples(&ops) + meters(&ops).count(),
        };
        let track = if matches!(ops.get(before), Some(Op::Ct(_))) { before } else { ops.len() };
        Program { ops, summary, rewrite, header, track, number: 0, ufid: Ufid::default() }
    }

    /// The number of its operations: programs with the same number have equal operations; 0: not known.
    #[inline(always)]
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Compiles a list for packets of any layout.
    pub fn compile(actions: &[DpAction]) -> Program {
        compile(actions, 0)
    }

    /// Returns whether the program hashes packets, so that keys should be read to the depth that the hash
    /// needs.
    pub(crate) fn hashes(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, Op::Hash { .. } | Op::Balance(_)))
    }

    /// What it samples first.
    #[inline]
    pub(crate) fn samples(&self) -> &[Op] {
        &self.ops[..samples(&self.ops)]
    }

    /// The operations behind what it samples first.
    pub(crate) fn behind_samples(&self) -> &[Op] {
        &self.ops[samples(&self.ops)..]
    }

    /// The meters at the beginning of the program.
    #[inline]
    pub(crate) fn meters(&self) -> impl Iterator<Item = u32> {
        meters(&self.ops)
    }

    /// How its packets are tracked, behind its meters, or behind the rewrite of a [`Summary::Recirculate`].
    #[inline]
    pub(crate) fn track(&self) -> Option<&Track> {
        match self.ops.get(self.track) {
            Some(Op::Ct(track)) => Some(track),
            _ => None,
        }
    }

    /// The operations behind its meters and what tracks.
    pub(crate) fn edits(&self) -> &[Op] {
        &self.ops[before_edits(&self.ops)..]
    }

    /// The rewrite that comes first, or behind its meters and what tracks.
    #[inline(always)]
    pub(crate) fn rewrite(&self) -> Option<&Rewrite> {
        self.rewrite.as_deref()
    }

    /// Returns whether both programs have the same first [rewrite](Self::rewrite), or both none.
    #[inline(always)]
    pub(crate) fn has_rewrite_of(&self, other: &Program) -> bool {
        self.rewrite.as_ref().map(Arc::as_ptr) == other.rewrite.as_ref().map(Arc::as_ptr)
    }

    /// The tunnel header, if the program does nothing but [rewrite](Self::rewrite) or not, add the header and send.
    #[inline(always)]
    pub(crate) fn push(&self) -> Option<(&Push, u32)> {
        match (self.summary, &self.ops[..]) {
            (Summary::PushAndSend { port, .. }, [.., Op::TunnelPush(push), _]) => Some((push, port)),
            _ => None,
        }
    }

    /// The header of [`push`](Self::push) in the form that is fast to add.
    #[inline(always)]
    pub(crate) fn header(&self) -> Option<&FastPut> {
        self.header.as_ref()
    }

    /// Compiles into the memory of a program that is not needed any more.
    pub(crate) fn compile_in(mut memory: Vec<Op>, actions: &[DpAction]) -> Program {
        memory.clear();
        compile_nested(memory, actions, 0)
    }
}

/// How many operations at the beginning of a list sample packets that continue.
fn samples(ops: &[Op]) -> usize {
    let sampling = ops.iter().take_while(|op| matches!(op, Op::Sample(..))).count();
    sampling.min(ops.len().saturating_sub(1))
}

/// The meters at the beginning of a list, or behind what samples.
fn meters(ops: &[Op]) -> impl Iterator<Item = u32> {
    ops[samples(ops)..].iter().map_while(|op| match op {
        &Op::Meter(id) => Some(id),
        _ => None,
    })
}

/// How many operations a list begins with that sample packets, are meters, or track packets behind them.
pub(crate) fn before_edits(ops: &[Op]) -> usize {
    let before = samples(ops) + meters(ops).count();
    before + usize::from(matches!(ops.get(before), Some(Op::Ct(_))))
}

/// What a list amounts to that does no more than [sending](Summary::Send).
fn sends(ops: &[Op]) -> Option<Summary> {
    let (samples, meters) = (samples(ops), meters(ops).count());
    let mut rest = &ops[samples + meters..];
    let mut does = if samples != 0 { SAMPLES } else { 0 } | if meters != 0 { METERS } else { 0 };
    if let [Op::Ct(_), after @ ..] = rest {
        rest = after;
        does |= TRACKS;
    }
    if let [Op::Rewrite(rewrite), after @ ..] = rest {
        rest = after.get(usize::from(rewrite.ops)..)?;
        does |= REWRITES;
    }
    loop {
        rest = match rest {
            &[Op::Output(port)] => return Some(Summary::Send { port, does }),
            [Op::Output(_) | Op::Set(SetField::Priority(Masked { mask: u32::MAX, .. })), after @ ..] => after,
            [Op::Rewrite(rewrite), after @ ..] => after.get(usize::from(rewrite.ops)..)?,
            _ => return None,
        };
        does |= COPIES;
    }
}

/// What a list amounts to that does no more before it [recirculates](Summary::Recirculate).
fn recirculates(ops: &[Op]) -> Option<Summary> {
    let samples = samples(ops);
    let (rest, edits) = match &ops[samples..] {
        [Op::Rewrite(rewrite), after @ ..] => (after.get(usize::from(rewrite.ops)..)?, true),
        ops => (ops, false),
    };
    let (rest, forgets) = match rest {
        [Op::ForgetConnection, after @ ..] => (after, true),
        rest => (rest, false),
    };
    let (then, id) = match *rest {
        [Op::Recirc(id)] => (Then::Nothing, id),
        [Op::Hash { symmetric, basis }, Op::Recirc(id)] => (Then::Hash { symmetric, basis }, id),
        [Op::Ct(_), Op::Recirc(id)] => (Then::Track, id),
        _ => return None,
    };
    Some(Summary::Recirculate(Recirculation { id, samples: samples != 0, edits, forgets, then }))
}

/// What a list amounts to that [adds a tunnel's header and sends](Summary::PushAndSend).
fn pushes(ops: &[Op]) -> Option<Summary> {
    let rest = match ops {
        [Op::Rewrite(rewrite), after @ ..] => after.get(usize::from(rewrite.ops)..)?,
        ops => ops,
    };
    match rest {
        [Op::TunnelPush(push), Op::Output(port)] => {
            Some(Summary::PushAndSend { port: *port, tunnel: push.port })
        }
        _ => None,
    }
}

fn compile(actions: &[DpAction], nesting: usize) -> Program {
    // There is a program for each megaflow, so allocate no more than it needs, which is at least one
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
        let mut op = simple(action, nesting);
        if let (DpAction::TunnelPush(of), Op::TunnelPush(push), Some(DpAction::Recirc(_))) =
            (action, &mut op, actions.get(i + 1))
        {
            push.enters = Some(of.out_port.0);
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
    // A clone in last place has no effect on later operations, so its actions are inlined.
    while let Some(Op::Clone(_)) = ops.last() {
        if let Some(Op::Clone(inner)) = ops.pop() {
            ops.extend(inner.ops);
        }
    }
    remove_unread(&mut ops);
    compare_first(&mut ops);
    if nesting == 0 && needs_padding(&ops, false) {
        ops.insert(0, Op::NotePadding);
    }
    Program::new(ops)
}

/// Returns whether a length is compared after an operation that hides it. `hidden`: one has been executed before.
fn needs_padding(ops: &[Op], hidden: bool) -> bool {
    let mut hidden = hidden;
    ops.iter().any(|op| {
        let needs = hidden && matches!(op, Op::CheckLen(..))
            || op.branches().any(|branch| needs_padding(&branch.ops, hidden));
        hidden |= op.hides_length();
        needs
    })
}

/// Moves operations in front of a final comparison of lengths into both of its branches, so that each packet goes through one
/// program without branches.
fn compare_first(ops: &mut Vec<Op>) {
    let Some((Op::CheckLen(_, longer, rest), before)) = ops.split_last() else { return };
    let compares = |program: &Program| program.ops.iter().any(|op| matches!(op, Op::CheckLen(..)));
    let may_move = before.len() <= MAX_MOVED && before.iter().all(Op::keeps_length);
    if !may_move || compares(longer) || compares(rest) {
        return;
    }
    let Some(Op::CheckLen(max, longer, rest)) = ops.pop() else { return };
    let side = |branch: Program| {
        let mut all: Vec<Op> = ops.iter().cloned().chain(branch.ops).collect();
        let tracks = all.iter().rposition(Op::may_lead_to_ct).unwrap_or(0);
        let mut at = 0;
        all.retain(|op| {
            at += 1;
            at <= tracks || !matches!(op, Op::ForgetConnection)
        });
        remove_unread(&mut all);
        Program::new(all)
    };
    *ops = vec![Op::CheckLen(max, side(longer), side(rest))];
}

/// Removes every `ct_clear` and every packet mark that no later operation depends on. Packets that are only rewritten and sent then stay
/// in their batch, because nothing needs this metadata.
fn remove_unread(ops: &mut Vec<Op>) {
    let needed = ops.iter().rposition(Op::reads_metadata).map_or(0, |last| last + 1);
    let mut at = 0;
    ops.retain(|op| {
        at += 1;
        at <= needed || !matches!(op, Op::CtClear | Op::Set(SetField::Mark(_)))
    });
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
        DpAction::TunnelPush(push) => match Template::new(&push.header.0, push.tunnel_type) {
            Some(template) => {
                Op::TunnelPush(Box::new(Push { template, port: push.tunnel_port.0, enters: None }))
            }
            None => Op::Drop(DropReason::TunnelPushError),
        },
        DpAction::TunnelPop(port) => Op::TunnelPop(port.0),
        DpAction::LbOutput(out) => Op::Balance(out.bond_id),
        // The caller compiles branches, which need what follows them.
    }
}

fn track(ct: &Ct) -> Op {
    let &Ct { zone, commit, force, mark, label, .. } = ct;
    let timeout = ct.timeout.as_ref().and_then(|t| u16::try_from(t.id).ok()).unwrap_or(0);
    let nat = ct.nat.as_ref().map(translation);
    let helper = ct.helper.as_deref().and_then(Helper::of_name);
    Op::Ct(Box::new(Track { zone, commit: commit || force, force, mark, label, nat, timeout, helper }))
}

fn translation(nat: &CtNat) -> Nat {
    let side = nat.snat.map(|source| if source { Side::Source } else { Side::Destination });
    let &CtNat { addresses, ports, persistent, random, .. } = nat;
    Nat { side, addresses, ports, persistent, random }
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
        assert_eq!(
            (&program.ops[..], program.summary),
            (&[Op::Output(1)][..], Summary::Send { port: 1, does: 0 })
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
        let side = |ops: &[Op]| Program::new(ops.to_vec());
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
        let side = |ops: &[Op]| Program::new(ops.to_vec());
        let sides = [1, 2].map(|port| side(&[Op::Meter(3), Op::Output(port)]));
        let [longer, rest] = sides.clone();
        assert_eq!(program.ops, [Op::CheckLen(100, longer, rest)]);
        assert_eq!(program.summary, Summary::ByLength);
        assert!(sides.iter().all(|side| side.summary != Summary::Long));
        // A tag that is pushed before changes the length, and hides that of the network packet.
        let push = DpAction::PushVlan { tpid: 0x8100, tci: 0x1001 };
        let tagged = Program::compile(&[push.clone(), check(&[OUT], &[TWO])]);
        assert!(matches!(tagged.ops[..], [Op::NotePadding, Op::PushVlan { .. }, Op::CheckLen(..)]));
        // One that is pushed in a branch does not matter to the comparison.
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
