//! What a worker counts: events, and drops by reason.
//!
//! The worker counts in plain memory and adds to shared atomics once per poll, so that others read consistent, slightly
//! old numbers and no packet pays for an atomic.
//!
//! **Packet accounting**: received + created = sent + delivered + dropped + parked + fragments + waiting, where "created" counts copies and
//! packets that the control half sent, "delivered" those a `userspace` action consumed, "parked" those whose upcall was
//! not answered yet, "fragments" those that wait for others of their datagram, and "waiting" what is in the recirculation queue and in output batches (nothing between polls).

use crate::last_drop::LastDrops;
use dpif::DropReason;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Event {
    /// Packets received from ports.
    Received,
    /// Copies, and packets from the control half.
    Created,
    /// Packets that a device took.
    Sent,
    /// Packets that ended in a `userspace` action.
    Delivered,
    /// Packets that entered the path again.
    Recirculated,
    /// Passes that the cache answered.
    CacheHit,
    /// Those of them that something smaller in front answered: the megaflow that the batch before ended with, or an EMC.
    FrontHit,
    /// Passes that the megaflow table answered.
    MegaflowHit,
    /// Subtables visited for those.
    MasksVisited,
    /// Passes that the control half answered.
    Missed,
    /// Passes that it could not answer.
    Lost,
    /// Packets that were set aside until their upcall is answered.
    Parked,
    /// Those of them that went on.
    Unparked,
    /// Fragments that waited for others of their datagram.
    FragmentsHeld,
    /// Those of them that went on or were removed, be it by another worker.
    FragmentsReleased,
    /// Cycles that the worker itself spent on upcalls.
    UpcallCycles,
    /// Calls of a device's transmit.
    OutputBatches,
    /// Cycles of polls that found packets.
    BusyCycles,
    /// Cycles of polls that found none.
    IdleCycles,
    /// Polls that found packets.
    BusyIterations,
    /// Polls after which the worker slept.
    SleepIterations,
    /// Cycles that it slept.
    SleepCycles,
    /// Polls.
    Iterations,
}

/// Number of [`Event`]s.
pub const EVENTS: usize = Event::Iterations as usize + 1;

/// Plain counters: a worker's own, or a copy for who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    events: [u64; EVENTS],
    drops: [u64; DropReason::COUNT],
    /// Their sum: who publishes wants to know at each turn whether there are new ones.
    dropped: u64,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { events: [0; EVENTS], drops: [0; DropReason::COUNT], dropped: 0 }
    }
}

impl Tally {
    /// Counts `n` of an event.
    #[inline]
    pub fn add(&mut self, event: Event, n: u64) {
        self.events[event as usize] += n;
    }

    /// Takes `n` of an event back that were counted in this turn.
    #[inline]
    pub(crate) fn take_back(&mut self, event: Event, n: u64) {
        self.events[event as usize] = self.events[event as usize].wrapping_sub(n);
    }

    /// Packets that are parked.
    pub fn parked(&self) -> u64 {
        self.get(Event::Parked).wrapping_sub(self.get(Event::Unparked))
    }

    /// Fragments that wait for others of their datagram.
    pub fn fragments(&self) -> u64 {
        self.get(Event::FragmentsHeld).wrapping_sub(self.get(Event::FragmentsReleased))
    }

    /// Counts `n` drops.
    #[inline]
    pub fn drop(&mut self, reason: DropReason, n: u64) {
        self.drops[reason as usize] += n;
        self.dropped += n;
    }

    /// How many of an event.
    pub fn get(&self, event: Event) -> u64 {
        self.events[event as usize]
    }

    /// How many drops for a reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// How many drops in all.
    pub fn dropped_total(&self) -> u64 {
        self.dropped
    }

    /// Adds another's counters.
    pub fn merge(&mut self, other: &Tally) {
        self.events.iter_mut().zip(other.events).for_each(|(a, b)| *a = a.wrapping_add(b));
        self.drops.iter_mut().zip(other.drops).for_each(|(a, b)| *a = a.wrapping_add(b));
        self.dropped = self.dropped.wrapping_add(other.dropped);
    }

    /// What was counted since `earlier`, a copy of the same counters.
    #[must_use]
    pub fn since(&self, earlier: &Tally) -> Tally {
        let mut out = *self;
        out.events.iter_mut().zip(earlier.events).for_each(|(a, b)| *a = a.wrapping_sub(b));
        out.drops.iter_mut().zip(earlier.drops).for_each(|(a, b)| *a = a.wrapping_sub(b));
        out.dropped = out.dropped.wrapping_sub(earlier.dropped);
        out
    }

    /// Received and created less sent, delivered, dropped, parked and fragments that wait: the packets that are on their way.
    pub fn balance(&self) -> i128 {
        let n = |e| i128::from(self.get(e));
        n(Event::Received) + n(Event::Created)
            - n(Event::Sent)
            - n(Event::Delivered)
            - i128::from(self.dropped_total())
            - i128::from(self.parked())
            - i128::from(self.fragments())
    }
}

/// A worker's counters as others see them.
#[derive(Debug)]
pub struct SharedTally {
    events: [AtomicU64; EVENTS],
    drops: [AtomicU64; DropReason::COUNT],
    /// The sum of `drops`.
    dropped: AtomicU64,
    cache: [AtomicU64; 4],
    /// The packets that it dropped last.
    pub(crate) last_drops: Arc<LastDrops>,
}

/// The flow cache of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheView {
    /// How many entries it has room for.
    pub entries: u64,
    /// Its memory.
    pub bytes: u64,
    /// The address of its largest table.
    pub address: u64,
    /// The bytes of that.
    pub table: u64,
}

impl Default for SharedTally {
    fn default() -> SharedTally {
        SharedTally {
            events: [const { AtomicU64::new(0) }; EVENTS],
            drops: [const { AtomicU64::new(0) }; DropReason::COUNT],
            dropped: AtomicU64::new(0),
            cache: [const { AtomicU64::new(0) }; 4],
            last_drops: Arc::default(),
        }
    }
}

impl SharedTally {
    /// Publishes the worker's counters.
    pub fn store(&self, tally: &Tally) {
        self.events.iter().zip(tally.events).for_each(|(a, n)| a.store(n, Ordering::Relaxed));
        // Most turns drop nothing.
        if self.dropped.load(Ordering::Relaxed) != tally.dropped {
            self.dropped.store(tally.dropped, Ordering::Relaxed);
            self.drops.iter().zip(tally.drops).for_each(|(a, n)| a.store(n, Ordering::Relaxed));
        }
    }

    /// Publishes what is to be known of the worker's cache.
    pub(crate) fn store_cache(&self, view: CacheView) {
        let CacheView { entries, bytes, address, table } = view;
        self.cache
            .iter()
            .zip([entries, bytes, address, table])
            .for_each(|(a, n)| a.store(n, Ordering::Relaxed));
    }

    /// The worker's cache, as it was published last.
    pub fn cache(&self) -> CacheView {
        let [entries, bytes, address, table] = std::array::from_fn(|i| self.cache[i].load(Ordering::Relaxed));
        CacheView { entries, bytes, address, table }
    }

    /// A copy.
    pub fn load(&self) -> Tally {
        let drops: [u64; DropReason::COUNT] = std::array::from_fn(|i| self.drops[i].load(Ordering::Relaxed));
        let events = std::array::from_fn(|i| self.events[i].load(Ordering::Relaxed));
        Tally { events, drops, dropped: drops.iter().sum() }
    }
}
