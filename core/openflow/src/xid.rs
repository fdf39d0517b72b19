//! Which messages belong together.

/// A transaction: a reply has its request's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Xid(pub u32);
