//! Dependencies of translations: what a translation consulted, to find the megaflows that a change may affect (ADR
//! 16).
//!
//! [`Dependencies`] contains the tables, groups and learning tables that a walk consulted, and for each table the
//! words of the flow that differed from the received packet. There are many megaflows and few sets of dependencies: a
//! megaflow stores the number of its set, which [`DependencySets`] assigns.
//!
//! **A change affects a megaflow** if its walk consulted the table of the changed rule, and no bit that both the rule
//! and the megaflow match has different values. Bits in words that the walk had changed before are ignored, because
//! they do not tell anything about the received packet. All packets of a megaflow take the same walk (see `walk`), so
//! the result for the packet that created it is valid for all. The test may find too many megaflows, but never too
//! few; those found are translated again.

use crate::BridgeId;
use classifier::of::SparseMatch;
use cpu::Chain;
use cpu::prehashed::ByHash;
use flow::{FLOW_WORDS, Flow, Mac, Match};
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use units::OfPort;

mod record;
mod text;

const _: () = assert!(FLOW_WORDS <= 128, "one bit for each word");

/// Something that a walk consulted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Dependency {
    /// A table, for a packet with this port and metadata. `changed`: bit set of the words that the walk had changed.
    Table { bridge: BridgeId, table: u8, in_port: u32, metadata: u64, changed: Words },
    /// Which flows of a table were learned, and their number.
    Limit { bridge: BridgeId, table: u8 },
    /// A group, or its liveness.
    Group { bridge: BridgeId, group: u32 },
    /// The learning table, for the packet's addresses.
    Stations { bridge: BridgeId, changed: Words },
    /// The spanning tree state of a port; `None`: those of all ports.
    PortState { bridge: BridgeId, port: Option<OfPort> },
    /// The members of multicast groups and the router ports, for the packet's destination.
    Multicast { bridge: BridgeId, changed: Words },
    /// The route of a tunnel.
    Routes,
    /// Whether a tunnel ends at a port.
    Addresses,
    /// The Ethernet address of a next hop of tunnels.
    Neighbour { ip: IpAddr },
}

/// A bit for each word of a flow, in two halves, because a `u128` would be padded in each element of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Words([u64; 2]);

impl From<u128> for Words {
    fn from(bits: u128) -> Words {
        Words([bits as u64, (bits >> 64) as u64])
    }
}

impl From<Words> for u128 {
    fn from(Words([low, high]): Words) -> u128 {
        u128::from(high) << 64 | u128::from(low)
    }
}

/// Everything that a walk consulted, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// Hash of `list`, updated by each push, so that a look-up by hash does not read the list.
    hash: u64,
    list: Vec<Dependency>,
}

impl Hash for Dependencies {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.hash);
    }
}

/// A change of something that walks consult.
#[derive(Clone, Debug)]
pub enum Change {
    /// A rule with this match was added, deleted, or changed its actions.
    Rule {
        /// In this bridge.
        bridge: BridgeId,
        /// In this table.
        table: u8,
        /// Its match.
        matching: SparseMatch,
    },
    /// A group was added, deleted or changed.
    Group {
        /// In this bridge.
        bridge: BridgeId,
        /// Its id.
        group: u32,
    },
    /// A station is at another port, or not known any more.
    Station {
        /// In the learning table of this bridge.
        bridge: BridgeId,
        /// Its address.
        mac: Mac,
    },
    /// All stations were removed, or those of a port.
    Stations {
        /// From the learning table of this bridge.
        bridge: BridgeId,
    },
    /// A port has another spanning tree state.
    PortState {
        /// In this bridge.
        bridge: BridgeId,
        /// Its number.
        port: OfPort,
    },
    /// The members of a multicast group have changed.
    MulticastGroup {
        /// In this bridge.
        bridge: BridgeId,
        /// Its address; one of IPv4 is mapped into IPv6.
        group: Ipv6Addr,
    },
    /// The ports behind which multicast routers are have changed.
    MulticastRouters {
        /// In this bridge.
        bridge: BridgeId,
    },
    /// Routes or policy rules of the host have changed.
    Routes,
    /// Addresses of the host have changed.
    Addresses,
    /// A next hop of tunnels was added, removed, or has another Ethernet address.
    Neighbour {
        /// Its address.
        ip: IpAddr,
    },
}

impl Dependencies {
    /// The received packets that a change affects, among those whose walks had these dependencies: a match on packets
    /// as they were received, for each dependency that the change concerns.
    pub fn concerned_by(&self, change: &Change) -> Vec<Match> {
        self.list.iter().flat_map(|d| d.concerned_by(change)).collect()
    }

    fn push(&mut self, chain: &Chain, dependency: Dependency) {
        if self.list.last() != Some(&dependency) {
            self.hash = dependency.hashed_after(chain, self.hash);
            self.list.push(dependency);
        }
    }
}

impl Dependency {
    /// A hash of few operations, because each look-up of a walk computes it. Packets may determine metadata, so the
    /// hash is keyed.
    fn hashed_after(&self, chain: &Chain, hash: u64) -> u64 {
        let name = |bridge: &BridgeId, low: u32| u64::from(bridge.0) << 32 | u64::from(low);
        let words = match self {
            Dependency::Table { bridge, table, in_port, metadata, changed: Words([low, high]) } => {
                let place = u64::from(*table) << 32 | u64::from(*in_port);
                [place ^ u64::from(bridge.0) << 40, *metadata, *low, *high]
            }
            Dependency::Limit { bridge, table } => [name(bridge, (*table).into()), 0, 0, 1],
            Dependency::Group { bridge, group } => [name(bridge, *group), 0, 0, 2],
            Dependency::Stations { bridge, changed: Words([low, high]) } => [name(bridge, 0), 3, *low, *high],
            Dependency::PortState { bridge, port } => {
                [name(bridge, port.map_or(u32::MAX, |port| port.0.into())), 0, 0, 7]
            }
            Dependency::Multicast { bridge, changed: Words([low, high]) } => {
                [name(bridge, 0), 8, *low, *high]
            }
            Dependency::Routes => [0, 0, 0, 4],
            Dependency::Addresses => [0, 0, 0, 6],
            Dependency::Neighbour { ip } => {
                let bits = match ip {
                    IpAddr::V4(ip) => u128::from(ip.to_bits()),
                    IpAddr::V6(ip) => ip.to_bits(),
                };
                [bits as u64, (bits >> 64) as u64, ip.is_ipv4().into(), 5]
            }
        };
        words.into_iter().fold(hash, |hash, word| chain.step(hash, word))
    }

    fn concerned_by(&self, change: &Change) -> Vec<Match> {
        match (self, change) {
            (
                Dependency::Table { bridge, table, in_port, metadata, changed },
                Change::Rule { bridge: b, table: t, matching },
            ) if (bridge, table) == (b, t) => {
                let known = Flow { in_port: *in_port, metadata: *metadata, ..Flow::ZERO };
                of_rule(matching, &known, (*changed).into()).into_iter().collect()
            }
            (Dependency::Limit { bridge, table }, Change::Rule { bridge: b, table: t, .. })
                if (bridge, table) == (b, t) =>
            {
                vec![Match::CATCHALL]
            }
            (Dependency::Group { bridge, group }, Change::Group { bridge: b, group: g })
                if (bridge, group) == (b, g) =>
            {
                vec![Match::CATCHALL]
            }
            (Dependency::Stations { bridge, changed }, Change::Station { bridge: b, mac }) if bridge == b => {
                of_station(*mac, (*changed).into()).to_vec()
            }
            (Dependency::Stations { bridge, .. }, Change::Stations { bridge: b }) if bridge == b => {
                vec![Match::CATCHALL]
            }
            (Dependency::PortState { bridge, port }, Change::PortState { bridge: b, port: changed })
                if bridge == b && port.is_none_or(|port| port == *changed) =>
            {
                vec![Match::CATCHALL]
            }
            (Dependency::Multicast { bridge, changed }, Change::MulticastGroup { bridge: b, group })
                if bridge == b =>
            {
                vec![to_group(*group, (*changed).into())]
            }
            (Dependency::Multicast { bridge, .. }, Change::MulticastRouters { bridge: b }) if bridge == b => {
                vec![Match::CATCHALL]
            }
            (Dependency::Routes, Change::Routes) | (Dependency::Addresses, Change::Addresses) => {
                vec![Match::CATCHALL]
            }
            (Dependency::Neighbour { ip }, Change::Neighbour { ip: changed }) if ip == changed => {
                vec![Match::CATCHALL]
            }
            _ => Vec::new(),
        }
    }
}

/// The rule's match on the received packet; `None`: its port or metadata differ.
fn of_rule(matching: &SparseMatch, known: &Flow, changed: u128) -> Option<Match> {
    let mask = matching.mask().expand();
    let known_mask = Flow { in_port: mask.in_port, metadata: mask.metadata, ..Flow::ZERO };
    let value = matching.expand_flow();
    if !value.equal_under(known, &known_mask) {
        return None;
    }
    let mask = Flow { in_port: 0, metadata: 0, ..mask };
    Some(Match::new(&value, &unchanged(&mask, changed)))
}

/// Packets from a station and packets to it.
fn of_station(mac: Mac, changed: u128) -> [Match; 2] {
    let to = (Flow { dl_dst: mac, ..Flow::ZERO }, Flow { dl_dst: Mac::BROADCAST, ..Flow::ZERO });
    let from = (Flow { dl_src: mac, ..Flow::ZERO }, Flow { dl_src: Mac::BROADCAST, ..Flow::ZERO });
    [to, from].map(|(value, mask)| Match::new(&value, &unchanged(&mask, changed)))
}

/// Packets to a multicast group.
fn to_group(group: Ipv6Addr, changed: u128) -> Match {
    let (value, mask) = match group.to_ipv4_mapped() {
        Some(v4) => (Flow { nw_dst: v4.to_bits(), ..Flow::ZERO }, Flow { nw_dst: u32::MAX, ..Flow::ZERO }),
        None => {
            (Flow { ipv6_dst: group.octets(), ..Flow::ZERO }, Flow { ipv6_dst: [0xff; 16], ..Flow::ZERO })
        }
    };
    Match::new(&value, &unchanged(&mask, changed))
}

/// A mask without the words that were changed.
fn unchanged(mask: &Flow, changed: u128) -> Flow {
    let mut mask = *mask;
    for (i, word) in mask.words_mut().iter_mut().enumerate() {
        if changed >> i & 1 != 0 {
            *word = 0;
        }
    }
    mask
}

/// Sets that are kept. The megaflow of a walk with another one gets number 0, and every change concerns it.
const DEPENDENCY_SETS_MAX: usize = 16 * 1024;

/// Assigns numbers to sets of dependencies. A number is never reused; 0 means no set.
#[derive(Debug, Default)]
pub struct DependencySets {
    numbers: ByHash<Arc<Dependencies>, u32>,
    last: u32,
}

impl DependencySets {
    /// The number of a set; 0 if there are [`DEPENDENCY_SETS_MAX`] others.
    pub fn number(&mut self, dependencies: &Dependencies) -> u32 {
        if let Some(number) = self.numbers.get(dependencies) {
            return *number;
        }
        if self.numbers.len() >= DEPENDENCY_SETS_MAX || self.last == u32::MAX {
            return 0;
        }
        self.last += 1;
        self.numbers.insert(Arc::new(dependencies.clone()), self.last);
        self.last
    }

    /// The set with a number, by a linear search, for the log.
    pub fn get(&self, number: u32) -> Option<Arc<Dependencies>> {
        self.numbers.iter().find(|(_, n)| **n == number).map(|(dependencies, _)| Arc::clone(dependencies))
    }

    /// All sets with their numbers.
    pub fn all(&self) -> Vec<(u32, Arc<Dependencies>)> {
        self.numbers.iter().map(|(dependencies, number)| (*number, Arc::clone(dependencies))).collect()
    }

    /// Returns whether three quarters of the numbers are in use.
    pub fn is_crowded(&self) -> bool {
        self.numbers.len() > DEPENDENCY_SETS_MAX / 4 * 3
    }

    /// Removes the sets that no megaflow has. The set of a megaflow that is being installed may be removed, too;
    /// every change then affects that megaflow.
    pub fn retain(&mut self, used: &HashSet<u32>) {
        self.numbers.retain(|_, number| used.contains(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_not_used_again() {
        let mut dependency_sets = DependencySets::default();
        let dependencies = |group| {
            let mut dependencies = Dependencies::default();
            dependencies.push(&Chain::new(0), Dependency::Group { bridge: BridgeId(1), group });
            dependencies
        };
        let (a, b) = (dependency_sets.number(&dependencies(1)), dependency_sets.number(&dependencies(2)));
        assert_eq!((a, b), (1, 2));
        assert_eq!(dependency_sets.number(&dependencies(1)), a);
        assert_eq!(
            (dependency_sets.get(b).as_deref(), dependency_sets.get(3)),
            (Some(&dependencies(2)), None)
        );
        dependency_sets.retain(&HashSet::from([b]));
        assert_eq!(dependency_sets.number(&dependencies(1)), 3);
        for group in 0..DEPENDENCY_SETS_MAX as u32 {
            dependency_sets.number(&dependencies(group));
        }
        assert!(dependency_sets.is_crowded());
        assert_eq!(dependency_sets.number(&dependencies(u32::MAX)), 0);
    }
}
