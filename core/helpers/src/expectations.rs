//! Expected connections.
//!
//! An expectation contains the source address, the destination address and the destination port of a connection; its source port is not
//! known. It belongs to the control connection that announced it, and is removed together with that connection.
//!
//! **Bounds**: [`PER_PARENT_MAX`] expectations per control connection; a newer one replaces the oldest. [`EXPECTED_MAX`] in total; at this
//! number, no more are added. Open vSwitch has neither bound.
//!
//! **Threads**: any. The check of a new connection costs one load if nothing is expected, otherwise a look-up under a mutex.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of expectations of one control connection.
pub const PER_PARENT_MAX: usize = 64;
/// Maximum number of expectations of all control connections.
pub const EXPECTED_MAX: usize = 65_536;

/// The endpoints of a connection, with zone and protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoints {
    /// Zone.
    pub zone: u16,
    /// The addresses are IPv6 addresses.
    pub v6: bool,
    /// IP protocol.
    pub proto: u8,
    /// Source address, most significant half first; an IPv4 address is in the low half.
    pub src: [u64; 2],
    /// Destination address.
    pub dst: [u64; 2],
    /// Source port; 0 in an expectation.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
}

/// The control connection that announced an expected connection, and what the expected connection inherits from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parent<N> {
    /// Endpoints of the control connection, in the direction of its first packet.
    pub endpoints: Endpoints,
    /// Mark of the control connection.
    pub mark: u32,
    /// Label of the control connection, most significant half first.
    pub label: [u64; 2],
    /// The translation of the expected connection.
    pub nat: N,
}

/// A connection that is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expectation<N> {
    /// The endpoints of the expected connection, without a source port.
    pub endpoints: Endpoints,
    /// The control connection.
    pub parent: Parent<N>,
}

#[derive(Debug)]
struct Tables<N> {
    by_endpoints: BTreeMap<Endpoints, Parent<N>>,
    /// Expectations of each control connection, the oldest first.
    by_parent: BTreeMap<Endpoints, VecDeque<Endpoints>>,
}

/// All expected connections. `N` describes the translation of an expected connection.
#[derive(Debug)]
pub struct Expectations<N> {
    count: AtomicUsize,
    tables: Mutex<Tables<N>>,
}

impl<N> Default for Expectations<N> {
    fn default() -> Expectations<N> {
        let tables = Tables { by_endpoints: BTreeMap::new(), by_parent: BTreeMap::new() };
        Expectations { count: AtomicUsize::new(0), tables: Mutex::new(tables) }
    }
}

impl<N: Copy> Expectations<N> {
    fn lock(&self) -> MutexGuard<'_, Tables<N>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update_count(&self, tables: &Tables<N>) {
        self.count.store(tables.by_endpoints.len(), Ordering::Relaxed);
    }

    /// Adds an expectation of a connection with any source port. If the connection is expected already, nothing changes. `false`: the limit
    /// for all control connections is reached.
    pub fn add(&self, endpoints: Endpoints, parent: Parent<N>) -> bool {
        let endpoints = Endpoints { src_port: 0, ..endpoints };
        let mut tables = self.lock();
        if tables.by_endpoints.contains_key(&endpoints) {
            return true;
        }
        let of_parent = tables.by_parent.entry(parent.endpoints).or_default();
        let oldest = if of_parent.len() == PER_PARENT_MAX { of_parent.pop_front() } else { None };
        oldest.map(|oldest| tables.by_endpoints.remove(&oldest));
        let fits = tables.by_endpoints.len() < EXPECTED_MAX;
        if fits {
            tables.by_parent.entry(parent.endpoints).or_default().push_back(endpoints);
            tables.by_endpoints.insert(endpoints, parent);
        } else if tables.by_parent.get(&parent.endpoints).is_some_and(VecDeque::is_empty) {
            tables.by_parent.remove(&parent.endpoints);
        }
        self.update_count(&tables);
        fits
    }

    /// The control connection that announced a connection, if there is one. The expectation is kept, because the peer may connect again.
    #[inline]
    pub fn find(&self, endpoints: &Endpoints) -> Option<Parent<N>> {
        if self.is_empty() {
            return None;
        }
        self.lock().by_endpoints.get(&Endpoints { src_port: 0, ..*endpoints }).copied()
    }

    /// Removes the expectations of a control connection that was removed.
    pub fn forget(&self, parent: &Endpoints) {
        if self.is_empty() {
            return;
        }
        let mut tables = self.lock();
        for endpoints in tables.by_parent.remove(parent).unwrap_or_default() {
            tables.by_endpoints.remove(&endpoints);
        }
        self.update_count(&tables);
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

    /// All expectations of a zone (`None`: of all zones), ordered by their endpoints.
    pub fn dump(&self, zone: Option<u16>) -> Vec<Expectation<N>> {
        let tables = self.lock();
        let all = tables
            .by_endpoints
            .iter()
            .filter(|(endpoints, _)| zone.is_none_or(|zone| endpoints.zone == zone));
        all.map(|(endpoints, parent)| Expectation { endpoints: *endpoints, parent: *parent }).collect()
    }
}
