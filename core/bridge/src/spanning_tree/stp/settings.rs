//! Settings of a bridge with STP.

use super::timer::Times;
use crate::spanning_tree::identifier::BridgeIdentifier;
use flow::Mac;
use units::Millis;

/// Default priority of a bridge.
pub const DEFAULT_PRIORITY: u16 = 0x8000;

/// Maximum number of ports of a bridge that take part: port numbers have eight bits and begin with 1.
pub const PORTS_MAX: usize = 255;

/// Settings of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The bridge's identifier.
    pub identifier: BridgeIdentifier,
    /// Time between two configuration BPDUs.
    pub hello_time: Millis,
    /// Time until received information expires.
    pub max_age: Millis,
    /// Time that a port spends in the state listening, and again in the state learning.
    pub forward_delay: Millis,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            identifier: BridgeIdentifier::new(DEFAULT_PRIORITY, Mac::default()),
            hello_time: Millis::from_secs(2),
            max_age: Millis::from_secs(20),
            forward_delay: Millis::from_secs(15),
        }
    }
}

impl Settings {
    /// The times that the bridge distributes if it is the root: the settings, clamped to the limits of table 8-3, and changed so that they satisfy
    /// §8.10.2.
    pub(super) fn times(&self) -> Times {
        let second = Millis::from_secs(1);
        let hello = self.hello_time.clamp(second, Millis::from_secs(10));
        let least = Millis(2 * (hello + second).0).max(Millis::from_secs(6));
        let max_age = self.max_age.clamp(least, Millis::from_secs(40));
        let delay = self.forward_delay.clamp(Millis(max_age.0 / 2) + second, Millis::from_secs(30));
        Times::new(hello, max_age, delay)
    }
}

/// The default path cost of a link with this speed in Mbit/s (table 8-5, extended by 10 Gbit/s). 0: the speed is unknown.
pub fn path_cost(mbps: u32) -> u32 {
    const COSTS: [(u32, u32); 6] = [(10_000, 2), (1000, 4), (100, 19), (16, 62), (10, 100), (4, 250)];
    const UNKNOWN: u32 = 2;
    COSTS.iter().find(|(speed, _)| mbps >= *speed).map_or(UNKNOWN, |(_, cost)| *cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fit_each_other() {
        let times = |hello, max_age, delay| {
            let [hello_time, max_age, forward_delay] = [hello, max_age, delay].map(Millis::from_secs);
            Settings { hello_time, max_age, forward_delay, ..Settings::default() }.times().seconds()
        };
        assert_eq!(times(2, 20, 15), [2, 20, 15]);
        assert_eq!(times(0, 0, 0), [1, 6, 4]);
        assert_eq!(times(99, 99, 99), [10, 40, 30]);
        assert_eq!(times(10, 6, 4), [10, 22, 12]);
        assert_eq!(times(2, 40, 4), [2, 40, 21]);
    }

    #[test]
    fn faster_links_cost_less() {
        assert_eq!([0, 3, 4, 10, 100, 1000, 10_000, 100_000].map(path_cost), [2, 2, 250, 100, 19, 4, 2, 2]);
    }
}
