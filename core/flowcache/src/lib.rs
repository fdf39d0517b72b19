//! The caches in front of the classifier.
//!
//! A cache maps the hash of a packet's key to what the classifier found for an earlier packet of that hash: a megaflow,
//! or, in one of the rivals, no more than the subtable. It holds no keys: the caller resolves each entry against the
//! megaflow itself, so a stale or colliding entry costs time, never correctness, and **nothing has to be invalidated** when
//! megaflows change. A cache belongs to one worker.
//!
//! [`Unified`] is the default; the others are there to be compared with it. [`Cache`] is one of them, chosen at run time;
//! which one it is, is asked once a batch ([`each_cache`]), and what follows is compiled for each of them.
//!
//! Sources: `lib/dpif-netdev-private-dfc.h` of Open vSwitch for the sizes and rules of EMC and SMC; the discussion of 2018
//! on ovs-dev for DFC and CD.

pub mod bucket;
pub mod cd;
pub mod choice;
pub mod dfc;
mod dice;
pub mod emc;
pub mod front;
pub mod governor;
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
mod twins;

/// What an entry leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// To an index of the megaflow arena.
    Megaflow(u32),
    /// To the subtable of this number.
    Subtable(u16),
}

/// What the classifier found, for a cache to remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learned {
    /// Of the packet's key.
    pub hash: u32,
    /// The index of its megaflow.
    pub megaflow: u32,
    /// The number of the subtable that it is in.
    pub subtable: u16,
    /// The port that the packet came in by.
    pub port: u32,
}

/// What every cache of the datapath can do.
pub trait FlowCache: Send {
    /// Hashes given to it cover the bits of a key that the megaflows of its port look at, and no others: then packets that
    /// no megaflow tells apart share an entry. The rivals are given hashes of flows, as their originals are.
    const BY_MASKS: bool = false;

    /// What [`candidate`](Self::candidate) answers and the caller verifies needs no `lookup` any more: it is noted as used.
    const CANDIDATE_IS_HIT: bool = false;

    /// Few entries were ever made, so that they and the megaflows they lead to are near, and nothing need be prefetched.
    fn is_near(&self) -> bool {
        false
    }

    /// Starts to bring the memory that `lookup` of this hash reads into the processor's cache.
    fn prefetch(&self, hash: u32);

    /// A megaflow that `lookup` of this hash may ask about, so that its record can be prefetched.
    fn candidate(&mut self, hash: u32) -> Option<u32>;

    /// The megaflow of the first entry for the hash that `resolve` knows one for.
    fn lookup(&mut self, hash: u32, resolve: impl FnMut(Entry) -> Option<u32>) -> Option<u32>;

    /// Remembers what was found. What the cache cannot hold, it ignores.
    fn insert(&mut self, learned: Learned);

    /// Of so many look-ups of a port's packets so many have just hit: to be told once a batch.
    fn account(&mut self, _port: u32, _lookups: u32, _hits: u32) {}

    /// Hits ever of a smaller cache in front, where there is one.
    fn front_hits(&self) -> u64 {
        0
    }

    /// Forgets everything.
    fn clear(&mut self);

    /// How many entries it has room for.
    fn capacity(&self) -> usize;

    /// Its memory.
    fn bytes(&self) -> usize;

    /// Address and bytes of its largest table.
    fn place(&self) -> (usize, usize);
}
