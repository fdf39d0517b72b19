//! Matches on the packets that a change of the tables may affect.

use classifier::megaflow::Pattern;
use flow::Match;
use std::collections::HashMap;

/// For each dependency set (`Translation::dependency_set`): matches on the affected packets. If a dependency set has
/// no entry, all its megaflows are affected.
#[derive(Clone, Debug, Default)]
pub struct AffectedMatches {
    by_dependency_set: HashMap<u32, Vec<Pattern>>,
}

impl AffectedMatches {
    /// Declares that of the megaflows with this dependency set, only those that overlap one of the matches are
    /// affected.
    pub fn add(&mut self, dependency_set: u32, matches: &[Match]) {
        self.by_dependency_set.entry(dependency_set).or_default().extend(matches.iter().map(Pattern::from));
    }

    /// Returns the matches for a dependency set; `None` if every megaflow with this dependency set is affected.
    pub(super) fn of(&self, dependency_set: u32) -> Option<&[Pattern]> {
        self.by_dependency_set.get(&dependency_set).map(Vec::as_slice)
    }
}
