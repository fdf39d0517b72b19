//! The megaflows of one mask: a hash table of atomic words with open addressing, which is read while it is changed.
//!
//! A slot contains the hash (32 bits) and the arena index (32 bits). An insertion stores one word. A removal stores a
//! tombstone, so that a concurrent reader still finds the entries behind it. A table that is too full is replaced by a new
//! one.

use super::key::{Depth, KeyMask, Rest};
use cpu::{Line, Secret};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use sync::{SnapshotCell, SnapshotCellGuard};

const EMPTY: u64 = u64::MAX;
const TOMBSTONE: u64 = u64::MAX - 1;
const MIN_SLOTS: usize = 32;
/// A table with at most this many megaflows uses at most a quarter of its slots, a larger one at most half. Look-ups search several
/// tables and find nothing in most of them; the fuller a table, the more slots they visit (at three quarters: 2.5 if the
/// megaflow exists and 8.5 if it does not). The memory is small beside that of the megaflows.
const SPARSE_MAX: usize = 256;

/// The least number of slots for this number of megaflows.
fn slots_for(megaflows: usize) -> usize {
    megaflows * if megaflows <= SPARSE_MAX { 4 } else { 2 }
}

/// The megaflows of one mask.
pub struct Subtable {
    mask: KeyMask,
    depth: Depth,
    secret: Arc<Secret>,
    number: u16,
    slots: SnapshotCell<Box<[AtomicU64]>>,
    /// Number of megaflows.
    live: AtomicUsize,
    /// Number of slots that are not empty: megaflows and tombstones.
    used: AtomicUsize,
    /// Number of packets that were found here, halved at each ranking.
    hits: AtomicU64,
}

fn empty_slots(n: usize) -> Arc<Box<[AtomicU64]>> {
    Arc::new((0..n).map(|_| AtomicU64::new(EMPTY)).collect())
}

impl Subtable {
    pub(super) fn new(mask: KeyMask, secret: Arc<Secret>, number: u16) -> Subtable {
        let depth = mask.depth();
        Subtable {
            mask,
            depth,
            secret,
            number,
            slots: SnapshotCell::new(empty_slots(MIN_SLOTS)),
            live: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
            hits: AtomicU64::new(0),
        }
    }

    /// The matched bits.
    pub fn mask(&self) -> &KeyMask {
        &self.mask
    }

    /// The depth to which a packet must be parsed to be looked up here.
    pub fn depth(&self) -> Depth {
        self.depth
    }

    /// The number of the subtable among the subtables of its port. It does not change, and may be reused after the subtable's
    /// removal.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The secret of the hashes by which megaflows are found.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The hash of the matched bits of a key.
    #[inline]
    pub fn hash(&self, line: &Line, rest: Rest<'_>) -> u32 {
        self.mask.hash(line, rest, &self.secret)
    }

    /// Number of megaflows.
    pub fn len(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Returns whether there are no megaflows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of packets that were found here, halved at each ranking. The subtables are ranked by this number.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Counts packets that were found here; called once per batch.
    pub fn count_hits(&self, n: u64) {
        self.hits.fetch_add(n, Ordering::Relaxed);
    }

    /// Halves the number of hits.
    pub(super) fn age_hits(&self) {
        let half = self.hits() / 2;
        self.hits.fetch_sub(half, Ordering::Relaxed);
    }

    /// The first index with this hash that `verify` accepts.
    #[inline]
    pub fn find(&self, hash: u32, verify: impl FnMut(u32) -> bool) -> Option<u32> {
        self.view().find(hash, verify)
    }

    /// The present hash table; a caller loads it once for a batch.
    #[inline]
    pub fn view(&self) -> SlotsGuard {
        SlotsGuard(self.slots.load())
    }

    /// The present indices of the subtable's megaflows.
    pub(super) fn indices(&self) -> Vec<u32> {
        let slots = self.slots.load();
        let slots = slots.iter().map(|slot| slot.load(Ordering::Acquire));
        slots.filter(|&slot| slot != EMPTY && slot != TOMBSTONE).map(|slot| slot as u32).collect()
    }

    /// How many slots look-ups of the subtable's megaflows probe.
    pub fn probes(&self) -> Probes {
        let slots = self.slots.load();
        let mut probes = Probes::default();
        for (at, slot) in slots.iter().enumerate() {
            let slot = slot.load(Ordering::Acquire);
            if slot != EMPTY && slot != TOMBSTONE {
                let first = (slot >> 32) as usize;
                probes.count(at.wrapping_sub(first) & (slots.len() - 1));
            }
        }
        probes
    }

    /// Inserts a megaflow. Only the publisher calls this.
    pub(super) fn insert(&self, hash: u32, index: u32) {
        let slots = self.slots.load_full();
        let slots = if slots_for(self.used.load(Ordering::Relaxed) + 1) > slots.len() {
            self.rebuild(&slots)
        } else {
            slots
        };
        store_slot(&slots, hash, index);
        self.used.fetch_add(1, Ordering::Relaxed);
        self.live.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes a table with enough free slots and without tombstones, and publishes it.
    fn rebuild(&self, old: &[AtomicU64]) -> Arc<Box<[AtomicU64]>> {
        // Half more than needed, so that a table that only lost tombstones is not rebuilt again soon.
        let n = (slots_for(self.len() + 1) * 3 / 2).next_power_of_two().max(MIN_SLOTS);
        let new = empty_slots(n);
        for slot in old {
            let slot = slot.load(Ordering::Relaxed);
            if slot != EMPTY && slot != TOMBSTONE {
                store_slot(&new, (slot >> 32) as u32, slot as u32);
            }
        }
        self.used.store(self.len(), Ordering::Relaxed);
        self.slots.store(Arc::clone(&new));
        new
    }

    /// Removes a megaflow. Only the publisher calls this.
    pub(super) fn remove(&self, hash: u32, index: u32) {
        let slots = self.slots.load();
        let mask = slots.len() - 1;
        let entry = u64::from(hash) << 32 | u64::from(index);
        let mut at = hash as usize & mask;
        for _ in 0..slots.len() {
            match slots[at].load(Ordering::Relaxed) {
                EMPTY => return,
                slot if slot == entry => {
                    slots[at].store(TOMBSTONE, Ordering::Release);
                    self.live.fetch_sub(1, Ordering::Relaxed);
                    return;
                }
                _ => at = (at + 1) & mask,
            }
        }
    }
}

/// Number of slots that look-ups of the existing megaflows probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probes {
    /// Number of megaflows.
    pub megaflows: u64,
    /// Number of probed slots, summed over the megaflows.
    pub slots: u64,
    /// Largest number of slots that the look-up of one megaflow probes.
    pub longest: u64,
}

impl Probes {
    /// Counts a megaflow that is `distance` slots behind its home slot.
    fn count(&mut self, distance: usize) {
        let slots = distance as u64 + 1;
        self.megaflows += 1;
        self.slots += slots;
        self.longest = self.longest.max(slots);
    }

    /// The sum of `self` and `other`; the maximum for `longest`.
    pub fn plus(self, other: Probes) -> Probes {
        Probes {
            megaflows: self.megaflows + other.megaflows,
            slots: self.slots + other.slots,
            longest: self.longest.max(other.longest),
        }
    }

    /// Average number of slots per look-up.
    pub fn mean(&self) -> f64 {
        self.slots as f64 / self.megaflows.max(1) as f64
    }
}

/// The hash table of a subtable, which is not freed while a caller holds this.
pub struct SlotsGuard(SnapshotCellGuard<Arc<Box<[AtomicU64]>>>);

impl SlotsGuard {
    /// Prefetches the slot of this hash.
    #[inline]
    pub fn prefetch(&self, hash: u32) {
        let slots: &[AtomicU64] = &self.0;
        if let Some(slot) = slots.get(hash as usize & (slots.len() - 1)) {
            cpu::prefetch_read(slot);
        }
    }

    /// The slots, for a caller that looks up many hashes: their address can stay in registers.
    #[inline(always)]
    pub fn slots(&self) -> Slots<'_> {
        Slots(&self.0)
    }

    /// The first index with this hash that `verify` accepts.
    #[inline]
    pub fn find(&self, hash: u32, mut verify: impl FnMut(u32) -> bool) -> Option<u32> {
        let slots: &[AtomicU64] = &self.0;
        let mask = slots.len() - 1;
        let mut at = hash as usize & mask;
        for _ in 0..slots.len() {
            let slot = slots[at].load(Ordering::Acquire);
            if slot == EMPTY {
                return None;
            }
            if (slot >> 32) as u32 == hash && slot != TOMBSTONE && verify(slot as u32) {
                return Some(slot as u32);
            }
            at = (at + 1) & mask;
        }
        None
    }
}

/// The slots of a [`SlotsGuard`].
pub struct Slots<'v>(&'v [AtomicU64]);

impl Slots<'_> {
    /// Whether a megaflow with this hash may be in a slot behind the two that [`candidate`](Self::candidate) reads.
    #[inline(always)]
    pub fn may_be_in_later_slot(&self, hash: u32) -> bool {
        let (slots, at) = (self.0, hash as usize);
        let is_used = |at: usize| {
            slots.get(at & (slots.len() - 1)).is_some_and(|slot| slot.load(Ordering::Relaxed) != EMPTY)
        };
        is_used(at) & is_used(at + 1)
    }

    /// A candidate for this hash in the home slot or the slot behind it, where nearly all megaflows are. The choice between
    /// the two slots needs no branch.
    #[inline(always)]
    pub fn candidate(&self, hash: u32) -> Option<u32> {
        let slots = self.0;
        let mask = slots.len() - 1;
        let at = hash as usize;
        let first = slots.get(at & mask)?.load(Ordering::Acquire);
        let second = slots.get((at + 1) & mask)?.load(Ordering::Acquire);
        let slot = if (first >> 32) as u32 == hash { first } else { second };
        ((slot >> 32) as u32 == hash).then_some(slot as u32)
    }
}

/// Stores an entry into the first empty slot. Tombstones are not reused, although readers would allow it, so that each
/// insertion uses exactly one more slot.
fn store_slot(slots: &[AtomicU64], hash: u32, index: u32) {
    let mask = slots.len() - 1;
    let mut at = hash as usize & mask;
    while slots[at].load(Ordering::Relaxed) != EMPTY {
        at = (at + 1) & mask;
    }
    slots[at].store(u64::from(hash) << 32 | u64::from(index), Ordering::Release);
}
