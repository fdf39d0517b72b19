//! Transaction ids.

/// A transaction id. A reply has the id of its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Xid(pub u32);
