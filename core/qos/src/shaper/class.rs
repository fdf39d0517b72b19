//! A queue of the shaper: its packets, its rates, and its state.

use super::clock::{FineTime, RateClock};
use super::spec::ClassSpec;
use crate::outcome::QueueCounts;
use std::collections::VecDeque;

/// The burst includes the amount that the rate sends in this part of a second, 1 ms. So a PMD thread that
/// serves the shaper every millisecond loses nothing of a rate.
const BURST_PARTS: u64 = 1000;

/// Bytes by which a class may be behind when it returns to the borrowing classes: a class that leaves them
/// for each packet that its guarantee allows still gets its share of the rest. Equals one TCP segmentation
/// offload.
const CATCH_UP: u32 = 64 << 10;

/// Number of priorities, as in Linux.
pub(super) const PRIORITIES: usize = 8;

/// The state of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClassState {
    /// It has no packets.
    Idle,
    /// It has reached its maximum rate.
    Waiting,
    /// It may send if the rest of the port's rate allows it.
    Borrowing,
    /// It is below its guaranteed rate.
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
    /// Its virtual time among the classes below their guaranteed rates, and among the borrowing ones.
    pub(super) virtual_times: [VirtualTime; 2],
    /// When its state must be checked again.
    pub(super) timer: Option<FineTime>,
    pub(super) counts: QueueCounts,
}

/// Virtual time, by which classes of one state and priority are ordered: bytes sent divided by the guaranteed
/// rate.
pub(super) type VirtualTime = u128;

/// The burst of a rate, in bytes.
pub(super) fn burst(rate: u64, wanted: u64, mtu: u32) -> u64 {
    wanted.max((rate / BURST_PARTS).saturating_add(u64::from(mtu)))
}

impl<T> Class<T> {
    pub(super) fn new(spec: ClassSpec, mtu: u32, now: FineTime) -> Class<T> {
        Class {
            min: RateClock::new(spec.min, burst(spec.min, spec.burst, mtu), now),
            max: RateClock::new(spec.max, burst(spec.max, spec.burst, mtu), now),
            spec,
            packets: VecDeque::new(),
            state: ClassState::Idle,
            virtual_times: [0; 2],
            timer: None,
            counts: QueueCounts::default(),
        }
    }

    pub(super) fn change(&mut self, spec: ClassSpec, mtu: u32, now: FineTime) {
        self.min = self.min.changed(spec.min, burst(spec.min, spec.burst, mtu), now);
        self.max = self.max.changed(spec.max, burst(spec.max, spec.burst, mtu), now);
        self.spec = spec;
    }

    pub(super) fn priority(&self) -> usize {
        usize::from(self.spec.priority).min(PRIORITIES - 1)
    }

    /// The virtual time that bytes take.
    pub(super) fn weight(&self, bytes: u32) -> VirtualTime {
        (VirtualTime::from(bytes) << 40) / VirtualTime::from(self.spec.min.max(1))
    }

    /// Its virtual time when it returns to a state whose latest sender had virtual time `now`.
    pub(super) fn rejoin(&mut self, set: usize, now: VirtualTime) -> VirtualTime {
        let time = self.virtual_times[set].max(now.saturating_sub(self.weight(CATCH_UP)));
        self.virtual_times[set] = time;
        time
    }

    /// Its present state, and when that changes without sending.
    pub(super) fn judge(&self, now: FineTime) -> (ClassState, Option<FineTime>) {
        if self.packets.is_empty() {
            (ClassState::Idle, None)
        } else if !self.max.is_ready(now) {
            (ClassState::Waiting, Some(self.max.at))
        } else if self.min.is_ready(now) {
            (ClassState::Guaranteed, None)
        } else {
            (ClassState::Borrowing, Some(self.min.at))
        }
    }
}
