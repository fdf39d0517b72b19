//! Bounds of a guest.

/// Queue pairs that a guest may have (also the bound of DPDK's library).
pub const MAX_PAIRS: usize = 128;
