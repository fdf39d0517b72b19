//! `check_pkt_larger`: the walk forks, since the length of a packet is no field that a megaflow could match.
//!
//! The datapath asks for the length; what follows in the list is translated once for each answer. A datapath that cannot
//! ask leaves its packets to the control half, one by one.

use crate::walk::Walk;
use dpif::{CheckPktLen, DpAction, SlowReason};
use flow::Subfield;
use openflow::action::Action;

impl Walk<'_> {
    /// Does `check_pkt_larger` and what follows it. False: what follows is still to be done.
    pub(crate) fn check_pkt_larger(&mut self, len: u16, dst: Subfield, rest: &[Action]) -> bool {
        if !self.snapshot.capabilities.check_pkt_len {
            let larger = self.packet.is_some_and(|p| p.len() > usize::from(len));
            dst.set(&mut self.flow, u128::from(larger));
            self.doubt_all_words();
            self.out.slow |= SlowReason::ACTION;
            return false;
        }
        let flow = Box::new(self.flow);
        // As in a clone: what was written before is done once, after the fork.
        let (stack, action_set) = (std::mem::take(&mut self.stack), std::mem::take(&mut self.action_set));
        self.commit();
        let outside = std::mem::take(&mut self.out.actions);
        let base = Box::new(self.base);
        let (was_mpls, conntracked, rewrapped) = (self.was_mpls, self.conntracked, self.rewrapped);
        let mut ended = false;
        let [greater, less_equal] = [1, 0].map(|larger| {
            (self.flow, self.base) = (*flow, *base);
            (self.was_mpls, self.conntracked, self.exit) = (was_mpls, conntracked, false);
            self.stack.clear();
            self.action_set.clear();
            dst.set(&mut self.flow, larger);
            self.doubt_all_words();
            self.actions(rest, true, false);
            self.end_isolated();
            ended |= self.exit && larger == 1;
            std::mem::take(&mut self.out.actions)
        });
        self.out.actions = outside;
        self.out.actions.push(DpAction::CheckPktLen(Box::new(CheckPktLen {
            pkt_len: len,
            greater,
            less_equal,
        })));
        (self.flow, self.base) = (*flow, *base);
        self.doubt_all_words();
        (self.was_mpls, self.conntracked, self.exit) = (was_mpls, conntracked, ended);
        (self.stack, self.action_set) = (stack, action_set);
        // Headers that a side put around its packet are on no other.
        self.rewrapped = rewrapped;
        true
    }
}
