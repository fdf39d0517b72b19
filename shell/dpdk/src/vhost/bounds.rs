//! The library's bounds.

/// Packets that the library moves at most in one call (a constant in its source, not in its interface).
/// If more were offered in one call, the ring would look full.
pub(super) const BURST: usize = 32;
