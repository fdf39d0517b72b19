//! The parts of a walk's state. Fields that are saved and restored together are in one part.

use crate::commit_outer::Pending;
use crate::frozen::Step;
use bridge::BundleId;
use dpif::HashAlg;
use flow::Flow;
use ofproto::Rule;
use openflow::action::{Action, Controller};
use std::sync::Arc;

/// The packet after the datapath actions emitted so far; see `commit`. A part of the walk that is executed on a copy of
/// the packet does not change it.
#[derive(Clone)]
pub(crate) struct Committed {
    /// Its fields.
    pub(crate) base: Flow,
    /// What the next commit must do with the outermost header.
    pub(crate) pending: Pending,
    /// Number of headers added to or removed from the packet.
    pub(crate) rewrapped: u32,
}

/// What a translation has cost; see `limits`.
#[derive(Default)]
pub(crate) struct Effort {
    /// Resubmits and groups that are in progress.
    pub(crate) depth: u32,
    pub(crate) resubmits: u32,
    pub(crate) work: usize,
}

/// The table and rule whose actions are executed. Packet-ins contain them.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) table_id: u8,
    pub(crate) rule: Option<&'a Arc<Rule>>,
    pub(crate) rule_cookie: u64,
}

/// What actions have written for later ones. A clone, and a packet in another bridge, begin with nothing.
#[derive(Default)]
pub(crate) struct PipelineState {
    /// The stack of `push` and `pop`.
    pub(crate) stack: Vec<Vec<u8>>,
    pub(crate) action_set: Vec<Action>,
}

impl PipelineState {
    pub(crate) fn clear(&mut self) {
        self.stack.clear();
        self.action_set.clear();
    }
}

/// How far the walk is.
#[derive(Default)]
pub(crate) struct Progress {
    /// The action set is being executed.
    pub(crate) in_action_set: bool,
    /// The tables are done: if a later step fails, the mask contains no bits that a megaflow cannot match.
    pub(crate) tables_done: bool,
    /// The actions that follow are not executed.
    pub(crate) exit: bool,
}

/// The part of a walk that is done after recirculation; see `freeze`.
#[derive(Default)]
pub(crate) struct Freezing {
    /// The walk is being frozen: steps are recorded instead of done.
    pub(crate) active: bool,
    pub(crate) steps: Vec<Step>,
    /// `controller(pause)` has frozen the walk.
    pub(crate) pause: Option<Box<Controller>>,
    /// Recirculate with this hash.
    pub(crate) hash: Option<(HashAlg, u32)>,
}

/// What has happened to the packet that its fields do not show.
#[derive(Clone, Copy)]
pub(crate) struct PacketState {
    /// The last label was popped: the payload is not parsed yet.
    pub(crate) was_mpls: bool,
    /// The packet was sent through connection tracking.
    pub(crate) conntracked: bool,
}

/// The packet itself. Below a tunnel's header the walk has another packet, whose bytes are not known, and returns no
/// side effects.
#[derive(Clone, Copy, Default)]
pub(crate) struct Received<'a> {
    /// The packet of this part of the walk, if there is one.
    pub(crate) packet: Option<&'a [u8]>,
    /// Whether this part of the walk returns side effects.
    pub(crate) side_effects: bool,
}

/// Output to a bond whose link is selected by a hash of the packet's connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByConnection {
    pub(crate) bundle: BundleId,
    pub(crate) basis: u32,
    /// The datapath has the bond's buckets and selects the link without recirculation.
    pub(crate) in_datapath: bool,
}

/// How outputs differ from plain ones.
#[derive(Default)]
pub(crate) struct OutputMode {
    /// How a bond shares the next output.
    pub(crate) by_connection: Option<ByConnection>,
    /// Maximum length of a mirror's copy that is being sent; 0: unlimited, or not a copy.
    pub(crate) snaplen: u16,
}
