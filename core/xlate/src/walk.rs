//! The walk through the pipeline: its input and its state.
//!
//! A walk has two flows. `flow` is the packet as the tables see it and as actions change it; `base` is the packet
//! after the datapath actions emitted so far (`commit` changes it into `flow`). `mask` collects every consulted bit
//! of the original packet.
//!
//! **Invariant**: two packets that are equal under the mask take the same walk, so that one megaflow can serve both.

use crate::bridge_id::BridgeId;
use crate::changed::Changed;
use crate::commit_outer::Pending;
use crate::frozen::{Recirc, Step};
use crate::outcome::{Held, Output};
use crate::snapshot::{Bridge, Snapshot};
use bridge::BundleId;
use dpif::HashAlg;
use flow::text::NoNames;
use flow::{FieldId, Flow, Match};
use ofproto::Rule;
use openflow::action::{Action, Controller};
use std::sync::Arc;

/// Formats the parts of a trace, including names of ports.
pub trait Text {
    /// A list of actions, separated by commas.
    fn actions(&self, bridge: &Bridge, actions: &[Action]) -> String;
    /// A match without its priority.
    fn matching(&self, _bridge: &Bridge, matching: &Match) -> String {
        matching.text(&NoNames)
    }
    /// The value of a field.
    fn field_value(&self, field: FieldId, value: u128) -> String {
        field.format(value, None, &NoNames)
    }
}

/// How to start.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a> {
    /// Look up table 0, or continue a frozen translation.
    Tables,
    /// Execute these actions: a packet-out.
    Actions(&'a [Action]),
    /// Send a packet that was kept for a tunnel.
    Held(&'a Held),
}

/// A packet to be translated.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The bridge.
    pub bridge: BridgeId,
    /// Its fields; `in_port` is an OpenFlow number.
    pub flow: &'a Flow,
    /// The packet itself, if there is one.
    pub packet: Option<&'a [u8]>,
    /// How to start.
    pub start: Start<'a>,
    /// The packet is from a controller.
    pub packet_out: bool,
    /// Return side effects: there is a packet.
    pub side_effects: bool,
    /// The result is not used: a trace without a packet.
    pub pretend: bool,
    /// Storage of frozen states.
    pub recirc: &'a dyn Recirc,
    /// If set, a trace is made, and this formats its parts.
    pub trace: Option<&'a dyn Text>,
}

/// Output to a bond whose link is selected by a hash of the packet's connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByConnection {
    pub(crate) bundle: BundleId,
    pub(crate) basis: u32,
    /// The datapath has the bond's buckets and selects the link without recirculation.
    pub(crate) in_datapath: bool,
}

/// What a translation has cost; see `limits`.
#[derive(Default)]
pub(crate) struct Effort {
    /// Resubmits and groups that are in progress.
    pub(crate) depth: u32,
    pub(crate) resubmits: u32,
    pub(crate) work: usize,
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

/// The state of a translation.
pub(crate) struct Walk<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) input: &'a Input<'a>,
    pub(crate) bridge: &'a Bridge,
    pub(crate) flow: Flow,
    pub(crate) base: Flow,
    pub(crate) mask: Flow,
    pub(crate) changed: Changed,
    pub(crate) out: &'a mut Output,
    pub(crate) effort: Effort,
    pub(crate) table_id: u8,
    pub(crate) rule: Option<&'a Arc<Rule>>,
    pub(crate) rule_cookie: u64,
    /// The parts of the conjunction that the last look-up matched, for the trace.
    pub(crate) conjunction: Vec<&'a Arc<Rule>>,
    pub(crate) stack: Vec<Vec<u8>>,
    pub(crate) action_set: Vec<Action>,
    pub(crate) action_set_has_group: bool,
    pub(crate) in_action_set: bool,
    /// The tables are done: if a later step fails, the mask contains no bits that a megaflow cannot match.
    pub(crate) tables_done: bool,
    pub(crate) exit: bool,
    pub(crate) freezing: Freezing,
    /// How a bond shares the next output.
    pub(crate) by_connection: Option<ByConnection>,
    /// What the next commit must do with the outermost header.
    pub(crate) pending: Pending,
    /// Number of headers added to or removed from the packet.
    pub(crate) rewrapped: u32,
    pub(crate) was_mpls: bool,
    pub(crate) conntracked: bool,
    /// The mirrors that have copied the packet in its present form.
    pub(crate) mirrored: u32,
    /// Whether this part of the walk returns side effects.
    pub(crate) side_effects: bool,
    /// The packet of this part of the walk, if there is one.
    pub(crate) packet: Option<&'a [u8]>,
    /// Maximum length of a mirror's copy that is being sent; 0: unlimited, or not a copy.
    pub(crate) snaplen: u16,
}

impl Walk<'_> {
    /// Reports that these words may have been changed.
    pub(crate) fn doubt_words(&mut self, words: u128) {
        self.changed.doubt(words);
    }

    /// Reports that any word may have been changed.
    pub(crate) fn doubt_all_words(&mut self) {
        self.changed.doubt_all();
    }

    /// The words in which the packet differs from the received one.
    pub(crate) fn changed_words(&mut self) -> u128 {
        self.changed.settle(&self.out.initial, &self.flow)
    }

    /// Clears the connection tracking fields.
    pub(crate) fn clear_conntrack(&mut self) {
        self.conntracked = false;
        self.flow.clear_conntrack();
    }
}
