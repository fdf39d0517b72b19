//! Counters of rings by size and kind of packets. Each is written by one worker and read by the main thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Number of size classes. The first is "shorter than 64 bytes", the last "longer than 1518 bytes".
pub(super) const CLASSES: usize = 8;
/// The only packet length of size class 1, in bytes.
const FRAME_MIN: usize = 64;
/// The largest packet length of size class 6, in bytes.
const FRAME_MAX: usize = 1518;

/// The size class of a packet's length.
#[inline]
fn class(len: usize) -> usize {
    match len {
        ..FRAME_MIN => 0,
        FRAME_MIN => 1,
        65..1024 => len.ilog2() as usize - 4,
        1024..=FRAME_MAX => 6,
        _ => 7,
    }
}

/// A counter that only one thread writes.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    /// Adds `n`. Only the worker that owns the queue may call this.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of one direction of one queue pair, written by one worker.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Counters {
    classes: [Count; CLASSES],
    bytes: Count,
    multicast: Count,
    broadcast: Count,
    /// Packets that could not be received or sent, for any reason.
    pub dropped: Count,
    /// How often the rest of a burst was passed to the ring again.
    pub retries: Count,
    /// Interrupts sent to the guest.
    pub interrupts: Count,
    /// Packets that were not sent because the ring was full.
    pub full: Count,
    /// Packets that were not sent because they were longer than the MTU.
    pub too_long: Count,
    /// Packets that were not sent or received because their offload request does not fit them.
    pub bad_offload: Count,
}

impl Counters {
    /// Counts a packet that was transferred.
    #[inline]
    pub fn count_packet(&self, bytes: &[u8], len: usize) {
        let mut run = EqualLengthRun::default();
        run.add_packet(bytes, len, self);
        run.end(self);
    }

    /// Counts packets for which the ring had no space.
    #[inline]
    pub fn count_unsent(&self, n: u64) {
        if n > 0 {
            self.full.add(n);
            self.dropped.add(n);
        }
    }

    #[cold]
    fn count_group_packet(&self, bytes: &[u8]) {
        let is_broadcast = bytes.get(..6).is_some_and(|a| a == [0xff; 6]);
        if is_broadcast { self.broadcast.add(1) } else { self.multicast.add(1) }
    }
}

/// Consecutive packets of the same length. They are counted together by one addition.
#[derive(Debug, Default)]
pub(super) struct EqualLengthRun {
    len: usize,
    packets: u64,
}

impl EqualLengthRun {
    /// Adds a packet of `len` bytes. `bytes`: at least its Ethernet header. Counts the previous run if the length differs.
    #[inline]
    pub fn add_packet(&mut self, bytes: &[u8], len: usize, counters: &Counters) {
        if len != self.len {
            self.end(counters);
            self.len = len;
        }
        self.packets += 1;
        if bytes.first().is_some_and(|b| b & 1 != 0) {
            counters.count_group_packet(bytes);
        }
    }

    /// Counts the packets of this run and their bytes. Multicast and broadcast packets were counted by `add_packet`.
    #[inline]
    pub fn end(&mut self, counters: &Counters) {
        let packets = std::mem::take(&mut self.packets);
        counters.classes[class(self.len)].add(packets);
        counters.bytes.add(packets * self.len as u64);
    }
}

/// The sum of some `Counters`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub classes: [u64; CLASSES],
    pub bytes: u64,
    pub multicast: u64,
    pub broadcast: u64,
    pub dropped: u64,
    pub retries: u64,
    pub interrupts: u64,
    pub full: u64,
    pub too_long: u64,
    pub bad_offload: u64,
}

impl Totals {
    pub fn packets(&self) -> u64 {
        self.classes.iter().sum()
    }

    fn add(&mut self, c: &Counters) {
        self.classes.iter_mut().zip(&c.classes).for_each(|(sum, n)| *sum += n.get());
        self.bytes += c.bytes.get();
        self.multicast += c.multicast.get();
        self.broadcast += c.broadcast.get();
        self.dropped += c.dropped.get();
        self.retries += c.retries.get();
        self.interrupts += c.interrupts.get();
        self.full += c.full.get();
        self.too_long += c.too_long.get();
        self.bad_offload += c.bad_offload.get();
    }

    pub fn add_totals(&mut self, other: &Totals) {
        self.classes.iter_mut().zip(&other.classes).for_each(|(sum, n)| *sum += n);
        self.bytes += other.bytes;
        self.multicast += other.multicast;
        self.broadcast += other.broadcast;
        self.dropped += other.dropped;
        self.retries += other.retries;
        self.interrupts += other.interrupts;
        self.full += other.full;
        self.too_long += other.too_long;
        self.bad_offload += other.bad_offload;
    }
}

/// The counters of a port's queues in one direction, by queue pair: the sums of closed queues, and the counters of open queues.
#[derive(Debug, Default)]
pub(super) struct PairCounters(Mutex<Vec<(Totals, Vec<Arc<Counters>>)>>);

impl PairCounters {
    /// Creates the counters for a worker that uses queue pair `pair`.
    pub fn new_counters(&self, pair: usize) -> Arc<Counters> {
        let counters = Arc::new(Counters::default());
        let mut pairs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pairs.len() <= pair {
            pairs.resize_with(pair + 1, Default::default);
        }
        pairs[pair].1.push(counters.clone());
        counters
    }

    /// The sums for each queue pair, including closed queues.
    pub fn by_pair(&self) -> Vec<Totals> {
        let mut pairs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = |(closed, open): &mut (Totals, Vec<Arc<Counters>>)| {
            // If no other reference exists, the queue is closed and the value is final.
            open.retain(|c| {
                let used = Arc::strong_count(c) > 1;
                if !used {
                    closed.add(c);
                }
                used
            });
            let mut sum = closed.clone();
            open.iter().for_each(|c| sum.add(c));
            sum
        };
        pairs.iter_mut().map(sum).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_fall_in_the_classes_of_rmon() {
        let lens = [14, 63, 64, 65, 127, 128, 255, 256, 511, 512, 1023, 1024, 1518, 1519, 9000];
        let classes = lens.map(class);
        assert_eq!(classes, [0, 0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]);
    }

    #[test]
    fn queues_that_are_gone_stay_in_the_sum() {
        let pairs = PairCounters::default();
        let (a, b) = (pairs.new_counters(1), pairs.new_counters(1));
        a.count_packet(&[0xff; 60], 60);
        a.count_packet(&[1; 64], 64);
        b.count_packet(&[2; 128], 1500);
        let mut run = EqualLengthRun::default();
        [60, 60, 1500, 60].iter().for_each(|len| run.add_packet(&[0xff; 6], *len, &b));
        run.end(&b);
        let before = pairs.by_pair()[1].clone();
        assert_eq!((before.classes[0], before.classes[6], before.broadcast), (4, 2, 5));
        drop(a);
        for _ in 0..2 {
            let sums = pairs.by_pair();
            assert_eq!((sums.len(), sums[0].packets(), sums[1].packets()), (2, 0, 7));
            assert_eq!((sums[1].bytes, sums[1].broadcast, sums[1].multicast), (3304, 5, 1));
        }
    }
}
