//! State of one port and its guest, shared by the thread that serves the guest, the main thread and the workers.
//!
//! The state consists of atomics, and of locks that are held only briefly, because DPDK's library may hold the locks of rings when the
//! state is written. The main thread compares [`PortState::seq`] to detect changes. Workers read one word per burst: the ring to which they
//! send.

use super::bounds::MAX_PAIRS;
use super::log::{Budget, Level};
use super::notify::Notify;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

const NO_PAIR: u16 = u16::MAX;

/// A set of queue pairs, one bit each.
#[derive(Debug, Default)]
struct PairSet([AtomicU64; MAX_PAIRS / 64]);

impl PairSet {
    fn get(&self, i: usize) -> bool {
        self.0.get(i / 64).is_some_and(|w| w.load(Ordering::Relaxed) & (1 << (i % 64)) != 0)
    }
    /// Sets or clears bit `i`. Returns whether it changed.
    fn set(&self, i: usize, on: bool) -> bool {
        let Some(word) = self.0.get(i / 64) else { return false };
        let bit = 1 << (i % 64);
        let old =
            if on { word.fetch_or(bit, Ordering::Relaxed) } else { word.fetch_and(!bit, Ordering::Relaxed) };
        (old & bit != 0) != on
    }
    fn clear(&self) {
        self.0.iter().for_each(|w| w.store(0, Ordering::Relaxed));
    }
}

/// The shared state of one port.
#[derive(Debug)]
pub struct PortState {
    /// The path at which the guest connects, or to which the switch connects.
    pub path: String,
    /// A worker has accessed the rings for too long; the port is out of service.
    stuck: AtomicBool,
    /// The port is being removed; another port may use its path.
    retired: AtomicBool,
    /// Number of queue pairs of the guest; 1 while no guest is connected.
    pairs: AtomicUsize,
    /// Number of queue pairs that senders use. It becomes `pairs` when the port is restarted.
    spread: AtomicUsize,
    /// Negotiated feature bits (virtio 1.1); 0 while no guest is connected.
    pub features: AtomicU64,
    /// NUMA node of the guest's memory; negative if unknown.
    pub numa: AtomicI32,
    /// Increases whenever a fact about the guest changes.
    seq: AtomicU64,
    /// How often a guest connected or disconnected.
    connections: AtomicU64,
    /// The queue pairs in which the guest has enabled the ring that it sends on.
    from_guest: PairSet,
    /// The queue pairs in which the guest has enabled the ring that it receives on.
    to_guest: PairSet,
    /// For each sender, the queue pair whose ring it fills.
    sender_pairs: [AtomicU16; MAX_PAIRS],
    /// Limits the log lines that the guest causes.
    log: Budget,
    /// Serializes the computation of `sender_pairs` by the library's threads and the main thread.
    remap_lock: Mutex<()>,
    notify: Notify,
}

impl PortState {
    /// The state of a port without a guest.
    pub fn new(path: &str, notify: Notify) -> PortState {
        PortState {
            path: path.to_owned(),
            stuck: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            pairs: AtomicUsize::new(1),
            spread: AtomicUsize::new(1),
            features: AtomicU64::new(0),
            numa: AtomicI32::new(-1),
            seq: AtomicU64::new(1),
            connections: AtomicU64::new(0),
            from_guest: PairSet::default(),
            to_guest: PairSet::default(),
            sender_pairs: [const { AtomicU16::new(NO_PAIR) }; MAX_PAIRS],
            log: Budget::default(),
            remap_lock: Mutex::new(()),
            notify,
        }
    }

    /// Logs a line that the guest caused, if the guest's [`Budget`] of lines allows it.
    pub fn say(&self, level: Level, text: &str) {
        self.log.say(level, text);
    }

    /// Marks the port as being removed, so that another port may use its path.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// Whether the port is being removed.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// Sets whether the port is out of service because of a worker. Returns whether that is a change.
    pub fn set_stuck(&self, stuck: bool) -> bool {
        let new = self.stuck.swap(stuck, Ordering::Relaxed) != stuck;
        if new {
            self.report_change();
        }
        new
    }

    /// Whether the port is out of service because a worker has accessed the rings for too long.
    pub fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Relaxed)
    }

    /// Reports a change that the main thread displays or reacts to.
    pub fn report_change(&self) {
        self.seq.fetch_add(1, Ordering::Release);
        self.notify.call();
    }

    /// A number that changes whenever a fact about the guest changes.
    pub fn seq(&self) -> u64 {
        self.seq.load(Ordering::Acquire)
    }

    /// Number of queue pairs of the guest; 1 while no guest is connected.
    pub fn pairs(&self) -> usize {
        self.pairs.load(Ordering::Relaxed)
    }

    /// Sets the number of the guest's queue pairs.
    pub fn set_pairs(&self, pairs: usize) {
        self.pairs.store(pairs.clamp(1, MAX_PAIRS), Ordering::Relaxed);
    }

    /// Raises the number of the guest's queue pairs so that it includes `pair`.
    pub fn include_pair(&self, pair: usize) {
        let reached = (pair + 1).min(MAX_PAIRS);
        if self.pairs.fetch_max(reached, Ordering::Relaxed) < reached {
            self.report_change();
        }
    }

    /// Sets the number of queue pairs that senders use.
    pub fn distribute_senders(&self, pairs: usize) {
        self.spread.store(pairs.clamp(1, MAX_PAIRS), Ordering::Relaxed);
        self.remap();
    }

    /// How often a guest connected or disconnected: 3 after connect, disconnect, connect.
    pub fn changes(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Reports that a guest connected or disconnected.
    pub fn guest_changed(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.report_change();
    }

    /// Whether the guest has enabled the ring that it sends on in this pair.
    pub fn guest_sends(&self, pair: usize) -> bool {
        self.from_guest.get(pair)
    }

    /// Sets whether the guest has enabled the ring that it sends on in this pair.
    pub fn set_from_guest(&self, pair: usize, on: bool) {
        if self.from_guest.set(pair, on) {
            self.report_change();
        }
    }

    /// Sets whether the guest has enabled the ring that it receives on in this pair.
    pub fn set_to_guest(&self, pair: usize, on: bool) {
        if self.to_guest.set(pair, on) {
            self.remap();
            self.report_change();
        }
    }

    /// Marks all rings as disabled.
    pub fn disable_all_rings(&self) {
        self.from_guest.clear();
        self.to_guest.clear();
        self.remap();
        self.report_change();
    }

    /// The queue pair whose ring sender `slot` fills; `None` if no ring is enabled.
    #[inline]
    pub fn pair_of_sender(&self, slot: usize) -> Option<u16> {
        let pair = self.sender_pairs[slot % MAX_PAIRS].load(Ordering::Relaxed);
        (pair != NO_PAIR).then_some(pair)
    }

    /// Assigns rings to senders. Each sender fills the ring of its own pair if that ring is enabled. The other senders are distributed
    /// over the enabled rings in turn.
    fn remap(&self) {
        let _one = self.remap_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let pairs = self.spread.load(Ordering::Relaxed);
        let on: Vec<usize> = (0..pairs).filter(|p| self.to_guest.get(*p)).collect();
        let mut others = on.iter().copied().cycle();
        for (slot, entry) in self.sender_pairs.iter().enumerate() {
            let own = slot % pairs;
            let pair = if self.to_guest.get(own) { Some(own) } else { others.next() };
            entry.store(pair.map_or(NO_PAIR, |p| p as u16), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn senders_use_enabled_rings() {
        let port = PortState::new("/s", Notify::default());
        assert_eq!(port.pair_of_sender(0), None);
        port.set_to_guest(0, true);
        assert_eq!((port.pair_of_sender(0), port.pair_of_sender(7)), (Some(0), Some(0)));
        for pair in 1..4 {
            port.set_to_guest(pair, true);
        }
        port.distribute_senders(4);
        assert_eq!([0, 1, 2, 3, 5].map(|s| port.pair_of_sender(s)), [0, 1, 2, 3, 1].map(Some));
        port.set_to_guest(1, false);
        port.set_to_guest(3, false);
        assert_eq!([0, 1, 2, 3].map(|s| port.pair_of_sender(s)), [0, 0, 2, 2].map(Some));
        port.disable_all_rings();
        assert_eq!(port.pair_of_sender(2), None);
    }

    #[test]
    fn changes_are_reported_once() {
        let told = Arc::new(AtomicU64::new(0));
        let teller = Arc::clone(&told);
        let notify = Notify::new(move || {
            teller.fetch_add(1, Ordering::Relaxed);
        });
        let port = PortState::new("/s", notify);
        let before = port.seq();
        port.set_from_guest(5, true);
        port.set_from_guest(5, true);
        assert_eq!((port.seq(), port.guest_sends(5), port.guest_sends(4)), (before + 1, true, false));
        port.include_pair(5);
        port.include_pair(2);
        assert_eq!((port.pairs(), port.seq()), (6, before + 2));
        assert_eq!(told.load(Ordering::Relaxed), 2);
        port.set_from_guest(MAX_PAIRS, true);
        assert!(!port.guest_sends(MAX_PAIRS));
    }
}
