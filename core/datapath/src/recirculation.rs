//! Recirculation of packets that stay in their batch: what a program does with them between two passes.

use crate::steps::{STEPS, TRACKS};

/// What a program does that ends with a recirculation: it passes meters, executes steps, hashes packets, or nothing of these, and then
/// recirculates them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recirculation {
    /// The recirculation id.
    pub id: u32,
    /// What comes first: some of [`METERS`](crate::steps::METERS), [`STEPS`], [`TRACKS`].
    pub does: u8,
    /// How the packets are hashed then, if they are.
    pub hash: Option<Hash>,
}

/// A hash of the addresses and ports of packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hash {
    /// Whether both directions of a connection get the same hash.
    pub symmetric: bool,
    /// The basis of the hash.
    pub basis: u32,
}

impl Recirculation {
    /// Returns whether the program has steps.
    #[inline]
    pub(crate) fn has_steps(self) -> bool {
        self.does & STEPS != 0
    }

    /// Returns whether packets are tracked.
    #[inline]
    pub(crate) fn tracks(self) -> bool {
        self.does & TRACKS != 0
    }
}
