//! The cache of `path/recent.rs`: the megaflow of the last packet, by port and pass.

/// The megaflow of the last packet, and how many batches skip the comparison with it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recent {
    pub(crate) index: u32,
    pub(crate) pause: u8,
    /// Number of small batches that skip `path/small_batch.rs`.
    pub(crate) general: u8,
}

/// One slot for each port and pass; ports whose numbers are equal in the low bits share slots.
pub(crate) type RecentByPort = [Recent; SLOTS];

pub(crate) const SLOTS: usize = 64;
