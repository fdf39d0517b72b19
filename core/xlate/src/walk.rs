//! The walk through the pipeline: what it is given, and its state.
//!
//! A walk carries two flows. `flow` is the packet as the tables see it and as actions change it; `base` is the packet
//! as the datapath actions emitted so far leave it (`commit` brings the one to the other). `mask` collects every bit
//! of the original packet that had a say.
//!
//! **Invariant**: two packets that agree under the mask take the same walk, so that one megaflow serves both.

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

/// How the parts of a trace are written; the names of ports are its business.
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

/// What to do with the packet.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a> {
    /// Look it up in table 0, or go on where it was frozen.
    Tables,
    /// Do these actions: a packet-out.
    Actions(&'a [Action]),
    /// Send a packet that was held by the tunnel that it was for.
    Held(&'a Held),
}

/// A packet to be translated.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// In which bridge it is.
    pub bridge: BridgeId,
    /// Its fields; `in_port` is an OpenFlow number.
    pub flow: &'a Flow,
    /// The packet itself, if there is one.
    pub packet: Option<&'a [u8]>,
    /// What to do.
    pub start: Start<'a>,
    /// It came from a controller.
    pub packet_out: bool,
    /// Effects are wanted: there is a packet.
    pub side_effects: bool,
    /// Nothing comes of it: a trace without a packet.
    pub pretend: bool,
    /// Where frozen states are kept.
    pub recirc: &'a dyn Recirc,
    /// A trace is wanted, written this way.
    pub trace: Option<&'a dyn Text>,
}

/// The datapath hashes the packet's connection, and the bond shares by that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByConnection {
    pub(crate) bundle: BundleId,
    pub(crate) basis: u32,
}

/// The state of a translation. See the module.
pub(crate) struct Walk<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) input: &'a Input<'a>,
    pub(crate) bridge: &'a Bridge,
    pub(crate) flow: Flow,
    pub(crate) base: Flow,
    pub(crate) mask: Flow,
    pub(crate) changed: Changed,
    pub(crate) out: &'a mut Output,
    pub(crate) depth: u32,
    pub(crate) resubmits: u32,
    /// See `spend`.
    pub(crate) work: usize,
    pub(crate) table_id: u8,
    pub(crate) rule: Option<&'a Arc<Rule>>,
    pub(crate) rule_cookie: u64,
    /// The parts of the conjunction that the last look-up met, for the trace.
    pub(crate) conjunction: Vec<&'a Arc<Rule>>,
    pub(crate) stack: Vec<Vec<u8>>,
    pub(crate) action_set: Vec<Action>,
    pub(crate) action_set_has_group: bool,
    pub(crate) in_action_set: bool,
    /// The tables are through: a failure in what follows leaves nothing in the mask that no megaflow matches.
    pub(crate) tables_done: bool,
    pub(crate) exit: bool,
    pub(crate) freezing: bool,
    pub(crate) frozen_steps: Vec<Step>,
    /// `controller(pause)` froze it.
    pub(crate) pause: Option<Box<Controller>>,
    /// Recirculate with a hash.
    pub(crate) recirc_hash: Option<(HashAlg, u32)>,
    /// The next output is shared by a bond, in this way.
    pub(crate) by_connection: Option<ByConnection>,
    /// What the next commit has to do about the outermost header.
    pub(crate) pending: Pending,
    /// How often headers were put around the packet, or taken off.
    pub(crate) rewrapped: u32,
    pub(crate) was_mpls: bool,
    pub(crate) conntracked: bool,
    /// The mirrors that have the packet as it is.
    pub(crate) mirrored: u32,
    /// Effects are wanted of this part of the walk.
    pub(crate) side_effects: bool,
    /// The packet that this part of the walk is about, if there is one.
    pub(crate) packet: Option<&'a [u8]>,
    /// A mirror's copy is being sent, cut to so much; 0: whole, or no copy.
    pub(crate) snaplen: u16,
}

impl Walk<'_> {
    /// These words may have been changed.
    pub(crate) fn doubt_words(&mut self, words: u128) {
        self.changed.doubt(words);
    }

    /// Any word may have been changed.
    pub(crate) fn doubt_all_words(&mut self) {
        self.changed.doubt_all();
    }

    /// The words in which the packet is another than the one that came.
    pub(crate) fn changed_words(&mut self) -> u128 {
        self.changed.settle(&self.out.initial, &self.flow)
    }

    /// What connection tracking said is not valid any more.
    pub(crate) fn clear_conntrack(&mut self) {
        self.conntracked = false;
        self.flow.clear_conntrack();
    }
}
