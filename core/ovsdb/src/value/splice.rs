//! Inserts into sorted vectors and removes from them, in place.
//!
//! Long values usually change by a few elements. Each is found by binary search; the others may be moved, but
//! are not compared.

use std::cmp::Ordering;

/// Up to this many elements are inserted or removed one by one, each time moving the elements behind.
const FEW: usize = 4;

/// Adds the elements of `more` that are not in `known`. Both are sorted by `order`.
pub(super) fn insert<T: Clone>(known: &mut Vec<T>, more: &[T], order: impl Fn(&T, &T) -> Ordering) {
    let place = |item: &T| known.binary_search_by(|other| order(other, item)).err();
    let fresh: Vec<(usize, T)> = more.iter().filter_map(|item| Some((place(item)?, item.clone()))).collect();
    if fresh.len() <= FEW {
        // From the end, so that earlier positions stay valid.
        return fresh.into_iter().rev().for_each(|(at, item)| known.insert(at, item));
    }
    let mut rest = std::mem::take(known).into_iter();
    known.reserve(rest.len() + fresh.len());
    let mut moved = 0;
    for (at, item) in fresh {
        known.extend(rest.by_ref().take(at - moved));
        known.push(item);
        moved = at;
    }
    known.extend(rest);
}

/// Removes the elements that equal one of `less`. Both are sorted; `order` compares elements of the two.
pub(super) fn remove<T, U>(known: &mut Vec<T>, less: &[U], order: impl Fn(&T, &U) -> Ordering) {
    let place = |item: &U| known.binary_search_by(|other| order(other, item)).ok();
    let gone: Vec<usize> = less.iter().filter_map(place).collect();
    if gone.len() <= FEW {
        return gone.into_iter().rev().for_each(|at| _ = known.remove(at));
    }
    let mut gone = gone.into_iter().peekable();
    let mut at = 0;
    known.retain(|_| {
        let stays = gone.next_if_eq(&at).is_none();
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
            known in proptest::collection::btree_map(0..40u8, 0..2u8, 0..30),
            other in proptest::collection::btree_map(0..40u8, 0..2u8, 0..30),
        ) {
            let pairs = |map: &BTreeMap<u8, u8>| map.clone().into_iter().collect::<Vec<_>>();
            let (start, more) = (pairs(&known), pairs(&other));
            let mut both = start.clone();
            insert(&mut both, &more, |a, b| a.0.cmp(&b.0));
            let mut union = other.clone();
            union.extend(known.clone());
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
