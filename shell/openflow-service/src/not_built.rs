//! Log messages about flows and groups that use features which Sluice does not implement.
//!
//! Their packets are dropped and counted, or the action does nothing: `settings::not_built` says which.

use crate::service::Service;
use openflow::flow_mod::{FlowMod, TABLE_ALL};
use openflow::group::GroupMod;
use openflow::{Action, Body};
use runtime::{Module, RateLimit};
use settings::not_built::{IPFIX, Part};

static LOG: Module = Module::new("bridge");

/// A controller may add a hundred thousand such flows.
static LIMIT: RateLimit = RateLimit::new(30, 30);

/// The first feature in a list of actions that is not implemented.
fn missing(actions: &[Action]) -> Option<Part> {
    actions.iter().find_map(|action| match action {
        Action::Sample(_) => Some(IPFIX),
        other => missing(other.nested()),
    })
}

impl Service<'_> {
    /// Logs a request that is about to change tables, if it uses such features.
    pub(crate) fn tell_missing(&mut self, request: &Body) {
        match request {
            Body::FlowMod(fm) => self.tell_missing_of_flow(fm),
            Body::GroupMod(gm) => self.tell_missing_of_group(gm),
            _ => {}
        }
    }

    pub(crate) fn tell_missing_of_flow(&mut self, fm: &FlowMod) {
        let Some(part) = missing(&fm.actions) else { return };
        let matching = fm.matching.text(&flow::text::NoNames);
        // With `TABLE_ALL` the switch chooses the first table.
        let table = if fm.table == TABLE_ALL { 0 } else { fm.table };
        let priority = fm.priority;
        self.tell(part, &format!("flow of table {table}, priority {priority}, matching '{matching}'"));
    }

    pub(crate) fn tell_missing_of_group(&mut self, gm: &GroupMod) {
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
    use openflow::action::{NumberOrField, Sample, SampleDirection};

    #[test]
    fn a_sample_action_is_found_at_any_depth() {
        let sample = Sample {
            probability: 100,
            collector_set_id: 1,
            obs_domain: NumberOrField::Number(2),
            obs_point: NumberOrField::Number(3),
            sampling_port: units::OfPort::NONE,
            direction: SampleDirection::Default,
        };
        let sample = Action::Sample(Box::new(sample));
        assert_eq!(missing(&[Action::CtClear]), None);
        assert_eq!(missing(&[Action::CtClear, Action::Clone(vec![sample])]), Some(IPFIX));
    }
}
