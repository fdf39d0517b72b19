//! Programs: the actions of a megaflow, compiled for execution (see the file `compile`). **The last operation consumes the packet.**

use crate::recirculation::{Hash, Recirculation};
use crate::rewrite::Rewrite;
use crate::steps::{COPIES, REWRITES, StepKind, Steps};
use conntrack::Action as Track;
use dpif::{DropReason, SetField, Userspace};
use flow::Mac;
use std::sync::Arc;
use tunnel::{FastPush, Template};
use units::Ufid;

/// A compiled list of actions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Operations; the last one consumes the packet.
    pub ops: Vec<Op>,
    /// Summary of the program, stored with the megaflow, so that most packets are sent without reading the
    /// operations.
    pub summary: Summary,
    /// The rewrite that is the first operation after the meters (if the program recirculates) or after the steps
    /// (otherwise). `None` if that operation is not a rewrite.
    pub(crate) rewrite: Option<Arc<Rewrite>>,
    /// The header of a [`Summary::PushAndSend`] in the form that is fast to add. It is stored with the megaflow: with
    /// many tunnel endpoints, reading it from the operations would cost another cache miss per packet.
    header: Option<FastPush>,
    /// The operations that are executed on all packets of a batch before they are sent or recirculated.
    pub(crate) steps: Steps,
    /// Programs with the same number have equal operations; 0: no number was assigned.
    pub(crate) number: u64,
    /// The megaflow to which the program belongs; 0: none.
    pub ufid: Ufid,
}

/// Summary of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Summary {
    /// Passes meters, executes steps, then rewrites packets and sends copies in any order, and finally sends by a
    /// port.
    Send {
        /// The port.
        port: u32,
        /// Flags of the other operations: some of [`METERS`](crate::steps::METERS), [`STEPS`](crate::steps::STEPS),
        /// [`TRACKS`](crate::steps::TRACKS), [`REWRITES`], [`COPIES`].
        op_flags: u8,
    },
    /// Optionally rewrites packets, adds a tunnel header, then sends.
    PushAndSend {
        /// The port to send to.
        port: u32,
        /// The tunnel port.
        tunnel: u32,
    },
    /// Sends by the link of this bond that has the packet's bucket.
    LbOutput(u32),
    /// Optionally passes meters, executes steps and hashes packets; then recirculates them.
    Recirculate(Recirculation),
    /// Continues with one of two programs, by the length of the packet.
    ByLength,
    /// Drops.
    Drop(DropReason),
    /// Anything else.
    #[default]
    Other,
}

/// One operation on all packets of a group. "As `Output`": consumes the packet if this is the last operation; otherwise uses a
/// copy.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Op {
    /// Sends. Consumes the packet if this is the last operation; otherwise sends a copy.
    Output(u32),
    /// As `Output`: port, and QoS queue, which is used instead of the queue in the packet's metadata.
    Enqueue(u32, u32),
    /// As `Output`: sends by the link of this bond that has the packet's bucket.
    LbOutput(u32),
    /// As `Output`.
    Userspace(Box<Userspace>),
    /// As `Output`.
    Recirc(u32),
    /// As `Output`.
    Clone(Box<Program>),
    /// As `Output`: probability in units of 1/2^32, and the program for sampled packets.
    Sample(u32, Box<Program>),
    /// As `Output`: maximum length in bytes; the program for longer packets; the program for all others.
    CheckLen(usize, Box<Program>, Box<Program>),
    /// Records how much padding the packet was received with, because headers that are pushed may hide the padding
    /// from a later `CheckLen`.
    NotePadding,
    /// Always the last operation.
    Drop(DropReason),
    /// Replaces some of the following operations for packets that fit the rewrite; for other packets these operations
    /// are executed.
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
    /// Connection tracking. Always executed, because it also changes state outside the packet.
    Ct(Box<Track>),
    CtClear,
    /// Addresses or ports were changed, so the next `Ct` must look the packet up instead of using the connection that
    /// an earlier `Ct` found.
    ForgetConnection,
    /// Adds a tunnel header.
    TunnelPush(Box<Push>),
    /// As `Output`: removes a tunnel header; the inner packet is then received on this port.
    TunnelPop(u32),
    /// May drop some packets. If the meter is the last action, an `Op::Drop` of the other packets follows.
    Meter(u32),
    Trunc(u32),
}

// Each megaflow has at least one `Op`, so operands that few megaflows need are boxed.
const _: () = assert!(size_of::<Op>() <= 56);

/// A tunnel header to be added.
#[derive(Clone, Debug, PartialEq)]
pub struct Push {
    /// The header.
    pub template: Template,
    /// The tunnel port.
    pub port: u32,
    /// If the packet is recirculated next: the port on which it is then received.
    pub recirculated_on: Option<u32>,
}

impl Op {
    /// Returns whether the operation moves the transport header so that a later stage cannot find it to finish a
    /// checksum or to segment the packet.
    pub(crate) fn hides_transport(&self) -> bool {
        matches!(self, Op::PushMpls { .. } | Op::AddMpls { .. } | Op::PopEth | Op::PushNsh(_))
    }

    /// Returns whether the operation only changes the bytes of the packet. If the change is impossible, it may drop
    /// the packet.
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
    /// Creates a program of these operations. The last one must consume the packet.
    pub(crate) fn new(ops: Vec<Op>) -> Program {
        let none = Steps::default();
        let (summary, steps) = match ops[..] {
            [Op::Drop(reason)] => (Summary::Drop(reason), none),
            [Op::LbOutput(bond)] => (Summary::LbOutput(bond), none),
            [Op::CheckLen(..)] => (Summary::ByLength, none),
            _ => summarize_send(&ops)
                .or_else(|| summarize_recirculate(&ops))
                .or_else(|| Some((summarize_push(&ops)?, none)))
                .unwrap_or((Summary::Other, none)),
        };
        let header = match (summary, &ops[..]) {
            (Summary::PushAndSend { .. }, [.., Op::TunnelPush(push), _]) => {
                push.template.fast_push().cloned()
            }
            _ => None,
        };
        let mut program =
            Program { ops, summary, rewrite: None, header, steps, number: 0, ufid: Ufid::default() };
        program.find_rewrite();
        program
    }

    /// Finds the [rewrite](Self::rewrite) among the operations.
    pub(crate) fn find_rewrite(&mut self) {
        let at = match self.summary {
            Summary::Recirculate(_) => self.steps.meters(),
            _ => self.steps.ops(),
        };
        self.rewrite = match self.ops.get(at) {
            Some(Op::Rewrite(rewrite)) => Some(Arc::clone(rewrite)),
            _ => None,
        };
    }

    /// The number of the program: programs with the same number have equal operations; 0: no number was assigned.
    #[inline(always)]
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns whether the program hashes packets, so that keys should be read to the depth that the hash
    /// needs.
    pub(crate) fn hashes(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, Op::Hash { .. } | Op::LbOutput(_)))
    }

    /// The meters of the program.
    #[inline]
    pub(crate) fn meters(&self) -> impl Iterator<Item = u32> {
        self.ops[..self.steps.ops()].iter().filter_map(|op| match op {
            &Op::Meter(id) => Some(id),
            _ => None,
        })
    }

    /// The rewrite at this index of the operations.
    #[inline(always)]
    pub(crate) fn rewrite_at(&self, at: usize) -> Option<&Rewrite> {
        match (self.summary, self.ops.get(at)) {
            // This avoids reading the operations, which are elsewhere in memory.
            (Summary::Recirculate(_), _) if at == self.steps.meters() && self.rewrite.is_some() => {
                self.rewrite()
            }
            (_, Some(Op::Rewrite(rewrite))) => Some(rewrite),
            _ => None,
        }
    }

    /// The operations after the steps.
    pub(crate) fn after_steps(&self) -> &[Op] {
        &self.ops[self.steps.ops()..]
    }

    /// The rewrite at the beginning or directly after the steps; if the program recirculates packets, the rewrite
    /// directly after the meters.
    #[inline(always)]
    pub(crate) fn rewrite(&self) -> Option<&Rewrite> {
        self.rewrite.as_deref()
    }

    /// The tunnel header and the output port, if the program at most [rewrites](Self::rewrite), adds the header, and
    /// sends.
    #[inline(always)]
    pub(crate) fn push(&self) -> Option<(&Push, u32)> {
        match (self.summary, &self.ops[..]) {
            (Summary::PushAndSend { port, .. }, [.., Op::TunnelPush(push), _]) => Some((push, port)),
            _ => None,
        }
    }

    /// The header of [`push`](Self::push) in the form that is fast to add.
    #[inline(always)]
    pub(crate) fn header(&self) -> Option<&FastPush> {
        self.header.as_ref()
    }
}

/// Returns the summary and the steps of a list that [`Summary::Send`] describes; `None` for other lists.
fn summarize_send(ops: &[Op]) -> Option<(Summary, Steps)> {
    let is_step = |op: &Op| {
        matches!(op, Op::Meter(_) | Op::Sample(..) | Op::Ct(_) | Op::CtClear | Op::ForgetConnection)
    };
    let (first, mut rest) = ops.split_at(ops.iter().rposition(is_step).map_or(0, |last| last + 1));
    let steps = steps_of(first)?;
    let mut op_flags = steps.op_flags();
    if let [Op::Rewrite(rewrite), after @ ..] = rest {
        rest = after.get(usize::from(rewrite.ops)..)?;
        op_flags |= REWRITES;
    }
    loop {
        rest = match rest {
            &[Op::Output(port)] => return Some((Summary::Send { port, op_flags }, steps)),
            &[Op::Enqueue(port, _)] => {
                return Some((Summary::Send { port, op_flags: op_flags | COPIES }, steps));
            }
            [Op::Output(_) | Op::Enqueue(..), after @ ..] => after,
            [Op::Rewrite(rewrite), after @ ..] => after.get(usize::from(rewrite.ops)..)?,
            _ => return None,
        };
        op_flags |= COPIES;
    }
}

/// Returns the summary and the steps of a list that [`Summary::Recirculate`] describes; `None` for other lists.
fn summarize_recirculate(ops: &[Op]) -> Option<(Summary, Steps)> {
    let (id, first, hash) = match ops {
        [first @ .., Op::Hash { symmetric, basis }, Op::Recirc(id)] => {
            (*id, first, Some(Hash { symmetric: *symmetric, basis: *basis }))
        }
        [first @ .., Op::Recirc(id)] => (*id, first, None),
        _ => return None,
    };
    let steps = steps_of(first)?;
    Some((Summary::Recirculate(Recirculation { id, op_flags: steps.op_flags(), hash }), steps))
}

/// Returns these operations as steps and meters. `None` if some operation is neither, or if there are too many.
fn steps_of(ops: &[Op]) -> Option<Steps> {
    let (mut steps, mut rest) = (Steps::default(), ops);
    while let Some((op, after)) = rest.split_first() {
        rest = after;
        match op {
            Op::Meter(_) => steps.add_meter()?,
            Op::Sample(..) => steps.add(StepKind::Sample, 1)?,
            Op::Output(_) | Op::Enqueue(..) => steps.add(StepKind::Copy, 1)?,
            Op::CtClear => steps.add(StepKind::Clear, 1)?,
            Op::ForgetConnection => steps.add(StepKind::Forget, 1)?,
            Op::Ct(_) => steps.add(StepKind::Track, 1)?,
            Op::Rewrite(rewrite) => {
                rest = rest.get(usize::from(rewrite.ops)..)?;
                steps.add(StepKind::Rewrite, 1 + usize::from(rewrite.ops))?;
            }
            _ => return None,
        }
    }
    Some(steps)
}

/// Returns the summary of a list that [`Summary::PushAndSend`] describes; `None` for other lists.
fn summarize_push(ops: &[Op]) -> Option<Summary> {
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
