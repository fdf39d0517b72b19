//! Recirculation of packets that stay in their batch: the operations of a program between two passes.

use crate::steps::{STEPS, TRACKS};

/// A program that recirculates packets. Before that, it may meter the packets, execute steps on them, and hash them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recirculation {
    /// The recirculation id.
    pub id: u32,
    /// Flags of the operations before the recirculation: some of [`METERS`](crate::steps::METERS), [`STEPS`],
    /// [`TRACKS`].
    pub op_flags: u8,
    /// How the packets are hashed, if they are.
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
        self.op_flags & STEPS != 0
    }

    /// Returns whether packets are tracked.
    #[inline]
    pub(crate) fn tracks(self) -> bool {
        self.op_flags & TRACKS != 0
    }
}
