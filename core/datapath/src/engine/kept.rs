//! Empty lists and groups that a worker keeps for their memory.

use crate::engine::groups::{Group, Groups};
use crate::packet::Packet;

/// Memory that is used for one batch after the other.
#[derive(Default)]
pub(crate) struct Kept {
    /// The groups; taken out while a batch is processed.
    pub(crate) groups: Option<Box<Groups>>,
    /// Empty lists of packets, kept for their memory.
    lists: Vec<Vec<Packet>>,
    /// Empty groups, kept for their memory.
    pub(crate) groups_free: Vec<Group>,
}

impl Kept {
    /// Returns an empty list of packets from the kept ones.
    pub(crate) fn list(&mut self) -> Vec<Packet> {
        self.lists.pop().unwrap_or_default()
    }

    /// Takes a list back; its packets must have been consumed.
    pub(crate) fn give_back(&mut self, list: Vec<Packet>) {
        debug_assert!(list.is_empty());
        self.lists.push(list);
    }
}
