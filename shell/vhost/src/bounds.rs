//! Limits of a guest.

/// Maximum number of queue pairs of a guest; DPDK's library has the same limit.
pub const MAX_PAIRS: usize = 128;
