//! A word in the log about flows and groups that ask for a part of the switch that is not there, when they are added.
//!
//! Their packets are dropped and counted, or the action does nothing: `config::not_built` says which.

use super::Service;
use crate::reconfigure::LOG;
use config::not_built::{CT_HELPERS, IPFIX, NAT, Part};
use openflow::flow_mod::{FlowMod, TABLE_ALL};
use openflow::group::GroupMod;
use openflow::{Action, Body};
use runtime::RateLimit;

/// A controller may add a hundred thousand of them.
static LIMIT: RateLimit = RateLimit::new(30, 30);

/// The first part that a list of actions asks for in vain.
fn missing(actions: &[Action]) -> Option<Part> {
    actions.iter().find_map(|action| match action {
        Action::Nat(nat) if nat.src || nat.dst => Some(NAT),
        Action::Ct(ct) if ct.alg != 0 => Some(CT_HELPERS),
        Action::Sample(_) => Some(IPFIX),
        other => missing(other.nested()),
    })
}

impl Service<'_> {
    /// Tells of a request that is about to change tables.
    pub(super) fn tell_missing(&mut self, request: &Body) {
        match request {
            Body::FlowMod(fm) => self.tell_missing_of_flow(fm),
            Body::GroupMod(gm) => self.tell_missing_of_group(gm),
            _ => {}
        }
    }

    pub(super) fn tell_missing_of_flow(&mut self, fm: &FlowMod) {
        let Some(part) = missing(&fm.actions) else { return };
        let matching = fm.matching.text(&flow::text::NoNames);
        // Without a table the switch chooses the first.
        let table = if fm.table == TABLE_ALL { 0 } else { fm.table };
        let priority = fm.priority;
        self.tell(part, &format!("flow of table {table}, priority {priority}, matching '{matching}'"));
    }

    pub(super) fn tell_missing_of_group(&mut self, gm: &GroupMod) {
        let Some(part) = gm.buckets.iter().find_map(|bucket| missing(&bucket.actions)) else { return };
        self.tell(part, &format!("group {}", gm.group));
    }

    fn tell(&mut self, part: Part, whose: &str) {
        let level = self.host.complaint_level();
        let (bridge, why) = (&self.bridge.name, part.why());
        runtime::log_rl!(
            LOG,
            LIMIT,
            level,
            "bridge {bridge}: the actions of {whose} cannot be carried out: {why}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow::action::{Ct, Nat};

    #[test]
    fn address_translation_is_found_wherever_it_is() {
        let nat = |src| Action::Nat(Box::new(Nat { src, ..Nat::default() }));
        let ct = |nat| Action::Ct(Box::new(Ct { actions: vec![nat], ..Ct::default() }));
        assert_eq!(missing(&[Action::CtClear, ct(nat(false))]), None);
        assert_eq!(missing(&[Action::CtClear, Action::Clone(vec![ct(nat(true))])]), Some(NAT));
        assert_eq!(missing(&[Action::Ct(Box::new(Ct { alg: 21, ..Ct::default() }))]), Some(CT_HELPERS));
    }
}
