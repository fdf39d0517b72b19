//! State shared by the threads that translate and the main thread: the published snapshot, frozen states, and a queue of
//! side effects for the main thread.
//!
//! **Threads**: workers, handlers, revalidator and main thread. The snapshot is read without a lock. The queue and the
//! frozen states have locks that are held for one operation.

use crate::live_changes::LiveChanges;
use crate::macs::SharedMacs;
use crate::multicast_groups::SharedGroupTable;
use crate::neighbours::SharedNeighbours;
use crate::published::PublishedState;
use crate::side_effect::{SIDE_EFFECTS_MAX, SideEffect};
use arc_swap::{ArcSwap, Guard};
use runtime::Waker;
use sampling::Exporters;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use sync::CachePadded;
use xlate::{BridgeId, Dependencies, DependencySets, Frozen, Recirc, RecircTable, Snapshot};

/// State of one datapath that the threads that translate share with the main thread.
pub struct SharedState {
    /// Next hops of tunnels.
    pub neighbours: Arc<SharedNeighbours>,
    /// Exporters of traffic records.
    pub exporters: Arc<Exporters>,
    /// In a cache line of its own: threads read it for each packet, and the locks beside it are written for each upcall.
    published: CachePadded<ArcSwap<PublishedState>>,
    recirc: Mutex<RecircTable>,
    side_effects: Mutex<Vec<SideEffect>>,
    /// Number of side effects that were dropped because the queue was full.
    lost: AtomicU64,
    /// Changes of learning tables and neighbours, which translations read directly, not from the snapshot.
    pub live: LiveChanges,
    dependency_sets: Mutex<DependencySets>,
    waker: Waker,
}

impl SharedState {
    /// State with an empty snapshot. `waker` wakes the main thread.
    pub fn new(waker: Waker, neighbours: Arc<SharedNeighbours>, exporters: Arc<Exporters>) -> SharedState {
        let empty = PublishedState {
            version: 0,
            snapshot: Snapshot::default(),
            macs: Arc::default(),
            groups: Arc::default(),
        };
        SharedState {
            neighbours,
            exporters,
            published: CachePadded::new(ArcSwap::from_pointee(empty)),
            recirc: Mutex::default(),
            side_effects: Mutex::default(),
            lost: AtomicU64::new(0),
            live: LiveChanges::new(waker.clone()),
            dependency_sets: Mutex::default(),
            waker,
        }
    }

    /// The newest snapshot.
    pub fn published(&self) -> Arc<PublishedState> {
        self.published.load_full()
    }

    /// The newest snapshot, for one packet. This does not change the reference count, whose cache line all threads share. Each
    /// thread can have a few such guards at a time (more of them cost as much as [`published`](Self::published)).
    pub fn published_for_packet(&self) -> Guard<Arc<PublishedState>> {
        self.published.load()
    }

    /// Publishes a snapshot with the next version.
    pub fn publish(
        &self,
        snapshot: Snapshot,
        macs: Arc<HashMap<BridgeId, Arc<SharedMacs>>>,
        groups: Arc<HashMap<BridgeId, Arc<SharedGroupTable>>>,
    ) {
        let version = self.published.load().version + 1;
        self.published.store(Arc::new(PublishedState { version, snapshot, macs, groups }));
    }

    /// The version of the newest snapshot.
    pub fn version(&self) -> u64 {
        self.published.load().version
    }

    /// Wakes the main thread.
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// Queues a side effect and wakes the main thread. Drops and counts the side effect if the queue is full.
    pub fn enqueue(&self, side_effect: SideEffect) {
        let mut side_effects = lock(&self.side_effects);
        if side_effects.len() < SIDE_EFFECTS_MAX {
            side_effects.push(side_effect);
            drop(side_effects);
            self.waker.wake();
        } else {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes all queued side effects.
    pub fn take_side_effects(&self) -> Vec<SideEffect> {
        std::mem::take(&mut *lock(&self.side_effects))
    }

    /// The number of a set of dependencies; equal sets share a number.
    pub fn dependency_set_number(&self, dependencies: &Dependencies) -> u32 {
        lock(&self.dependency_sets).number(dependencies)
    }

    /// The set of dependencies with this number.
    pub fn dependencies(&self, number: u32) -> Option<Arc<Dependencies>> {
        lock(&self.dependency_sets).get(number)
    }

    /// All sets of dependencies with their numbers.
    pub fn dependency_sets(&self) -> Vec<(u32, Arc<Dependencies>)> {
        lock(&self.dependency_sets).all()
    }

    /// The number of sets of dependencies.
    pub fn dependency_set_count(&self) -> usize {
        lock(&self.dependency_sets).count()
    }

    /// Whether the store of dependency sets is more than three quarters full.
    pub fn has_many_dependency_sets(&self) -> bool {
        lock(&self.dependency_sets).is_crowded()
    }

    /// Removes the sets of dependencies whose numbers are not in `used`.
    pub fn retain_dependency_sets(&self, used: &HashSet<u32>) {
        lock(&self.dependency_sets).retain(used);
    }

    /// Takes the number of side effects dropped since the last call.
    pub fn take_dropped_side_effects(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    /// Releases references to frozen states.
    pub fn release(&self, ids: &[u32]) {
        if !ids.is_empty() {
            let mut table = lock(&self.recirc);
            ids.iter().for_each(|&id| table.release(id));
        }
    }

    /// Frees frozen states that had no references during the last two calls; to be called about once a second.
    pub fn expire_frozen(&self) {
        lock(&self.recirc).expire();
    }
}

impl Recirc for SharedState {
    fn freeze(&self, state: Frozen) -> Option<u32> {
        lock(&self.recirc).freeze(state)
    }

    fn state(&self, id: u32) -> Option<Arc<Frozen>> {
        lock(&self.recirc).state(id)
    }

    fn state_ref(&self, id: u32) -> Option<Arc<Frozen>> {
        lock(&self.recirc).state_ref(id)
    }
}

/// Locks `mutex`. The state stays usable after a panic of another thread, because no panic can leave an operation incomplete.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
