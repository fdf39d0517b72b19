//! Transaction ids.

/// A transaction id: a reply has that of its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Xid(pub u32);
