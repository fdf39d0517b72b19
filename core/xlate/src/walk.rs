//! The walk through the pipeline: its state, and how it begins and ends.
//!
//! A walk carries two flows. `flow` is the packet as the tables see it and as actions change it; `base` is the packet
//! as the datapath actions emitted so far leave it (`commit` brings the one to the other). `mask` collects every bit
//! of the original packet that had a say.
//!
//! **Invariant**: two packets that agree under the mask take the same walk, so that one megaflow serves both.

use crate::BridgeId;
use crate::bonds::ByConnection;
use crate::changed::Changed;
use crate::commit::commit;
use crate::encap::Pending;
use crate::frozen::{Frozen, FrozenMetadata, Recirc, Step};
use crate::limits::FREEZE_WORK;
use crate::outcome::{Failure, Held, Output};
use crate::say::{open_trace, report};
use crate::snapshot::{Bridge, Snapshot};
use crate::trace::{Kind, Trace};
use dpif::{DpAction, DropReason, HashAlg, SlowReason};
use flow::flow::frag;
use flow::text::NoNames;
use flow::tlv::Layout;
use flow::{FieldId, Flow, Match, Tlv};
use ofproto::Rule;
use openflow::action::{Action, Controller};
use openflow::meter::METER_SLOWPATH;
use std::sync::Arc;
use units::OfPort;

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

/// How many actions a megaflow may have: more than 64 kB in the form in which a kernel takes them, at 8 bytes for the
/// least. Packets with more are translated one by one.
const ACTIONS_MAX: usize = 65_535 / 8;

fn count(actions: &[DpAction]) -> usize {
    let inside = |a: &DpAction| match a {
        DpAction::Clone(list) => count(list),
        DpAction::CheckPktLen(c) => count(&c.greater) + count(&c.less_equal),
        _ => 0,
    };
    actions.len() + actions.iter().map(inside).sum::<usize>()
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

/// Translates a packet.
pub fn translate(snapshot: &Snapshot, input: &Input<'_>) -> Box<Output> {
    let initial = Flow { actset_output: OfPort::UNSET.0, ..*input.flow };
    let mut out = Output::new(initial, input.trace.map(|_| Trace::default()));
    match snapshot.bridge(input.bridge) {
        Some(bridge) => Walk::new(snapshot, input, bridge, &mut out).whole(),
        None => out.error = Some(Failure::BridgeNotFound),
    }
    out
}

/// The flow can take any field of tunnel options that the bridge knows. Those of a packet that comes back are in the
/// frozen state.
fn give_layout(flow: &mut Flow, bridge: &Bridge) {
    if flow.recirc_id != 0 && flow.has_raw_options() {
        flow.tlv = Tlv::NONE;
    }
    if flow.tlv.present == 0 {
        flow.layout = *bridge.tables.tlv().layout();
    }
}

/// What is always matched.
fn first_mask(flow: &Flow) -> Flow {
    let mut mask = Flow {
        packet_type: u32::MAX,
        in_port: u32::MAX,
        dl_type: u16::MAX,
        recirc_id: u32::MAX,
        nw_frag: if flow.is_ip() { frag::ANY | frag::LATER } else { 0 },
        ..Flow::ZERO
    };
    crate::tunnel::first_mask(flow, &mut mask);
    mask
}

fn unroll_text(table: u8, cookie: u64) -> String {
    format!("unroll_xlate(table={table}, cookie={})", crate::actions::hex(cookie))
}

impl<'a> Walk<'a> {
    fn new(
        snapshot: &'a Snapshot,
        input: &'a Input<'a>,
        bridge: &'a Bridge,
        out: &'a mut Output,
    ) -> Walk<'a> {
        give_layout(&mut out.initial, bridge);
        let initial = &out.initial;
        Walk {
            snapshot,
            input,
            bridge,
            flow: *initial,
            // Tunnel metadata does not stay with a packet: an output has to set it again. Options are as the datapath has them.
            base: Flow { tunnel: Default::default(), tlv: Tlv::NONE, layout: Layout::EMPTY, ..*initial },
            mask: Flow { layout: initial.layout, ..first_mask(initial) },
            changed: Changed::unknown(),
            depth: 0,
            resubmits: 0,
            work: 0,
            table_id: 0,
            rule: None,
            rule_cookie: u64::MAX,
            conjunction: Vec::new(),
            stack: Vec::new(),
            action_set: Vec::new(),
            action_set_has_group: false,
            in_action_set: false,
            tables_done: false,
            exit: false,
            freezing: false,
            frozen_steps: Vec::new(),
            pause: None,
            recirc_hash: None,
            by_connection: None,
            pending: Pending::Nothing,
            rewrapped: 0,
            was_mpls: false,
            conntracked: initial.ct_state & flow::flow::ct_state::TRACKED != 0,
            mirrored: 0,
            side_effects: input.side_effects,
            packet: input.packet,
            snaplen: 0,
            out,
        }
    }

    /// From the packet's arrival to what is left when nothing more happens to it.
    fn whole(&mut self) {
        self.out.slow_meter = self.meter(METER_SLOWPATH);
        self.enter_bridge();
        self.run();
        self.finish();
    }

    fn run(&mut self) {
        if self.flow.recirc_id != 0 {
            return self.thaw();
        }
        if self.flow.has_raw_options() {
            self.error(format_args!("Invalid Geneve tunnel metadata"));
            self.out.error = Some(Failure::InvalidTunnelMetadata);
            return;
        }
        self.take_from_layer_3_port();
        match self.input.start {
            Start::Actions(actions) => {
                if self.may_begin() {
                    self.mirror_arrival();
                    self.actions(actions, true, false);
                    self.finish_actions();
                }
            }
            Start::Tables => self.first_table(),
            Start::Held(held) => self.send_held(held),
        }
    }

    /// After the actions of a packet: the action set, or the freezing.
    pub(crate) fn finish_actions(&mut self) {
        if self.out.error.is_some() {
            return;
        }
        self.tables_done = true;
        if !self.freezing {
            self.run_action_set();
        }
        if self.freezing {
            self.finish_freezing();
        }
    }

    fn thaw(&mut self) {
        let id = self.flow.recirc_id;
        let Some(state) = self.input.recirc.hold(id) else {
            self.error(format_args!("Recirculation context not found for ID {id:x}"));
            self.out.error = Some(Failure::NoRecirculationContext);
            return;
        };
        self.out.recircs.push(id);
        let back = self.nest(Kind::Thaw, || "thaw".into());
        if matches!(self.input.start, Start::Actions(_)) {
            self.error(format_args!("Recirculation conflict (actions)!"));
            self.out.error = Some(Failure::RecirculationConflict);
            return;
        }
        if state.bridge != self.bridge.id {
            let Some(bridge) = self.snapshot.bridge(state.bridge) else {
                self.error(format_args!("Frozen bridge no longer exists."));
                self.out.error = Some(Failure::BridgeNotFound);
                return;
            };
            self.bridge = bridge;
        }
        self.restore(&state);
        self.unnest(back);
        self.take_from_layer_3_port();
        if state.steps.is_empty() {
            self.first_table();
        } else if self.may_begin() {
            self.mirror_arrival();
            self.steps(&state.steps);
            self.finish_actions();
        }
    }

    fn restore(&mut self, state: &Frozen) {
        self.table_id = state.table_id;
        report!(self, Thaw, "Resuming from table {}", self.table_id);
        self.conntracked = state.conntracked;
        self.mirrored = state.mirrored;
        if !state.conntracked {
            self.clear_conntrack();
        }
        self.flow.layout = *self.bridge.tables.tlv().layout();
        state.metadata.restore(&mut self.flow);
        self.mask.layout = self.flow.layout;
        self.stack.clone_from(&state.stack);
        if !state.action_set.is_empty() {
            self.report_actions(Kind::Thaw, "Restoring action set", &state.action_set);
            self.flow.actset_output = OfPort::UNSET.0;
            self.write_actions(&state.action_set);
        }
        self.report_steps(&state.steps);
    }

    fn report_steps(&mut self, steps: &[Step]) {
        let (Some(trace), Some(text)) = (open_trace(self.out), self.input.trace) else { return };
        if steps.is_empty() {
            return;
        }
        let one = |step: &Step| match step {
            Step::Do(a) => text.actions(self.bridge, std::slice::from_ref(a)),
            Step::Unroll { table, cookie } => unroll_text(*table, *cookie),
            Step::Bond(_) => "bond".to_owned(),
        };
        let list: Vec<String> = steps.iter().map(one).collect();
        trace.report(Kind::Thaw, format!("Restoring actions: {}", list.join(",")));
    }

    /// Frozen actions, each list with the table and cookie that it had.
    fn steps(&mut self, steps: &[Step]) {
        let mut rest = steps;
        while let Some(step) = rest.first() {
            match step {
                Step::Unroll { table, cookie } => {
                    if self.exit {
                        if self.freezing {
                            self.frozen_steps.push(step.clone());
                        }
                    } else {
                        report!(self, Action, "{}", unroll_text(*table, *cookie));
                        (self.table_id, self.rule_cookie) = (*table, *cookie);
                        let cookie = crate::actions::hex(*cookie);
                        report!(self, Thaw, "restored state: table={table}, cookie={cookie}");
                    }
                    rest = &rest[1..];
                }
                Step::Bond(bundle) => {
                    self.output_bucket(*bundle);
                    rest = &rest[1..];
                }
                Step::Do(_) => {
                    let run: Vec<Action> = rest
                        .iter()
                        .map_while(|s| match s {
                            Step::Do(a) => Some(a.clone()),
                            Step::Unroll { .. } | Step::Bond(_) => None,
                        })
                        .collect();
                    rest = &rest[run.len()..];
                    if !self.actions(&run, rest.is_empty(), false) {
                        return;
                    }
                }
            }
        }
    }

    /// Emits what makes the packet as it should be.
    pub(crate) fn commit(&mut self) {
        self.rewrapped += u32::from(self.pending != Pending::Nothing);
        let how = (std::mem::take(&mut self.pending), self.snapshot.capabilities.masked_set);
        self.out.slow |= commit(&self.flow, &mut self.base, &mut self.mask, how, &mut self.out.actions);
    }

    /// What connection tracking said is not valid any more.
    pub(crate) fn clear_conntrack(&mut self) {
        self.conntracked = false;
        self.flow.clear_conntrack();
    }

    /// The packet has to come back before the walk can go on.
    pub(crate) fn freeze(&mut self) {
        self.exit = true;
        self.freezing = true;
    }

    pub(crate) fn cancel_freeze(&mut self) {
        self.freezing = false;
        self.frozen_steps.clear();
        self.pause = None;
        self.recirc_hash = None;
    }

    /// The state of now, for the packet's return.
    pub(crate) fn frozen_state(
        &self,
        steps: Vec<Step>,
        action_set: Vec<Action>,
        userdata: Vec<u8>,
    ) -> Frozen {
        Frozen {
            bridge: self.bridge.id,
            table_id: self.table_id,
            metadata: FrozenMetadata::of(&self.flow),
            stack: self.stack.clone(),
            conntracked: self.conntracked,
            mirrored: self.mirrored,
            steps,
            action_set,
            userdata,
        }
    }

    /// Puts a state aside and returns its id; without one the packet is dropped.
    pub(crate) fn put_aside(&mut self, state: Frozen) -> Option<u32> {
        // Each state has a copy of the stack and of the action set.
        if !self.spend(FREEZE_WORK + state.stack.len() + state.action_set.len() + state.steps.len()) {
            return None;
        }
        let id = self.input.recirc.freeze(state);
        match id {
            Some(id) => self.out.recircs.push(id),
            None => {
                self.error(format_args!("Failed to allocate recirculation id"));
                self.out.error = Some(Failure::NoRecirculationContext);
            }
        }
        id
    }

    pub(crate) fn finish_freezing(&mut self) {
        self.commit();
        let steps = std::mem::take(&mut self.frozen_steps);
        let userdata = self.pause.as_ref().map_or(Vec::new(), |p| p.userdata.clone());
        let state = Frozen { table_id: 0, ..self.frozen_state(steps, self.action_set.clone(), userdata) };
        if let Some(id) = self.put_aside(state) {
            if let Some(c) = self.pause.take() {
                self.send_to_controller(&c, c.reason, id, true);
            } else {
                if let Some((alg, basis)) = self.recirc_hash {
                    self.out.actions.push(DpAction::Hash { alg, basis });
                }
                self.out.actions.push(DpAction::Recirc(id));
            }
        }
        self.cancel_freeze();
    }

    fn finish(&mut self) {
        if count(&self.out.actions) > ACTIONS_MAX {
            self.out.slow |= SlowReason::ACTION;
        }
        self.out.flow = self.flow;
        if self.tables_done || self.out.error.is_none() {
            self.out.restrict(&mut self.mask);
        }
        self.out.mask = self.mask;
        if self.out.error.is_some() {
            self.out.slow = SlowReason::empty();
            self.out.actions.clear();
        }
        if let Some(DpAction::Clone(_)) = self.out.actions.last() {
            // Nothing follows that could see the copy's changes.
            if let Some(DpAction::Clone(list)) = self.out.actions.pop() {
                self.out.actions.extend(list);
            }
        }
        let taken = self.out.slow.intersects(SlowReason::PROTOCOLS);
        if self.out.actions.is_empty() && self.snapshot.capabilities.explicit_drop && !taken {
            let reason = self.out.error.map_or(DropReason::ActionOfPipeline, Failure::drop_reason);
            self.out.actions.push(DpAction::Drop(reason));
        }
    }
}
