//! A queue of the shaper: its packets, its rates, and its state.

use super::clock::{FineTime, RateClock};
use super::spec::ClassSpec;
use crate::outcome::QueueCounts;
use std::collections::VecDeque;

/// A burst includes the bytes that the rate allows in this fraction of a second, 1 ms. So a PMD thread that serves the
/// shaper every millisecond can use the complete rate.
const BURST_PARTS: u64 = 1000;

/// The most bytes that a class may make up for when it returns to the borrowing classes. A class leaves these classes
/// for each packet that its guarantee allows, and must still get its share of the rest. Equals the largest packet of
/// TCP segmentation offload.
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
    /// Virtual time of the class: among classes below their guaranteed rates (index 0), and among borrowing classes
    /// (index 1).
    pub(super) virtual_times: [VirtualTime; 2],
    /// When the state of the class must be checked again.
    pub(super) timer: Option<FineTime>,
    pub(super) counts: QueueCounts,
}

/// Virtual time, by which classes of one state and priority are ordered: bytes sent divided by the guaranteed
/// rate.
pub(super) type VirtualTime = u128;

/// The burst for a rate, in bytes: `wanted`, but at least one MTU and the bytes of 1 ms.
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
        self.min = self.min.with_rate(spec.min, burst(spec.min, spec.burst, mtu), now);
        self.max = self.max.with_rate(spec.max, burst(spec.max, spec.burst, mtu), now);
        self.spec = spec;
    }

    pub(super) fn priority(&self) -> usize {
        usize::from(self.spec.priority).min(PRIORITIES - 1)
    }

    /// The virtual time that it takes to send a number of bytes.
    pub(super) fn weight(&self, bytes: u32) -> VirtualTime {
        (VirtualTime::from(bytes) << 40) / VirtualTime::from(self.spec.min.max(1))
    }

    /// Sets and returns the virtual time of a class that returns to a state. `now`: the virtual time of the class that
    /// sent last in that state.
    pub(super) fn rejoin(&mut self, set: usize, now: VirtualTime) -> VirtualTime {
        let time = self.virtual_times[set].max(now.saturating_sub(self.weight(CATCH_UP)));
        self.virtual_times[set] = time;
        time
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
