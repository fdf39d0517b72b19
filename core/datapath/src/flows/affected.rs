//! Finds the megaflows that a change of the tables may affect, by their dependencies and their matches (ADR 16). Most
//! changes affect few megaflows, and only these are translated again.

use super::{AffectedMatches, Flows};
use classifier::megaflow::Pattern;
use dpif::DpFlow;
use std::ops::Range;

impl Flows {
    /// Returns the affected megaflows in a range of indices.
    pub(crate) fn affected(&self, matches: &AffectedMatches, range: Range<u32>) -> Vec<DpFlow> {
        let mut out = Vec::new();
        // Most megaflows have the same dependencies as the previous one.
        let (mut dependency_set, mut patterns) = (0, matches.of(0));
        for (index, own, address_match) in self.entries.address_matches(range) {
            if own != dependency_set {
                (dependency_set, patterns) = (own, matches.of(own));
            }
            let megaflow = || self.publisher.get(index);
            let meets =
                |p: &Pattern| address_match.may_overlap(p) && megaflow().is_some_and(|m| m.overlaps(p));
            if patterns.is_none_or(|patterns| patterns.iter().any(meets)) {
                out.extend(self.translated(index));
            }
        }
        out
    }
}
