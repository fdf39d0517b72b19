//! The identity of a bridge.

/// The number of a bridge; it is never reused for another bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BridgeId(pub u32);
