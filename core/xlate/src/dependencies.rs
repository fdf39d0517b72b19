//! Dependencies of translations: the tables and states that a translation consulted. They tell which megaflows a change
//! may affect (ADR 16).
//!
//! [`Dependencies`] contains the tables, groups, learning tables and other states that a walk consulted, and for each
//! table the words of the flow that differed from the received packet. There are many megaflows and few sets of dependencies, so a
//! megaflow stores the number of its set, which [`DependencySets`] assigns.
//!
//! **A changed rule affects a megaflow** if the walk of the megaflow consulted the rule's table, and no bit that both the
//! rule and the megaflow match has different values. Words that the walk had changed before the look-up are ignored,
//! because their values tell nothing about the received packet. All packets of a megaflow are translated by the same steps
//! (see `walk`), so the dependencies of the packet that created the megaflow are valid for all. The test may find too many
//! megaflows, but never too few; the megaflows found are translated again.

use crate::BridgeId;
use classifier::of::SparseMatch;
use cpu::KeyedHash64;
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

/// A table or state that a walk consulted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Dependency {
    /// A table, looked up for a packet with this in port and metadata. `changed`: the words that the walk had changed.
    Table { bridge: BridgeId, table: u8, in_port: u32, metadata: u64, changed: Words },
    /// The learned flows of a table, for the limit of a `learn` action.
    LearnLimit { bridge: BridgeId, table: u8 },
    /// A group, or its liveness.
    Group { bridge: BridgeId, group: u32 },
    /// The learning table, for the packet's addresses.
    Stations { bridge: BridgeId, changed: Words },
    /// The spanning tree state of a port; `None`: of all ports.
    PortState { bridge: BridgeId, port: Option<OfPort> },
    /// The members of multicast groups and the router ports, for the packet's destination.
    Multicast { bridge: BridgeId, changed: Words },
    /// The routes of the host.
    Routes,
    /// The addresses of the host, which tell whether a port has tunnel endpoints.
    Addresses,
    /// The Ethernet address of a next hop of tunnels.
    Neighbour { ip: IpAddr },
}

/// A bit for each word of a flow. Two halves, because the alignment of a `u128` would make each [`Dependency`] longer.
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

/// All tables and states that a walk consulted, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// Hash of `list`. Each push updates it, so hashing a set does not read the list.
    hash: u64,
    list: Vec<Dependency>,
}

impl Hash for Dependencies {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.hash);
    }
}

/// A change of a table or state that walks consult.
#[derive(Clone, Debug)]
pub enum DependencyChange {
    /// A rule with this match was added, deleted, or changed its actions.
    Rule {
        /// The bridge of the rule.
        bridge: BridgeId,
        /// The table of the rule.
        table: u8,
        /// The match of the rule.
        matching: SparseMatch,
    },
    /// A group was added, deleted or changed.
    Group {
        /// The bridge of the group.
        bridge: BridgeId,
        /// The group's id.
        group: u32,
    },
    /// A station moved to another port, was learned, or was removed.
    Station {
        /// The bridge of the learning table.
        bridge: BridgeId,
        /// The station's MAC address.
        mac: Mac,
    },
    /// All stations of a learning table were removed, or all stations of a port.
    Stations {
        /// The bridge of the learning table.
        bridge: BridgeId,
    },
    /// The spanning tree state of a port has changed.
    PortState {
        /// The bridge of the port.
        bridge: BridgeId,
        /// The port's OpenFlow number.
        port: OfPort,
    },
    /// The members of a multicast group have changed.
    MulticastGroup {
        /// The bridge of the group.
        bridge: BridgeId,
        /// The group's address; an IPv4 address is mapped into IPv6.
        group: Ipv6Addr,
    },
    /// The set of router ports has changed.
    MulticastRouters {
        /// The bridge of the ports.
        bridge: BridgeId,
    },
    /// Routes or policy rules of the host have changed.
    Routes,
    /// Addresses of the host have changed.
    Addresses,
    /// A next hop of tunnels was added or removed, or its Ethernet address has changed.
    Neighbour {
        /// IP address of the next hop.
        ip: IpAddr,
    },
}

impl Dependencies {
    /// Matches on the packets that the change may affect, among the packets whose walks have these dependencies. An affected
    /// dependency has one match, or two for a station (packets to it and from it). The matches are on the packets as received.
    pub fn affected_by(&self, change: &DependencyChange) -> Vec<Match> {
        self.list.iter().flat_map(|d| d.affected_by(change)).collect()
    }

    fn push(&mut self, chain: &KeyedHash64, dependency: Dependency) {
        if self.list.last() != Some(&dependency) {
            self.hash = dependency.hashed_after(chain, self.hash);
            self.list.push(dependency);
        }
    }
}

impl Dependency {
    /// The hash of a list after this dependency is appended; `hash`: the hash of the list before. Each look-up of a walk computes
    /// a hash, so this takes few operations. The sender of a packet may choose its metadata (a flow may copy a header field there), so
    /// the hash has a secret key against crafted collisions.
    fn hashed_after(&self, chain: &KeyedHash64, hash: u64) -> u64 {
        let pack = |bridge: &BridgeId, low: u32| u64::from(bridge.0) << 32 | u64::from(low);
        let words = match self {
            Dependency::Table { bridge, table, in_port, metadata, changed: Words([low, high]) } => {
                let place = u64::from(*table) << 32 | u64::from(*in_port);
                [place ^ u64::from(bridge.0) << 40, *metadata, *low, *high]
            }
            Dependency::LearnLimit { bridge, table } => [pack(bridge, (*table).into()), 0, 0, 1],
            Dependency::Group { bridge, group } => [pack(bridge, *group), 0, 0, 2],
            Dependency::Stations { bridge, changed: Words([low, high]) } => [pack(bridge, 0), 3, *low, *high],
            Dependency::PortState { bridge, port } => {
                [pack(bridge, port.map_or(u32::MAX, |port| port.0.into())), 0, 0, 7]
            }
            Dependency::Multicast { bridge, changed: Words([low, high]) } => {
                [pack(bridge, 0), 8, *low, *high]
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

    fn affected_by(&self, change: &DependencyChange) -> Vec<Match> {
        match (self, change) {
            (
                Dependency::Table { bridge, table, in_port, metadata, changed },
                DependencyChange::Rule { bridge: b, table: t, matching },
            ) if (bridge, table) == (b, t) => {
                let consulted = Flow { in_port: *in_port, metadata: *metadata, ..Flow::ZERO };
                rule_match(matching, &consulted, (*changed).into()).into_iter().collect()
            }
            (
                Dependency::LearnLimit { bridge, table },
                DependencyChange::Rule { bridge: b, table: t, .. },
            ) if (bridge, table) == (b, t) => {
                vec![Match::CATCHALL]
            }
            (Dependency::Group { bridge, group }, DependencyChange::Group { bridge: b, group: g })
                if (bridge, group) == (b, g) =>
            {
                vec![Match::CATCHALL]
            }
            (Dependency::Stations { bridge, changed }, DependencyChange::Station { bridge: b, mac })
                if bridge == b =>
            {
                station_matches(*mac, (*changed).into()).to_vec()
            }
            (Dependency::Stations { bridge, .. }, DependencyChange::Stations { bridge: b })
                if bridge == b =>
            {
                vec![Match::CATCHALL]
            }
            (
                Dependency::PortState { bridge, port },
                DependencyChange::PortState { bridge: b, port: changed },
            ) if bridge == b && port.is_none_or(|port| port == *changed) => {
                vec![Match::CATCHALL]
            }
            (
                Dependency::Multicast { bridge, changed },
                DependencyChange::MulticastGroup { bridge: b, group },
            ) if bridge == b => {
                vec![group_match(*group, (*changed).into())]
            }
            (Dependency::Multicast { bridge, .. }, DependencyChange::MulticastRouters { bridge: b })
                if bridge == b =>
            {
                vec![Match::CATCHALL]
            }
            (Dependency::Routes, DependencyChange::Routes)
            | (Dependency::Addresses, DependencyChange::Addresses) => {
                vec![Match::CATCHALL]
            }
            (Dependency::Neighbour { ip }, DependencyChange::Neighbour { ip: changed }) if ip == changed => {
                vec![Match::CATCHALL]
            }
            _ => Vec::new(),
        }
    }
}

/// The rule's match on the received packet, without the words that the walk had changed; `None`: the rule requires an in port or
/// metadata that the look-up did not have.
fn rule_match(matching: &SparseMatch, consulted: &Flow, changed: u128) -> Option<Match> {
    let mask = matching.mask().expand();
    let consulted_mask = Flow { in_port: mask.in_port, metadata: mask.metadata, ..Flow::ZERO };
    let value = matching.expand_flow();
    if !value.equal_under(consulted, &consulted_mask) {
        return None;
    }
    let mask = Flow { in_port: 0, metadata: 0, ..mask };
    Some(Match::new(&value, &unchanged(&mask, changed)))
}

/// Matches on the packets to a station and from this station.
fn station_matches(mac: Mac, changed: u128) -> [Match; 2] {
    let to = (Flow { dl_dst: mac, ..Flow::ZERO }, Flow { dl_dst: Mac::BROADCAST, ..Flow::ZERO });
    let from = (Flow { dl_src: mac, ..Flow::ZERO }, Flow { dl_src: Mac::BROADCAST, ..Flow::ZERO });
    [to, from].map(|(value, mask)| Match::new(&value, &unchanged(&mask, changed)))
}

/// The match on packets to a multicast group.
fn group_match(group: Ipv6Addr, changed: u128) -> Match {
    let (value, mask) = match group.to_ipv4_mapped() {
        Some(v4) => (Flow { nw_dst: v4.to_bits(), ..Flow::ZERO }, Flow { nw_dst: u32::MAX, ..Flow::ZERO }),
        None => {
            (Flow { ipv6_dst: group.octets(), ..Flow::ZERO }, Flow { ipv6_dst: [0xff; 16], ..Flow::ZERO })
        }
    };
    Match::new(&value, &unchanged(&mask, changed))
}

/// A mask without the words that the walk had changed.
fn unchanged(mask: &Flow, changed: u128) -> Flow {
    let mut mask = *mask;
    for (i, word) in mask.words_mut().iter_mut().enumerate() {
        if changed >> i & 1 != 0 {
            *word = 0;
        }
    }
    mask
}

/// Maximum number of sets that are stored. If there are more, the megaflow of a walk with a new set gets number 0, and
/// every change affects this megaflow.
const DEPENDENCY_SETS_MAX: usize = 16 * 1024;

/// Assigns numbers to sets of dependencies. A number is never reused. 0 means that the set is not stored.
#[derive(Debug, Default)]
pub struct DependencySets {
    numbers: ByHash<Arc<Dependencies>, u32>,
    last: u32,
}

impl DependencySets {
    /// The number of a set; 0 if the set is new and [`DEPENDENCY_SETS_MAX`] sets are stored.
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

    /// The number of stored sets.
    pub fn count(&self) -> usize {
        self.numbers.len()
    }

    /// Returns whether more than three quarters of [`DEPENDENCY_SETS_MAX`] sets are stored.
    pub fn is_crowded(&self) -> bool {
        self.numbers.len() > DEPENDENCY_SETS_MAX / 4 * 3
    }

    /// Removes the sets whose numbers are not in `used`. This may remove the set of a megaflow that is just being installed;
    /// every change then affects this megaflow.
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
            dependencies.push(&KeyedHash64::new(0), Dependency::Group { bridge: BridgeId(1), group });
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
