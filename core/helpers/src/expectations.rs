//! Expected connections.
//!
//! An expectation contains the source address, the destination address and the destination port of a connection; its source port is not
//! known. It belongs to the control connection that announced it, and is removed together with that connection.
//!
//! **Bounds**: [`PER_PARENT_MAX`] expectations per control connection; a newer one replaces the oldest. [`EXPECTED_MAX`] in total; at this
//! number, a new one replaces the oldest one of the zone that has the most (`zone_shares.rs`). Open vSwitch has neither bound.
//!
//! **Threads**: any. The check of a new connection costs one load if nothing is expected, otherwise a look-up under a mutex.

use crate::zone_shares::ZoneShares;
use std::collections::BTreeMap;
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

/// An expectation in the table.
#[derive(Debug)]
struct Entry<N> {
    parent: Parent<N>,
    /// Number of expectations that were added before; it orders the expectations by sequence.
    sequence: u64,
}

#[derive(Debug)]
struct Tables<N> {
    by_endpoints: BTreeMap<Endpoints, Entry<N>>,
    /// Expectations of each control connection by their sequence.
    by_parent: BTreeMap<Endpoints, BTreeMap<u64, Endpoints>>,
    shares: ZoneShares<Endpoints>,
    /// The sequence of the next expectation.
    next_sequence: u64,
}

impl<N: Copy> Tables<N> {
    /// Adds an expectation that is not in the table.
    fn insert(&mut self, endpoints: Endpoints, parent: Parent<N>) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.by_parent.entry(parent.endpoints).or_default().insert(sequence, endpoints);
        self.shares.insert(endpoints.zone, sequence, endpoints);
        self.by_endpoints.insert(endpoints, Entry { parent, sequence });
    }

    fn remove(&mut self, endpoints: &Endpoints) {
        let Some(Entry { parent, sequence }) = self.by_endpoints.remove(endpoints) else { return };
        self.shares.remove(endpoints.zone, sequence);
        if let Some(of_parent) = self.by_parent.get_mut(&parent.endpoints) {
            of_parent.remove(&sequence);
            if of_parent.is_empty() {
                self.by_parent.remove(&parent.endpoints);
            }
        }
    }

    /// The expectation that a new one of this control connection replaces; `None` if there is space for one more.
    fn to_replace(&self, parent: &Endpoints, limit: usize) -> Option<Endpoints> {
        let of_parent = self.by_parent.get(parent).filter(|of_parent| of_parent.len() >= PER_PARENT_MAX);
        match of_parent {
            Some(of_parent) => of_parent.values().next().copied(),
            None => self.shares.to_evict().filter(|_| self.by_endpoints.len() >= limit),
        }
    }
}

/// All expected connections. `N` describes the translation of an expected connection.
#[derive(Debug)]
pub struct Expectations<N> {
    count: AtomicUsize,
    /// Maximum number of expectations of all control connections.
    limit: usize,
    tables: Mutex<Tables<N>>,
}

impl<N> Default for Expectations<N> {
    fn default() -> Expectations<N> {
        Expectations::with_limit(EXPECTED_MAX)
    }
}

impl<N> Expectations<N> {
    pub(crate) fn with_limit(limit: usize) -> Expectations<N> {
        let (by_endpoints, by_parent) = (BTreeMap::new(), BTreeMap::new());
        let tables = Tables { by_endpoints, by_parent, shares: ZoneShares::default(), next_sequence: 0 };
        Expectations { count: AtomicUsize::new(0), limit, tables: Mutex::new(tables) }
    }
}

impl<N: Copy> Expectations<N> {
    fn lock(&self) -> MutexGuard<'_, Tables<N>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update_count(&self, tables: &Tables<N>) {
        self.count.store(tables.by_endpoints.len(), Ordering::Relaxed);
    }

    /// Adds an expectation of a connection with any source port. If the connection is expected already, nothing changes. If a limit is
    /// reached, the new expectation replaces another one.
    ///
    /// A caller that races with the removal of the control connection must check afterwards that the control connection still exists, and
    /// call [`forget`](Self::forget) if not.
    pub fn add(&self, endpoints: Endpoints, parent: Parent<N>) {
        let endpoints = Endpoints { src_port: 0, ..endpoints };
        let mut tables = self.lock();
        if tables.by_endpoints.contains_key(&endpoints) {
            return;
        }
        if let Some(replaced) = tables.to_replace(&parent.endpoints, self.limit) {
            tables.remove(&replaced);
        }
        tables.insert(endpoints, parent);
        self.update_count(&tables);
    }

    /// The control connection that announced a connection, if there is one. The expectation is kept, because the peer may connect again.
    #[inline]
    pub fn find(&self, endpoints: &Endpoints) -> Option<Parent<N>> {
        if self.is_empty() {
            return None;
        }
        self.lock().by_endpoints.get(&Endpoints { src_port: 0, ..*endpoints }).map(|entry| entry.parent)
    }

    /// Removes the expectations of a control connection that was removed.
    ///
    /// It always takes the lock, because [`is_empty`](Self::is_empty) does not see an expectation that another thread is adding: either this
    /// call finds the expectation, or the other thread finds that the control connection was removed.
    pub fn forget(&self, parent: &Endpoints) {
        let mut tables = self.lock();
        for endpoints in tables.by_parent.remove(parent).unwrap_or_default().into_values() {
            tables.remove(&endpoints);
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
        all.map(|(endpoints, entry)| Expectation { endpoints: *endpoints, parent: entry.parent }).collect()
    }

    /// Whether the indexes are empty, too.
    #[cfg(test)]
    pub(crate) fn is_unused(&self) -> bool {
        let tables = self.lock();
        self.is_empty()
            && tables.by_endpoints.is_empty()
            && tables.by_parent.is_empty()
            && tables.shares.is_empty()
    }
}
