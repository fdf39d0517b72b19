//! Slots that never move, allocated in chunks and read without a lock.
//!
//! A chunk has 256 slots: a worker that allocates a chunk of records (32 KiB) waits about 20 µs while the kernel clears eight pages. With
//! 1,024 slots it would wait 100 µs and more. A directory of two levels contains the chunks. Chunks are never freed, because a reader may
//! use any slot number at any time.

use crate::atomic::Slot;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Slots per chunk, as a power of two.
const CHUNK_BITS: u32 = if cfg!(loom) { 2 } else { 8 };
/// Chunks per part of the directory, as a power of two.
const PART_BITS: u32 = 9;
/// Maximum number of slots.
pub(crate) const SLOTS_MAX: u32 = 1 << 28;

/// A chunk of slots, allocated when one of them is first used.
type Chunk<T> = OnceLock<Box<[T; 1 << CHUNK_BITS]>>;
/// A part of the directory, allocated when one of its chunks is first used.
type Part<T> = OnceLock<Box<[Chunk<T>; 1 << PART_BITS]>>;

/// Smallest number of chunks that are allocated in advance: with records, a worker that begins a connection every 0.4 µs needs 0.8 ms for eight.
const AHEAD_MIN: u32 = 8;
/// Up to this number of used chunks, 9/8 of their number are allocated in advance; above it, this number and
/// an eighth of the used chunks. So a table of few connections does not take memory for many.
const AHEAD_PROPORTIONAL_MAX: u32 = 64;
/// Largest number of chunks that are allocated in advance: of records, 32 MiB.
const AHEAD_MAX: u32 = 1024;

/// Slots by number.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    parts: Box<[Part<T>]>,
    /// The chunks below this one are allocated. Only [`Slab::allocate_ahead`] uses this number, so a chunk above may be allocated, too.
    ahead: AtomicU32,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab {
            parts: (0..SLOTS_MAX >> (CHUNK_BITS + PART_BITS)).map(|_| OnceLock::new()).collect(),
            ahead: AtomicU32::new(0),
        }
    }
}

/// The number of chunks to have in advance, if `used` chunks are in use.
fn ahead_of(used: u32) -> u32 {
    (used.clamp(AHEAD_MIN, AHEAD_PROPORTIONAL_MAX) + used / 8).min(AHEAD_MAX)
}

/// The slot number at which half of the slots in advance are used, if `used` slots are in use now and all chunks in advance are allocated.
pub(crate) fn half_ahead(used: u32) -> u32 {
    used + (ahead_of(used.div_ceil(1 << CHUNK_BITS)) << CHUNK_BITS) / 2
}

/// The position of a slot: part of the directory, chunk, index in the chunk.
#[inline(always)]
fn position(number: u32) -> [usize; 3] {
    let chunk = number >> CHUNK_BITS;
    let within = |n: u32, bits: u32| (n & ((1 << bits) - 1)) as usize;
    [(chunk >> PART_BITS) as usize, within(chunk, PART_BITS), within(number, CHUNK_BITS)]
}

impl<T> Slab<T> {
    /// Returns the slot with this number, if its chunk is allocated.
    #[inline(always)]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        let [part, chunk, at] = position(number);
        Some(&self.parts.get(part)?.get()?[chunk].get()?[at])
    }
}

impl<T: Slot> Slab<T> {
    /// Returns the slot with this number; allocates its chunk, zeroed, if necessary. `None`: out of memory, or the number is too large.
    pub(crate) fn get_or_allocate(&self, number: u32) -> Option<&T> {
        let [.., at] = position(number);
        let chunk = self.chunk(number)?;
        if chunk.get().is_none() {
            // If two threads allocate the chunk at the same time, one of the two allocations is freed.
            _ = chunk.set(T::zeroed_chunk()?);
        }
        chunk.get().map(|slots| &slots[at])
    }

    /// Allocates one of the chunks that should be allocated in advance, if `used` slots are in use; with its memory, so that a worker that
    /// uses a slot of it first does not wait. Returns false if all are allocated, or if there is no memory.
    ///
    /// **Thread**: one at a time.
    pub(crate) fn allocate_ahead(&self, used: u32) -> bool {
        let used = used.div_ceil(1 << CHUNK_BITS);
        let end = if used == 0 { 0 } else { used + ahead_of(used) };
        let mut number = self.ahead.load(Ordering::Relaxed).max(used);
        while number < end {
            let Some(chunk) = self.chunk(number << CHUNK_BITS) else { return false };
            let is_new = chunk.get().is_none();
            if is_new {
                let Some(slots) = T::resident_chunk() else { return false };
                _ = chunk.set(slots);
            }
            number += 1;
            self.ahead.store(number, Ordering::Relaxed);
            if is_new {
                return true;
            }
        }
        false
    }

    /// The chunk of a slot. `None`: the number is too large.
    fn chunk(&self, number: u32) -> Option<&Chunk<T>> {
        let [part, chunk, _] = position(number);
        Some(&self.parts.get(part)?.get_or_init(|| Box::new([const { OnceLock::new() }; _]))[chunk])
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn chunks_are_allocated_in_advance() {
        let slab = Slab::<AtomicU64>::default();
        assert!(!slab.allocate_ahead(0), "an unused slab takes no memory");
        slab.get_or_allocate(0).expect("memory").store(7, Ordering::Relaxed);
        // A worker may have been faster.
        slab.get_or_allocate(3 << CHUNK_BITS).expect("memory").store(8, Ordering::Relaxed);
        assert_eq!(
            std::iter::from_fn(|| slab.allocate_ahead(1).then_some(())).count(),
            AHEAD_MIN as usize - 1
        );
        let has = |chunk: u32| slab.get(chunk << CHUNK_BITS).is_some();
        assert!((0..=AHEAD_MIN).all(has) && !has(AHEAD_MIN + 1));
        assert_eq!(slab.get(0).map(|s| s.load(Ordering::Relaxed)), Some(7));
        assert_eq!(slab.get(3 << CHUNK_BITS).map(|s| s.load(Ordering::Relaxed)), Some(8));
        let used = 1000 << CHUNK_BITS;
        while slab.allocate_ahead(used) {}
        assert!(!has(999), "what is used already is the worker's to allocate");
        assert!(
            (1000..1000 + AHEAD_PROPORTIONAL_MAX + 125).all(has) && !has(1000 + AHEAD_PROPORTIONAL_MAX + 125)
        );
        assert!(
            half_ahead(used) > used && half_ahead(used) < (1000 + AHEAD_PROPORTIONAL_MAX + 125) << CHUNK_BITS
        );
        assert!(!slab.allocate_ahead(SLOTS_MAX), "there are no more numbers");
    }

    #[test]
    fn each_number_has_a_slot_of_its_own() {
        let slab = Slab::<AtomicU64>::default();
        assert!(slab.get(0).is_none());
        for n in (0..100_000).step_by(37) {
            let slot = slab.get_or_allocate(n).expect("memory");
            assert_eq!(slot.swap(u64::from(n) + 1, Ordering::Relaxed), 0, "slot {n} was used");
        }
        for n in (0..100_000).step_by(37) {
            assert_eq!(slab.get(n).map(|s| s.load(Ordering::Relaxed)), Some(u64::from(n) + 1));
        }
        assert!(slab.get(SLOTS_MAX - 1).is_none() && slab.get_or_allocate(SLOTS_MAX).is_none());
        assert!(slab.get(u32::MAX).is_none());
    }
}
