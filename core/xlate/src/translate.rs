//! Translates a packet: the beginning and the end of a walk.

use crate::changed_words::ChangedWords;
use crate::commit::commit;
use crate::commit_outer::Pending;
use crate::outcome::{Failure, Output, remove_unmatchable_bits};
use crate::snapshot::{BridgeView, Snapshot};
use crate::trace::Trace;
use crate::walk::{
    Committed, CurrentRule, Effort, Freezing, Input, OutputMode, PacketState, PipelineState, Progress,
    ReceivedPacket, Start, Walk,
};
use dpif::{DpAction, DropReason, SlowReason};
use flow::flow::frag;
use flow::tlv::Layout;
use flow::{Flow, Tlv};
use openflow::action::Action;
use openflow::meter::METER_SLOWPATH;

/// Maximum number of actions of a megaflow: an action has at least 8 bytes in Netlink, so more would exceed 64 kB.
/// Packets with more actions take the slow path: each of them is translated.
const ACTIONS_MAX: usize = 65_535 / 8;

/// Number of actions, including those inside `clone`, `sample` and `check_pkt_len`.
fn count_actions(actions: &[DpAction]) -> usize {
    let inside = |a: &DpAction| match a {
        DpAction::Clone(list) => count_actions(list),
        DpAction::Sample(sample) => count_actions(&sample.actions),
        DpAction::CheckPktLen(c) => count_actions(&c.greater) + count_actions(&c.less_equal),
        _ => 0,
    };
    actions.len() + actions.iter().map(inside).sum::<usize>()
}

/// Translates a packet.
pub fn translate(snapshot: &Snapshot, input: &Input<'_>) -> Box<Output> {
    let mut out = Output::of_packet(input.flow);
    out.trace = input.trace_format.map(|_| Trace::default());
    match snapshot.bridge(input.bridge) {
        Some(bridge) => Walk::new(snapshot, input, bridge, &mut out).run_to_end(),
        None => out.error = Some(Failure::BridgeNotFound),
    }
    out
}

/// Gives the flow the bridge's layout of tunnel option fields. Raw options of a recirculated packet are dropped, because
/// its frozen state has them.
fn set_option_layout(flow: &mut Flow, bridge: &BridgeView) {
    if flow.recirc_id != 0 && flow.has_raw_options() {
        flow.tlv = Tlv::NONE;
    }
    if flow.tlv.present == 0 {
        flow.layout = *bridge.tables.tlv().layout();
    }
}

/// Adds the fields that every megaflow of the bridge matches to an empty mask.
fn first_mask(flow: &Flow, bridge: &BridgeView, mask: &mut Flow) {
    (mask.packet_type, mask.in_port, mask.recirc_id) = (u32::MAX, u32::MAX, u32::MAX);
    mask.dl_type = u16::MAX;
    mask.nw_frag = if flow.is_ip() { frag::ANY | frag::LATER } else { 0 };
    mask.layout = flow.layout;
    crate::tunnel::first_mask(flow, mask);
    crate::sampling::netflow_mask(bridge, flow, mask);
}

/// The state before any action is emitted. `base` has no tunnel metadata: the outer header of the received packet was
/// removed, so an output to a tunnel must set it.
fn initially_committed(initial: &Flow) -> Committed {
    let base = Flow { tunnel: Default::default(), tlv: Tlv::NONE, layout: Layout::EMPTY, ..*initial };
    Committed { base, pending: Pending::Nothing, headers_changed: 0 }
}

impl<'a> Walk<'a> {
    fn new(
        snapshot: &'a Snapshot,
        input: &'a Input<'a>,
        bridge: &'a BridgeView,
        out: &'a mut Output,
    ) -> Walk<'a> {
        set_option_layout(&mut out.initial, bridge);
        let Output { initial, flow, mask, .. } = &mut *out;
        flow.clone_from(initial);
        first_mask(initial, bridge, mask);
        let initial = &*initial;
        Walk {
            snapshot,
            input,
            bridge,
            changed: ChangedWords::nothing(),
            committed: initially_committed(initial),
            effort: Effort::default(),
            current: CurrentRule { table_id: 0, rule: None, rule_cookie: u64::MAX },
            conjunction: Vec::new(),
            pipeline: PipelineState::default(),
            action_set_has_group: false,
            progress: Progress::default(),
            freezing: Freezing::default(),
            packet_state: PacketState {
                was_mpls: false,
                conntracked: initial.ct_state & flow::flow::ct_state::TRACKED != 0,
            },
            mirrored: 0,
            received: ReceivedPacket {
                packet: input.packet,
                returns_side_effects: input.returns_side_effects,
            },
            output_mode: OutputMode::default(),
            out,
        }
    }

    /// Translates the packet from its arrival to the end of the pipeline.
    fn run_to_end(&mut self) {
        self.out.slow_meter = self.meter(METER_SLOWPATH);
        self.enter_bridge();
        self.run();
        self.finish();
    }

    fn run(&mut self) {
        if self.out.flow.recirc_id != 0 {
            return self.thaw();
        }
        if self.out.flow.has_raw_options() {
            self.error(format_args!("Invalid Geneve tunnel metadata"));
            self.out.error = Some(Failure::InvalidTunnelMetadata);
            return;
        }
        self.accept_layer_3_packet();
        match self.input.start {
            Start::Actions(actions) => {
                if self.ingress_accepts() {
                    self.begin(actions);
                }
            }
            Start::Tables => self.first_table(),
            Start::TunnelOutput(held) => self.send_held(held),
        }
    }

    /// Executes the first actions of a packet that its ingress port has accepted. If the port is not in forwarding state,
    /// only the learning of these actions has an effect.
    pub(crate) fn begin(&mut self, actions: &[Action]) {
        let run = |walk: &mut Self| {
            walk.mirror_arrival();
            walk.actions(actions, true, false);
        };
        if self.forwards_from_ingress() {
            run(self);
        } else {
            self.only_learn(run);
        }
        self.finish_actions();
    }

    /// Calls [`run_action_set_or_freeze`](Self::run_action_set_or_freeze) at the end of the tables, unless the walk has failed.
    pub(crate) fn finish_actions(&mut self) {
        if self.out.error.is_some() {
            return;
        }
        self.progress.tables_done = true;
        self.run_action_set_or_freeze();
        if !self.freezing.active {
            self.send_dhcp_to_local();
        }
    }

    /// Emits the actions that change the committed packet into the current flow.
    pub(crate) fn commit(&mut self) {
        self.committed.headers_changed += u32::from(self.committed.pending != Pending::Nothing);
        let how = (std::mem::take(&mut self.committed.pending), self.snapshot.capabilities.masked_set);
        self.out.slow |=
            commit(&self.out.flow, &mut self.committed.base, &mut self.out.mask, how, &mut self.out.actions);
    }

    fn finish(&mut self) {
        if count_actions(&self.out.actions) > ACTIONS_MAX {
            self.out.slow |= SlowReason::ACTION;
        }
        if self.progress.tables_done || self.out.error.is_none() {
            let Output { initial, flow, mask, .. } = &mut *self.out;
            remove_unmatchable_bits(initial, flow, mask);
        }
        if self.out.error.is_some() {
            self.out.slow = SlowReason::empty();
            self.out.actions.clear();
        } else {
            self.finish_sampling();
        }
        if let Some(DpAction::Clone(_)) = self.out.actions.last() {
            // No action follows the clone, so its actions can change the packet itself.
            if let Some(DpAction::Clone(list)) = self.out.actions.pop() {
                self.out.actions.extend(list);
            }
        }
        if self.snapshot.explicit_sampled_drops && self.ends_with_sample() {
            self.out.actions.push(DpAction::Drop(DropReason::ActionOfPipeline));
        }
        let is_consumed = self.out.slow.intersects(SlowReason::PROTOCOLS);
        if self.out.actions.is_empty() && self.snapshot.capabilities.explicit_drop && !is_consumed {
            let otherwise = self.out.dropped_for.unwrap_or(DropReason::ActionOfPipeline);
            let reason = self.out.error.map_or(otherwise, Failure::drop_reason);
            self.out.actions.push(DpAction::Drop(reason));
        }
    }
}
