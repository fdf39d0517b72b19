//! Which megaflows a change of the tables may concern, by their dependencies and their matches.

use classifier::megaflow::Pattern;
use flow::Match;
use std::collections::HashMap;

/// For each set of dependencies (`Translation::dependency_set`), matches on the packets that are concerned. Of a set that is not
/// named, all megaflows are concerned.
#[derive(Clone, Debug, Default)]
pub struct Concerns {
    by_dependency_set: HashMap<u32, Vec<Pattern>>,
}

impl Concerns {
    /// Of the megaflows with these dependencies, those are concerned that meet one of the matches.
    pub fn add(&mut self, dependency_set: u32, matches: &[Match]) {
        self.by_dependency_set.entry(dependency_set).or_default().extend(matches.iter().map(Pattern::from));
    }

    /// Matches on the packets that are concerned; `None`: every megaflow with these dependencies is.
    pub(super) fn of(&self, dependency_set: u32) -> Option<&[Pattern]> {
        self.by_dependency_set.get(&dependency_set).map(Vec::as_slice)
    }
}
