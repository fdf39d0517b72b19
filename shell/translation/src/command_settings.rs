//! Settings of a datapath that only commands change.
//!
//! **Threads**: the main thread sets them, any thread reads them.

use datapath::Tally;
use dpif::Capabilities;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use units::{Millis, WorkerId};

/// Settings of one datapath that only commands change.
#[derive(Debug)]
pub struct CommandSettings {
    exact: AtomicBool,
    ufid: AtomicBool,
    capabilities: Mutex<Capabilities>,
    /// For each worker, its counters when they were last cleared, and the time.
    cleared: Mutex<BTreeMap<WorkerId, (Tally, Millis)>>,
}

impl Default for CommandSettings {
    fn default() -> CommandSettings {
        CommandSettings {
            exact: AtomicBool::new(false),
            ufid: AtomicBool::new(true),
            capabilities: Mutex::new(Capabilities::USERSPACE),
            cleared: Mutex::default(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CommandSettings {
    /// Whether megaflows match every field of the packet (`upcall/disable-megaflows`).
    pub fn exact(&self) -> bool {
        self.exact.load(Ordering::Relaxed)
    }

    /// See [`CommandSettings::exact`].
    pub fn set_exact(&self, on: bool) {
        self.exact.store(on, Ordering::Relaxed);
    }

    /// Whether flows are shown with their identifiers (`upcall/disable-ufid`).
    pub fn ufid(&self) -> bool {
        self.ufid.load(Ordering::Relaxed)
    }

    /// See [`CommandSettings::ufid`].
    pub fn set_ufid(&self, on: bool) {
        self.ufid.store(on, Ordering::Relaxed);
    }

    /// The features of the datapath that translations may use: all, without those disabled by `dpif/set-dp-features`.
    pub fn capabilities(&self) -> Capabilities {
        *lock(&self.capabilities)
    }

    /// See [`CommandSettings::capabilities`].
    pub fn set_capabilities(&self, capabilities: Capabilities) {
        *lock(&self.capabilities) = capabilities;
    }

    /// The values of a worker's counters when they were last cleared; they are subtracted when the counters are shown.
    pub fn cleared(&self, worker: WorkerId) -> Tally {
        lock(&self.cleared).get(&worker).map(|(tally, _)| *tally).unwrap_or_default()
    }

    /// The sum over all workers of the counters' values when they were last cleared (see [`cleared`](Self::cleared)).
    pub fn counts_when_cleared(&self) -> Tally {
        let mut sum = Tally::default();
        lock(&self.cleared).values().for_each(|(t, _)| sum.merge(t));
        sum
    }

    /// When a worker's counters were last cleared.
    pub fn cleared_at(&self, worker: WorkerId) -> Option<Millis> {
        lock(&self.cleared).get(&worker).map(|(_, at)| *at)
    }

    /// Clears a worker's counters by recording their current values.
    pub fn clear(&self, worker: WorkerId, counted: Tally, now: Millis) {
        lock(&self.cleared).insert(worker, (counted, now));
    }
}
