//! What the threads that translate share with the main loop: the published snapshot, frozen states, and a queue of
//! things that the main loop has to do.
//!
//! **Threads**: workers and the main loop. Workers read the snapshot without a lock; the queue and the frozen states
//! stand behind locks that are held for one operation.

use crate::changes::Changes;
use crate::macs::SharedMacs;
use crate::packet_in::PacketInParts;
use crate::shadow::Suspect;
use arc_swap::ArcSwap;
use runtime::Waker;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::Millis;
use xlate::{BridgeId, FinTimeout, Frozen, LearnedFlow, Recirc, RecircTable, Snapshot, Trail, Trails};

/// A snapshot with its number and with the learning tables behind it.
pub struct Published {
    /// Grows with each publication.
    pub version: u64,
    /// What translations see.
    pub snapshot: Snapshot,
    /// The learning tables of its bridges.
    pub macs: HashMap<BridgeId, Arc<SharedMacs>>,
}

/// Something for the main loop, caused by a packet.
pub enum Deed {
    /// Put the flow that a `learn` action made, of a packet of this time.
    Learn(Arc<LearnedFlow>, Millis),
    /// Shorten a rule's timeouts.
    FinTimeout(FinTimeout),
    /// Send a packet to controllers.
    PacketIn(Box<PacketInParts>),
    /// Look whether a megaflow is wrong.
    Suspect(Box<Suspect>),
}

/// How many deeds may wait. Beyond that packets cause no more of them: they are lost, and counted.
pub(crate) const DEEDS_MAX: usize = 16 * 1024;

/// Changes of the learning tables, the one thing that translations read past the snapshot, and their number.
#[derive(Default)]
struct LiveChanges {
    changes: Changes,
    noted: u64,
}

/// See the module.
pub struct Control {
    published: ArcSwap<Published>,
    recirc: Mutex<RecircTable>,
    deeds: Mutex<Vec<Deed>>,
    lost: AtomicU64,
    /// Changes of what translations read past the snapshot, which the main loop has not taken.
    live: Mutex<LiveChanges>,
    any_live: AtomicBool,
    /// How many of them there have been, and how many of these the revalidator has been given.
    noted: AtomicU64,
    handed: AtomicU64,
    trails: Mutex<Trails>,
    waker: Waker,
}

impl Control {
    /// Nothing published yet; `waker` is the main loop's.
    pub fn new(waker: Waker) -> Control {
        let empty = Published { version: 0, snapshot: Snapshot::default(), macs: HashMap::new() };
        Control {
            published: ArcSwap::from_pointee(empty),
            recirc: Mutex::default(),
            deeds: Mutex::default(),
            lost: AtomicU64::new(0),
            live: Mutex::default(),
            any_live: AtomicBool::new(false),
            noted: AtomicU64::new(0),
            handed: AtomicU64::new(0),
            trails: Mutex::default(),
            waker,
        }
    }

    /// The newest snapshot.
    pub fn published(&self) -> Arc<Published> {
        self.published.load_full()
    }

    /// Publishes; the version is the next one.
    pub fn publish(&self, snapshot: Snapshot, macs: HashMap<BridgeId, Arc<SharedMacs>>) {
        let version = self.published.load().version + 1;
        self.published.store(Arc::new(Published { version, snapshot, macs }));
    }

    /// The version of the newest snapshot.
    pub fn version(&self) -> u64 {
        self.published.load().version
    }

    /// Ends the main loop's sleep.
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// Queues a deed and wakes the main loop.
    pub fn enqueue(&self, deed: Deed) {
        let mut deeds = lock(&self.deeds);
        if deeds.len() < DEEDS_MAX {
            deeds.push(deed);
            drop(deeds);
            self.waker.wake();
        } else {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All deeds since the last call.
    pub fn take_deeds(&self) -> Vec<Deed> {
        std::mem::take(&mut *lock(&self.deeds))
    }

    /// A learning table has changed. To be called while its lock is still held: nobody can see the change before it is noted.
    pub fn note_live(&self, changes: Changes) {
        if changes.is_empty() {
            return;
        }
        let mut live = lock(&self.live);
        live.changes.append(changes);
        live.noted += 1;
        self.noted.store(live.noted, Ordering::Release);
        drop(live);
        if !self.any_live.swap(true, Ordering::AcqRel) {
            self.waker.wake();
        }
    }

    /// The changes of learning tables since the last call, and how many there have been in all: [`Control::hand_over`] is to
    /// be told once the revalidator has them.
    pub fn take_live(&self) -> Option<(Changes, u64)> {
        self.any_live.swap(false, Ordering::AcqRel).then(|| {
            let mut live = lock(&self.live);
            (std::mem::take(&mut live.changes), live.noted)
        })
    }

    /// The revalidator has been given so many changes of learning tables.
    pub fn hand_over(&self, noted: u64) {
        self.handed.store(noted, Ordering::Release);
    }

    /// Some change of a learning table has not got to the revalidator.
    pub fn has_live_changes(&self) -> bool {
        self.noted.load(Ordering::Acquire) != self.handed.load(Ordering::Acquire)
    }

    /// The number of what a translation consulted.
    pub fn number(&self, trail: &Trail) -> u32 {
        lock(&self.trails).number(trail)
    }

    /// What a number stands for.
    pub fn trail(&self, number: u32) -> Option<Arc<Trail>> {
        lock(&self.trails).get(number)
    }

    /// All trails that have numbers.
    pub fn trails(&self) -> Vec<(u32, Arc<Trail>)> {
        lock(&self.trails).all()
    }

    /// There is hardly room for other trails.
    pub fn has_many_trails(&self) -> bool {
        lock(&self.trails).is_crowded()
    }

    /// Forgets the trails that no megaflow has.
    pub fn retain_trails(&self, used: &HashSet<u32>) {
        lock(&self.trails).retain(used);
    }

    /// Deeds that were lost since the last call.
    pub fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    /// Gives references to frozen states back.
    pub fn release(&self, ids: &[u32]) {
        if !ids.is_empty() {
            let mut table = lock(&self.recirc);
            ids.iter().for_each(|&id| table.release(id));
        }
    }

    /// Frees frozen states that nothing has referred to for a while; to be called about once a second.
    pub fn expire_frozen(&self) {
        lock(&self.recirc).expire();
    }
}

impl Recirc for Control {
    fn freeze(&self, state: Frozen) -> Option<u32> {
        lock(&self.recirc).freeze(state)
    }

    fn thaw(&self, id: u32) -> Option<Arc<Frozen>> {
        lock(&self.recirc).thaw(id)
    }

    fn hold(&self, id: u32) -> Option<Arc<Frozen>> {
        lock(&self.recirc).hold(id)
    }
}

/// A panic of another holder leaves each of them usable: each operation on them is complete in itself.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
