//! The parts of a walk's state. Fields that are saved and restored together are in one structure.

use crate::commit_outer::Pending;
use crate::frozen::FrozenStep;
use bridge::BundleId;
use dpif::HashAlg;
use flow::Flow;
use ofproto::Rule;
use openflow::action::{Action, Controller};
use std::sync::Arc;

/// The packet after the datapath actions emitted so far; see `commit`. After actions that the datapath executes on a copy of the
/// packet, the walk restores this structure.
#[derive(Clone)]
pub(crate) struct Committed {
    /// The fields of the packet.
    pub(crate) base: Flow,
    /// The change of the outermost header that the next commit must emit.
    pub(crate) pending: Pending,
    /// Number of outer headers that commits have added or removed.
    pub(crate) headers_changed: u32,
}

/// The cost of a translation so far; see `limits`.
#[derive(Default)]
pub(crate) struct Effort {
    /// Nesting depth of the resubmits and groups that are in progress.
    pub(crate) depth: u32,
    /// Number of look-ups.
    pub(crate) resubmits: u32,
    /// Work so far, in actions.
    pub(crate) work: usize,
}

/// The table and rule whose actions are being executed. Packet-ins contain the table and the cookie.
#[derive(Clone, Copy)]
pub(crate) struct CurrentRule<'a> {
    pub(crate) table_id: u8,
    pub(crate) rule: Option<&'a Arc<Rule>>,
    pub(crate) rule_cookie: u64,
}

/// State that actions write for later actions. It is empty at the start of a clone, and when a packet enters another bridge.
#[derive(Default)]
pub(crate) struct PipelineState {
    /// The stack of `push` and `pop`.
    pub(crate) stack: Vec<Vec<u8>>,
    /// The actions of `write_actions`, in the order in which they were written.
    pub(crate) action_set: Vec<Action>,
}

impl PipelineState {
    pub(crate) fn clear(&mut self) {
        self.stack.clear();
        self.action_set.clear();
    }
}

/// The stage that the walk has reached.
#[derive(Default)]
pub(crate) struct Progress {
    /// The action set is being executed.
    pub(crate) in_action_set: bool,
    /// The tables have been walked. If a later step fails, bits that no megaflow can match are still removed from the mask.
    pub(crate) tables_done: bool,
    /// The remaining actions are not executed (`exit`, or the walk is being frozen).
    pub(crate) exit: bool,
}

/// The part of a walk that is done after recirculation; see `freeze`.
#[derive(Default)]
pub(crate) struct Freezing {
    /// The walk is being frozen: its steps are recorded instead of executed.
    pub(crate) active: bool,
    pub(crate) steps: Vec<FrozenStep>,
    /// `controller(pause)` has frozen the walk.
    pub(crate) pause: Option<Box<Controller>>,
    /// Recirculate with this hash.
    pub(crate) hash: Option<(HashAlg, u32)>,
}

/// State of the packet that its fields do not show.
#[derive(Clone, Copy)]
pub(crate) struct PacketState {
    /// The last MPLS label was popped, so the fields of the payload are unknown until the packet is recirculated.
    pub(crate) was_mpls: bool,
    /// The packet was sent through connection tracking.
    pub(crate) conntracked: bool,
}

/// The received packet. While the walk translates an encapsulated packet, the bytes of that packet are not known, so
/// this is empty and no side effects are returned.
#[derive(Clone, Copy, Default)]
pub(crate) struct ReceivedPacket<'a> {
    /// The packet's bytes, if they are known.
    pub(crate) packet: Option<&'a [u8]>,
    /// Whether the walk returns side effects of the packet.
    pub(crate) returns_side_effects: bool,
}

/// Output to a bond whose link is selected by a hash of the packet's connection (balance-tcp).
#[derive(Clone, Copy, Debug)]
pub(crate) struct BondHash {
    pub(crate) bundle: BundleId,
    pub(crate) basis: u32,
    /// The datapath has the bond's buckets and selects the link without recirculation.
    pub(crate) in_datapath: bool,
}

/// Settings of the next output.
#[derive(Default)]
pub(crate) struct OutputMode {
    /// If set, the next output goes to a bond whose link is selected by a hash.
    pub(crate) bond_hash: Option<BondHash>,
    /// Maximum length in bytes of the mirror's copy that is being sent; 0: unlimited, or the packet is not a copy.
    pub(crate) snaplen: u16,
}
