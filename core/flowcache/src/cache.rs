//! The interface of every flow cache.

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

    /// The cache has few entries, so they and their megaflows are in the processor's cache and need no prefetch.
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
    fn bytes(&self) -> usize {
        self.place().1
    }

    /// Address and size in bytes of its largest table.
    fn place(&self) -> (usize, usize);
}
