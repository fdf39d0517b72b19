//! The rules with a timeout, sorted by deadline. The containers are persistent, like those of `State`.

use crate::rule::Rule;
use rpds::{HashTrieMapSync, RedBlackTreeMapSync};
use std::sync::Arc;
use units::Millis;

/// See the module documentation.
///
/// **Invariant**: the stored deadline of a rule is not later than its present deadline. A packet moves the
/// deadline to a later time, and this index is not updated then. So
/// [`Ofproto::expire`](crate::Ofproto::expire) inserts a rule again if its stored deadline has passed but it
/// has not expired. Code that moves a deadline to an earlier time must insert the rule again.
#[derive(Clone, Debug)]
pub(crate) struct Expirable {
    by_deadline: RedBlackTreeMapSync<(Millis, u64), Arc<Rule>>,
    /// The stored deadline of each rule, by its id.
    deadlines: HashTrieMapSync<u64, Millis>,
}

impl Expirable {
    pub(crate) fn new() -> Expirable {
        Expirable { by_deadline: RedBlackTreeMapSync::new_sync(), deadlines: HashTrieMapSync::new_sync() }
    }

    /// Stores a rule under its present deadline, if it has a timeout.
    pub(crate) fn insert(&mut self, rule: &Arc<Rule>) {
        self.remove(rule.id());
        if rule.has_timeout() {
            let deadline = rule.deadline();
            self.deadlines.insert_mut(rule.id(), deadline);
            self.by_deadline.insert_mut((deadline, rule.id()), Arc::clone(rule));
        }
    }

    /// Removes a rule, if it is stored.
    pub(crate) fn remove(&mut self, id: u64) {
        if let Some(deadline) = self.deadlines.get(&id).copied() {
            self.deadlines.remove_mut(&id);
            self.by_deadline.remove_mut(&(deadline, id));
        }
    }

    /// The rule with the earliest stored deadline, and this deadline.
    pub(crate) fn first(&self) -> Option<(Millis, &Arc<Rule>)> {
        self.by_deadline.first().map(|((deadline, _), rule)| (*deadline, rule))
    }
}
