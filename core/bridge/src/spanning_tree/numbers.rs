//! Numbers of ports in port identifiers.

use super::port_setup::PortSetup;
use std::collections::BTreeMap;
use units::OfPort;

/// The numbers that ports get.
pub(super) struct Numbers {
    /// The number of each port; ports beyond the highest number have none.
    pub(super) of: BTreeMap<OfPort, u16>,
    /// Numbers whose present port does not keep them.
    pub(super) gone: Vec<u16>,
}

impl Numbers {
    /// Numbers for ports, of which some have one already. Configured numbers come first, then the number that a port has, then
    /// free ones.
    pub(super) fn new(known: &BTreeMap<u16, OfPort>, setups: &[PortSetup], max: usize) -> Numbers {
        let range = 1..=max as u16;
        let mut taken: BTreeMap<u16, OfPort> = BTreeMap::new();
        for setup in setups {
            let number = setup.number.filter(|n| range.contains(n));
            number.map(|n| taken.entry(n).or_insert(setup.port));
        }
        let rest = |taken: &BTreeMap<u16, OfPort>| {
            let numbered: Vec<OfPort> = taken.values().copied().collect();
            let without = setups.iter().map(|s| s.port).filter(|port| !numbered.contains(port));
            without.collect::<Vec<OfPort>>()
        };
        for port in rest(&taken) {
            let has = known.iter().find(|(n, p)| **p == port && !taken.contains_key(n));
            taken.extend(has.map(|(number, port)| (*number, *port)));
        }
        for port in rest(&taken) {
            let free = range.clone().find(|n| !taken.contains_key(n));
            taken.extend(free.map(|number| (number, port)));
        }
        let gone = known.iter().filter(|(number, port)| taken.get(number) != Some(port));
        let gone = gone.map(|(number, _)| *number).collect();
        Numbers { of: taken.into_iter().map(|(number, port)| (port, number)).collect(), gone }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spanning_tree::network::setup;

    #[test]
    fn configured_numbers_first_then_known_ones_then_free_ones() {
        let port = |port: u16, number: Option<u16>| PortSetup { number, ..setup(port) };
        let known = BTreeMap::from([(1, OfPort(10)), (2, OfPort(20)), (3, OfPort(30))]);
        let setups = [port(20, None), port(30, Some(1)), port(40, None), port(50, None)];
        let numbers = Numbers::new(&known, &setups, 3);
        assert_eq!(numbers.of, BTreeMap::from([(OfPort(30), 1), (OfPort(20), 2), (OfPort(40), 3)]));
        assert_eq!(numbers.gone, [1, 3]);
    }
}
