//! A queue of the shaper: its packets, its rates, and its state.

use super::clock::{FineTime, RateClock};
use super::spec::ClassSpec;
use crate::counts_and_errors::QueueCounts;
use std::collections::VecDeque;

/// A burst includes the bytes that the rate allows in 1 ms, which is a second divided by this number. So a PMD thread that
/// serves the shaper every millisecond can use the complete rate.
const BURSTS_PER_SECOND: u64 = 1000;

/// A class alternates between [`ClassState::Guaranteed`] and [`ClassState::Borrowing`]: it leaves the borrowing classes for
/// each packet that its guarantee allows. When it returns, it may catch up with the other classes by at most this many
/// bytes, so that it still gets its share of the rest. Equals the largest packet of TCP segmentation offload.
const CATCH_UP: u32 = 64 << 10;

/// Number of priorities, as in Linux.
pub(super) const PRIORITIES: usize = 8;

/// The state of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClassState {
    /// The class has no packets.
    Idle,
    /// The class has reached its maximum rate.
    Waiting,
    /// The class may send if the rest of the port's rate allows it.
    Borrowing,
    /// The class is below its guaranteed rate.
    Guaranteed,
}

/// A queue of the shaper.
#[derive(Debug)]
pub(super) struct Class<T> {
    pub(super) spec: ClassSpec,
    pub(super) min: RateClock,
    pub(super) max: RateClock,
    pub(super) packets: VecDeque<(u32, T)>,
    pub(super) state: ClassState,
    /// Start tag of the next packet: among classes below their guaranteed rates (index 0), and among borrowing classes
    /// (index 1).
    pub(super) start_tags: [StartTag; 2],
    /// When the state of the class must be checked again.
    pub(super) timer: Option<FineTime>,
    pub(super) counts: QueueCounts,
}

/// Start tag of start-time fair queueing, by which classes of one state and priority are ordered: bytes sent divided by the
/// guaranteed rate.
pub(super) type StartTag = u128;

/// The burst for a rate, in bytes: `wanted`, but at least the bytes of 1 ms plus one MTU.
pub(super) fn burst(rate: u64, wanted: u64, mtu: u32) -> u64 {
    wanted.max((rate / BURSTS_PER_SECOND).saturating_add(u64::from(mtu)))
}

impl<T> Class<T> {
    pub(super) fn new(spec: ClassSpec, mtu: u32, now: FineTime) -> Class<T> {
        Class {
            min: RateClock::new(spec.min, burst(spec.min, spec.burst, mtu), now),
            max: RateClock::new(spec.max, burst(spec.max, spec.burst, mtu), now),
            spec,
            packets: VecDeque::new(),
            state: ClassState::Idle,
            start_tags: [0; 2],
            timer: None,
            counts: QueueCounts::default(),
        }
    }

    pub(super) fn change(&mut self, spec: ClassSpec, mtu: u32, now: FineTime) {
        self.min = self.min.with_rate(spec.min, burst(spec.min, spec.burst, mtu), now);
        self.max = self.max.with_rate(spec.max, burst(spec.max, spec.burst, mtu), now);
        self.spec = spec;
    }

    pub(super) fn priority(&self) -> usize {
        usize::from(self.spec.priority).min(PRIORITIES - 1)
    }

    /// The amount by which a packet of this length increases the start tag of the class.
    pub(super) fn tag_increment(&self, bytes: u32) -> StartTag {
        (StartTag::from(bytes) << 40) / StartTag::from(self.spec.min.max(1))
    }

    /// Sets and returns the start tag of a class that returns to a state. `index`: the state's index in `start_tags`. `last_tag`:
    /// the start tag of the packet that was sent last in that state.
    pub(super) fn rejoin(&mut self, index: usize, last_tag: StartTag) -> StartTag {
        let tag = self.start_tags[index].max(last_tag.saturating_sub(self.tag_increment(CATCH_UP)));
        self.start_tags[index] = tag;
        tag
    }

    /// The current state of the class, and when that state changes if nothing is sent.
    pub(super) fn state_at(&self, now: FineTime) -> (ClassState, Option<FineTime>) {
        if self.packets.is_empty() {
            (ClassState::Idle, None)
        } else if !self.max.is_ready(now) {
            (ClassState::Waiting, Some(self.max.ready_at))
        } else if self.min.is_ready(now) {
            (ClassState::Guaranteed, None)
        } else {
            (ClassState::Borrowing, Some(self.min.ready_at))
        }
    }
}
