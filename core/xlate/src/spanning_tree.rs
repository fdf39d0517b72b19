//! Ports that a spanning tree keeps from forwarding (IEEE 802.1D-2004 §7.7, §7.8).
//!
//! **Invariant**: a walk that consults the state of a port records it as a dependency, so that a change of the state
//! affects only the megaflows of such walks.

use crate::messages::report;
use crate::outcome::PacketEffect;
use crate::snapshot::PortView;
use crate::walk::Walk;
use bridge::spanning_tree::DESTINATION;
use dpif::DropReason;
use flow::Flow;
use packet::ethertype;
use units::OfPort;

/// Returns whether this is a spanning tree packet.
pub(crate) fn is_stp(flow: &Flow) -> bool {
    flow.dl_type == ethertype::NONE && flow.dl_dst == DESTINATION
}

impl Walk<'_> {
    /// Returns whether packets that the port receives are used for learning. They may still not be forwarded.
    pub(crate) fn may_learn(&mut self, port: &PortView) -> bool {
        self.depends_on_state(port);
        let learns = port.tree.is_none_or(|tree| tree.state.learns());
        if !learns {
            self.out.dropped_for = Some(DropReason::ActionForwardingDisabled);
        }
        learns
    }

    /// Returns whether packets that the port receives are forwarded.
    pub(crate) fn forwards_from(&mut self, port: &PortView) -> bool {
        port.tree.is_none_or(|tree| tree.state.forwards())
    }

    /// Returns whether packets that the ingress port receives are forwarded; true if there is no ingress port.
    pub(crate) fn forwards_from_ingress(&mut self) -> bool {
        let port = self.bridge.port(OfPort(self.out.flow.in_port as u16));
        port.is_none_or(|port| self.forwards_from(port))
    }

    /// Returns whether the port may send the packet; if not, reports why in the trace. Every port may send messages that check
    /// its link (BFD, CFM), and its own messages of LLDP (IEEE 802.1AB 6.3).
    pub(crate) fn may_send(&mut self, port: &PortView) -> bool {
        let Some(tree) = port.tree else { return true };
        self.depends_on_state(port);
        if is_stp(&self.committed.base) {
            let passes = tree.passes_bpdus() || self.is_own_frame();
            if !passes {
                report!(self, Warn, "STP not in listening state, skipping bpdu output");
            }
            return passes;
        }
        if tree.state.forwards() || self.is_link_check(port) || self.is_own_lldp(port) {
            return true;
        }
        report!(self, Warn, "{} not in forwarding state, skipping output", tree.protocol.name());
        self.out.dropped_for = Some(DropReason::ActionForwardingDisabled);
        false
    }

    /// Runs `run`, but keeps only the side effects that learn: its other effects and its actions are removed, so the packet is
    /// not forwarded.
    pub(crate) fn only_learn(&mut self, run: impl FnOnce(&mut Self)) {
        let kept = Box::new(self.committed.clone());
        let (mirrored, slow) = (self.mirrored, self.out.slow);
        let (actions, effects) = (self.out.actions.len(), self.out.effects.len());
        run(self);
        self.committed = *kept;
        (self.mirrored, self.out.slow) = (mirrored, slow);
        self.cancel_freeze();
        self.pipeline.action_set.clear();
        self.out.actions.truncate(actions);
        let of_run = self.out.effects.split_off(effects);
        let learns = |effect: &PacketEffect| {
            matches!(
                effect,
                PacketEffect::MacLearn { .. } | PacketEffect::Learn(_) | PacketEffect::FinTimeout(_)
            )
        };
        self.out.effects.extend(of_run.into_iter().filter(learns));
        self.out.dropped_for = Some(DropReason::ActionForwardingDisabled);
    }
}
