//! Shares equal masks and action lists of flow mods: most consecutive flow mods use one of a few masks, and many have the
//! same actions. Rules and requests of open bundles with equal masks or action lists mostly refer to the same copy.

use classifier::of::{SparseMask, SparseMatch};
use flow::Match;
use openflow::action::Action;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Number of recently used masks that are kept for sharing.
const MASKS_MAX: usize = 8;
/// Number of action lists that are kept for sharing, one per hash slot. More slots would not help: a table has either few different
/// lists or nearly as many lists as rules.
const LIST_SLOTS: usize = 1024;

/// The interner; see the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    masks: Vec<Arc<SparseMask>>,
    lists: Vec<Option<Arc<[Action]>>>,
}

impl Interner {
    /// Converts a match to sparse form with a shared mask.
    pub(crate) fn matching(&mut self, m: &Match) -> SparseMatch {
        match self.masks.iter().position(|mask| mask.is_of(&m.mask)) {
            Some(at) => self.masks[..=at].rotate_right(1),
            None => {
                self.masks.truncate(MASKS_MAX - 1);
                self.masks.insert(0, Arc::new(SparseMask::new(&m.mask)));
            }
        }
        SparseMatch::with_mask(&m.flow, Arc::clone(&self.masks[0]))
    }

    /// Returns a shared copy of an action list.
    pub(crate) fn actions(&mut self, list: &[Action]) -> Arc<[Action]> {
        let mut hasher = DefaultHasher::new();
        list.hash(&mut hasher);
        self.lists.resize(LIST_SLOTS, None);
        let slot = &mut self.lists[hasher.finish() as usize % LIST_SLOTS];
        match slot {
            Some(known) if **known == *list => Arc::clone(known),
            _ => Arc::clone(slot.insert(list.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::FieldId;
    use units::OfPort;

    #[test]
    fn equal_lists_are_one() {
        let mut interner = Interner::default();
        let list = |port| [Action::output(OfPort(port))];
        let first = interner.actions(&list(1));
        assert!(Arc::ptr_eq(&first, &interner.actions(&list(1))));
        assert_eq!(*interner.actions(&list(2)), list(2));
        (0..5000).for_each(|port| assert_eq!(*interner.actions(&list(port)), list(port)));
    }

    #[test]
    fn equal_masks_are_one_among_a_few() {
        let mut interner = Interner::default();
        let matching = |fields: &[FieldId], value: u128| {
            let mut m = Match::CATCHALL;
            fields.iter().for_each(|f| m.set(*f, value));
            m
        };
        let fields = [FieldId::InPort, FieldId::Metadata, FieldId::EthSrc, FieldId::EthDst, FieldId::TunId];
        let masks: Vec<Match> = (0..32)
            .map(|bits| {
                let some: Vec<_> = (0..5).filter(|i| bits >> i & 1 != 0).map(|i| fields[i]).collect();
                matching(&some, bits)
            })
            .collect();
        for _ in 0..2 {
            for m in &masks {
                let sparse = interner.matching(m);
                assert_eq!(sparse, SparseMatch::new(&m.flow, &m.mask));
            }
        }
        let of = |interner: &mut Interner, at: usize| Arc::clone(interner.matching(&masks[at]).mask());
        let first: Vec<_> = (0..MASKS_MAX).map(|at| of(&mut interner, at)).collect();
        for at in (0..MASKS_MAX).rev() {
            assert!(Arc::ptr_eq(&first[at], &of(&mut interner, at)), "{at}");
        }
    }
}
