//! The cache of `path/recent.rs`: the megaflow of the last packet, by port and pass.

/// The megaflow of the last packet, and how many batches skip the comparison with it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recent {
    pub(crate) index: u32,
    pub(crate) pause: u8,
    /// Number of batches of few packets that are left to the stages for all batches.
    pub(crate) general: u8,
}

/// One place for each port and pass; ports whose numbers are equal in the low bits share places.
pub(crate) type RecentByPort = [Recent; PLACES];

pub(crate) const PLACES: usize = 64;
