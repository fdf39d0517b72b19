//! The flow caches in front of the classifier.
//!
//! A flow cache maps the hash of a packet's key to the result of the classifier for an earlier packet with that hash:
//! a megaflow, or, for CD, only the subtable. It holds no keys: the caller verifies each entry against the megaflow
//! itself. So a stale or colliding entry costs time but never correctness, and **nothing has to be invalidated** when
//! megaflows change. A cache belongs to one worker.
//!
//! [`Unified`] is the default; the other caches exist to be compared with it. [`Cache`] is one of them, selected at
//! run time. The kind is matched once per batch ([`each_cache`]), and the code that follows is compiled for each
//! kind.
//!
//! Sources: `lib/dpif-netdev-private-dfc.h` of Open vSwitch for the sizes and rules of EMC and SMC; the discussion of
//! 2018 on ovs-dev for DFC and CD.

pub mod bucket;
pub mod cd;
pub mod choice;
pub mod dfc;
pub mod emc;
pub mod front;
pub mod governor;
mod random;
pub mod smc;
pub mod unified;

pub use bucket::{Narrow, Wide};
pub use cd::Cd;
pub use choice::{Cache, Choice, Kind};
pub use dfc::Dfc;
pub use emc::Emc;
pub use front::{Front, Nothing};
pub use smc::Smc;
pub use unified::Unified;

#[cfg(test)]
mod reference;

/// What an entry refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An index in the megaflow arena.
    Megaflow(u32),
    /// The number of a subtable.
    Subtable(u16),
}

/// A result of the classifier, to be inserted into a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learned {
    /// Hash of the packet's key.
    pub hash: u32,
    /// Index of the packet's megaflow.
    pub megaflow: u32,
    /// Number of the subtable that contains the megaflow.
    pub subtable: u16,
    /// The port that received the packet.
    pub port: u32,
}

/// The operations that the datapath needs of a cache.
pub trait FlowCache: Send {
    /// Hashes for this cache cover exactly those bits of a key that the megaflows of the port match on, so packets
    /// that no megaflow distinguishes share an entry. The other caches get hashes of whole flows, as in their
    /// original implementations.
    const BY_MASKS: bool = false;

    /// The result of [`candidate`](Self::candidate) needs no `lookup` once the caller has verified it: it is already
    /// marked as used.
    const CANDIDATE_IS_HIT: bool = false;

    /// Returns whether the cache is so small that it and its megaflows stay in the CPU cache and need no prefetch.
    fn is_near(&self) -> bool {
        false
    }

    /// Prefetches the memory that `lookup` of this hash reads.
    fn prefetch(&self, hash: u32);

    /// A megaflow that `lookup` of this hash may have to verify, so that the caller can prefetch it.
    fn candidate(&mut self, hash: u32) -> Option<u32>;

    /// Returns the megaflow of the first entry for this hash for which `resolve` returns one.
    fn lookup(&mut self, hash: u32, resolve: impl FnMut(Entry) -> Option<u32>) -> Option<u32>;

    /// Inserts a result of the classifier. Results that the cache cannot represent are ignored.
    fn insert(&mut self, learned: Learned);

    /// Reports look-ups and hits of a port's packets; called once per batch.
    fn account(&mut self, _port: u32, _lookups: u32, _hits: u32) {}

    /// Hits of the smaller cache in front, if any, since the cache exists.
    fn front_hits(&self) -> u64 {
        0
    }

    /// Removes all entries.
    fn clear(&mut self);

    /// Number of entries that fit.
    fn capacity(&self) -> usize;

    /// Memory in bytes.
    fn bytes(&self) -> usize;

    /// Address and size in bytes of its largest table.
    fn place(&self) -> (usize, usize);
}
