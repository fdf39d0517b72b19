//! A queue of the shaper: its packets, its rates, and where it stands.

use super::clock::{Fine, RateClock};
use super::spec::ClassSpec;
use crate::outcome::QueueCounts;
use std::collections::VecDeque;

/// Burst beside the configured one: what the rate sends in this time, in parts of a second. A poll thread that comes back within a
/// millisecond loses nothing of a rate.
const TURN: u64 = 1000;

/// Bytes that a class may catch up on when it comes back among those that send: a class that leaves the borrowing ones for each
/// packet that its guarantee allows still gets its share of the rest. As many as one TCP segmentation offload sends.
const CATCH_UP: u32 = 64 << 10;

/// The classes of precedence: as many as Linux has.
pub(super) const PRIORITIES: usize = 8;

/// Where a class stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It has no packets.
    Idle,
    /// It has reached its highest rate.
    Waiting,
    /// It may send if the port has tokens left.
    Borrowing,
    /// It is below its guaranteed rate.
    Guaranteed,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Class<T> {
    pub(super) spec: ClassSpec,
    pub(super) min: RateClock,
    pub(super) max: RateClock,
    pub(super) packets: VecDeque<(u32, T)>,
    pub(super) place: Place,
    /// Its turn among the classes that are below their guaranteed rates, and among those that borrow.
    pub(super) turns: [Turn; 2],
    /// When it is to be looked at again.
    pub(super) alarm: Option<Fine>,
    pub(super) counts: QueueCounts,
}

/// The order in which classes of one place and priority send: by what they have sent, divided by their guaranteed rates.
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

    /// What bytes weigh in its turn.
    pub(super) fn weight(&self, bytes: u32) -> Turn {
        (Turn::from(bytes) << 40) / Turn::from(self.spec.min.max(1))
    }

    /// Its turn where it comes back, when the class that sent last there had turn `now`.
    pub(super) fn rejoin(&mut self, place: usize, now: Turn) -> Turn {
        let turn = self.turns[place].max(now.saturating_sub(self.weight(CATCH_UP)));
        self.turns[place] = turn;
        turn
    }

    /// Where it stands now, and when that will change without a packet of its own.
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
