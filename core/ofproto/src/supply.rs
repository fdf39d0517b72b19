//! What new rules are given: numbers that are never used twice, and lists of actions, of which equal ones are kept once.

use openflow::action::Action;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Lists that are remembered: one for each value of a hash. A table has few lists, or nearly as many as rules.
const LISTS: usize = 1024;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Supply {
    last: u64,
    lists: Vec<Option<Arc<[Action]>>>,
}

impl Supply {
    /// A new number.
    pub(crate) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The one given last.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// This list, or one like it that other rules have.
    pub(crate) fn shared(&mut self, list: &Arc<[Action]>) -> Arc<[Action]> {
        let mut hasher = DefaultHasher::new();
        list.hash(&mut hasher);
        self.lists.resize(LISTS, None);
        let slot = &mut self.lists[hasher.finish() as usize % LISTS];
        match slot {
            Some(known) if known == list => Arc::clone(known),
            _ => Arc::clone(slot.insert(Arc::clone(list))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::OfPort;

    #[test]
    fn equal_lists_are_one() {
        let mut supply = Supply::default();
        let list = |port| Arc::<[Action]>::from([Action::output(OfPort(port))]);
        let first = supply.shared(&list(1));
        assert!(Arc::ptr_eq(&first, &supply.shared(&list(1))));
        assert_eq!(*supply.shared(&list(2)), *list(2));
        (0..5000).for_each(|port| assert_eq!(supply.shared(&list(port)), list(port)));
    }
}
