//! Counters of rings by size and kind of packets: each is written by one worker and read by the main thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Number of size classes; the first is "shorter than 64", the last "longer than 1518".
pub(super) const CLASSES: usize = 8;
const ETHER_MIN: usize = 64;
const ETHER_MAX: usize = 1518;

/// The class of a packet's length.
#[inline]
fn class(len: usize) -> usize {
    match len {
        ..ETHER_MIN => 0,
        ETHER_MIN => 1,
        65..1024 => len.ilog2() as usize - 4,
        1024..=ETHER_MAX => 6,
        _ => 7,
    }
}

/// A counter that one thread writes.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    /// Adds `n`. Only the owner of the queue may call this.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of one direction of one queue pair by one worker.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Counters {
    classes: [Count; CLASSES],
    bytes: Count,
    multicast: Count,
    broadcast: Count,
    /// Not delivered or not sent, for any reason.
    pub dropped: Count,
    /// Bursts of which a rest was offered again.
    pub retries: Count,
    /// Interrupts of the guest.
    pub interrupts: Count,
    /// Not sent because the ring was full.
    pub full: Count,
    /// Not sent because they were longer than the MTU.
    pub too_long: Count,
    /// Not sent or received because their offload request does not fit them.
    pub bad_offload: Count,
}

impl Counters {
    /// Counts a packet that was transferred.
    #[inline]
    pub fn packet(&self, bytes: &[u8], len: usize) {
        let mut run = Run::default();
        run.packet(bytes, len, self);
        run.end(self);
    }

    /// Counts packets that found no place in the ring.
    #[inline]
    pub fn unsent(&self, n: u64) {
        if n > 0 {
            self.full.add(n);
            self.dropped.add(n);
        }
    }

    #[cold]
    fn group(&self, bytes: &[u8]) {
        let all = bytes.get(..6).is_some_and(|a| a == [0xff; 6]);
        if all { self.broadcast.add(1) } else { self.multicast.add(1) }
    }
}

/// A run of packets of the same length, which is counted by one addition.
#[derive(Debug, Default)]
pub(super) struct Run {
    len: usize,
    packets: u64,
}

impl Run {
    /// Counts a packet of `len` bytes, of which at least the Ethernet header is here, at once or with its run.
    #[inline]
    pub fn packet(&mut self, bytes: &[u8], len: usize, counters: &Counters) {
        if len != self.len {
            self.end(counters);
            self.len = len;
        }
        self.packets += 1;
        if bytes.first().is_some_and(|b| b & 1 != 0) {
            counters.group(bytes);
        }
    }

    /// Counts the packets of the current run.
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

    pub fn plus(&mut self, other: &Totals) {
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

/// The counters of a port's queues in one direction; the sums include queues that were closed.
#[derive(Debug, Default)]
pub(super) struct PairCounters(Mutex<Vec<(Totals, Vec<Arc<Counters>>)>>);

impl PairCounters {
    /// New counters for a worker that uses queue pair `pair`.
    pub fn open(&self, pair: usize) -> Arc<Counters> {
        let counters = Arc::new(Counters::default());
        let mut pairs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pairs.len() <= pair {
            pairs.resize_with(pair + 1, Default::default);
        }
        pairs[pair].1.push(counters.clone());
        counters
    }

    /// The sums, by queue pair.
    pub fn by_pair(&self) -> Vec<Totals> {
        let mut pairs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = |(gone, open): &mut (Totals, Vec<Arc<Counters>>)| {
            // No other reference exists, so the value is final.
            open.retain(|c| {
                let used = Arc::strong_count(c) > 1;
                if !used {
                    gone.add(c);
                }
                used
            });
            let mut sum = gone.clone();
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
        let (a, b) = (pairs.open(1), pairs.open(1));
        a.packet(&[0xff; 60], 60);
        a.packet(&[1; 64], 64);
        b.packet(&[2; 128], 1500);
        let mut run = Run::default();
        [60, 60, 1500, 60].iter().for_each(|len| run.packet(&[0xff; 6], *len, &b));
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
