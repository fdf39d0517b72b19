//! Which megaflows a change of the tables may concern. Of most changes there are few: they are found by what was consulted for
//! them and by what they match, not by translating all of them again.

use super::Flows;
use classifier::megaflow::Pattern;
use dpif::DpFlow;
use flow::Match;
use std::collections::HashMap;
use std::ops::Range;

/// For each trail (`Translation::trail`) the packets that are concerned of those that took it. Megaflows with a trail that is not
/// named are all concerned.
#[derive(Clone, Debug, Default)]
pub struct Concerns {
    by_trail: HashMap<u32, Vec<Pattern>>,
}

impl Concerns {
    /// Packets of this trail are concerned, if any of these matches is theirs.
    pub fn add(&mut self, trail: u32, matches: &[Match]) {
        self.by_trail.entry(trail).or_default().extend(matches.iter().map(Pattern::from));
    }

    /// Whom it may concern: `None` means every megaflow of this trail.
    fn of(&self, trail: u32) -> Option<&[Pattern]> {
        self.by_trail.get(&trail).map(Vec::as_slice)
    }
}

impl Flows {
    /// The megaflows that are concerned, of those at these indices.
    pub(crate) fn concerned(&self, concerns: &Concerns, range: Range<u32>) -> Vec<DpFlow> {
        let mut out = Vec::new();
        // Most neighbours took the same trail.
        let (mut trail, mut patterns) = (0, concerns.of(0));
        for (index, own, brief) in self.entries.briefs(range) {
            if own != trail {
                (trail, patterns) = (own, concerns.of(own));
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
