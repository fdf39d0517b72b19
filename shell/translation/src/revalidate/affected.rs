//! Finds the megaflows that changes affect, by the dependencies of their translations.

use crate::changes::Changes;
use crate::shared_state::SharedState;
use datapath::{AffectedMatches, Datapath};

/// Maximum number of comparisons (changes × sets of dependencies) of the main thread: they take a few tens of microseconds.
const QUICK_COMPARISONS_MAX: usize = 256;
/// Maximum number of megaflow indices that the main thread searches.
const QUICK_SEARCH_MAX: u32 = 1024;

/// Matches on the megaflows that the changes affect. `None`: the changes may affect all megaflows, or there are more
/// comparisons (changes × sets of dependencies) than `comparisons_max`.
pub(super) fn matches(
    shared: &SharedState,
    changes: &Changes,
    comparisons_max: usize,
) -> Option<AffectedMatches> {
    let too_many = |sets: usize| changes.list().len() * sets > comparisons_max;
    if changes.is_all() || too_many(shared.dependency_set_count()) {
        return None;
    }
    let mut affected = AffectedMatches::default();
    for (number, dependencies) in shared.dependency_sets() {
        let matches = changes.list().iter().flat_map(|change| dependencies.affected_by(change));
        affected.add(number, &matches.collect::<Vec<_>>());
    }
    Some(affected)
}

/// Whether the published changes certainly affect no megaflow. False if finding that out would take long.
///
/// To be called after the publication: a megaflow that is installed later was translated with the new snapshot, or is refused
/// (`UpcallHandler::is_current`).
pub(super) fn affect_none(datapath: &Datapath, shared: &SharedState, changes: &Changes) -> bool {
    let end = datapath.flow_end();
    if end == 0 {
        return true;
    }
    end <= QUICK_SEARCH_MAX
        && matches(shared, changes, QUICK_COMPARISONS_MAX)
            .is_some_and(|matches| datapath.affected_flows(&matches, 0..end).is_empty())
}
