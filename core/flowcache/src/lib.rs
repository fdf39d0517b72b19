//! The signature cache in front of the classifier.
//!
//! A cache maps the hash of a packet's key to indices of the megaflow arena that the packet may belong to. It holds no
//! keys: the caller verifies each candidate against the megaflow, so a stale or colliding entry costs time, never
//! correctness, and **nothing has to be invalidated** when megaflows change. A cache belongs to one worker.

pub mod unified;

pub use unified::Unified;

/// What every cache of the datapath can do, so that rivals can be compared.
pub trait FlowCache: Send {
    /// Starts to bring the memory that `lookup` of this hash reads into the processor's cache.
    fn prefetch(&self, hash: u32);

    /// An index that `lookup` of this hash may ask about, so that its record can be prefetched.
    fn candidate(&self, hash: u32) -> Option<u32>;

    /// The first entry for the hash that `verify` accepts.
    fn lookup(&mut self, hash: u32, verify: impl FnMut(u32) -> bool) -> Option<u32>;

    /// Remembers `index` for the hash. Indices that the cache cannot hold are ignored.
    fn insert(&mut self, hash: u32, index: u32);

    /// To be called between batches now and then: the cache may grow, at the price of what it holds.
    fn maintain(&mut self);

    /// Forgets everything.
    fn clear(&mut self);

    /// How many entries it has room for.
    fn capacity(&self) -> usize;
}
