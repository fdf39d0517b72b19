//! Slots that never move, allocated in chunks and read without a lock.
//!
//! A chunk has 256 slots: a worker that allocates a chunk of records (32 KiB) waits about 20 µs while the kernel clears eight pages. With
//! 1,024 slots it would wait 100 µs and more. A directory of two levels contains the chunks. Chunks are never freed, because a reader may
//! use any slot number at any time.

use crate::atomic::Slot;
use std::sync::OnceLock;

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

/// Slots by number.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    parts: Box<[Part<T>]>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { parts: (0..SLOTS_MAX >> (CHUNK_BITS + PART_BITS)).map(|_| OnceLock::new()).collect() }
    }
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
        let [part, chunk, at] = position(number);
        let chunk = &self.parts.get(part)?.get_or_init(|| Box::new([const { OnceLock::new() }; _]))[chunk];
        if chunk.get().is_none() {
            // If two threads allocate the chunk at the same time, one of the two allocations is freed.
            _ = chunk.set(T::zeroed_chunk()?);
        }
        chunk.get().map(|slots| &slots[at])
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

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
