//! The megaflows of one mask: an open hash table of atomic words, read while it is changed.
//!
//! A slot is the hash (32 bits) and the arena index (32 bits). An insert stores one word; a removal leaves a tombstone,
//! so that a reader that passes at that moment still finds what lies behind. A table that is too full is built anew
//! and replaced as a whole.

use super::key::{Depth, KeyMask, Rest};
use cpu::{Line, Secret};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use sync::{Held, Snapshot};

const EMPTY: u64 = u64::MAX;
const TOMBSTONE: u64 = u64::MAX - 1;
const MIN_SLOTS: usize = 16;
/// Fewer megaflows get so much room that hardly one is found behind another's slot: that would cost a look-up more than
/// the memory, of which they need little.
const SMALL: usize = 256;

/// See the module.
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

    /// Which bits count.
    pub fn mask(&self) -> &KeyMask {
        &self.mask
    }

    /// How deep a packet must be parsed to be looked up here.
    pub fn depth(&self) -> Depth {
        self.depth
    }

    /// Its number among the subtables of its port, as long as it lives.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Of the hashes that megaflows are found by.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The hash of a key, of the bits that count here.
    #[inline]
    pub fn hash(&self, line: &Line, rest: Rest<'_>) -> u32 {
        self.mask.hash(line, rest, &self.secret)
    }

    /// Number of megaflows.
    pub fn len(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// No megaflow is left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Packets found here; ranks the subtables.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Counts packets found here: once per batch.
    pub fn count_hits(&self, n: u64) {
        self.hits.fetch_add(n, Ordering::Relaxed);
    }

    /// Older hits count half.
    pub(super) fn age_hits(&self) {
        let half = self.hits() / 2;
        self.hits.fetch_sub(half, Ordering::Relaxed);
    }

    /// The first index under this hash that `verify` accepts.
    #[inline]
    pub fn find(&self, hash: u32, verify: impl FnMut(u32) -> bool) -> Option<u32> {
        self.view().find(hash, verify)
    }

    /// The hash table as it is now: to be taken once for a batch.
    #[inline]
    pub fn view(&self) -> View {
        View(self.slots.load())
    }

    /// The megaflows' indices, as they are at this moment.
    pub(super) fn indices(&self) -> Vec<u32> {
        let slots = self.slots.load();
        let slots = slots.iter().map(|slot| slot.load(Ordering::Acquire));
        slots.filter(|&slot| slot != EMPTY && slot != TOMBSTONE).map(|slot| slot as u32).collect()
    }

    /// How far its megaflows lie from where their hashes say.
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

    /// A table with room, without tombstones, published.
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

/// How many slots look-ups of the megaflows that are there ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probes {
    /// Megaflows.
    pub megaflows: u64,
    /// Slots, summed over them.
    pub slots: u64,
    /// Of the one that is furthest from its place.
    pub longest: u64,
}

impl Probes {
    /// One megaflow more, so many slots behind its first.
    fn count(&mut self, behind: usize) {
        let slots = behind as u64 + 1;
        self.megaflows += 1;
        self.slots += slots;
        self.longest = self.longest.max(slots);
    }

    /// Of both.
    pub fn and(self, other: Probes) -> Probes {
        Probes {
            megaflows: self.megaflows + other.megaflows,
            slots: self.slots + other.slots,
            longest: self.longest.max(other.longest),
        }
    }

    /// Slots of a look-up on average.
    pub fn mean(&self) -> f64 {
        self.slots as f64 / self.megaflows.max(1) as f64
    }
}

/// A hash table of a subtable, held for one batch.
pub struct View(Held<Arc<Box<[AtomicU64]>>>);

impl View {
    /// Starts to bring the slot of this hash into the processor's cache.
    #[inline]
    pub fn prefetch(&self, hash: u32) {
        let slots: &[AtomicU64] = &self.0;
        if let Some(slot) = slots.get(hash as usize & (slots.len() - 1)) {
            cpu::prefetch_read(slot);
        }
    }

    /// The slots, for a caller that looks up many hashes: their address stays in registers.
    #[inline(always)]
    pub fn slots(&self) -> Slots<'_> {
        Slots(&self.0)
    }

    /// The first index under this hash that `verify` accepts.
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
    /// An index that `find` of this hash may ask about: of the first two slots, where nearly all megaflows are. No branch
    /// depends on which of the two it is.
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

/// Into the first slot that was never used: a slot that was may still be passed by readers of another probe sequence,
/// which is harmless, but keeping tombstones makes the count of used slots exact.
fn put(slots: &[AtomicU64], hash: u32, index: u32) {
    let mask = slots.len() - 1;
    let mut at = hash as usize & mask;
    while slots[at].load(Ordering::Relaxed) != EMPTY {
        at = (at + 1) & mask;
    }
    slots[at].store(u64::from(hash) << 32 | u64::from(index), Ordering::Release);
}
