//! The ports that were recently removed from a bridge, for `sluice why`.

use flow::Mac;
use std::collections::VecDeque;
use units::{Millis, OfPort};

/// Limit of recorded ports.
const PORTS_MAX: usize = 16;
/// Limit of recorded stations of a port.
const STATIONS_MAX: usize = 16;

/// A port that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedPort {
    /// The name of the port.
    pub name: String,
    /// The OpenFlow port number that the port had.
    pub ofport: OfPort,
    /// MAC addresses that were learned on the port.
    pub stations: Vec<Mac>,
    /// When the port was removed.
    pub at: Millis,
}

/// The ports that were recently removed, the latest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovedPorts(VecDeque<RemovedPort>);

impl RemovedPorts {
    /// Records a removed port; replaces an earlier record of the same name. Of `stations` (VLAN and MAC address), the first
    /// [`STATIONS_MAX`] are kept.
    pub fn record(&mut self, name: &str, ofport: OfPort, stations: &[(u16, Mac)], at: Millis) {
        self.forget(name);
        self.0.truncate(PORTS_MAX - 1);
        let stations = stations.iter().take(STATIONS_MAX).map(|(_, mac)| *mac).collect();
        self.0.push_front(RemovedPort { name: name.to_owned(), ofport, stations, at });
    }

    /// Removes the record of a port. Called when a port of this name is added, and before a new record of this name.
    pub fn forget(&mut self, name: &str) {
        self.0.retain(|port| port.name != name);
    }

    /// All recorded ports, the latest first.
    pub fn iter(&self) -> impl Iterator<Item = &RemovedPort> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ports_are_remembered_until_they_return() {
        let mut ports = RemovedPorts::default();
        let station = (7, Mac([2, 0, 0, 0, 0, 1]));
        (0..40).for_each(|i| ports.record(&format!("p{i}"), OfPort(i), &[station; 20], Millis(i.into())));
        let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        assert_eq!((names.len(), names[0], names[15]), (PORTS_MAX, "p39", "p24"));
        assert_eq!(ports.iter().next().unwrap().stations, [station.1; STATIONS_MAX]);
        ports.forget("p39");
        ports.record("p30", OfPort(1), &[], Millis(50));
        let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        assert_eq!((names.len(), names[0], names[1]), (PORTS_MAX - 1, "p30", "p38"));
    }
}
