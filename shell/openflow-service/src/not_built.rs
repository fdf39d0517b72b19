//! Log messages about flows and groups that use features which Sluice does not implement.
//!
//! Their packets are dropped and counted, or the action does nothing: `settings::not_built` says which.

use openflow::flow_mod::{FlowMod, TABLE_ALL};
use openflow::group::GroupMod;
use openflow::{Action, Body};
use runtime::log::Level;
use runtime::{Module, RateLimit};
use settings::not_built::{IPFIX, Part};

static LOG: Module = Module::new("bridge");

/// A controller may add a hundred thousand such flows.
static LIMIT: RateLimit = RateLimit::new(30, 30);

/// The feature in a list of actions that is not implemented. The thread `ofconn` does not convert flow
/// mods with such actions (`ofconn::request`), so a feature that is added here must be added there, too.
fn missing(actions: &[Action]) -> Option<Part> {
    actions.iter().any(Action::samples).then_some(IPFIX)
}

/// A flow or group that uses such a feature.
#[derive(Debug)]
pub(crate) struct Missing {
    part: Part,
    whose: String,
}

/// What a request would add that uses such features. Only added flows and groups are reported: a controller may ask by a
/// bundle that it discards whether an action is known.
pub(crate) fn missing_of(request: &Body) -> Option<Missing> {
    match request {
        Body::FlowMod(fm) => missing_of_flow(fm),
        Body::GroupMod(gm) => missing_of_group(gm),
        _ => None,
    }
}

pub(crate) fn missing_of_flow(fm: &FlowMod) -> Option<Missing> {
    let part = missing(&fm.actions)?;
    let matching = fm.matching.text(&flow::text::NoNames);
    // With `TABLE_ALL` the switch chooses the first table.
    let table = if fm.table == TABLE_ALL { 0 } else { fm.table };
    let whose = format!("flow of table {table}, priority {}, matching '{matching}'", fm.priority);
    Some(Missing { part, whose })
}

pub(crate) fn missing_of_group(gm: &GroupMod) -> Option<Missing> {
    let part = gm.buckets.iter().find_map(|bucket| missing(&bucket.actions))?;
    Some(Missing { part, whose: format!("group {}", gm.group) })
}

/// Logs a change of a bridge's tables that uses such a feature.
pub(crate) fn log_missing(bridge: &str, level: Level, Missing { part, whose }: &Missing) {
    let why = part.why();
    runtime::log_rl!(
        LOG,
        LIMIT,
        level,
        "bridge {bridge}: the actions of {whose} cannot be carried out: {why}"
    );
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
