//! Finds the megaflows that a change of the tables may affect, by their dependencies and their matches (ADR
//! 16). Most changes affect few megaflows; only those are translated again.

use super::Flows;
use classifier::megaflow::Pattern;
use dpif::DpFlow;
use flow::Match;
use std::collections::HashMap;
use std::ops::Range;

/// For each dependency set (`Translation::dependency_set`), matches on the affected packets. A dependency set
/// without an entry means that all its megaflows are affected.
#[derive(Clone, Debug, Default)]
pub struct Concerns {
    by_dependency_set: HashMap<u32, Vec<Pattern>>,
}

impl Concerns {
    /// Declares that of the megaflows with these dependencies only those are affected that overlap one of the
    /// matches.
    pub fn add(&mut self, dependency_set: u32, matches: &[Match]) {
        self.by_dependency_set.entry(dependency_set).or_default().extend(matches.iter().map(Pattern::from));
    }

    /// The matches for a dependency set; `None` if every megaflow with these dependencies is affected.
    fn of(&self, dependency_set: u32) -> Option<&[Pattern]> {
        self.by_dependency_set.get(&dependency_set).map(Vec::as_slice)
    }
}

impl Flows {
    /// The affected megaflows in a range of indices.
    pub(crate) fn concerned(&self, concerns: &Concerns, range: Range<u32>) -> Vec<DpFlow> {
        let mut out = Vec::new();
        // Most megaflows have the same dependencies as the previous one.
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
