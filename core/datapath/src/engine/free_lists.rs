//! Free lists of a worker: empty lists and groups that are kept to avoid allocations.

use crate::engine::groups::{Group, Groups};
use crate::packet::Packet;

/// The free lists.
#[derive(Default)]
pub(crate) struct FreeLists {
    /// The groups; taken out while a batch is executed.
    pub(crate) groups: Option<Box<Groups>>,
    /// Empty lists of packets.
    lists: Vec<Vec<Packet>>,
    /// Empty groups.
    pub(crate) free_groups: Vec<Group>,
}

impl FreeLists {
    /// Returns an empty list of packets, reused if possible.
    pub(crate) fn packet_list(&mut self) -> Vec<Packet> {
        self.lists.pop().unwrap_or_default()
    }

    /// Returns a list to the free lists. Its packets must have been consumed.
    pub(crate) fn return_list(&mut self, list: Vec<Packet>) {
        debug_assert!(list.is_empty());
        self.lists.push(list);
    }
}
