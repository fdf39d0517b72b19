//! Programs: the actions of a megaflow, compiled for execution (see the file `compile`). **The last operation consumes the packet.**

use crate::recirculation::{Recirculation, Then};
use crate::rewrite::Rewrite;
use conntrack::Action as Track;
use dpif::{DropReason, Masked, SetField, Userspace};
use flow::Mac;
use std::sync::Arc;
use tunnel::{FastPut, Template};
use units::Ufid;

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
