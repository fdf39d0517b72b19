//! Limits of the library.

/// Maximum number of packets that the library transfers in one call (a constant in its source, not in its interface).
/// If more were passed in one call, the ring would seem to be full.
pub(super) const BURST: usize = 32;
