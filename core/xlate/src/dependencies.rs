//! Translation dependencies: what a translation consulted, so that a change finds the megaflows that it may concern (ADR 16).
//!
//! [`Dependencies`] names the tables, groups and learning tables that a walk asked, and for each table which words of the packet
//! were no longer what they were when it came in. Megaflows are many and sets of
//! dependencies are few: a megaflow keeps the number of its set, which [`DependencySets`] assigns.
//!
//! **A change concerns a megaflow** if its walk looked into the table of the changed rule, and no bit that both the rule and the
//! megaflow match differs. The rule's bits in words that the walk had changed by then say nothing about the packet as it came,
//! and do not count. All packets of a megaflow take the same walk (see `walk`), so what is true of the packet that made it is
//! true of the others. The answer may be yes too often, never no too often: whoever asks translates again.

use crate::BridgeId;
use classifier::of::SparseMatch;
use cpu::Chain;
use cpu::prehashed::ByHash;
use flow::{FLOW_WORDS, Flow, Mac, Match};
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

mod asks;
mod text;

const _: () = assert!(FLOW_WORDS <= 128, "one bit for each word");

/// Something that a walk asked.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Asked {
    /// A table, for a packet of this port and metadata. A bit of `changed` is a word of the flow that the walk had changed.
    Table { bridge: BridgeId, table: u8, in_port: u32, metadata: u64, changed: Words },
    /// How many flows a table has that were learned, and which.
    Limit { bridge: BridgeId, table: u8 },
    /// A group, or whether it is live.
    Group { bridge: BridgeId, group: u32 },
    /// The learning table, where the packet's addresses are.
    Stations { bridge: BridgeId, changed: Words },
    /// The route of a tunnel.
    Routes,
    /// Whether a tunnel ends at a port.
    Addresses,
    /// Where a next hop of tunnels is.
    Neighbour { ip: IpAddr },
}

/// A bit for each word of a flow, in two halves: there is one for each table that a walk looked into, and a `u128` would be padded.
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

/// All that a walk asked, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// Of `asked`, updated by each push, so that a look-up by hash does not read the list.
    hash: u64,
    asked: Vec<Asked>,
}

impl Hash for Dependencies {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.hash);
    }
}

/// Something changed that walks ask.
#[derive(Clone, Debug)]
pub enum Change {
    /// A rule with this match came, went, or does something else.
    Rule {
        /// In this bridge.
        bridge: BridgeId,
        /// In this table.
        table: u8,
        /// What it matches.
        matching: SparseMatch,
    },
    /// A group came, went or changed.
    Group {
        /// In this bridge.
        bridge: BridgeId,
        /// Which one.
        group: u32,
    },
    /// A station is at another port, or nowhere any more.
    Station {
        /// In the learning table of this bridge.
        bridge: BridgeId,
        /// Its address.
        mac: Mac,
    },
    /// Routes or rules of the host are others.
    Routes,
    /// Addresses of the host are others.
    Addresses,
    /// A next hop of tunnels is known, or at another address, or forgotten.
    Neighbour {
        /// Its address.
        ip: IpAddr,
    },
}

impl Dependencies {
    /// The packets that a change affects, of those whose walks had these dependencies: a match on packets as they were received,
    /// for each way to meet the change.
    pub fn concerned_by(&self, change: &Change) -> Vec<Match> {
        self.asked.iter().flat_map(|asked| asked.concerned_by(change)).collect()
    }

    fn push(&mut self, chain: &Chain, asked: Asked) {
        if self.asked.last() != Some(&asked) {
            self.hash = asked.hashed_after(chain, self.hash);
            self.asked.push(asked);
        }
    }
}

impl Asked {
    /// A hash of few operations, since each look-up of a walk takes one. Metadata may come from packets: the hash is keyed.
    fn hashed_after(&self, chain: &Chain, hash: u64) -> u64 {
        let name = |bridge: &BridgeId, low: u32| u64::from(bridge.0) << 32 | u64::from(low);
        let words = match self {
            Asked::Table { bridge, table, in_port, metadata, changed: Words([low, high]) } => {
                let place = u64::from(*table) << 32 | u64::from(*in_port);
                [place ^ u64::from(bridge.0) << 40, *metadata, *low, *high]
            }
            Asked::Limit { bridge, table } => [name(bridge, (*table).into()), 0, 0, 1],
            Asked::Group { bridge, group } => [name(bridge, *group), 0, 0, 2],
            Asked::Stations { bridge, changed: Words([low, high]) } => [name(bridge, 0), 3, *low, *high],
            Asked::Routes => [0, 0, 0, 4],
            Asked::Addresses => [0, 0, 0, 6],
            Asked::Neighbour { ip } => {
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
                Asked::Table { bridge, table, in_port, metadata, changed },
                Change::Rule { bridge: b, table: t, matching },
            ) if (bridge, table) == (b, t) => {
                let known = Flow { in_port: *in_port, metadata: *metadata, ..Flow::ZERO };
                of_rule(matching, &known, (*changed).into()).into_iter().collect()
            }
            (Asked::Limit { bridge, table }, Change::Rule { bridge: b, table: t, .. })
                if (bridge, table) == (b, t) =>
            {
                vec![Match::CATCHALL]
            }
            (Asked::Group { bridge, group }, Change::Group { bridge: b, group: g })
                if (bridge, group) == (b, g) =>
            {
                vec![Match::CATCHALL]
            }
            (Asked::Stations { bridge, changed }, Change::Station { bridge: b, mac }) if bridge == b => {
                of_station(*mac, (*changed).into()).to_vec()
            }
            (Asked::Routes, Change::Routes) | (Asked::Addresses, Change::Addresses) => {
                vec![Match::CATCHALL]
            }
            (Asked::Neighbour { ip }, Change::Neighbour { ip: changed }) if ip == changed => {
                vec![Match::CATCHALL]
            }
            _ => Vec::new(),
        }
    }
}

/// The rule's match on the packet as it came in; `None`: its port or metadata are others.
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

/// Numbers of sets of dependencies. A number is never used again; 0 stands for no set.
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

    /// The set of a number, by a search through all of them: for the log.
    pub fn get(&self, number: u32) -> Option<Arc<Dependencies>> {
        self.numbers.iter().find(|(_, n)| **n == number).map(|(dependencies, _)| Arc::clone(dependencies))
    }

    /// All sets with their numbers.
    pub fn all(&self) -> Vec<(u32, Arc<Dependencies>)> {
        self.numbers.iter().map(|(dependencies, number)| (*number, Arc::clone(dependencies))).collect()
    }

    /// Three quarters of the numbers are in use.
    pub fn is_crowded(&self) -> bool {
        self.numbers.len() > DEPENDENCY_SETS_MAX / 4 * 3
    }

    /// Forgets the sets that no megaflow has. The set of a megaflow that is being installed may be forgotten, too: every change
    /// concerns such a megaflow.
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
            dependencies.push(&Chain::new(0), Asked::Group { bridge: BridgeId(1), group });
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
