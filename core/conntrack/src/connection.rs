//! A connection.

use crate::key::Key;
use crate::limits::Admission;
use crate::protocol::Protocol;
use units::Millis;

/// See the module.
#[derive(Debug)]
pub(crate) struct Connection {
    /// As its first packet had it.
    pub(crate) key: Key,
    /// From then on it is not there.
    pub(crate) expires: Millis,
    pub(crate) protocol: Protocol,
    pub(crate) mark: u32,
    /// Most significant half first.
    pub(crate) label: [u64; 2],
    /// What it counts towards, as long as it is kept.
    pub(crate) _admission: Admission,
}

impl Connection {
    pub(crate) fn is_over(&self, now: Millis) -> bool {
        now >= self.expires
    }
}

/// Writes the bits of a mask.
pub(crate) fn masked_mark(old: u32, (value, mask): (u32, u32)) -> u32 {
    value | old & !mask
}

/// The same for a label.
pub(crate) fn masked_label(old: [u64; 2], (value, mask): ([u64; 2], [u64; 2])) -> [u64; 2] {
    [value[0] | old[0] & !mask[0], value[1] | old[1] & !mask[1]]
}
