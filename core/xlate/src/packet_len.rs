//! `check_pkt_larger`: the walk forks, because the length of a packet is not a field that a megaflow can match.
//!
//! The datapath checks the length; the rest of the list is translated once for each result. If the datapath does not
//! support this, the control half handles the packets one by one.

use crate::walk::Walk;
use dpif::{CheckPktLen, DpAction, SlowReason};
use flow::Subfield;
use openflow::action::Action;

impl Walk<'_> {
    /// Translates `check_pkt_larger` and the rest of the list. Returns false if the rest is still to be translated.
    pub(crate) fn check_pkt_larger(&mut self, len: u16, dst: Subfield, rest: &[Action]) -> bool {
        if !self.snapshot.capabilities.check_pkt_len {
            let larger = self.received.packet.is_some_and(|p| p.len() > usize::from(len));
            dst.set(&mut self.flow, u128::from(larger));
            self.doubt_all_words();
            self.out.slow |= SlowReason::ACTION;
            return false;
        }
        let flow = Box::new(self.flow);
        // As in a clone: earlier writes are executed once, after the fork.
        let pipeline = std::mem::take(&mut self.pipeline);
        self.commit();
        let outside = std::mem::take(&mut self.out.actions);
        // Headers that one branch adds to its packet, or has still to add, are not on the other branch's packet.
        let committed = Box::new(self.committed.clone());
        let packet_state = self.packet_state;
        let mut ended = false;
        let [greater, less_equal] = [1, 0].map(|larger| {
            self.flow = *flow;
            self.committed.clone_from(&committed);
            (self.packet_state, self.progress.exit) = (packet_state, false);
            self.pipeline.clear();
            dst.set(&mut self.flow, larger);
            self.doubt_all_words();
            self.actions(rest, true, false);
            self.end_list();
            ended |= self.progress.exit && larger == 1;
            std::mem::take(&mut self.out.actions)
        });
        self.out.actions = outside;
        self.out.actions.push(DpAction::CheckPktLen(Box::new(CheckPktLen {
            pkt_len: len,
            greater,
            less_equal,
        })));
        (self.flow, self.committed) = (*flow, *committed);
        self.doubt_all_words();
        (self.packet_state, self.progress.exit) = (packet_state, ended);
        self.pipeline = pipeline;
        true
    }
}
