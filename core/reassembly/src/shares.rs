//! Number of fragments per port and source, and the choice of the datagram to evict when the table is full.
//!
//! **The rule.** The port with the most fragments loses one of its datagrams. If a source of this port holds [`HEAVY_SOURCE_MIN`]
//! fragments or more, the source with the most fragments loses its oldest datagram; otherwise the port loses its oldest datagram.
//! For the comparison, numbers of fragments are divided by [`PORT_UNIT`] (ports) or [`HEAVY_SOURCE_MIN`] (sources) and rounded down; if
//! several are equal, the one with the highest port or slot number loses. Sources below [`HEAVY_SOURCE_MIN`] are treated equally: if the largest
//! of them lost a datagram, a flood of
//! single fragments from spoofed sources would evict exactly those datagrams that have several fragments. With this rule, such datagrams
//! are usually completed long before they are the oldest.

use crate::chain::{Chain, Links, NONE, Slots};
use cpu::prehashed::ByHash;
use cpu::siphash;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// A source with at least this number of fragments is heavy. The longest datagram has 45 at an MTU of 1,500 bytes.
const HEAVY_SOURCE_MIN: u32 = 64;
/// Ports are compared in units of this many fragments, so that the rank of a port rarely changes.
const PORT_UNIT: u32 = 16;

/// A source of fragments: ingress port and source address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) port: u32,
    pub(crate) v6: bool,
    pub(crate) address: [u64; 2],
}

/// A source with its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HashedSource {
    hash: u64,
    source: Source,
}

impl Hash for HashedSource {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// The fragments of a source or a port.
#[derive(Debug, Default)]
struct Share {
    fragments: u32,
    /// Datagrams of the source or port, the oldest first.
    datagrams: Chain,
}

#[derive(Debug)]
struct SourceShare {
    source: HashedSource,
    share: Share,
}

/// The number of fragments of all ports and sources. Datagrams are identified by their slot numbers.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    by_source: ByHash<HashedSource, u32>,
    sources: Slots<SourceShare>,
    /// Lists of the datagrams of each source.
    source_lists: Links,
    ports: BTreeMap<u32, Share>,
    /// Lists of the datagrams of each port.
    port_lists: Links,
    /// Ports ordered by their number of fragments: number in units of [`PORT_UNIT`], port.
    ranks: BTreeSet<(u32, u32)>,
    /// Heavy sources: port, number of fragments in units of [`HEAVY_SOURCE_MIN`], slot number of the source.
    heavy: BTreeSet<(u32, u32, u32)>,
}

impl Shares {
    /// Adds a datagram that has no fragments yet, and returns the slot number of its source.
    pub(crate) fn add_datagram(&mut self, secret: [u64; 2], source: Source, datagram: u32) -> u32 {
        let Source { port, v6, address } = source;
        let hash = siphash(secret, &[u64::from(port) << 1 | u64::from(v6), address[0], address[1]]);
        let hashed = HashedSource { hash, source };
        let sources = &mut self.sources;
        let source_slot = *self
            .by_source
            .entry(hashed)
            .or_insert_with(|| sources.insert(SourceShare { source: hashed, share: Share::default() }));
        if let Some(SourceShare { share, .. }) = self.sources.get_mut(source_slot) {
            self.source_lists.push(&mut share.datagrams, datagram);
        }
        let ranks = &mut self.ranks;
        let share = self.ports.entry(port).or_insert_with(|| {
            ranks.insert((0, port));
            Share::default()
        });
        self.port_lists.push(&mut share.datagrams, datagram);
        source_slot
    }

    /// Adds `fragments`, which may be negative, to the number of fragments of a source and its port.
    pub(crate) fn add_fragments(&mut self, source_slot: u32, fragments: i32) {
        let Some(SourceShare { source, share }) = self.sources.get_mut(source_slot) else { return };
        let port = source.source.port;
        let before = share.fragments / HEAVY_SOURCE_MIN;
        share.fragments = share.fragments.saturating_add_signed(fragments);
        let after = share.fragments / HEAVY_SOURCE_MIN;
        if before != after {
            self.heavy.remove(&(port, before, source_slot));
            if after != 0 {
                self.heavy.insert((port, after, source_slot));
            }
        }
        let Some(share) = self.ports.get_mut(&port) else { return };
        let before = share.fragments / PORT_UNIT;
        share.fragments = share.fragments.saturating_add_signed(fragments);
        let after = share.fragments / PORT_UNIT;
        if before != after {
            self.ranks.remove(&(before, port));
            self.ranks.insert((after, port));
        }
    }

    /// Removes a datagram of a source. `fragments`: the number of fragments of the datagram.
    pub(crate) fn remove_datagram(&mut self, source_slot: u32, datagram: u32, fragments: u32) {
        self.add_fragments(source_slot, -(fragments as i32));
        let Some(SourceShare { source, share }) = self.sources.get_mut(source_slot) else { return };
        let (hashed, port) = (*source, source.source.port);
        self.source_lists.remove(&mut share.datagrams, datagram);
        if share.datagrams.first == NONE {
            self.by_source.remove(&hashed);
            self.sources.remove(source_slot);
        }
        if let Some(share) = self.ports.get_mut(&port) {
            self.port_lists.remove(&mut share.datagrams, datagram);
            if share.datagrams.first == NONE {
                self.ranks.remove(&(share.fragments / PORT_UNIT, port));
                self.ports.remove(&port);
            }
        }
    }

    /// The datagram to evict next.
    pub(crate) fn datagram_to_evict(&self) -> Option<u32> {
        let &(_, port) = self.ranks.last()?;
        let heavy = self.heavy.range((port, 0, 0)..=(port, u32::MAX, u32::MAX)).next_back();
        let chain = match heavy {
            Some((_, _, source_slot)) => self.sources.get(*source_slot)?.share.datagrams,
            None => self.ports.get(&port)?.datagrams,
        };
        Some(chain.first).filter(|first| *first != NONE)
    }

    /// The oldest datagram of a port.
    pub(crate) fn oldest_of(&self, port: u32) -> Option<u32> {
        self.ports.get(&port).map(|share| share.datagrams.first).filter(|first| *first != NONE)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        let sets = self.ranks.is_empty() && self.heavy.is_empty();
        sets && self.by_source.is_empty() && self.ports.is_empty()
    }
}
