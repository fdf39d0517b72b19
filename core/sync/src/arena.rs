//! Records with fixed indices, read without locks.
//!
//! The publisher inserts a record, and readers find it by its index, which caches and hash tables store. The publisher removes the record,
//! and when no reader can hold a reference any more, it drops the record and reuses the index. A stored index may be stale: then `get`
//! finds nothing or another record, so the reader must verify the record.
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

/// The state and the value of one record.
struct Record<'a, T> {
    state: &'a AtomicU32,
    value: &'a Value<T>,
}

/// The memory of an arena. Both slices have their full length from the start, so a record is found by its index without indirection. Memory
/// that was never written costs only address space. The states are separate from the values, which may fill complete cache lines: sixteen
/// states share one cache line.
struct Shared<T> {
    states: Box<[AtomicU32]>,
    values: Box<[Value<T>]>,
    epochs: Epochs,
}

// SAFETY: `T: Sync` because several threads may hold references to a value while its record is LIVE, and after it is DEAD until no reader
// is left. `T: Send` because the publisher's thread stores and drops values. The publisher writes an `UnsafeCell` only while its record is
// FREE, when no reader has a reference to the value.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}
// SAFETY: as above. Moving the arena to another thread moves its values.
unsafe impl<T: Send + Sync> Send for Shared<T> {}

impl<T> Shared<T> {
    /// The record with this index; `None`: the index is out of range.
    #[inline(always)]
    fn record(&self, index: u32) -> Option<Record<'_, T>> {
        self.slices().record(index)
    }

    #[inline(always)]
    fn slices(&self) -> Slices<'_, T> {
        Slices { states: &self.states, values: &self.values }
    }
}

/// References to both slices of an arena.
struct Slices<'a, T> {
    states: &'a [AtomicU32],
    values: &'a [Value<T>],
}

impl<'a, T> Slices<'a, T> {
    #[inline(always)]
    fn record(&self, index: u32) -> Option<Record<'a, T>> {
        let at = index as usize;
        let state = self.states.get(at)?;
        // SAFETY: `at` is less than the length of `states`, there are as many values as states (`Arena::new`), and the length of neither
        // slice changes.
        Some(Record { state, value: unsafe { self.values.get_unchecked(at) } })
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        for (state, value) in self.states.iter().zip(&mut self.values) {
            if state.load(Ordering::Relaxed) != FREE {
                // SAFETY: a record that is not FREE holds an initialised value, and `&mut self` ensures that no other reference to it
                // exists.
                unsafe { value.get_mut().assume_init_drop() };
            }
        }
    }
}

/// Allocates `n` values without writing them, or fewer if there is not enough address space.
fn allocate<T>(mut n: usize) -> Box<[Value<T>]> {
    let mut values = Vec::new();
    while values.try_reserve_exact(n).is_err() {
        n /= 2;
    }
    // SAFETY: the capacity is at least `n`, and an `UnsafeCell<MaybeUninit<T>>` needs no initialisation.
    unsafe { values.set_len(n) };
    values.into_boxed_slice()
}

/// The shared side of an arena, which creates readers.
pub struct Arena<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Clone for Arena<T> {
    fn clone(&self) -> Arena<T> {
        Arena { shared: Arc::clone(&self.shared) }
    }
}

/// The writing side of an arena: one per arena.
pub struct Publisher<T> {
    shared: Arc<Shared<T>>,
    free: Vec<u32>,
    next: u32,
    retired: VecDeque<(u64, u32)>,
}

impl<T> Arena<T> {
    /// Makes an empty arena for up to `capacity` records, and its publisher. If memory is missing, the capacity is smaller or zero.
    pub fn new(capacity: usize) -> (Arena<T>, Publisher<T>) {
        let values = allocate(capacity);
        // `FREE` is zero, so all records are free.
        let Some(states) = zeros(values.len()) else { return Arena::new(0) };
        let shared = Arc::new(Shared { states, values, epochs: Epochs::new() });
        let publisher =
            Publisher { shared: Arc::clone(&shared), free: Vec::new(), next: 0, retired: VecDeque::new() };
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
    /// Begins a read section, which ends when the guard is dropped. Hold the guard for one batch, and never while sleeping.
    ///
    /// `&mut self`, because a reader has one slot and so one guard.
    #[inline]
    pub fn enter(&mut self) -> Guard<'_, T> {
        self.shared.epochs.enter(&self.slot);
        Guard { shared: &self.shared, slot: &self.slot }
    }
}

/// A read section: records returned by `get` stay valid while the guard lives.
pub struct Guard<'r, T> {
    shared: &'r Shared<T>,
    slot: &'r Slot,
}

impl<T> Guard<'_, T> {
    /// The live record with this index, if there is one. It may be another record than the one that had this index before.
    #[inline(always)]
    pub fn get(&self, index: u32) -> Option<&T> {
        self.records().get(index)
    }

    /// The records, for callers that get many of them: the address of the arena's memory can stay in registers.
    #[inline(always)]
    pub fn records(&self) -> Records<'_, T> {
        Records(self.shared.slices())
    }
}

/// The records that a guard can read. Cannot outlive the guard.
pub struct Records<'g, T>(Slices<'g, T>);

impl<'g, T> Records<'g, T> {
    /// See [`Guard::get`].
    #[inline(always)]
    pub fn get(&self, index: u32) -> Option<&'g T> {
        let record = self.0.record(index)?;
        if record.state.load(Ordering::Acquire) != LIVE {
            return None;
        }
        // SAFETY: LIVE was stored with Release after the value was written, and was loaded with Acquire, so the value is initialised and
        // visible. The publisher drops a removed value only after every reader that entered before the removal has left. The guard, which
        // is borrowed for `'g`, has entered and has not left, and the returned reference cannot outlive `'g`.
        Some(unsafe { (*record.value.get()).assume_init_ref() })
    }
}

impl<T> Guard<'_, T> {
    /// Prefetches the state and the value of the record with this index.
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
    /// Publishes a record and returns its index. `Err`: the arena is full; contains the record.
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
        // SAFETY: the record is FREE (its index is new, or `reclaim` has freed it), so no reader has or gets a reference to the value, and
        // `&mut self` is the only publisher.
        unsafe { (*record.value.get()).write(value) };
        record.state.store(LIVE, Ordering::Release);
        Ok(index)
    }

    /// The live record with this index, for the publisher.
    pub fn get(&self, index: u32) -> Option<&T> {
        let record = self.shared.record(index)?;
        if record.state.load(Ordering::Relaxed) != LIVE {
            return None;
        }
        // SAFETY: a LIVE record is initialised, and only `reclaim` drops records, which needs `&mut self` while the returned reference
        // borrows `self`.
        Some(unsafe { (*record.value.get()).assume_init_ref() })
    }

    /// Removes the record: readers no longer find it. A later [`Publisher::reclaim`] drops it. `false`: there is no live record with this
    /// index.
    pub fn remove(&mut self, index: u32) -> bool {
        let Some(record) = self.shared.record(index) else { return false };
        if record.state.load(Ordering::Relaxed) != LIVE {
            return false;
        }
        record.state.store(DEAD, Ordering::Release);
        self.retired.push_back((self.shared.epochs.retire(), index));
        true
    }

    /// Drops removed records to which no reader can hold a reference any more, and frees their indices. Calls `freed` with each index
    /// before it can be reused, so that the caller can clear data that belongs to the index.
    pub fn reclaim(&mut self, mut freed: impl FnMut(u32)) {
        if self.retired.is_empty() {
            return;
        }
        let safe = self.shared.epochs.safe_before();
        while let Some(&(epoch, index)) = self.retired.front() {
            if epoch >= safe {
                break;
            }
            self.retired.pop_front();
            if let Some(record) = self.shared.record(index) {
                // SAFETY: the record is DEAD, so it holds an initialised value. Every reader that could have seen it LIVE has left since
                // (`epoch < safe`), and later readers see DEAD.
                unsafe { (*record.value.get()).assume_init_drop() };
                record.state.store(FREE, Ordering::Release);
            }
            freed(index);
            self.free.push(index);
        }
    }

    /// Number of removed records that are not dropped yet.
    pub fn unreclaimed(&self) -> usize {
        self.retired.len()
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
    fn a_full_arena_returns_the_value() {
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
