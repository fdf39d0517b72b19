//! Expected connections.
//!
//! An expectation names the source address, the destination address and the destination port of a connection;
//! its source port is not known. It belongs to the control connection that announced it and is removed with
//! it.
//!
//! **Bounds**: [`PER_PARENT`] expectations of one control connection; a newer one replaces the oldest.
//! [`EXPECTED_MAX`] in total; when this is reached, no more are added. Open vSwitch has neither bound.
//!
//! **Threads**: any. A new connection costs one load if nothing is expected, and otherwise a look-up under a
//! mutex.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of expectations of one control connection.
pub const PER_PARENT: usize = 64;
/// Maximum number of expectations of all control connections.
pub const EXPECTED_MAX: usize = 65_536;

/// Two ends in a zone, of one protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ends {
    /// Zone.
    pub zone: u16,
    /// The addresses are those of IPv6.
    pub v6: bool,
    /// IP protocol.
    pub proto: u8,
    /// Source address, most significant half first; of IPv4 in the low half.
    pub src: [u64; 2],
    /// Destination address.
    pub dst: [u64; 2],
    /// Source port; 0 in an expectation.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
}

/// What an expected connection inherits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parent<N> {
    /// The control connection, in the direction of its first packet.
    pub ends: Ends,
    /// Its mark.
    pub mark: u32,
    /// Its label, most significant half first.
    pub label: [u64; 2],
    /// The translation of the expected connection.
    pub nat: N,
}

/// A connection that is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expectation<N> {
    /// Its ends, without a source port.
    pub ends: Ends,
    /// The control connection.
    pub parent: Parent<N>,
}

#[derive(Debug)]
struct Tables<N> {
    by_ends: BTreeMap<Ends, Parent<N>>,
    /// Expectations of each control connection, the oldest first.
    by_parent: BTreeMap<Ends, VecDeque<Ends>>,
}

/// All expected connections. `N` describes the translation of an expected connection.
#[derive(Debug)]
pub struct Expectations<N> {
    count: AtomicUsize,
    tables: Mutex<Tables<N>>,
}

impl<N> Default for Expectations<N> {
    fn default() -> Expectations<N> {
        let tables = Tables { by_ends: BTreeMap::new(), by_parent: BTreeMap::new() };
        Expectations { count: AtomicUsize::new(0), tables: Mutex::new(tables) }
    }
}

impl<N: Copy> Expectations<N> {
    fn lock(&self) -> MutexGuard<'_, Tables<N>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, tables: &Tables<N>) {
        self.count.store(tables.by_ends.len(), Ordering::Relaxed);
    }

    /// Expects a connection with any source port. An existing expectation is not changed. `false`: a limit is
    /// reached.
    pub fn add(&self, ends: Ends, parent: Parent<N>) -> bool {
        let ends = Ends { src_port: 0, ..ends };
        let mut tables = self.lock();
        if tables.by_ends.contains_key(&ends) {
            return true;
        }
        let of_parent = tables.by_parent.entry(parent.ends).or_default();
        let oldest = if of_parent.len() == PER_PARENT { of_parent.pop_front() } else { None };
        oldest.map(|oldest| tables.by_ends.remove(&oldest));
        let fits = tables.by_ends.len() < EXPECTED_MAX;
        if fits {
            tables.by_parent.entry(parent.ends).or_default().push_back(ends);
            tables.by_ends.insert(ends, parent);
        } else if tables.by_parent.get(&parent.ends).is_some_and(VecDeque::is_empty) {
            tables.by_parent.remove(&parent.ends);
        }
        self.note(&tables);
        fits
    }

    /// The control connection that announced a connection, if there is one. The expectation stays, because
    /// the peer may retry.
    #[inline]
    pub fn find(&self, ends: &Ends) -> Option<Parent<N>> {
        if self.is_empty() {
            return None;
        }
        self.lock().by_ends.get(&Ends { src_port: 0, ..*ends }).copied()
    }

    /// Removes the expectations of a control connection that was removed.
    pub fn forget(&self, parent: &Ends) {
        if self.is_empty() {
            return;
        }
        let mut tables = self.lock();
        for ends in tables.by_parent.remove(parent).unwrap_or_default() {
            tables.by_ends.remove(&ends);
        }
        self.note(&tables);
    }

    /// Returns whether nothing is expected.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Number of expected connections.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// All expectations of a zone (`None`: of all zones), ordered by their ends.
    pub fn dump(&self, zone: Option<u16>) -> Vec<Expectation<N>> {
        let tables = self.lock();
        let all = tables.by_ends.iter().filter(|(ends, _)| zone.is_none_or(|zone| ends.zone == zone));
        all.map(|(ends, parent)| Expectation { ends: *ends, parent: *parent }).collect()
    }
}
