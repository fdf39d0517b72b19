//! Inserts elements into sorted vectors, and removes elements, in place.
//!
//! Long values usually change by a few elements. Binary search finds the position of each changed element; the other
//! elements may be moved, but are not compared one by one.

use std::cmp::Ordering;

/// Up to this many elements are inserted or removed one by one, each time moving all following elements; more are
/// processed in one pass.
const FEW: usize = 4;

/// Adds the elements of `more` that `elements` does not contain. Both are sorted by `order`.
pub(super) fn insert<T: Clone>(elements: &mut Vec<T>, more: &[T], order: impl Fn(&T, &T) -> Ordering) {
    let position_of = |item: &T| elements.binary_search_by(|other| order(other, item)).err();
    let new: Vec<(usize, T)> =
        more.iter().filter_map(|item| Some((position_of(item)?, item.clone()))).collect();
    if new.len() <= FEW {
        // From the end to the beginning, so that the remaining positions stay valid.
        return new.into_iter().rev().for_each(|(at, item)| elements.insert(at, item));
    }
    let mut rest = std::mem::take(elements).into_iter();
    elements.reserve(rest.len() + new.len());
    let mut moved = 0;
    for (at, item) in new {
        elements.extend(rest.by_ref().take(at - moved));
        elements.push(item);
        moved = at;
    }
    elements.extend(rest);
}

/// Removes the elements that are equal to an element of `less`. Both are sorted; `order` compares an element of `elements`
/// with an element of `less`.
pub(super) fn remove<T, U>(elements: &mut Vec<T>, less: &[U], order: impl Fn(&T, &U) -> Ordering) {
    let position_of = |item: &U| elements.binary_search_by(|other| order(other, item)).ok();
    let removed: Vec<usize> = less.iter().filter_map(position_of).collect();
    if removed.len() <= FEW {
        return removed.into_iter().rev().for_each(|at| _ = elements.remove(at));
    }
    let mut removed = removed.into_iter().peekable();
    let mut at = 0;
    elements.retain(|_| {
        let stays = removed.next_if_eq(&at).is_none();
        at += 1;
        stays
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Compares with `BTreeMap` as the reference implementation: existing keys keep their value.
        #[test]
        fn agrees_with_maps(
            elements in proptest::collection::btree_map(0..40u8, 0..2u8, 0..30),
            other in proptest::collection::btree_map(0..40u8, 0..2u8, 0..30),
        ) {
            let pairs = |map: &BTreeMap<u8, u8>| map.clone().into_iter().collect::<Vec<_>>();
            let (start, more) = (pairs(&elements), pairs(&other));
            let mut both = start.clone();
            insert(&mut both, &more, |a, b| a.0.cmp(&b.0));
            let mut union = other.clone();
            union.extend(elements.clone());
            prop_assert_eq!(both, pairs(&union));
            let mut rest = start.clone();
            remove(&mut rest, &more, Ord::cmp);
            prop_assert_eq!(rest, start.iter().filter(|pair| !more.contains(pair)).copied().collect::<Vec<_>>());
            let mut rest = start.clone();
            let keys: Vec<u8> = other.keys().copied().collect();
            remove(&mut rest, &keys, |pair, key| pair.0.cmp(key));
            prop_assert_eq!(rest, start.iter().filter(|pair| !keys.contains(&pair.0)).copied().collect::<Vec<_>>());
        }
    }
}
