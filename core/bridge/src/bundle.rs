//! The identity of a Port row.

/// Identity of a row of table Port in a bridge: one interface, or a bond of several (a bundle in Open vSwitch).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundleId(pub u32);

impl numbered::Number for BundleId {
    fn index(self) -> usize {
        self.0 as usize
    }
}
