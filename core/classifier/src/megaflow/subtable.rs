//! The megaflows of one mask: an open hash table of atomic words, read while it is changed.
//!
//! A slot contains the hash (32 bits) and the arena index (32 bits). An insertion stores one word. A removal leaves a
//! tombstone, so that a concurrent reader still finds the entries after it. A table that is too full is rebuilt and
//! replaced as a whole.

use super::key::{Depth, KeyMask, Rest};
use cpu::{Line, Secret};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use sync::{Held, Snapshot};

const EMPTY: u64 = u64::MAX;
const TOMBSTONE: u64 = u64::MAX - 1;
const MIN_SLOTS: usize = 16;
/// Number of megaflows below which a table is sparse: it gets enough slots to keep nearly every megaflow in its home
/// slot, because longer probes would cost more than the memory of a small table.
const SMALL: usize = 256;

/// The megaflows of one mask.
pub struct Subtable {
    mask: KeyMask,
    depth: Depth,
    secret: Arc<Secret>,
    number: u16,
    slots: Snapshot<Box<[AtomicU64]>>,
    live: AtomicUsize,
    used: AtomicUsize,
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
            slots: Snapshot::new(empty_slots(MIN_SLOTS)),
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

    /// Its number among the subtables of its port, as long as it lives.
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

    /// Returns whether no megaflow is left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of packets found here; ranks the subtables.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Counts packets found here: once per batch.
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

    /// The present hash table; loaded once for a batch.
    #[inline]
    pub fn view(&self) -> View {
        View(self.slots.load())
    }

    /// The indices of its megaflows at this moment.
    pub(super) fn indices(&self) -> Vec<u32> {
        let slots = self.slots.load();
        let slots = slots.iter().map(|slot| slot.load(Ordering::Acquire));
        slots.filter(|&slot| slot != EMPTY && slot != TOMBSTONE).map(|slot| slot as u32).collect()
    }

    /// Distances of its megaflows from their home slots.
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

    /// Publisher only.
    pub(super) fn insert(&self, hash: u32, index: u32) {
        let slots = self.slots.load_full();
        let slots = if (self.used.load(Ordering::Relaxed) + 1) * 4 > slots.len() * 3 {
            self.rebuild(&slots)
        } else {
            slots
        };
        put(&slots, hash, index);
        self.used.fetch_add(1, Ordering::Relaxed);
        self.live.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes a table with free slots and without tombstones, and publishes it.
    fn rebuild(&self, old: &[AtomicU64]) -> Arc<Box<[AtomicU64]>> {
        let room = if self.len() < SMALL { 8 } else { 2 };
        let n = ((self.len() + 1) * room).next_power_of_two().max(MIN_SLOTS);
        let new = empty_slots(n);
        for slot in old {
            let slot = slot.load(Ordering::Relaxed);
            if slot != EMPTY && slot != TOMBSTONE {
                put(&new, (slot >> 32) as u32, slot as u32);
            }
        }
        self.used.store(self.len(), Ordering::Relaxed);
        self.slots.store(Arc::clone(&new));
        new
    }

    /// Publisher only.
    pub(super) fn remove(&self, hash: u32, index: u32) {
        let slots = self.slots.load();
        let mask = slots.len() - 1;
        let wanted = u64::from(hash) << 32 | u64::from(index);
        let mut at = hash as usize & mask;
        for _ in 0..slots.len() {
            match slots[at].load(Ordering::Relaxed) {
                EMPTY => return,
                slot if slot == wanted => {
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
    /// Megaflows.
    pub megaflows: u64,
    /// Sum of probed slots.
    pub slots: u64,
    /// Maximum of probed slots.
    pub longest: u64,
}

impl Probes {
    /// Counts a megaflow that is `behind` slots after its home slot.
    fn count(&mut self, behind: usize) {
        let slots = behind as u64 + 1;
        self.megaflows += 1;
        self.slots += slots;
        self.longest = self.longest.max(slots);
    }

    /// Sum of both.
    pub fn and(self, other: Probes) -> Probes {
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

/// A hash table of a subtable, held for one batch.
pub struct View(Held<Arc<Box<[AtomicU64]>>>);

impl View {
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

/// The slots of a [`View`].
pub struct Slots<'v>(&'v [AtomicU64]);

impl Slots<'_> {
    /// A candidate for this hash in the first two slots, which hold nearly all megaflows. Selecting between them
    /// needs no branch.
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

/// Stores into the first slot that was never used. A tombstone could be reused without harm to readers, but keeping
/// tombstones makes the count of used slots exact.
fn put(slots: &[AtomicU64], hash: u32, index: u32) {
    let mask = slots.len() - 1;
    let mut at = hash as usize & mask;
    while slots[at].load(Ordering::Relaxed) != EMPTY {
        at = (at + 1) & mask;
    }
    slots[at].store(u64::from(hash) << 32 | u64::from(index), Ordering::Release);
}
