//! Recirculation of packets that stay in their batch: what a program does with them between two passes.

/// What a program does that ends with a recirculation: it samples and rewrites packets or not, then hashes or tracks them or neither, and
/// recirculates them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recirculation {
    /// The recirculation id.
    pub id: u32,
    /// Whether packets are sampled first.
    pub samples: bool,
    /// Whether packets are rewritten then.
    pub edits: bool,
    /// Whether addresses or ports were changed, so that the connection that was found before is not trusted any more.
    pub forgets: bool,
    /// What follows.
    pub then: Then,
}

/// What a program does before it recirculates, and after it has rewritten the packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Then {
    /// Nothing.
    Nothing,
    /// Hashes them.
    Hash {
        /// Whether both directions of a connection get the same hash.
        symmetric: bool,
        /// The basis of the hash.
        basis: u32,
    },
    /// Tracks them.
    Track,
}

impl Recirculation {
    /// Returns whether packets are sampled or rewritten first.
    #[inline]
    pub(crate) fn begins(self) -> bool {
        self.samples || self.edits
    }

    /// Returns whether packets are hashed.
    #[inline]
    pub(crate) fn hashes(self) -> bool {
        matches!(self.then, Then::Hash { .. })
    }

    /// Returns whether packets are tracked.
    #[inline]
    pub(crate) fn tracks(self) -> bool {
        self.then == Then::Track
    }
}
