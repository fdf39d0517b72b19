//! A walk is one packet's translation through the OpenFlow pipeline; this module has its input and its state.
//!
//! A walk has two flows. `flow` is the packet as the tables match it and as actions change it; `committed.base` is the packet
//! after the datapath actions emitted so far (`commit` emits the actions that change `base` into `flow`). `mask` collects
//! every consulted bit of the received packet.
//!
//! **Invariant**: two packets that are equal under the mask are translated by the same steps, so one megaflow serves both.

use crate::bridge_id::BridgeId;
use crate::changed_words::ChangedWords;
use crate::frozen::Recirc;
use crate::outcome::{HeldOutput, Output};
use crate::snapshot::{BridgeView, Snapshot};
use flow::text::NoNames;
use flow::{FieldId, Flow, Match};
use ofproto::Rule;
use openflow::action::Action;
use std::sync::Arc;

mod state;
pub(crate) use state::{
    BondHash, Committed, CurrentRule, Effort, Freezing, OutputMode, PacketState, PipelineState, Progress,
    ReceivedPacket,
};

/// Formats actions, matches and field values for a trace.
pub trait TraceFormat {
    /// A list of actions, separated by commas.
    fn actions(&self, bridge: &BridgeView, actions: &[Action]) -> String;
    /// A match without its priority.
    fn matching(&self, _bridge: &BridgeView, matching: &Match) -> String {
        matching.text(&NoNames)
    }
    /// The value of a field.
    fn field_value(&self, field: FieldId, value: u128) -> String {
        field.format(value, None, &NoNames)
    }
}

/// Where a translation starts.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a> {
    /// Look up table 0, or continue a frozen translation.
    Tables,
    /// Execute these actions: a packet-out, or a packet of the switch itself.
    Actions(&'a [Action]),
    /// Send a packet to its tunnel port: the packet was held until the tunnel's next hop was known.
    TunnelOutput(&'a HeldOutput),
}

/// A packet to be translated.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The bridge that received the packet.
    pub bridge: BridgeId,
    /// The packet's fields; `in_port` is an OpenFlow port number.
    pub flow: &'a Flow,
    /// The packet's bytes, if there is a packet.
    pub packet: Option<&'a [u8]>,
    /// Where the translation starts.
    pub start: Start<'a>,
    /// The packet comes from a controller.
    pub packet_out: bool,
    /// The side effects of the packet are returned in [`Output::effects`].
    pub returns_side_effects: bool,
    /// A trace without a packet: no flow is learned, and no packet-in is sent.
    pub dry_run: bool,
    /// Storage of frozen states.
    pub recirc: &'a dyn Recirc,
    /// If set, the translation returns a trace, whose parts this formatter writes.
    pub trace_format: Option<&'a dyn TraceFormat>,
}

/// The state of a translation.
pub(crate) struct Walk<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) input: &'a Input<'a>,
    /// The bridge whose tables the packet is in.
    pub(crate) bridge: &'a BridgeView,
    /// The words in which `out.flow` differs from the received packet.
    pub(crate) changed: ChangedWords,
    pub(crate) committed: Committed,
    pub(crate) out: &'a mut Output,
    pub(crate) effort: Effort,
    pub(crate) current: CurrentRule<'a>,
    /// The flows of the conjunction that the last look-up matched, for the trace.
    pub(crate) conjunction: Vec<&'a Arc<Rule>>,
    pub(crate) pipeline: PipelineState,
    pub(crate) action_set_has_group: bool,
    pub(crate) progress: Progress,
    pub(crate) freezing: Freezing,
    pub(crate) packet_state: PacketState,
    /// The mirrors that have copied the packet since its last change, as a bit set.
    pub(crate) mirrored: u32,
    pub(crate) received: ReceivedPacket<'a>,
    pub(crate) output_mode: OutputMode,
}

impl Walk<'_> {
    /// Must be called when these words of the flow may have changed; see `changed`.
    pub(crate) fn mark_words_changed(&mut self, words: u128) {
        self.changed.mark(words);
    }

    /// Must be called when any word of the flow may have changed.
    pub(crate) fn mark_all_words_changed(&mut self) {
        self.changed.mark_all();
    }

    /// The words in which the flow differs from that of the received packet, as a bit set.
    pub(crate) fn changed_words(&mut self) -> u128 {
        self.changed.update(&self.out.initial, &self.out.flow)
    }

    /// Clears the connection tracking fields.
    pub(crate) fn clear_conntrack(&mut self) {
        self.packet_state.conntracked = false;
        self.out.flow.clear_conntrack();
    }
}
