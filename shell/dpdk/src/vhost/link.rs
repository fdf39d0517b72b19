//! What is known of a socket and its guest, shared by the library's threads, the main thread and the workers.
//!
//! The library's callbacks write it, with atomics only: some of them run while the library holds the locks of the
//! rings. The main thread compares [`Link::seq`]. Workers read where to send, one word per burst.

use super::front;
use super::gate::Door;
use super::notify::Notify;
use super::rules::Rules;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Queue pairs that a guest may have (the library's bound).
pub const MAX_PAIRS: usize = 128;
const NOWHERE: u16 = u16::MAX;

/// One bit for each queue pair.
#[derive(Debug, Default)]
struct Bits([AtomicU64; MAX_PAIRS / 64]);

impl Bits {
    fn get(&self, i: usize) -> bool {
        self.0.get(i / 64).is_some_and(|w| w.load(Ordering::Relaxed) & (1 << (i % 64)) != 0)
    }
    /// Whether it was another.
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

/// See the module.
#[derive(Debug)]
pub(super) struct Link {
    /// Where the guest is met.
    pub path: String,
    /// Where the library listens for it; its name for the port.
    pub inner: String,
    /// Guests may ask that pages of theirs come later (`vhost-postcopy-support`).
    pub postcopy: bool,
    pub door: Door,
    /// What the connection has said so far. The library's thread alone takes it.
    pub rules: Mutex<Rules>,
    /// The front is about to connect: nobody else may.
    expected: AtomicBool,
    /// The library has a connection.
    joined: AtomicBool,
    /// A worker has not come back from the rings.
    stuck: AtomicBool,
    /// The port is going; another one may have its path.
    retired: AtomicBool,
    /// Queue pairs of the guest; 1 without one.
    pairs: AtomicUsize,
    /// Queue pairs over which senders are spread: those of the port, which follows `pairs` when it is restarted.
    spread: AtomicUsize,
    pub features: AtomicU64,
    /// Node of the guest's memory; negative: not known.
    pub numa: AtomicI32,
    seq: AtomicU64,
    connections: AtomicU64,
    from_guest: Bits,
    to_guest: Bits,
    /// For each sender, the pair whose ring it fills.
    map: [AtomicU16; MAX_PAIRS],
    /// Held while `map` is made anew: the library's threads and the main thread do that.
    mapping: Mutex<()>,
    notify: Notify,
}

impl Link {
    pub fn new(path: &str, inner: &str, postcopy: bool, notify: Notify) -> Link {
        Link {
            path: path.to_owned(),
            inner: inner.to_owned(),
            postcopy,
            door: Door::new(),
            rules: Mutex::default(),
            expected: AtomicBool::new(false),
            joined: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            pairs: AtomicUsize::new(1),
            spread: AtomicUsize::new(1),
            features: AtomicU64::new(0),
            numa: AtomicI32::new(-1),
            seq: AtomicU64::new(1),
            connections: AtomicU64::new(0),
            from_guest: Bits::default(),
            to_guest: Bits::default(),
            map: [const { AtomicU16::new(NOWHERE) }; MAX_PAIRS],
            mapping: Mutex::new(()),
            notify,
        }
    }

    /// The port is going: its path is free.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// The port is going, and its path may be another's.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// The next connection to the library is the front's.
    pub fn expect_connection(&self) {
        self.expected.store(true, Ordering::Release);
    }

    /// A connection came: the one that is expected.
    pub fn is_expected(&self) -> bool {
        self.expected.swap(false, Ordering::AcqRel)
    }

    /// The library has, or no longer has, a connection.
    pub fn set_joined(&self, joined: bool) {
        self.joined.store(joined, Ordering::Release);
        front::wake();
    }

    /// The library has a connection, or is still taking one away.
    pub fn is_joined(&self) -> bool {
        self.joined.load(Ordering::Acquire)
    }

    /// Whether that is new.
    pub fn set_stuck(&self, stuck: bool) -> bool {
        let new = self.stuck.swap(stuck, Ordering::Relaxed) != stuck;
        if new {
            self.touch();
        }
        new
    }

    /// A worker has not come back from the rings for so long that the port is out of service.
    pub fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Relaxed)
    }

    /// Something changed that the main thread shows or acts upon.
    pub fn touch(&self) {
        self.seq.fetch_add(1, Ordering::Release);
        self.notify.tell();
    }

    pub fn seq(&self) -> u64 {
        self.seq.load(Ordering::Acquire)
    }

    pub fn pairs(&self) -> usize {
        self.pairs.load(Ordering::Relaxed)
    }

    /// So many queue pairs the guest has.
    pub fn set_pairs(&self, pairs: usize) {
        self.pairs.store(pairs.clamp(1, MAX_PAIRS), Ordering::Relaxed);
    }

    /// The guest has this pair, too.
    pub fn reach_pair(&self, pair: usize) {
        let reached = (pair + 1).min(MAX_PAIRS);
        if self.pairs.fetch_max(reached, Ordering::Relaxed) < reached {
            self.touch();
        }
    }

    /// The port has so many queue pairs now.
    pub fn spread_over(&self, pairs: usize) {
        self.spread.store(pairs.clamp(1, MAX_PAIRS), Ordering::Relaxed);
        self.remap();
    }

    /// Guests came or went so often: up, down, up is 3.
    pub fn changes(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    pub fn came_or_went(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.touch();
    }

    /// The guest sends on this pair.
    pub fn guest_sends(&self, pair: usize) -> bool {
        self.from_guest.get(pair)
    }

    pub fn set_from_guest(&self, pair: usize, on: bool) {
        if self.from_guest.set(pair, on) {
            self.touch();
        }
    }

    pub fn set_to_guest(&self, pair: usize, on: bool) {
        if self.to_guest.set(pair, on) {
            self.remap();
            self.touch();
        }
    }

    /// No ring is on.
    pub fn all_off(&self) {
        self.from_guest.clear();
        self.to_guest.clear();
        self.remap();
        self.touch();
    }

    /// Whose ring sender `slot` fills; `None`: none is on.
    #[inline]
    pub fn ring_of(&self, slot: usize) -> Option<u16> {
        let pair = self.map[slot % MAX_PAIRS].load(Ordering::Relaxed);
        (pair != NOWHERE).then_some(pair)
    }

    /// A sender has the pair of its number if that is on; those whose pair is off share the others in turn.
    fn remap(&self) {
        let _one = self.mapping.lock().unwrap_or_else(PoisonError::into_inner);
        let pairs = self.spread.load(Ordering::Relaxed);
        let on: Vec<usize> = (0..pairs).filter(|p| self.to_guest.get(*p)).collect();
        let mut others = on.iter().copied().cycle();
        for (slot, entry) in self.map.iter().enumerate() {
            let own = slot % pairs;
            let pair = if self.to_guest.get(own) { Some(own) } else { others.next() };
            entry.store(pair.map_or(NOWHERE, |p| p as u16), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn senders_follow_the_rings_that_are_on() {
        let link = Link::new("/s", "/i", false, Notify::default());
        assert_eq!(link.ring_of(0), None);
        link.set_to_guest(0, true);
        assert_eq!((link.ring_of(0), link.ring_of(7)), (Some(0), Some(0)));
        for pair in 1..4 {
            link.set_to_guest(pair, true);
        }
        link.spread_over(4);
        assert_eq!([0, 1, 2, 3, 5].map(|s| link.ring_of(s)), [0, 1, 2, 3, 1].map(Some));
        link.set_to_guest(1, false);
        link.set_to_guest(3, false);
        assert_eq!([0, 1, 2, 3].map(|s| link.ring_of(s)), [0, 0, 2, 2].map(Some));
        link.all_off();
        assert_eq!(link.ring_of(2), None);
    }

    #[test]
    fn changes_are_told_once() {
        let told = Arc::new(AtomicU64::new(0));
        let teller = Arc::clone(&told);
        let notify = Notify::new(move || {
            teller.fetch_add(1, Ordering::Relaxed);
        });
        let link = Link::new("/s", "/i", false, notify);
        let before = link.seq();
        link.set_from_guest(5, true);
        link.set_from_guest(5, true);
        assert_eq!((link.seq(), link.guest_sends(5), link.guest_sends(4)), (before + 1, true, false));
        link.reach_pair(5);
        link.reach_pair(2);
        assert_eq!((link.pairs(), link.seq()), (6, before + 2));
        assert_eq!(told.load(Ordering::Relaxed), 2);
        link.set_from_guest(MAX_PAIRS, true);
        assert!(!link.guest_sends(MAX_PAIRS));
    }
}
