//! The megaflows that the last batches of ports ended with.

/// What the last packet of a batch of one port was found to be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recent {
    pub(crate) index: u32,
    /// Batches that are still to come without the comparison.
    pub(crate) pause: u8,
}

/// One for a port; those whose numbers are the same in the low bits share it.
pub(crate) type RecentByPort = [Recent; 64];
