//! Assigns the numbers of ports in port identifiers.

use super::port_setup::PortSetup;
use std::collections::BTreeMap;
use units::OfPort;

/// The assigned numbers.
pub(super) struct Numbers {
    /// The number of each port; a port is absent if no number is left for it.
    pub(super) by_port: BTreeMap<OfPort, u16>,
    /// Numbers whose previous port has another number now, or is gone.
    pub(super) gone: Vec<u16>,
}

impl Numbers {
    /// Assigns numbers from 1 to `max`. `known`: the present numbers. Configured numbers come first, then present ones, then free ones.
    pub(super) fn new(known: &BTreeMap<u16, OfPort>, setups: &[PortSetup], max: usize) -> Numbers {
        let range = 1..=max as u16;
        let mut assigned: BTreeMap<u16, OfPort> = BTreeMap::new();
        for setup in setups {
            let number = setup.number.filter(|n| range.contains(n));
            number.map(|n| assigned.entry(n).or_insert(setup.port));
        }
        let rest = |assigned: &BTreeMap<u16, OfPort>| {
            let numbered: Vec<OfPort> = assigned.values().copied().collect();
            let without = setups.iter().map(|s| s.port).filter(|port| !numbered.contains(port));
            without.collect::<Vec<OfPort>>()
        };
        for port in rest(&assigned) {
            let has = known.iter().find(|(n, p)| **p == port && !assigned.contains_key(n));
            assigned.extend(has.map(|(number, port)| (*number, *port)));
        }
        for port in rest(&assigned) {
            let free = range.clone().find(|n| !assigned.contains_key(n));
            assigned.extend(free.map(|number| (number, port)));
        }
        let gone = known.iter().filter(|(number, port)| assigned.get(number) != Some(port));
        let gone = gone.map(|(number, _)| *number).collect();
        Numbers { by_port: assigned.into_iter().map(|(number, port)| (port, number)).collect(), gone }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spanning_tree::network::default_setup;

    #[test]
    fn configured_numbers_first_then_known_ones_then_free_ones() {
        let port = |port: u16, number: Option<u16>| PortSetup { number, ..default_setup(port) };
        let known = BTreeMap::from([(1, OfPort(10)), (2, OfPort(20)), (3, OfPort(30))]);
        let setups = [port(20, None), port(30, Some(1)), port(40, None), port(50, None)];
        let numbers = Numbers::new(&known, &setups, 3);
        assert_eq!(numbers.by_port, BTreeMap::from([(OfPort(30), 1), (OfPort(20), 2), (OfPort(40), 3)]));
        assert_eq!(numbers.gone, [1, 3]);
    }
}
