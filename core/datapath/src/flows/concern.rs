//! Finds the megaflows that a change of the tables may concern, by their dependencies and their matches (ADR 16). Most changes
//! concern few megaflows; only those are translated again.

use super::Flows;
use classifier::megaflow::Pattern;
use dpif::DpFlow;
use flow::Match;
use std::collections::HashMap;
use std::ops::Range;

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
    fn of(&self, dependency_set: u32) -> Option<&[Pattern]> {
        self.by_dependency_set.get(&dependency_set).map(Vec::as_slice)
    }
}

impl Flows {
    /// The megaflows that are concerned, of those at these indices.
    pub(crate) fn concerned(&self, concerns: &Concerns, range: Range<u32>) -> Vec<DpFlow> {
        let mut out = Vec::new();
        // Most megaflows have the same dependencies as the one before.
        let (mut dependency_set, mut patterns) = (0, concerns.of(0));
        for (index, own, brief) in self.entries.briefs(range) {
            if own != dependency_set {
                (dependency_set, patterns) = (own, concerns.of(own));
            }
            let megaflow = || self.publisher.get(index);
            let meets = |p: &Pattern| brief.may_meet(p) && megaflow().is_some_and(|m| m.meets(p));
            if patterns.is_none_or(|patterns| patterns.iter().any(meets)) {
                out.extend(self.translated(index));
            }
        }
        out
    }
}
