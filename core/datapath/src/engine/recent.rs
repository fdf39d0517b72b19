//! The megaflow that the last batch of each port and pass ended with.

/// The megaflow of the last packet of a port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recent {
    pub(crate) index: u32,
    pub(crate) pause: u8,
}

/// One for a port and pass; those whose numbers are the same in the low bits share it.
pub(crate) type RecentByPort = [Recent; PLACES];

pub(crate) const PLACES: usize = 64;
