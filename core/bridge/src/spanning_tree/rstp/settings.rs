//! Settings of a bridge with RSTP and of its ports.

use crate::spanning_tree::identifier::BridgeIdentifier;
use flow::Mac;

/// Default priority of a bridge.
pub const DEFAULT_PRIORITY: u16 = 0x8000;

/// Maximum number of ports of a bridge that take part: port numbers have twelve bits and begin with 1.
pub const PORTS_MAX: usize = 4095;

/// Settings of a bridge. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The bridge's identifier.
    pub identifier: BridgeIdentifier,
    /// STP compatibility mode: only BPDUs of STP are sent, and ports wait as in STP (ForceVersion 0).
    pub stp_compatible: bool,
    /// Time until received information expires, if this bridge is the root.
    pub max_age: u16,
    /// Time that a port spends in the state discarding, and again in the state learning, unless its neighbour agrees
    /// before.
    pub forward_delay: u16,
    /// Number of BPDUs that a port may send per second (TxHoldCount).
    pub transmit_hold_count: u16,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            identifier: BridgeIdentifier::new(DEFAULT_PRIORITY, Mac::default()),
            stp_compatible: false,
            max_age: 20,
            forward_delay: 15,
            transmit_hold_count: 6,
        }
    }
}

/// The default path cost of a link with this speed in Mbit/s (table 17-3). 0: the speed is unknown.
pub fn path_cost(mbps: u32) -> u32 {
    const SPEEDS: u32 = 8;
    const UNKNOWN: u32 = 2000;
    let fastest = (0..SPEEDS).rev().map(|n| 10u32.pow(n)).find(|speed| mbps >= *speed);
    fastest.map_or(UNKNOWN, |speed| 20_000_000 / speed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_of_the_table() {
        let speeds = [0, 1, 9, 10, 100, 1000, 2500, 10_000, 100_000, 1_000_000, 10_000_000, u32::MAX];
        let costs = [2000, 20_000_000, 20_000_000, 2_000_000, 200_000, 20_000, 20_000, 2000, 200, 20, 2, 2];
        assert_eq!(speeds.map(path_cost), costs);
    }
}
