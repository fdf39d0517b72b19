//! The number of a bridge.

/// A bridge; the number is never used again for another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BridgeId(pub u32);
