//! The interface of every flow cache.

/// The content of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An index in the megaflow arena.
    Megaflow(u32),
    /// The number of a subtable.
    Subtable(u16),
}

/// A result of the classifier, to be inserted into a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewEntry {
    /// Hash of the packet's key.
    pub hash: u32,
    /// Index of the packet's megaflow.
    pub megaflow: u32,
    /// Number of the subtable that contains the megaflow.
    pub subtable: u16,
    /// The port that received the packet.
    pub port: u32,
}

/// The operations of a cache that the datapath uses.
pub trait FlowCache: Send {
    /// If true, hashes for this cache cover exactly those bits of a key that the megaflows of the port match, so
    /// packets that no megaflow distinguishes share an entry. If false, hashes cover the complete flow, as in the
    /// cache's original implementation.
    const BY_MASKS: bool = false;

    /// If true, a [`candidate`](Self::candidate) that the caller has verified is the result, and no `lookup` is
    /// needed: the entry is already marked as used.
    const CANDIDATE_IS_HIT: bool = false;

    /// Returns whether the cache has few entries, so that they and their megaflows are in the CPU caches and need no
    /// prefetch.
    fn fits_cpu_caches(&self) -> bool {
        false
    }

    /// Prefetches the memory that `lookup` reads for this hash.
    fn prefetch(&self, hash: u32);

    /// Returns a megaflow that `lookup` may have to verify for this hash, so that the caller can prefetch it.
    fn candidate(&mut self, hash: u32) -> Option<u32>;

    /// Returns the megaflow of the first entry for this hash for which `resolve` returns one.
    fn lookup(&mut self, hash: u32, resolve: impl FnMut(Entry) -> Option<u32>) -> Option<u32>;

    /// Inserts a result of the classifier. Results that the cache cannot represent are ignored.
    fn insert(&mut self, new_entry: NewEntry);

    /// Reports how many packets of a port were looked up, and how many of them hit. Called once per batch.
    fn account(&mut self, _port: u32, _lookups: u32, _hits: u32) {}

    /// Number of hits of the smaller cache in front (if any) since the cache was created.
    fn front_hits(&self) -> u64 {
        0
    }

    /// Removes all entries.
    fn clear(&mut self);

    /// Capacity in entries.
    fn capacity(&self) -> usize;

    /// Size in bytes.
    fn bytes(&self) -> usize {
        self.largest_table().1
    }

    /// Address and size in bytes of the largest table.
    fn largest_table(&self) -> (usize, usize);
}
