//! A queue of the shaper: its packets, its rates, and its state.

use super::clock::{Fine, RateClock};
use super::spec::ClassSpec;
use crate::outcome::QueueCounts;
use std::collections::VecDeque;

/// The burst includes the amount that the rate sends in this part of a second, 1 ms. So a PMD thread that
/// serves the shaper every millisecond loses nothing of a rate.
const TURN: u64 = 1000;

/// Bytes by which a class may be behind when it returns to the borrowing classes: a class that leaves them
/// for each packet that its guarantee allows still gets its share of the rest. Equals one TCP segmentation
/// offload.
const CATCH_UP: u32 = 64 << 10;

/// Number of priorities, as in Linux.
pub(super) const PRIORITIES: usize = 8;

/// The state of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
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
    pub(super) place: Place,
    /// Its virtual time among the classes below their guaranteed rates, and among the borrowing ones.
    pub(super) turns: [Turn; 2],
    /// When its state must be checked again.
    pub(super) alarm: Option<Fine>,
    pub(super) counts: QueueCounts,
}

/// Virtual time, by which classes of one state and priority are ordered: bytes sent divided by the guaranteed
/// rate.
pub(super) type Turn = u128;

/// The burst of a rate, in bytes.
pub(super) fn burst(rate: u64, wanted: u64, mtu: u32) -> u64 {
    wanted.max((rate / TURN).saturating_add(u64::from(mtu)))
}

impl<T> Class<T> {
    pub(super) fn new(spec: ClassSpec, mtu: u32, now: Fine) -> Class<T> {
        Class {
            min: RateClock::new(spec.min, burst(spec.min, spec.burst, mtu), now),
            max: RateClock::new(spec.max, burst(spec.max, spec.burst, mtu), now),
            spec,
            packets: VecDeque::new(),
            place: Place::Idle,
            turns: [0; 2],
            alarm: None,
            counts: QueueCounts::default(),
        }
    }

    pub(super) fn change(&mut self, spec: ClassSpec, mtu: u32, now: Fine) {
        self.min = self.min.changed(spec.min, burst(spec.min, spec.burst, mtu), now);
        self.max = self.max.changed(spec.max, burst(spec.max, spec.burst, mtu), now);
        self.spec = spec;
    }

    pub(super) fn priority(&self) -> usize {
        usize::from(self.spec.priority).min(PRIORITIES - 1)
    }

    /// The virtual time that bytes take.
    pub(super) fn weight(&self, bytes: u32) -> Turn {
        (Turn::from(bytes) << 40) / Turn::from(self.spec.min.max(1))
    }

    /// Its virtual time when it returns to a state whose latest sender had virtual time `now`.
    pub(super) fn rejoin(&mut self, place: usize, now: Turn) -> Turn {
        let turn = self.turns[place].max(now.saturating_sub(self.weight(CATCH_UP)));
        self.turns[place] = turn;
        turn
    }

    /// Its present state, and when that changes without sending.
    pub(super) fn judge(&self, now: Fine) -> (Place, Option<Fine>) {
        if self.packets.is_empty() {
            (Place::Idle, None)
        } else if !self.max.is_ready(now) {
            (Place::Waiting, Some(self.max.at))
        } else if self.min.is_ready(now) {
            (Place::Guaranteed, None)
        } else {
            (Place::Borrowing, Some(self.min.at))
        }
    }
}
