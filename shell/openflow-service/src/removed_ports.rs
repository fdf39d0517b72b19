//! The ports that were removed from a bridge last: `sluice why` names them.

use flow::Mac;
use std::collections::VecDeque;
use units::{Millis, OfPort};

/// Ports that are remembered.
const PORTS_MAX: usize = 16;
/// Stations of a port that are remembered.
const STATIONS_MAX: usize = 16;

/// A port that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedPort {
    /// Its name.
    pub name: String,
    /// The OpenFlow port number that it had.
    pub ofport: OfPort,
    /// Addresses that were learned on it.
    pub stations: Vec<Mac>,
    /// When it was removed.
    pub at: Millis,
}

/// The ports that were removed last, the last one first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovedPorts(VecDeque<RemovedPort>);

impl RemovedPorts {
    /// Notes a port. One of the same name is forgotten.
    pub fn note(&mut self, name: &str, ofport: OfPort, stations: &[(u16, Mac)], at: Millis) {
        self.forget(name);
        self.0.truncate(PORTS_MAX - 1);
        let stations = stations.iter().take(STATIONS_MAX).map(|(_, mac)| *mac).collect();
        self.0.push_front(RemovedPort { name: name.to_owned(), ofport, stations, at });
    }

    /// Forgets a port, because one of this name was added.
    pub fn forget(&mut self, name: &str) {
        self.0.retain(|port| port.name != name);
    }

    /// All of them.
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
        (0..40).for_each(|i| ports.note(&format!("p{i}"), OfPort(i), &[station; 20], Millis(i.into())));
        let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        assert_eq!((names.len(), names[0], names[15]), (PORTS_MAX, "p39", "p24"));
        assert_eq!(ports.iter().next().unwrap().stations, [station.1; STATIONS_MAX]);
        ports.forget("p39");
        ports.note("p30", OfPort(1), &[], Millis(50));
        let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        assert_eq!((names.len(), names[0], names[1]), (PORTS_MAX - 1, "p30", "p38"));
    }
}
