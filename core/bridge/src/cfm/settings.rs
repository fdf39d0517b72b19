//! Settings of a session from the `Interface` row. Names and defaults are those of ovs-vswitchd.conf.db(5).

use thiserror::Error;
use units::Millis;

/// The largest identifier of a maintenance point outside extended mode (IEEE 802.1ag 21.6.4).
const MAX_ID: u64 = 8191;

/// The intervals of the standard, by their code in messages (21.6.1.3, table 21-16). The standard reserves code 0.
const INTERVALS: [Millis; 8] = [
    Millis(0),
    Millis(3),
    Millis(10),
    Millis(100),
    Millis(1000),
    Millis(10_000),
    Millis(60_000),
    Millis(600_000),
];

/// The shortest message interval that the checks of demand mode assume, because packet counters of ports may be this old.
const DEMAND_INTERVAL: Millis = Millis(500);

/// The VLAN of sent messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vlan {
    /// A VLAN id; 0: no VLAN.
    Id(u16),
    /// A random id for each message.
    Random,
}

/// The settings of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Our identifier as a maintenance point (MPID).
    pub id: u64,
    /// Interval between sent messages; more than 0.
    pub interval: Millis,
    /// Extended mode: 64-bit identifiers, any interval, operational state.
    pub extended: bool,
    /// Demand mode: traffic counts as a sign of life. It applies in extended mode only.
    pub demand: bool,
    /// The operational state that messages carry in extended mode.
    pub is_up: bool,
    /// VLAN of messages.
    pub vlan: Vlan,
    /// Priority of messages, 0 to 7.
    pub priority: u8,
    /// Received messages must have tunnel key 0.
    pub check_tnl_key: bool,
}

/// The error for an invalid identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("invalid MPID {0}: it must be 1 to {MAX_ID}; in extended mode any positive number")]
pub struct WrongId(pub u64);

/// An interval in the form in which messages carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    /// The standard's code. 0: `time` is not an interval of the standard; messages carry it in a field of its own.
    pub(super) code: u8,
    pub(super) time: Millis,
}

impl Settings {
    /// Checks the identifier.
    pub(super) fn check(&self) -> Result<(), WrongId> {
        match self.id >= 1 && (self.extended || self.id <= MAX_ID) {
            true => Ok(()),
            false => Err(WrongId(self.id)),
        }
    }

    /// Whether demand mode applies.
    pub(super) fn has_demand(&self) -> bool {
        self.extended && self.demand
    }

    /// The interval of sent messages: the longest interval of the standard that does not exceed the
    /// configured one, but at least 3 ms. In extended mode: the configured interval; if it is not one of the
    /// standard, at most 65,535 ms, because the field in messages has 16 bits.
    pub(super) fn sent_interval(&self) -> Interval {
        let code = (1..INTERVALS.len()).rev().find(|code| INTERVALS[*code] <= self.interval).unwrap_or(1);
        match self.extended && INTERVALS[code] != self.interval {
            true => Interval { code: 0, time: self.interval.min(Millis(u64::from(u16::MAX))) },
            false => Interval { code: code as u8, time: INTERVALS[code] },
        }
    }

    /// The interval of checks for lost remote points: 3.5 message intervals (IEEE 802.1ag 20.1.1). All points are expected to have the same message
    /// interval.
    pub(super) fn check_interval(&self, sent: Interval) -> Millis {
        let counted = if self.has_demand() { sent.time.max(DEMAND_INTERVAL) } else { sent.time };
        Millis(counted.0 * 7 / 2)
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            id: 1,
            interval: Millis(1000),
            extended: false,
            demand: false,
            is_up: true,
            vlan: Vlan::Id(0),
            priority: 0,
            check_tnl_key: false,
        }
    }
}
