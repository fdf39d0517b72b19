//! Tally: the counters of a worker: events, and drops by reason.
//!
//! The worker counts in plain memory and copies the counters to shared atomics about once per iteration. So other
//! threads read slightly old numbers, and no packet costs an atomic operation.
//!
//! **Packet accounting**: received + created = sent + delivered + dropped + parked + waiting fragments + queued.
//! "Created" counts copies and packets that the control half sent, "delivered" packets that ended in a `userspace`
//! action, "parked" packets whose upcall has no answer yet, "waiting fragments" fragments that `ct` holds until their
//! datagram is complete, and "queued" the packets in the recirculation queue, in output bursts and in shapers.
//! Between iterations, the only queued packets are those in shapers and those that wait for a larger burst
//! (`tx-flush-interval`).

use crate::checksum_counters::ChecksumCounter;
use crate::drop_counters::SharedPortDrops;
use crate::last_drop::LastDrops;
use crate::stages::{PathStage, StageSample};
use dpif::DropReason;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counted event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Event {
    /// Packets received from ports.
    Received,
    /// Copies, and packets from the control half.
    Created,
    /// Packets that a device accepted.
    Sent,
    /// Packets that ended in a `userspace` action.
    Delivered,
    /// Recirculated packets.
    Recirculated,
    /// Look-ups that the flow cache answered.
    CacheHit,
    /// Cache hits that a smaller cache in front answered: the megaflow of the previous batch's last packet, or an EMC.
    FrontHit,
    /// Front hits of packets that were not recirculated, on ports whose megaflows match no more than the port, the
    /// Ethernet type, the tag and whether a packet is a fragment. Open vSwitch has a separate look-up for these
    /// ("simple match").
    SimpleHit,
    /// Look-ups that the megaflow table answered.
    MegaflowHit,
    /// Subtables visited for megaflow hits.
    MasksVisited,
    /// Look-ups without a megaflow that the control half answered.
    Missed,
    /// Look-ups that the control half could not answer.
    Lost,
    /// Packets that were parked until the answer to their upcall.
    Parked,
    /// Parked packets that continued or were dropped.
    Unparked,
    /// Fragments that began to wait for other fragments of their datagram.
    FragmentWaitsBegun,
    /// Waiting fragments that continued or were removed, possibly by another worker.
    FragmentWaitsEnded,
    /// Cycles that the worker itself spent on upcalls.
    UpcallCycles,
    /// Output bursts: calls of a device's transmit.
    OutputBursts,
    /// Cycles of busy iterations.
    BusyCycles,
    /// Cycles of iterations that were not busy.
    IdleCycles,
    /// Busy iterations: they received packets, processed answers to upcalls, skipped a queue because of rx
    /// queue backoff, could not queue their upcalls, or left frames at a port with QoS.
    BusyIterations,
    /// Iterations after which the worker slept.
    SleepIterations,
    /// Cycles for which the worker slept.
    SleepCycles,
    /// Iterations.
    Iterations,
}

/// Number of [`Event`]s.
pub const EVENTS: usize = Event::Iterations as usize + 1;

/// Plain counters: a worker's own counters, or a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    events: [u64; EVENTS],
    drops: [u64; DropReason::COUNT],
    /// Sum of `drops`, by which `store` checks in each iteration whether one of them has changed.
    dropped: u64,
    verified: [u64; ChecksumCounter::COUNT],
    /// Sum of `verified`, by which `store` checks whether one of them has changed.
    verified_total: u64,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            events: [0; EVENTS],
            drops: [0; DropReason::COUNT],
            dropped: 0,
            verified: [0; ChecksumCounter::COUNT],
            verified_total: 0,
        }
    }
}

impl Tally {
    /// Counts `n` of an event.
    #[inline]
    pub fn add(&mut self, event: Event, n: u64) {
        self.events[event as usize] += n;
    }

    /// Subtracts `n` events that were counted in this iteration.
    #[inline]
    pub(crate) fn subtract(&mut self, event: Event, n: u64) {
        self.events[event as usize] = self.events[event as usize].wrapping_sub(n);
    }

    /// Number of packets that are parked.
    pub fn parked(&self) -> u64 {
        self.get(Event::Parked).wrapping_sub(self.get(Event::Unparked))
    }

    /// Number of fragments that wait for other fragments of their datagram.
    pub fn waiting_fragments(&self) -> u64 {
        self.get(Event::FragmentWaitsBegun).wrapping_sub(self.get(Event::FragmentWaitsEnded))
    }

    /// Counts `n` drops.
    #[inline]
    pub fn count_drops(&mut self, reason: DropReason, n: u64) {
        self.drops[reason as usize] += n;
        self.dropped += n;
    }

    /// Counts `n` verifications of checksums.
    #[inline]
    pub fn count_verified(&mut self, what: ChecksumCounter, n: u64) {
        self.verified[what as usize] += n;
        self.verified_total += n;
    }

    /// The count of verifications of checksums.
    pub fn verified(&self, what: ChecksumCounter) -> u64 {
        self.verified[what as usize]
    }

    /// The count of an event.
    pub fn get(&self, event: Event) -> u64 {
        self.events[event as usize]
    }

    /// The count of drops for a reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// The reasons for which packets were dropped, and the number of packets for each.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL.iter().map(|reason| (*reason, self.dropped(*reason))).filter(|(_, n)| *n != 0)
    }

    /// Number of all drops.
    pub fn dropped_total(&self) -> u64 {
        self.dropped
    }

    /// Adds the counters of another tally.
    pub fn merge(&mut self, other: &Tally) {
        self.events.iter_mut().zip(other.events).for_each(|(a, b)| *a = a.wrapping_add(b));
        self.drops.iter_mut().zip(other.drops).for_each(|(a, b)| *a = a.wrapping_add(b));
        self.dropped = self.dropped.wrapping_add(other.dropped);
        self.verified.iter_mut().zip(other.verified).for_each(|(a, b)| *a = a.wrapping_add(b));
        self.verified_total = self.verified_total.wrapping_add(other.verified_total);
    }

    /// Returns what was counted since `earlier`, a copy of the same counters.
    #[must_use]
    pub fn since(&self, earlier: &Tally) -> Tally {
        let mut out = *self;
        out.events.iter_mut().zip(earlier.events).for_each(|(a, b)| *a = a.wrapping_sub(b));
        out.drops.iter_mut().zip(earlier.drops).for_each(|(a, b)| *a = a.wrapping_sub(b));
        out.dropped = out.dropped.wrapping_sub(earlier.dropped);
        out.verified.iter_mut().zip(earlier.verified).for_each(|(a, b)| *a = a.wrapping_sub(b));
        out.verified_total = out.verified_total.wrapping_sub(earlier.verified_total);
        out
    }

    /// Received and created less sent, delivered, dropped, parked and waiting fragments: the packets in the
    /// recirculation queue, in output bursts and in shapers.
    pub fn balance(&self) -> i128 {
        let n = |e| i128::from(self.get(e));
        n(Event::Received) + n(Event::Created)
            - n(Event::Sent)
            - n(Event::Delivered)
            - i128::from(self.dropped_total())
            - i128::from(self.parked())
            - i128::from(self.waiting_fragments())
    }
}

/// A worker's counters as other threads read them.
#[derive(Debug)]
pub struct SharedTally {
    events: [AtomicU64; EVENTS],
    drops: [AtomicU64; DropReason::COUNT],
    /// The sum of `drops`.
    dropped: AtomicU64,
    verified: [AtomicU64; ChecksumCounter::COUNT],
    /// The sum of `verified`.
    verified_total: AtomicU64,
    /// The fields of a [`CacheView`], in their order.
    cache: [AtomicU64; 4],
    /// The cycles of a [`StageSample`], and then its packets.
    stages: [AtomicU64; PathStage::ALL.len() + 1],
    /// The packets that the worker dropped recently.
    pub(crate) last_drops: Arc<LastDrops>,
    /// Its drops by port and reason.
    pub(crate) port_drops: Arc<SharedPortDrops>,
}

/// State of the flow cache of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheView {
    /// Capacity in entries.
    pub entries: u64,
    /// Bytes of memory.
    pub bytes: u64,
    /// The address of the cache's largest table, from which `dpif/show-caches` finds out whether huge pages back it.
    pub address: u64,
    /// Size in bytes of this table.
    pub table: u64,
}

impl Default for SharedTally {
    fn default() -> SharedTally {
        SharedTally {
            events: [const { AtomicU64::new(0) }; EVENTS],
            drops: [const { AtomicU64::new(0) }; DropReason::COUNT],
            dropped: AtomicU64::new(0),
            verified: [const { AtomicU64::new(0) }; ChecksumCounter::COUNT],
            verified_total: AtomicU64::new(0),
            cache: [const { AtomicU64::new(0) }; 4],
            stages: [const { AtomicU64::new(0) }; PathStage::ALL.len() + 1],
            last_drops: Arc::default(),
            port_drops: Arc::default(),
        }
    }
}

impl SharedTally {
    /// Publishes the worker's counters.
    pub fn store(&self, tally: &Tally) {
        self.events.iter().zip(tally.events).for_each(|(a, n)| a.store(n, Ordering::Relaxed));
        // Most iterations drop nothing.
        if self.dropped.load(Ordering::Relaxed) != tally.dropped {
            self.dropped.store(tally.dropped, Ordering::Relaxed);
            self.drops.iter().zip(tally.drops).for_each(|(a, n)| a.store(n, Ordering::Relaxed));
        }
        // Only tunnels and connection tracking verify checksums.
        if self.verified_total.load(Ordering::Relaxed) != tally.verified_total {
            self.verified_total.store(tally.verified_total, Ordering::Relaxed);
            self.verified.iter().zip(tally.verified).for_each(|(a, n)| a.store(n, Ordering::Relaxed));
        }
    }

    /// Publishes the state of the worker's flow cache.
    pub(crate) fn store_cache(&self, view: CacheView) {
        let CacheView { entries, bytes, address, table } = view;
        self.cache
            .iter()
            .zip([entries, bytes, address, table])
            .for_each(|(a, n)| a.store(n, Ordering::Relaxed));
    }

    /// The state of the worker's flow cache, as last published.
    pub fn cache(&self) -> CacheView {
        let [entries, bytes, address, table] = std::array::from_fn(|i| self.cache[i].load(Ordering::Relaxed));
        CacheView { entries, bytes, address, table }
    }

    /// Publishes the sampled times of stages.
    pub(crate) fn store_stages(&self, sample: &StageSample) {
        let values = sample.cycles.iter().chain([&sample.packets]);
        self.stages.iter().zip(values).for_each(|(a, n)| a.store(*n, Ordering::Relaxed));
    }

    /// The sampled times of stages.
    pub fn stages(&self) -> StageSample {
        let values: [u64; PathStage::ALL.len() + 1] =
            std::array::from_fn(|i| self.stages[i].load(Ordering::Relaxed));
        let [cycles @ .., packets] = values;
        StageSample { cycles, packets }
    }

    /// Copies the counters.
    pub fn load(&self) -> Tally {
        let drops: [u64; DropReason::COUNT] = std::array::from_fn(|i| self.drops[i].load(Ordering::Relaxed));
        let events = std::array::from_fn(|i| self.events[i].load(Ordering::Relaxed));
        let verified: [u64; ChecksumCounter::COUNT] =
            std::array::from_fn(|i| self.verified[i].load(Ordering::Relaxed));
        let (dropped, verified_total) = (drops.iter().sum(), verified.iter().sum());
        Tally { events, drops, dropped, verified, verified_total }
    }
}
