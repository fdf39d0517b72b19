//! Loom models: the model checker loom tries every interleaving of some threads, and every value that a relaxed load may return. A lost
//! wake-up shows as a deadlock, a value that is freed too early as two unordered accesses.
//!
//! `scripts/models` builds this file with `--cfg loom`; in other builds it is empty.
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::collections::VecDeque;
use std::sync::Arc;
use sync::quota::OwnerQuota;
use sync::{Arena, IndexStack, Mailbox, PoolUsage, SleepFlag, TryLock};

/// A value whose creation, reads and drop the checker tracks.
struct TrackedValue(UnsafeCell<u32>);

// SAFETY: the checker fails the test at the first access that another thread could make at the same time.
unsafe impl Sync for TrackedValue {}

impl TrackedValue {
    fn new(n: u32) -> TrackedValue {
        let seen = TrackedValue(UnsafeCell::new(0));
        seen.0.with_mut(|p| write(p, n));
        seen
    }

    fn read(&self) -> u32 {
        self.0.with(read)
    }
}

impl Drop for TrackedValue {
    fn drop(&mut self) {
        self.0.with_mut(|p| write(p, 0));
    }
}

fn write(p: *mut u32, n: u32) {
    // SAFETY: the checker has made certain that no other thread accesses the cell.
    unsafe { *p = n }
}

fn read(p: *const u32) -> u32 {
    // SAFETY: the checker has made certain that no other thread writes the cell.
    unsafe { *p }
}

/// Checks all interleavings with at most `preemptions` preemptions.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// A reader sees a record completely or not at all, while the publisher removes it, frees it and reuses its index.
#[test]
fn a_record_outlives_its_readers() {
    loom::model(|| {
        let (arena, mut publisher) = Arena::new(1);
        let mut reader = arena.reader();
        let index = publisher.insert(TrackedValue::new(7)).ok().unwrap();
        let reads = thread::spawn(move || {
            for _ in 0..2 {
                let guard = reader.enter();
                let seen = guard.get(index).map(TrackedValue::read);
                assert!(matches!(seen, None | Some(7 | 8)), "{seen:?}");
            }
        });
        publisher.remove(index);
        publisher.reclaim(|_| ());
        // Either its index was free, or the reader was reading.
        assert_eq!(publisher.insert(TrackedValue::new(8)).is_ok(), publisher.unreclaimed() == 0);
        reads.join().unwrap();
        publisher.reclaim(|_| ());
        assert_eq!(publisher.unreclaimed(), 0);
    });
}

/// Two readers: a record is freed only when the slower one has left.
#[test]
fn a_record_outlives_the_slower_reader() {
    check(3, || {
        let (arena, mut publisher) = Arena::new(1);
        let index = publisher.insert(TrackedValue::new(7)).ok().unwrap();
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let mut reader = arena.reader();
                thread::spawn(move || {
                    let guard = reader.enter();
                    assert!(matches!(guard.get(index).map(TrackedValue::read), None | Some(7)));
                })
            })
            .collect();
        publisher.remove(index);
        publisher.reclaim(|_| ());
        readers.into_iter().for_each(|r| r.join().unwrap());
    });
}

/// Equivalent of `std::thread::park` and `unpark`. (Those of the checker also wake a thread that waits for a lock.)
struct Parker {
    token: Mutex<bool>,
    unparked: Condvar,
}

impl Parker {
    fn new() -> Parker {
        Parker { token: Mutex::new(false), unparked: Condvar::new() }
    }

    fn park(&self) {
        let mut token = self.token.lock().unwrap();
        while !*token {
            token = self.unparked.wait(token).unwrap();
        }
        *token = false;
    }

    fn unpark(&self) {
        *self.token.lock().unwrap() = true;
        self.unparked.notify_one();
    }
}

/// A thread with a mailbox that sleeps while it is empty, as PMD threads without queues and handlers do.
struct Sleeper<T> {
    mailbox: Mailbox<T>,
    flag: SleepFlag,
    parker: Parker,
}

impl<T> Sleeper<T> {
    fn new() -> Arc<Sleeper<T>> {
        Arc::new(Sleeper { mailbox: Mailbox::default(), flag: SleepFlag::default(), parker: Parker::new() })
    }

    /// The taker: returns the next item, after sleeping if necessary.
    fn wait(&self) -> T {
        loop {
            if self.mailbox.may_have_items() {
                if let Some(item) = self.mailbox.take() {
                    return item;
                }
            }
            self.flag.announce();
            if self.mailbox.is_empty() {
                self.parker.park();
            }
            self.flag.withdraw();
        }
    }

    /// A poster.
    fn post(&self, item: T) {
        self.mailbox.post(item);
        if self.flag.claim() {
            self.parker.unpark();
        }
    }
}

/// No wake-up is lost with two posters and a taker that sleeps between their items.
#[test]
fn no_wake_up_is_lost() {
    check(3, || {
        let sleeper = Sleeper::new();
        let [taker, poster] = [Arc::clone(&sleeper), Arc::clone(&sleeper)];
        let taker = thread::spawn(move || taker.wait() + taker.wait());
        let poster = thread::spawn(move || poster.post(1));
        sleeper.post(2);
        poster.join().unwrap();
        assert_eq!(taker.join().unwrap(), 3);
    });
}

/// Work that is not in a list behind a lock, such as packets in a ring: only the fences of the hand-shake order it.
#[test]
fn a_sleeper_sees_work_without_a_lock() {
    loom::model(|| {
        let sleeper = Sleeper::<()>::new();
        let work = Arc::new(AtomicBool::new(false));
        let (taker, there) = (Arc::clone(&sleeper), Arc::clone(&work));
        let taker = thread::spawn(move || {
            taker.flag.announce();
            if !there.load(Ordering::Relaxed) {
                taker.parker.park();
            }
            taker.flag.withdraw();
        });
        work.store(true, Ordering::Relaxed);
        if sleeper.flag.is_announced() {
            sleeper.parker.unpark();
        }
        taker.join().unwrap();
    });
}

/// Answers of handlers to a worker: the worker takes all at once, does not wait for the lock, and is woken for the
/// first.
#[test]
fn answers_that_come_together_wake_once() {
    check(3, || {
        let worker = Sleeper::new();
        let [taker, poster] = [Arc::clone(&worker), Arc::clone(&worker)];
        let post = |to: &Sleeper<u32>, n| {
            if to.mailbox.post_all([n]) {
                to.parker.unpark();
            }
        };
        let taker = thread::spawn(move || {
            let (mut sum, mut out) = (0, VecDeque::new());
            while sum < 3 {
                match taker.mailbox.try_take_all(&mut out) {
                    // A poster holds or held the lock: try again in the next iteration.
                    true => thread::yield_now(),
                    false => taker.parker.park(),
                }
                sum += out.drain(..).sum::<u32>();
            }
        });
        let poster = thread::spawn(move || post(&poster, 1));
        post(&worker, 2);
        poster.join().unwrap();
        taker.join().unwrap();
    });
}

/// Orders to a PMD thread about an rx queue.
enum Order {
    /// Take over the queue.
    Take(u32),
    /// Hand the queue over to the other thread.
    Give,
    /// Remove the queue.
    Drop,
}

/// Hand-over of a queue: its thread is ordered to hand it over to another thread, which may be ordered to remove the queue before it has
/// received it. The orders for a queue take effect in sequence, and the queue ends at the thread that got the last order.
#[test]
fn orders_for_a_queue_in_hand_over_take_effect_in_sequence() {
    check(2, || {
        let (first, second) = (Sleeper::new(), Sleeper::new());
        let to = Arc::clone(&second);
        let to = thread::spawn(move || {
            let (mut queue, mut early) = (None, false);
            loop {
                match to.wait() {
                    Order::Take(q) => queue = Some(q),
                    Order::Drop => early = true,
                    Order::Give => unreachable!(),
                }
                if let (Some(q), true) = (queue, early) {
                    return q;
                }
            }
        });
        let [from, next] = [Arc::clone(&first), Arc::clone(&second)];
        let from = thread::spawn(move || {
            assert!(matches!(from.wait(), Order::Give));
            next.post(Order::Take(9));
        });
        first.post(Order::Give);
        second.post(Order::Drop);
        from.join().unwrap();
        assert_eq!(to.join().unwrap(), 9);
    });
}

/// The memory of buffers. Loom reports two owners of a buffer, and an owner that may not see what the previous owner has written, as two
/// unordered accesses.
struct Memory([UnsafeCell<u32>; 3]);

// SAFETY: the checker fails the test at the first access that another thread could make at the same time.
unsafe impl Sync for Memory {}

/// A pool: free buffers, its usage (reserves included), and two owners with a reserve of one buffer each.
struct Buffers {
    free: IndexStack,
    shared: PoolUsage,
    owners: [OwnerQuota; 2],
}

impl Buffers {
    /// Acquires up to two buffers for an owner, writes their memory, and returns them.
    fn use_some(&self, owner: usize, memory: &Memory) {
        let mut taken = [0; 2];
        let n = self.owners[owner].acquire(&self.shared, 2, 2) as usize;
        assert!(n >= 1, "the reserve is there");
        assert_eq!(self.free.pop(&mut taken[..n]), n, "what is charged is there");
        for i in &taken[..n] {
            memory.0[*i as usize].with_mut(|p| write(p, owner as u32));
        }
        self.free.push(&taken[..n]);
        self.owners[owner].release(&self.shared, n as u32);
    }
}

/// Three buffers, of which two are reserves: two owners acquire as many as they get. Each gets at least its reserve, no buffer has two
/// owners, and all buffers are free at the end.
#[test]
fn a_reserve_is_there_whatever_others_take() {
    check(2, || {
        let pool = Buffers {
            free: IndexStack::new(3).unwrap(),
            shared: PoolUsage::new(3),
            owners: Default::default(),
        };
        assert!(pool.owners.iter().all(|owner| owner.open(&pool.shared, 1)));
        pool.free.push(&[0, 1, 2]);
        let state = Arc::new((pool, Memory([0, 1, 2].map(UnsafeCell::new))));
        let other = Arc::clone(&state);
        let thread = thread::spawn(move || other.0.use_some(1, &other.1));
        state.0.use_some(0, &state.1);
        state.0.use_some(0, &state.1);
        thread.join().unwrap();
        assert_eq!((state.0.shared.free(), state.0.free.pop(&mut [0; 4])), (1, 3));
    });
}

/// A quota is closed while another thread releases the buffers of its owner: afterwards all buffers are unused, and the usage has never
/// exceeded the size.
#[test]
fn a_closed_quota_leaves_no_buffer_used() {
    check(3, || {
        let state = Arc::new((PoolUsage::new(3), OwnerQuota::default()));
        assert!(state.1.open(&state.0, 2));
        assert_eq!(state.1.acquire(&state.0, 3, 3), 3);
        let other = Arc::clone(&state);
        let thread = thread::spawn(move || {
            other.1.release(&other.0, 2);
            other.1.release(&other.0, 1);
        });
        state.1.close(&state.0);
        thread.join().unwrap();
        assert_eq!((state.0.free(), state.1.held(), state.1.reserve()), (3, 0, 0));
    });
}

/// Two threads lock a value in turn, and each sees what the other has written. If a thread sets a flag before it locks the value, every
/// thread that locks it later sees the flag.
#[test]
fn a_try_lock_orders_its_holders() {
    check(3, || {
        let state = Arc::new((TryLock::new(TrackedValue::new(0)), AtomicBool::new(false)));
        let other = Arc::clone(&state);
        let worker = thread::spawn(move || {
            let paused = |state: &(TryLock<TrackedValue>, AtomicBool)| state.1.load(Ordering::Relaxed);
            for _ in 0..2 {
                let Some(value) = other.0.try_lock() else { continue };
                if paused(&other) {
                    // The other thread may have changed the value already, but does not change it any more.
                    continue;
                }
                assert_eq!(value.read(), 0, "it was changed before the flag was set");
                value.0.with_mut(|p| write(p, 0));
            }
        });
        state.1.store(true, Ordering::Relaxed);
        let is_idle = state.0.try_lock().is_some();
        if is_idle {
            // The worker does not access the value now or later.
            let value = state.0.try_lock();
            value.iter().for_each(|value| value.0.with_mut(|p| write(p, 1)));
        }
        worker.join().unwrap();
    });
}
