//! A persistent map from hashes to values: a clone shares all nodes, and a change copies only the path to the changed entry.
//!
//! A table of a million rules has one entry for each rule, and up to three more for the indices of its stages. So
//! entries are small and stored contiguously, in sorted pages of up to [`PAGE`] entries. Pages are the leaves of a trie.
//! Its nodes have 64 slots, which six bits of the hash select, the highest bits at the root. A page covers a run of slots
//! of its node; when the page is full, its run is split. So pages are two thirds full on average, whatever the number of
//! entries.
//!
//! Cache misses dominate the time of a look-up in a large table. Nodes and pages store their contents inline, so that
//! each of them causes only one cache miss.
//!
//! # Invariants
//!
//! * A run has 2ⁿ slots and starts at a multiple of 2ⁿ; the first run starts at slot 0.
//! * A page has more than [`PAGE`] entries only during the insertion that splits it. Splitting always ends: after ten levels of six bits, four
//!   bits of the hash are left, so a page has at most 16 different hashes.

use arrayvec::ArrayVec;
use std::slice;
use std::sync::Arc;

/// Number of entries of a full page. A binary search compares five of them; a change copies the page if a snapshot
/// shares it.
const PAGE: usize = 16;
/// Number of bits of the hash that select a slot of a node.
const BITS: u32 = 6;
/// Slots of a node.
const SLOTS: usize = 1 << BITS;

/// A persistent map from hashes to values.
#[derive(Debug)]
pub(super) struct HashTrie<V> {
    root: Child<V>,
}

#[derive(Debug)]
enum Child<V> {
    Page(Arc<Page<V>>),
    Node(Arc<Node<V>>),
}

/// Entries, sorted by hash. The capacity is a full page and the entry that causes its split.
type Page<V> = ArrayVec<(u64, V), { PAGE + 1 }>;

#[derive(Clone, Debug)]
struct Node<V> {
    /// Bit set of the slots where runs start.
    run_starts: u64,
    /// The child of each run, in order.
    children: ArrayVec<Child<V>, SLOTS>,
}

impl<V> Default for HashTrie<V> {
    fn default() -> Self {
        HashTrie { root: Child::Page(Arc::default()) }
    }
}

impl<V> Clone for HashTrie<V> {
    fn clone(&self) -> Self {
        HashTrie { root: self.root.clone() }
    }
}

impl<V> Clone for Child<V> {
    fn clone(&self) -> Self {
        match self {
            Child::Page(page) => Child::Page(Arc::clone(page)),
            Child::Node(node) => Child::Node(Arc::clone(node)),
        }
    }
}

impl<V> HashTrie<V> {
    pub(super) fn get(&self, hash: u64) -> Option<&V> {
        let (mut child, mut depth) = (&self.root, 0);
        loop {
            match child {
                Child::Page(page) => return find(page, hash).ok().map(|at| &page[at].1),
                Child::Node(node) => child = &node.children[node.index(slot(hash, depth))],
            }
            depth += 1;
        }
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        Values { nodes: vec![slice::from_ref(&self.root).iter()], page: [].iter() }
    }
}

impl<V: Clone> HashTrie<V> {
    pub(super) fn get_mut(&mut self, hash: u64) -> Option<&mut V> {
        let (mut child, mut depth) = (&mut self.root, 0);
        loop {
            match child {
                Child::Page(page) => {
                    let at = find(page, hash).ok()?;
                    return Some(&mut Arc::make_mut(page)[at].1);
                }
                Child::Node(node) => {
                    let node = Arc::make_mut(node);
                    let at = node.index(slot(hash, depth));
                    child = &mut node.children[at];
                }
            }
            depth += 1;
        }
    }

    /// Inserts or replaces a value.
    pub(super) fn insert(&mut self, hash: u64, value: V) {
        if self.root.insert(0, hash, value) {
            self.root = Child::Node(Arc::new(Node::of(std::mem::take(self).root, 0)));
        }
    }

    pub(super) fn remove(&mut self, hash: u64) {
        // Without this check, removing a missing entry would copy pages.
        if self.get(hash).is_some() {
            self.root.remove(0, hash);
        }
    }
}

impl<V: Clone> Child<V> {
    /// Inserts or replaces a value. Returns whether the child is a page that must be split now.
    fn insert(&mut self, depth: u32, hash: u64, value: V) -> bool {
        match self {
            Child::Page(page) => {
                let page = Arc::make_mut(page);
                match find(page, hash) {
                    Ok(at) => page[at].1 = value,
                    Err(at) => page.insert(at, (hash, value)),
                }
                page.len() > PAGE
            }
            Child::Node(node) => {
                let node = Arc::make_mut(node);
                let at = node.index(slot(hash, depth));
                if node.children[at].insert(depth + 1, hash, value) {
                    node.split(at, depth);
                }
                false
            }
        }
    }

    /// Removes an entry, which must exist.
    fn remove(&mut self, depth: u32, hash: u64) {
        match self {
            Child::Page(page) => {
                if let Ok(at) = find(page, hash) {
                    Arc::make_mut(page).remove(at);
                }
            }
            Child::Node(node) => {
                let node = Arc::make_mut(node);
                let at = node.index(slot(hash, depth));
                node.children[at].remove(depth + 1, hash);
                let mut joined = Some(at);
                while let Some(at) = joined {
                    joined = node.join(at);
                }
                if let [Child::Page(only)] = node.children.as_slice() {
                    *self = Child::Page(Arc::clone(only));
                }
            }
        }
    }
}

impl<V> Node<V> {
    /// Index of the run that contains this slot.
    fn index(&self, slot: u32) -> usize {
        (self.run_starts << (63 - slot)).count_ones() as usize - 1
    }

    /// The slots of a run: its start, and the start of the next run.
    fn run(&self, index: usize) -> (u32, u32) {
        let rest = (0..index).fold(self.run_starts, |rest, _| rest & (rest - 1));
        (rest.trailing_zeros(), (rest & (rest - 1)).trailing_zeros())
    }
}

impl<V: Clone> Node<V> {
    /// Makes a node from a page with too many entries.
    fn of(page: Child<V>, depth: u32) -> Node<V> {
        let mut node = Node { run_starts: 1, children: ArrayVec::from_iter([page]) };
        node.split(0, depth);
        node
    }

    /// Splits the run of a page with too many entries until no page has too many. A page whose run has only one slot is
    /// replaced by a node.
    fn split(&mut self, index: usize, depth: u32) {
        let (begin, end) = self.run(index);
        let Child::Page(page) = &mut self.children[index] else { return };
        if end - begin == 1 {
            let page = Child::Page(std::mem::take(page));
            self.children[index] = Child::Node(Arc::new(Node::of(page, depth + 1)));
            return;
        }
        let middle = begin + (end - begin) / 2;
        let low = Arc::make_mut(page);
        let at = low.partition_point(|(hash, _)| slot(*hash, depth) < middle);
        let high: Page<V> = low.drain(at..).collect();
        let (low_len, high_len) = (low.len(), high.len());
        self.children.insert(index + 1, Child::Page(Arc::new(high)));
        self.run_starts |= 1 << middle;
        if low_len > PAGE {
            self.split(index, depth);
        } else if high_len > PAGE {
            self.split(index + 1, depth);
        }
    }

    /// Joins a page with its sibling if both together have at most half as many entries as a full page; returns the index of the joined run.
    fn join(&mut self, index: usize) -> Option<usize> {
        let (begin, end) = self.run(index);
        let length = end - begin;
        let first = if begin & length == 0 { index } else { index - 1 };
        let (Child::Page(low), Child::Page(high)) = (&self.children[first], self.children.get(first + 1)?)
        else {
            return None;
        };
        let ((begin, middle), (_, end)) = (self.run(first), self.run(first + 1));
        if (middle - begin, end - middle) != (length, length) || low.len() + high.len() > PAGE / 2 {
            return None;
        }
        let both = Child::Page(Arc::new(low.iter().chain(high.iter()).cloned().collect()));
        self.children[first] = both;
        self.children.remove(first + 1);
        self.run_starts &= !(1 << middle);
        Some(first)
    }
}

fn slot(hash: u64, depth: u32) -> u32 {
    (hash >> (u64::BITS - BITS - BITS * depth) & 63) as u32
}

fn find<V>(page: &[(u64, V)], hash: u64) -> Result<usize, usize> {
    page.binary_search_by_key(&hash, |(h, _)| *h)
}

struct Values<'a, V> {
    nodes: Vec<slice::Iter<'a, Child<V>>>,
    page: slice::Iter<'a, (u64, V)>,
}

impl<'a, V> Iterator for Values<'a, V> {
    type Item = &'a V;

    fn next(&mut self) -> Option<&'a V> {
        loop {
            if let Some((_, value)) = self.page.next() {
                return Some(value);
            }
            match self.nodes.last_mut()?.next() {
                Some(Child::Page(page)) => self.page = page.iter(),
                Some(Child::Node(node)) => self.nodes.push(node.children.iter()),
                None => drop(self.nodes.pop()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Hashes that are close together and far apart, so that pages are split at every depth.
    fn hash() -> impl Strategy<Value = u64> {
        prop_oneof![
            any::<u64>(),
            (0..64u64).prop_map(|n| n << 58),
            0..200u64,
            (0..3u64, 0..300u64).prop_map(|(a, b)| a << 57 | b << 4),
        ]
    }

    fn assert_same(map: &HashTrie<u32>, reference: &BTreeMap<u64, u32>) {
        let all: Vec<u32> = map.values().copied().collect();
        assert_eq!(all, reference.values().copied().collect::<Vec<_>>());
        assert_sound(&map.root, 0, None);
    }

    fn assert_sound(child: &Child<u32>, depth: u32, run: Option<(u32, u32)>) {
        match child {
            Child::Page(page) => {
                assert!(page.is_sorted_by(|a, b| a.0 < b.0));
                assert!(page.len() <= PAGE, "{}", page.len());
                let Some((begin, end)) = run else { return };
                assert!(page.iter().all(|(h, _)| (begin..end).contains(&slot(*h, depth - 1))));
            }
            Child::Node(node) => {
                assert_eq!(
                    (node.run_starts & 1, node.run_starts.count_ones() as usize),
                    (1, node.children.len())
                );
                for (i, child) in node.children.iter().enumerate() {
                    let (begin, end) = node.run(i);
                    assert!((end - begin).is_power_of_two() && begin % (end - begin) == 0);
                    assert_sound(child, depth + 1, Some((begin, end)));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((hash(), 0..5u8), 0..3000)) {
            let (mut map, mut reference) = (HashTrie::default(), BTreeMap::new());
            let mut snapshots = Vec::new();
            for (n, (hash, step)) in steps.into_iter().enumerate() {
                let n = n as u32;
                match step {
                    0 => {
                        map.remove(hash);
                        reference.remove(&hash);
                    }
                    1 => {
                        map.get_mut(hash).into_iter().for_each(|v| *v = n);
                        reference.get_mut(&hash).into_iter().for_each(|v| *v = n);
                    }
                    _ => {
                        map.insert(hash, n);
                        reference.insert(hash, n);
                    }
                }
                prop_assert_eq!(map.get(hash), reference.get(&hash));
                if n.is_multiple_of(500) {
                    snapshots.push((map.clone(), reference.clone()));
                }
            }
            assert_same(&map, &reference);
            snapshots.iter().for_each(|(map, reference)| assert_same(map, reference));
            for hash in reference.keys() {
                map.remove(*hash);
            }
            prop_assert!(matches!(&map.root, Child::Page(page) if page.is_empty()));
        }
    }

    #[test]
    fn pages_are_well_filled() {
        let mut map = HashTrie::default();
        let mut pages = |n: u64| {
            (0..n).for_each(|i| map.insert(i.wrapping_mul(0x9e37_79b9_7f4a_7c15), ()));
            let mut nodes = vec![&map.root];
            let mut pages = 0;
            while let Some(child) = nodes.pop() {
                match child {
                    Child::Page(_) => pages += 1,
                    Child::Node(node) => nodes.extend(&node.children),
                }
            }
            pages
        };
        for n in [10_000, 20_000, 50_000, 100_000] {
            assert!(pages(n) * PAGE as u64 <= n * 2, "{n}");
        }
    }
}
