//! The cache of `path/recent.rs`: the megaflow of the last packet, by port and pass.

/// The megaflow of the last packet of a port and pass.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recent {
    pub(crate) index: u32,
    /// Number of batches for which the comparison with this megaflow is skipped.
    pub(crate) pause: u8,
    /// Number of small batches for which `path/small_batch.rs` is skipped.
    pub(crate) skip_small: u8,
}

/// One slot for each port and parity of the pass. Ports whose numbers are equal in the low bits share slots.
pub(crate) type RecentByPort = [Recent; SLOTS];

pub(crate) const SLOTS: usize = 64;
