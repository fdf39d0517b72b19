//! Drops by port and reason.
//!
//! A worker has a row of counters for each port at which it dropped a packet. Only that worker writes to the row, so
//! counting needs no atomic read-modify-write; any thread reads the row. If a worker finds the list of rows locked,
//! it keeps a new row to itself until the list is free: it never waits, and no drop is lost.

use crate::drop_port::DropPort;
use dpif::DropReason;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// Maximum number of rows of one worker: two for each port of a large host. Drops at more ports are counted by reason
/// only.
const ROWS_MAX: usize = 1 << 16;

/// Counts of drops by reason.
pub type DropCounts = [u64; DropReason::COUNT];

/// Counters of one port.
#[derive(Debug)]
struct Row([AtomicU64; DropReason::COUNT]);

impl Row {
    fn new() -> Arc<Row> {
        Arc::new(Row([const { AtomicU64::new(0) }; DropReason::COUNT]))
    }

    #[inline]
    fn add(&self, reason: DropReason, n: u64) {
        let count = &self.0[reason as usize];
        count.store(count.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }
}

/// The rows of one worker, as other threads read them.
#[derive(Debug, Default)]
pub(crate) struct SharedPortDrops {
    rows: Mutex<BTreeMap<DropPort, Arc<Row>>>,
    /// Increases when the rows of a removed port are removed.
    removed: AtomicU64,
}

impl SharedPortDrops {
    /// Adds these counters to `sums`.
    pub(crate) fn add_to(&self, sums: &mut BTreeMap<DropPort, DropCounts>) {
        let rows: Vec<(DropPort, Arc<Row>)> = self
            .rows
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .map(|(p, row)| (*p, Arc::clone(row)))
            .collect();
        for (drop_port, row) in rows {
            let sum = sums.entry(drop_port).or_insert([0; DropReason::COUNT]);
            sum.iter_mut()
                .zip(&row.0)
                .for_each(|(sum, n)| *sum = sum.wrapping_add(n.load(Ordering::Relaxed)));
        }
    }

    /// Removes the rows of a removed port.
    pub(crate) fn forget(&self, port: u32) {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.retain(|drop_port, _| drop_port.port() != port);
        self.removed.fetch_add(1, Ordering::Release);
    }
}

/// The worker's side of its counters.
pub(crate) struct PortDrops {
    shared: Arc<SharedPortDrops>,
    /// The row that was used last.
    last: Option<(DropPort, Arc<Row>)>,
    known: BTreeMap<DropPort, Arc<Row>>,
    /// Rows that are not in the shared list yet.
    unlisted: Vec<(DropPort, Arc<Row>)>,
    removed: u64,
}

impl PortDrops {
    pub(crate) fn new(shared: Arc<SharedPortDrops>) -> PortDrops {
        PortDrops { shared, last: None, known: BTreeMap::new(), unlisted: Vec::new(), removed: 0 }
    }

    /// Counts drops.
    #[inline]
    pub(crate) fn count(&mut self, drop_port: DropPort, reason: DropReason, n: u64) {
        match &self.last {
            Some((last, row)) if *last == drop_port => row.add(reason, n),
            _ => self.count_elsewhere(drop_port, reason, n),
        }
    }

    #[cold]
    fn count_elsewhere(&mut self, drop_port: DropPort, reason: DropReason, n: u64) {
        let row = match self.known.get(&drop_port) {
            Some(row) => Arc::clone(row),
            None if self.known.len() >= ROWS_MAX => return,
            None => {
                let row = Row::new();
                self.known.insert(drop_port, Arc::clone(&row));
                self.unlisted.push((drop_port, Arc::clone(&row)));
                row
            }
        };
        row.add(reason, n);
        self.last = Some((drop_port, row));
        self.list();
    }

    /// Adds new rows to the list that other threads read.
    #[inline]
    pub(crate) fn list(&mut self) {
        if !self.unlisted.is_empty() {
            self.list_now();
        }
    }

    #[cold]
    fn list_now(&mut self) {
        match self.shared.rows.try_lock() {
            Ok(mut rows) => rows.extend(self.unlisted.drain(..)),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().extend(self.unlisted.drain(..)),
            Err(TryLockError::WouldBlock) => {}
        }
    }

    /// Frees the rows of removed ports. Called when ports have changed.
    pub(crate) fn refresh(&mut self) {
        let removed = self.shared.removed.load(Ordering::Acquire);
        if removed == self.removed {
            return;
        }
        // Only the shared list is up to date. If it is locked, the rows are removed at the next change of ports.
        if let Ok(rows) = self.shared.rows.try_lock() {
            self.removed = removed;
            self.last = None;
            self.known.clone_from(&rows);
            self.known.extend(self.unlisted.iter().cloned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_port_and_reason() {
        let shared = Arc::new(SharedPortDrops::default());
        let mut drops = PortDrops::new(Arc::clone(&shared));
        let sums = || {
            let mut sums = BTreeMap::new();
            shared.add_to(&mut sums);
            let of = |counts: DropCounts| {
                DropReason::ALL
                    .iter()
                    .map(|r| (*r, counts[*r as usize]))
                    .filter(|(_, n)| *n != 0)
                    .collect::<Vec<_>>()
            };
            sums.into_iter().map(|(drop_port, counts)| (drop_port, of(counts))).collect::<Vec<_>>()
        };
        let (meter, mtu) = (DropReason::Meter, DropReason::TxTooLong);
        drops.count(DropPort::In(1), meter, 2);
        let guard = shared.rows.lock().unwrap();
        drops.count(DropPort::Out(2), mtu, 1);
        drops.count(DropPort::In(1), meter, 1);
        drop(guard);
        assert_eq!(sums(), [(DropPort::In(1), vec![(meter, 3)])], "the list was locked");
        drops.list();
        assert_eq!(sums(), [(DropPort::In(1), vec![(meter, 3)]), (DropPort::Out(2), vec![(mtu, 1)])]);
        shared.forget(1);
        drops.refresh();
        drops.count(DropPort::In(1), mtu, 1);
        assert_eq!(sums(), [(DropPort::In(1), vec![(mtu, 1)]), (DropPort::Out(2), vec![(mtu, 1)])]);
    }
}
