//! Output to ports; patch ports lead to the next bridge.

use crate::commit_outer::Pending;
use crate::lookup::LookupParams;
use crate::messages::report;
use crate::outcome::StatsTarget;
use crate::packet_type::{ETHERNET, layer_3};
use crate::snapshot::{Attachment, Bundle, PortFlags, PortView};
use crate::spanning_tree::is_stp;
use crate::walk::Walk;
use crate::{BridgeId, Start};
use bridge::tunnel::PacketTypes;
use dpif::{DpAction, DropReason, Sample};
use flow::{Mac, Tlv};
use openflow::action::Action;
use units::{OfPort, PortNo};

/// Levels of nested `sample` actions that the other actions of a pipeline may need. A clone that is emulated by `sample` is
/// allowed only if the datapath supports more levels than this.
const SAMPLE_LEVELS_RESERVED: usize = 3;

/// How a packet is output to a port.
#[derive(Clone, Copy)]
pub(crate) struct OutputOptions {
    /// The spanning tree state of the port must allow the output, too.
    pub check_stp: bool,
    /// No action follows the output, so the next bridge of a patch port may change the packet without a copy.
    pub last: bool,
    /// A `trunc` action precedes the output (`output(port=..,max_len=..)`); a patch port does not support it.
    pub truncated: bool,
}

impl<'a> Walk<'a> {
    /// Returns whether the port may receive the packet.
    fn may_receive(&mut self, port: &PortView) -> bool {
        let either = PortFlags::NO_RECV | PortFlags::NO_RECV_STP;
        if self.out.flow.dl_type == 0x05ff && port.flags.intersects(either) {
            self.out.mask.dl_dst = Mac::BROADCAST;
        }
        let no = if is_stp(&self.out.flow) { PortFlags::NO_RECV_STP } else { PortFlags::NO_RECV };
        !port.flags.contains(no) && self.may_learn(port)
    }

    /// Returns whether the ingress port, if there is one, accepts the packet. Also counts and samples the arrival, and
    /// consumes a packet for the switch itself.
    pub(crate) fn ingress_accepts(&mut self) -> bool {
        let bridge = self.bridge;
        let port = bridge.port(OfPort(self.out.flow.in_port as u16));
        // A recirculated packet was counted and checked when it arrived.
        if let Some(port) = port.filter(|_| self.out.initial.recirc_id == 0) {
            if port.tunnel.is_some() {
                self.out.stats_targets.push(StatsTarget::Tunnel { at: (bridge.id, port.ofport), out: false });
            }
            if self.process_special(port) {
                self.mirror_arrival();
                return false;
            }
        }
        if !self.receive_congestion() {
            self.out.dropped_for = Some(DropReason::ActionCongestion);
            return false;
        }
        let Some(port) = port else {
            self.sample_arrival();
            return true;
        };
        if let Some(bundle) = port.bundle.filter(|b| self.is_mirror_port(*b)).and_then(|id| bridge.bundle(id))
        {
            self.error(format_args!(
                "dropping packet received on port {}, which is reserved exclusively for mirroring",
                bundle.name
            ));
            return false;
        }
        self.sample_arrival();
        self.may_receive(port)
    }

    /// `output`
    pub(crate) fn output(&mut self, port: OfPort, max_len: u16, last: bool, in_bucket: bool) {
        self.output_any(port, max_len, last, false, in_bucket);
    }

    fn output_any(&mut self, port: OfPort, max_len: u16, last: bool, truncated: bool, in_bucket: bool) {
        self.merging_netflow_output(|walk| walk.output_to(port, (max_len, truncated), last, in_bucket));
    }

    fn output_to(&mut self, port: OfPort, (max_len, truncated): (u16, bool), last: bool, in_bucket: bool) {
        let in_port = OfPort(self.out.flow.in_port as u16);
        let options = OutputOptions { check_stp: true, last, truncated };
        match port {
            OfPort::IN_PORT => self.output_port(in_port, options),
            OfPort::TABLE => {
                self.resubmit(LookupParams { last: false, ..LookupParams::first(self.out.flow.in_port, 0) });
            }
            OfPort::NORMAL => self.normal(),
            OfPort::FLOOD => self.flood(false, last),
            OfPort::ALL => self.flood(true, last),
            OfPort::CONTROLLER => self.output_controller(max_len, in_bucket),
            OfPort::NONE => {}
            _ if port == in_port => self.no_effect(format_args!("skipping output to input port")),
            _ => self.output_port(port, options),
        }
    }

    /// `output(port=..,max_len=..)`
    pub(crate) fn output_truncated(&mut self, port: OfPort, max_len: u32, last: bool, in_bucket: bool) {
        let in_port = OfPort(self.out.flow.in_port as u16);
        match port {
            OfPort::TABLE
            | OfPort::NORMAL
            | OfPort::FLOOD
            | OfPort::ALL
            | OfPort::CONTROLLER
            | OfPort::NONE => {
                report!(self, Warn, "output_trunc does not support port: {port}");
            }
            _ if port == in_port => self.no_effect(format_args!("skipping output to input port")),
            _ => {
                let target = if port == OfPort::IN_PORT { in_port } else { port };
                if self.bridge.datapath_port(target).is_none() {
                    self.error(format_args!("output_trunc does not support patch port {port}"));
                    return;
                }
                self.slow_unless(self.snapshot.capabilities.trunc);
                self.out.actions.push(DpAction::Trunc(max_len));
                self.output_any(port, 0, last, true, in_bucket);
            }
        }
    }

    fn flood(&mut self, all: bool, last: bool) {
        self.depends_on_states();
        let in_port = OfPort(self.out.flow.in_port as u16);
        let bridge = self.bridge;
        let targets = |p: &&PortView| p.ofport != in_port && (all || !p.flags.contains(PortFlags::NO_FLOOD));
        let mut ports = bridge.ports.values().filter(targets).peekable();
        while let Some(port) = ports.next() {
            let final_one = last && ports.peek().is_none();
            let options = OutputOptions { check_stp: !all, last: final_one, truncated: false };
            self.output_port(port.ofport, options);
        }
        self.record_flood();
    }

    fn is_between_protected(&self, out: &PortView) -> bool {
        let protected = |port: &PortView| {
            port.bundle.and_then(|id| self.bridge.bundle(id)).is_some_and(|b: &Bundle| b.protected)
        };
        protected(out) && self.bridge.port(OfPort(self.out.flow.in_port as u16)).is_some_and(protected)
    }

    /// Outputs to a port if the port's settings allow it.
    pub(crate) fn output_port(&mut self, number: OfPort, options: OutputOptions) {
        let OutputOptions { check_stp, last, truncated } = options;
        if !self.add_work(1) {
            return;
        }
        let Some(port) = self.bridge.port(number) else {
            report!(self, Warn, "Nonexistent output port");
            return;
        };
        if port.flags.contains(PortFlags::NO_FWD) {
            report!(self, Detail, "OFPPC_NO_FWD set, skipping output");
            return;
        }
        if self.output_mode.snaplen != 0 && !matches!(port.attachment, Attachment::Datapath(_)) {
            report!(self, Warn, "Mirror truncate to ODPP_NONE, skipping output");
            return;
        }
        if self.is_between_protected(port) {
            report!(self, Warn, "Flow is between protected ports, skipping output.");
            return;
        }
        if check_stp && !self.may_send(port) {
            return;
        }
        let mode = port.packet_types();
        if mode == PacketTypes::Ethernet && self.out.flow.packet_type != ETHERNET {
            report!(
                self,
                Warn,
                "Trying to send non-Ethernet packet through legacy L2 port. Dropping packet."
            );
            return;
        }
        if mode == PacketTypes::Layer3 && self.out.flow.packet_type == ETHERNET {
            return self.output_layer_3(port, last, truncated);
        }
        self.output_attached(port, last, truncated);
    }

    /// Outputs without an Ethernet header. A pending change of the outermost header is kept for the next output.
    fn output_layer_3(&mut self, port: &PortView, last: bool, truncated: bool) {
        let kept = std::mem::take(&mut self.committed.pending);
        self.out.flow.packet_type = layer_3(self.out.flow.dl_type);
        self.output_attached(port, last, truncated);
        self.out.flow.packet_type = ETHERNET;
        self.committed.pending = kept;
    }

    fn output_attached(&mut self, port: &PortView, last: bool, truncated: bool) {
        match port.attachment {
            Attachment::Patch(bridge, peer) => {
                if truncated {
                    self.error(format_args!("Cannot truncate output to patch port"));
                }
                self.output_patch(port, bridge, peer, last);
            }
            Attachment::Datapath(no) => {
                let tos = self.out.flow.nw_tos;
                self.mark_dscp(port);
                if let Some(config) = &port.tunnel {
                    self.output_tunnel((port, no), config, (last, truncated));
                } else {
                    self.commit();
                    if let Some(hash_params) = self.output_mode.bond_hash.take() {
                        self.push_bond_hash_output(hash_params);
                    } else if !self.pop_tunnel(port) {
                        self.sample_output(no, None);
                        self.push_output(no);
                    }
                    self.record_output(port.ofport, no);
                }
                self.mirror_departure(port);
                self.out.flow.nw_tos = tos;
            }
            Attachment::None => self.mirror_departure(port),
        }
    }

    /// Emits an output action; a mirror's copy is truncated before it is output.
    pub(crate) fn push_output(&mut self, number: PortNo) {
        if !matches!(self.output_mode.snaplen, 0 | u16::MAX) {
            self.slow_unless(self.snapshot.capabilities.trunc);
            self.out.actions.push(DpAction::Trunc(u32::from(self.output_mode.snaplen)));
        }
        self.out.actions.push(DpAction::Output(number));
    }

    /// Writes the DSCP that the port has configured for the packet's queue.
    fn mark_dscp(&mut self, port: &PortView) {
        if port.queue_dscp.is_empty() {
            return;
        }
        self.out.mask.skb_priority = u32::MAX;
        let queue = self.out.flow.skb_priority;
        if let Some((_, dscp)) = port.queue_dscp.iter().find(|(q, _)| *q == queue) {
            self.out.mask.nw_tos |= 0xfc;
            self.out.flow.nw_tos = self.out.flow.nw_tos & 3 | dscp & 0xfc;
        }
    }

    /// Outputs to a patch port: the next bridge receives a copy of the packet, so changes there do not affect this bridge.
    fn output_patch(&mut self, from: &PortView, to: BridgeId, peer: OfPort, last: bool) {
        let home = self.bridge.id;
        if self.translate_in_bridge((to, peer), last) {
            let rx = (to, peer);
            self.out.stats_targets.push(StatsTarget::Patch { tx: (home, from.ofport), rx });
        }
    }

    /// Continues in bridge `to` as if its port `peer` had received the packet. Returns false if there is no such port.
    pub(crate) fn translate_in_bridge(&mut self, (to, peer): (BridgeId, OfPort), last: bool) -> bool {
        let Some(bridge) = self.snapshot.bridge(to) else { return false };
        let Some(port) = bridge.port(peer) else { return false };
        let home = self.bridge;
        let saved = Box::new((self.out.flow, self.out.mask.tunnel, self.out.mask.tlv));
        let (pipeline, packet_state) = (std::mem::take(&mut self.pipeline), self.packet_state);
        // `mirrored` refers to the mirrors of one bridge.
        let mirrored = self.mirrored;
        if to != home.id {
            self.mirrored = 0;
        }

        self.out.flow.in_port = u32::from(peer.0);
        self.out.flow.metadata = 0;
        (self.out.flow.tunnel, self.out.flow.tlv) = (Default::default(), Tlv::NONE);
        (self.out.mask.tunnel, self.out.mask.tlv) = (Default::default(), Tlv::NONE);
        self.out.flow.layout = *bridge.tables.tlv().layout();
        self.out.mask.layout = self.out.flow.layout;
        self.out.flow.regs = [0; flow::flow::REGS];
        self.out.flow.actset_output = OfPort::UNSET.0;
        self.clear_conntrack();
        self.mark_all_words_changed();
        self.bridge = bridge;
        let back = self.enter_bridge();
        if !self.process_special(port) && self.may_receive(port) {
            let search =
                LookupParams { last, isolated: true, ..LookupParams::first(self.out.flow.in_port, 0) };
            if self.forwards_from(port) {
                self.resubmit(search);
                self.run_action_set_or_freeze();
            } else {
                self.only_learn(|walk| walk.resubmit(search));
            }
        }
        self.unnest(back);
        if to != home.id {
            self.mirrored = mirrored;
        }
        self.bridge = home;
        (self.out.flow, self.out.mask.tunnel, self.out.mask.tlv) = *saved;
        self.mark_all_words_changed();
        self.out.mask.layout = self.out.flow.layout;
        (self.pipeline, self.packet_state) = (pipeline, packet_state);
        // An exit or an error in the next bridge does not affect this one.
        self.progress.exit = false;
        self.out.error = None;
        true
    }

    /// Executes the actions of the next bridge or of `clone`. Later actions do not see the changes that these actions make.
    pub(crate) fn isolated(&mut self, actions: &[Action], last: bool) {
        let flow = Box::new(self.out.flow);
        let pipeline = std::mem::take(&mut self.pipeline);
        if last || is_reversible(actions) {
            self.with_flow_restored(last, |walk| {
                walk.actions(actions, last, false);
                walk.run_action_set_or_freeze();
            });
        } else {
            self.copy_in_datapath(actions);
        }
        self.out.flow = *flow;
        self.mark_all_words_changed();
        self.pipeline = pipeline;
    }

    /// Lets the datapath execute these actions on a copy of the packet, because later actions cannot undo their changes.
    fn copy_in_datapath(&mut self, actions: &[Action]) {
        self.commit();
        let capabilities = self.snapshot.capabilities;
        if !capabilities.clone && capabilities.sample_nesting <= SAMPLE_LEVELS_RESERVED {
            self.error(format_args!("Failed to compose clone action"));
            return;
        }
        let (committed, packet_state) = (Box::new(self.committed.clone()), self.packet_state);
        let outside = std::mem::take(&mut self.out.actions);
        self.actions(actions, true, false);
        self.run_action_set_or_freeze();
        let inside = std::mem::replace(&mut self.out.actions, outside);
        if !inside.is_empty() {
            self.out.actions.push(match capabilities.clone {
                true => DpAction::Clone(inside),
                false => DpAction::Sample(Box::new(Sample { probability: u32::MAX, actions: inside })),
            });
        }
        (self.committed, self.packet_state) = (*committed, packet_state);
    }

    /// Runs `run`, after which the caller restores the flow. If `run` adds or removes a header, which later writes of fields
    /// cannot undo, the datapath executes the actions of `run` on a copy. `last`: the packet is not used afterwards.
    ///
    /// A change of the outermost header that `run` leaves pending belongs to the flow that the caller discards, so it is
    /// discarded here.
    pub(crate) fn with_flow_restored(&mut self, last: bool, run: impl FnOnce(&mut Self)) {
        if last {
            return run(self);
        }
        let (emitted, kept) = (self.out.actions.len(), Box::new(self.committed.clone()));
        run(self);
        // A header change that was pending before `run` is committed first. It needs no copy, because the restored flow has the
        // same header.
        let waits = u32::from(kept.pending != Pending::Nothing);
        let changed = self.committed.headers_changed - kept.headers_changed;
        if changed > waits && emitted < self.out.actions.len() {
            let inside = self.out.actions.split_off(emitted);
            self.out.actions.push(DpAction::Clone(inside));
            self.committed = *kept;
        } else {
            self.committed.pending = if changed == 0 { kept.pending } else { Pending::Nothing };
        }
    }

    /// Translates `enqueue`. In the userspace datapath the priority of a queue is its number.
    pub(crate) fn enqueue(&mut self, port: OfPort, queue: u32, last: bool) {
        self.out.mask.skb_priority = u32::MAX;
        let in_port = OfPort(self.out.flow.in_port as u16);
        let port = match port {
            OfPort::IN_PORT => in_port,
            _ if port == in_port => return,
            _ => port,
        };
        let old = std::mem::replace(&mut self.out.flow.skb_priority, queue);
        let options = OutputOptions { check_stp: true, last, truncated: false };
        self.merging_netflow_output(|walk| walk.output_port(port, options));
        self.out.flow.skb_priority = old;
    }

    /// `set_queue`
    pub(crate) fn set_queue(&mut self, queue: u32) {
        self.out.mask.skb_priority = u32::MAX;
        self.out.flow.skb_priority = queue;
    }

    /// Returns whether the switch itself made the packet.
    pub(crate) fn is_own_frame(&self) -> bool {
        !self.input.packet_out && matches!(self.input.start, Start::Actions(_))
    }

    /// Returns whether a controller sent the packet.
    pub(crate) fn is_packet_out(&self) -> bool {
        self.input.packet_out && matches!(self.input.start, Start::Actions(_))
    }
}

/// Returns whether later actions can undo all changes that these actions make to the packet.
fn is_reversible(actions: &[Action]) -> bool {
    !actions.iter().any(|a| {
        matches!(
            a,
            Action::Ct(_)
                | Action::Meter(_)
                | Action::Nat(_)
                | Action::OutputTrunc { .. }
                | Action::Encap(_)
                | Action::Decap { .. }
                | Action::DecNshTtl
        )
    })
}
