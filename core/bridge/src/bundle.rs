//! Ports of a bridge as the database has them.

/// A port of a bridge in terms of the database: one interface, or a bond of several (a bundle in Open vSwitch).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundleId(pub u32);

impl numbered::Number for BundleId {
    fn index(self) -> usize {
        self.0 as usize
    }
}
