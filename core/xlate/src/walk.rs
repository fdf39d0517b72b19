//! The walk through the pipeline: its input and its state.
//!
//! A walk has two flows. `flow` is the packet as the tables see it and as actions change it; `committed.base` is the packet
//! after the datapath actions emitted so far (`commit` changes it into `flow`). `mask` collects every consulted bit
//! of the original packet.
//!
//! **Invariant**: two packets that are equal under the mask take the same walk, so that one megaflow can serve both.

use crate::bridge_id::BridgeId;
use crate::changed::Changed;
use crate::frozen::Recirc;
use crate::outcome::{Held, Output};
use crate::snapshot::{Bridge, Snapshot};
use flow::text::NoNames;
use flow::{FieldId, Flow, Match};
use ofproto::Rule;
use openflow::action::Action;
use std::sync::Arc;

mod state;
pub(crate) use state::{
    ByConnection, Committed, Effort, Freezing, OutputMode, PacketState, PipelineState, Place, Progress,
    Received,
};

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

/// The state of a translation.
pub(crate) struct Walk<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) input: &'a Input<'a>,
    pub(crate) bridge: &'a Bridge,
    pub(crate) flow: Flow,
    pub(crate) mask: Flow,
    pub(crate) changed: Changed,
    pub(crate) committed: Committed,
    pub(crate) out: &'a mut Output,
    pub(crate) effort: Effort,
    pub(crate) place: Place<'a>,
    /// The parts of the conjunction that the last look-up matched, for the trace.
    pub(crate) conjunction: Vec<&'a Arc<Rule>>,
    pub(crate) pipeline: PipelineState,
    pub(crate) action_set_has_group: bool,
    pub(crate) progress: Progress,
    pub(crate) freezing: Freezing,
    pub(crate) packet_state: PacketState,
    /// The mirrors that have copied the packet in its present form.
    pub(crate) mirrored: u32,
    pub(crate) received: Received<'a>,
    pub(crate) output_mode: OutputMode,
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
        self.packet_state.conntracked = false;
        self.flow.clear_conntrack();
    }
}
