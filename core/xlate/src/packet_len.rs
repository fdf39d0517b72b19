//! `check_pkt_larger`: a megaflow cannot match the length of a packet, so the rest of the list is translated twice.
//!
//! The datapath checks the length, and executes one of two lists of actions: one was translated for longer packets, the
//! other for shorter ones. If the datapath does not support this, the packets take the slow path.

use crate::walk::Walk;
use dpif::{CheckPktLen, DpAction, SlowReason};
use flow::Subfield;
use openflow::action::Action;

impl Walk<'_> {
    /// Translates `check_pkt_larger` and the rest of the list. Returns false if the caller must translate the rest.
    pub(crate) fn check_pkt_larger(&mut self, len: u16, dst: Subfield, rest: &[Action]) -> bool {
        if !self.snapshot.capabilities.check_pkt_len {
            let larger = self.received.packet.is_some_and(|p| p.len() > usize::from(len));
            dst.set(&mut self.out.flow, u128::from(larger));
            self.mark_all_words_changed();
            self.out.slow |= SlowReason::ACTION;
            return false;
        }
        let flow = Box::new(self.out.flow);
        // As in a clone, both branches start with an empty action set and stack (`PipelineState`). The action set that was
        // written before is executed once, after both branches.
        let pipeline = std::mem::take(&mut self.pipeline);
        self.commit();
        let outside = std::mem::take(&mut self.out.actions);
        // Headers that one branch adds, or leaves pending, are not on the packet of the other branch.
        let committed = Box::new(self.committed.clone());
        let packet_state = self.packet_state;
        let mut ended = false;
        let [greater, less_equal] = [1, 0].map(|larger| {
            self.out.flow = *flow;
            self.committed.clone_from(&committed);
            (self.packet_state, self.progress.exit) = (packet_state, false);
            self.pipeline.clear();
            dst.set(&mut self.out.flow, larger);
            self.mark_all_words_changed();
            let (last, in_bucket) = (true, false);
            self.actions(rest, last, in_bucket);
            self.run_action_set_or_freeze();
            // As in Open vSwitch, an `exit` in the branch for longer packets also ends the enclosing lists, for packets of
            // any length. An `exit` in the other branch ends that branch only.
            ended |= self.progress.exit && larger == 1;
            std::mem::take(&mut self.out.actions)
        });
        self.out.actions = outside;
        self.out.actions.push(DpAction::CheckPktLen(Box::new(CheckPktLen {
            pkt_len: len,
            greater,
            less_equal,
        })));
        (self.out.flow, self.committed) = (*flow, *committed);
        self.mark_all_words_changed();
        (self.packet_state, self.progress.exit) = (packet_state, ended);
        self.pipeline = pipeline;
        true
    }
}
