//! The library's bounds.

/// Queue pairs that a guest may have (the library's bound).
pub const MAX_PAIRS: usize = 128;
/// Packets that the library moves at most in one call (a constant in its source, not in its interface).
/// If more were offered in one call, the ring would look full.
pub(super) const BURST: usize = 32;
