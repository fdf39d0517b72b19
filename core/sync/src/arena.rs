//! Records with fixed indices, read without locks.
//!
//! The publisher inserts a record, readers find it by its index (which caches and hash tables store), the publisher
//! removes it, and when no reader can hold a reference any more it drops the record and reuses the index. An index
//! may be stale: `get` then finds nothing, or another record. The reader must verify the record.
//!
//! There is one publisher per arena: methods that change the arena take `&mut Publisher`.

use crate::atomic::{Arc, AtomicU32, Ordering, zeros};
use crate::epoch::{Epochs, Slot};
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::mem::MaybeUninit;

const FREE: u32 = 0;
const LIVE: u32 = 1;
const DEAD: u32 = 2;

type Value<T> = UnsafeCell<MaybeUninit<T>>;

/// One record.
struct Record<'a, T> {
    state: &'a AtomicU32,
    value: &'a Value<T>,
}

/// Both slices have their full length from the start, so an index leads to its record without indirection. Memory that was never
/// touched costs only address space. The states are separate from the values, which may fill whole cache lines: sixteen states
/// share one.
struct Shared<T> {
    states: Box<[AtomicU32]>,
    values: Box<[Value<T>]>,
    epochs: Epochs,
}

// SAFETY: a `T` is reached through a shared reference only while its record is LIVE or within the grace after DEAD
// (so `T: Sync` is asked for), and is moved in and dropped by the thread of the publisher (so `T: Send` is asked for).
// The `UnsafeCell` is written by the publisher only while the record is FREE, when no reader has a reference.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}
// SAFETY: as above; moving the whole arena moves the records.
unsafe impl<T: Send + Sync> Send for Shared<T> {}

impl<T> Shared<T> {
    #[inline(always)]
    fn record(&self, index: u32) -> Option<Record<'_, T>> {
        self.places().record(index)
    }

    #[inline(always)]
    fn places(&self) -> Places<'_, T> {
        Places { states: &self.states, values: &self.values }
    }
}

/// Both slices of an arena.
struct Places<'a, T> {
    states: &'a [AtomicU32],
    values: &'a [Value<T>],
}

impl<'a, T> Places<'a, T> {
    #[inline(always)]
    fn record(&self, index: u32) -> Option<Record<'a, T>> {
        let at = index as usize;
        let state = self.states.get(at)?;
        // SAFETY: there are as many values as states (`Arena::new`), and neither slice ever changes.
        Some(Record { state, value: unsafe { self.values.get_unchecked(at) } })
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        for (state, value) in self.states.iter().zip(&mut self.values) {
            if state.load(Ordering::Relaxed) != FREE {
                // SAFETY: a record that is not FREE holds a value, and `&mut self` ensures that no other reference exists.
                unsafe { value.get_mut().assume_init_drop() };
            }
        }
    }
}

/// Allocates `n` values without touching them, or fewer if there is not enough address space.
fn allocate<T>(mut n: usize) -> Box<[Value<T>]> {
    let mut values = Vec::new();
    while values.try_reserve_exact(n).is_err() {
        n /= 2;
    }
    // SAFETY: there is space for `n` values, and an `UnsafeCell<MaybeUninit<T>>` may hold any bytes, and none at all.
    unsafe { values.set_len(n) };
    values.into_boxed_slice()
}

/// The shared side, which creates readers.
pub struct Arena<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Clone for Arena<T> {
    fn clone(&self) -> Arena<T> {
        Arena { shared: Arc::clone(&self.shared) }
    }
}

/// The writing side: one per arena.
pub struct Publisher<T> {
    shared: Arc<Shared<T>>,
    free: Vec<u32>,
    next: u32,
    limbo: VecDeque<(u64, u32)>,
}

impl<T> Arena<T> {
    /// Makes an empty arena for up to `capacity` records, and its publisher. If memory is missing, its capacity is
    /// zero.
    pub fn new(capacity: usize) -> (Arena<T>, Publisher<T>) {
        let values = allocate(capacity);
        // FREE is zero.
        let Some(states) = zeros(values.len()) else { return Arena::new(0) };
        let shared = Arc::new(Shared { states, values, epochs: Epochs::new() });
        let publisher =
            Publisher { shared: Arc::clone(&shared), free: Vec::new(), next: 0, limbo: VecDeque::new() };
        (Arena { shared }, publisher)
    }

    /// A handle for one reading thread.
    pub fn reader(&self) -> Reader<T> {
        Reader { shared: Arc::clone(&self.shared), slot: self.shared.epochs.register() }
    }
}

/// The handle of one reading thread.
pub struct Reader<T> {
    shared: Arc<Shared<T>>,
    slot: Arc<Slot>,
}

impl<T> Reader<T> {
    /// Begins reading, which ends when the guard is dropped. Hold the guard for one batch, and never while sleeping.
    ///
    /// `&mut self`, because a reader has one slot and so one guard.
    #[inline]
    pub fn enter(&mut self) -> Guard<'_, T> {
        self.shared.epochs.enter(&self.slot);
        Guard { shared: &self.shared, slot: &self.slot }
    }
}

/// Records returned by `get` stay valid while the guard lives.
pub struct Guard<'r, T> {
    shared: &'r Shared<T>,
    slot: &'r Slot,
}

impl<T> Guard<'_, T> {
    /// The live record with this index, if there is one. It may be another record than the one that had this index
    /// before.
    #[inline(always)]
    pub fn get(&self, index: u32) -> Option<&T> {
        self.records().get(index)
    }

    /// The same for callers that get many records: the address of the arena's memory can stay in registers.
    #[inline(always)]
    pub fn records(&self) -> Records<'_, T> {
        Records(self.shared.places())
    }
}

/// The records as a guard reads them. It cannot outlive the guard.
pub struct Records<'g, T>(Places<'g, T>);

impl<'g, T> Records<'g, T> {
    /// See [`Guard::get`].
    #[inline(always)]
    pub fn get(&self, index: u32) -> Option<&'g T> {
        let record = self.0.record(index)?;
        if record.state.load(Ordering::Acquire) != LIVE {
            return None;
        }
        // SAFETY: LIVE was stored with Release after the value was written, so it is initialised and visible. The
        // publisher drops it only after the epochs say that no reader that entered before its removal is inside; the
        // guard, which is borrowed for `'g`, is inside, and the reference cannot outlive it.
        Some(unsafe { (*record.value.get()).assume_init_ref() })
    }
}

impl<T> Guard<'_, T> {
    /// Prefetches what `get` of this index reads.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        if let Some(record) = self.shared.record(index) {
            cpu::prefetch_read(record.state);
            cpu::prefetch_lines(record.value);
        }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.shared.epochs.leave(self.slot);
    }
}

impl<T: Send + Sync> Publisher<T> {
    /// Publishes a record; `Err` gives it back if the arena is full.
    pub fn insert(&mut self, value: T) -> Result<u32, T> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if (self.next as usize) < self.shared.states.len() => {
                self.next += 1;
                self.next - 1
            }
            None => return Err(value),
        };
        let Some(record) = self.shared.record(index) else { return Err(value) };
        // SAFETY: the record is FREE (a fresh index, or one that `reclaim` freed), so no reader has or gets a reference
        // to its value, and this is the only publisher.
        unsafe { (*record.value.get()).write(value) };
        record.state.store(LIVE, Ordering::Release);
        Ok(index)
    }

    /// The record of this index, for the publisher itself.
    pub fn get(&self, index: u32) -> Option<&T> {
        let record = self.shared.record(index)?;
        if record.state.load(Ordering::Relaxed) != LIVE {
            return None;
        }
        // SAFETY: LIVE records are initialised, and they are dropped by `reclaim` alone, which takes `&mut self`.
        Some(unsafe { (*record.value.get()).assume_init_ref() })
    }

    /// Removes the record. A later [`Publisher::reclaim`] drops it.
    pub fn remove(&mut self, index: u32) -> bool {
        let Some(record) = self.shared.record(index) else { return false };
        if record.state.load(Ordering::Relaxed) != LIVE {
            return false;
        }
        record.state.store(DEAD, Ordering::Release);
        self.limbo.push_back((self.shared.epochs.retire(), index));
        true
    }

    /// Drops removed records that no reader can see any more and frees their indices. `freed` is called with each
    /// index before it can be reused, so that data that belongs to the index can be cleared.
    pub fn reclaim(&mut self, mut freed: impl FnMut(u32)) {
        if self.limbo.is_empty() {
            return;
        }
        let safe = self.shared.epochs.safe_before();
        while let Some(&(epoch, index)) = self.limbo.front() {
            if epoch >= safe {
                break;
            }
            self.limbo.pop_front();
            if let Some(record) = self.shared.record(index) {
                // SAFETY: the record is DEAD, so it holds a value; every reader that could have seen it LIVE has left
                // since (`epoch < safe`), and later ones see DEAD.
                unsafe { (*record.value.get()).assume_init_drop() };
                record.state.store(FREE, Ordering::Release);
            }
            freed(index);
            self.free.push(index);
        }
    }

    /// Number of removed records that are not dropped yet.
    pub fn in_limbo(&self) -> usize {
        self.limbo.len()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn a_removed_record_lives_as_long_as_a_guard() {
        let (arena, mut publisher) = Arena::new(10);
        let mut reader = arena.reader();
        let index = publisher.insert(String::from("flow")).unwrap();
        {
            let guard = reader.enter();
            let seen = guard.get(index).unwrap();
            assert!(publisher.remove(index));
            publisher.reclaim(|_| panic!("still read"));
            assert_eq!(seen, "flow");
            assert!(guard.get(index).is_none());
        }
        let mut freed = Vec::new();
        publisher.reclaim(|i| freed.push(i));
        assert_eq!(freed, [index]);
        assert_eq!(publisher.insert(String::from("next")).unwrap(), index);
        assert_eq!(reader.enter().get(index).unwrap(), "next");
        assert!(reader.enter().get(99_999).is_none());
    }

    #[test]
    fn full_is_an_answer() {
        let (_arena, mut publisher) = Arena::new(3);
        for i in 0..3 {
            publisher.insert(i).unwrap();
        }
        assert_eq!(publisher.insert(7), Err(7));
    }

    #[test]
    fn every_value_is_dropped_once() {
        struct Counted(Arc<AtomicUsize>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let drops = Arc::new(AtomicUsize::new(0));
        let (arena, mut publisher) = Arena::new(10);
        let a = publisher.insert(Counted(Arc::clone(&drops))).ok().unwrap();
        let b = publisher.insert(Counted(Arc::clone(&drops))).ok().unwrap();
        publisher.insert(Counted(Arc::clone(&drops))).ok().unwrap();
        publisher.remove(a);
        publisher.reclaim(|_| ());
        publisher.remove(b);
        drop((arena, publisher));
        assert_eq!(drops.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn readers_never_see_a_torn_or_dropped_value() {
        let (arena, mut publisher) = Arena::new(64);
        let rounds = if cfg!(miri) { 50 } else { 20_000 };
        std::thread::scope(|s| {
            for _ in 0..2 {
                let mut reader = arena.reader();
                s.spawn(move || {
                    for _ in 0..rounds {
                        let guard = reader.enter();
                        for index in 0..4 {
                            if let Some(v) = guard.get(index) {
                                let v: &Vec<u64> = v;
                                assert!(v.iter().all(|x| *x == v[0]));
                            }
                        }
                    }
                });
            }
            let mut live = Vec::new();
            for i in 0..rounds as u64 {
                publisher.reclaim(|_| ());
                if live.len() == 2 {
                    publisher.remove(live.remove(0));
                }
                if let Ok(index) = publisher.insert(vec![i; 8]) {
                    live.push(index);
                }
            }
        });
    }
}
