//! Some of the connections, found by their keys: a hash table with chains of indices into slots that never move.

use crate::connection::Connection;
use crate::key::Ordered;

/// "No slot."
const NONE: u32 = u32::MAX;
/// Slots that are made at once. A power of two.
const CHUNK: u32 = 32;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    /// First slot of each chain; none, or as many as a power of two, and never fewer than there are connections.
    heads: Vec<u32>,
    chunks: Vec<Box<[Slot]>>,
    /// First of the slots that are free, which are chained too.
    free: Option<u32>,
    len: usize,
}

#[derive(Debug)]
struct Slot {
    hash: u64,
    next: u32,
    connection: Option<Connection>,
}

impl Shard {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn slot(&self, index: u32) -> Option<&Slot> {
        self.chunks.get((index / CHUNK) as usize)?.get((index % CHUNK) as usize)
    }

    fn slot_mut(&mut self, index: u32) -> Option<&mut Slot> {
        self.chunks.get_mut((index / CHUNK) as usize)?.get_mut((index % CHUNK) as usize)
    }

    fn head(&self, hash: u64) -> Option<usize> {
        (!self.heads.is_empty()).then(|| hash as usize & (self.heads.len() - 1))
    }

    /// The slots of a chain.
    fn chain(&self, hash: u64) -> impl Iterator<Item = (u32, &Slot)> {
        let first = self.head(hash).map_or(NONE, |head| self.heads[head]);
        let at = |index: u32| self.slot(index).map(|slot| (index, slot));
        std::iter::successors(at(first), move |(_, slot)| at(slot.next))
    }

    /// The slot of a key's connection.
    pub(crate) fn find(&self, hash: u64, key: Ordered) -> Option<u32> {
        let is_it = |slot: &Slot| {
            slot.hash == hash && slot.connection.as_ref().is_some_and(|c| c.key.ordered() == key)
        };
        self.chain(hash).find(|(_, slot)| is_it(slot)).map(|(index, _)| index)
    }

    /// The connection in a slot.
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Connection> {
        self.slot_mut(index)?.connection.as_mut()
    }

    /// Adds a connection, whose key is not there; where.
    pub(crate) fn insert(&mut self, hash: u64, connection: Connection) -> u32 {
        if self.len >= self.heads.len() {
            self.widen();
        }
        let index = self.free.unwrap_or_else(|| self.grow());
        let head = self.head(hash).unwrap_or(0);
        let next = std::mem::replace(&mut self.heads[head], index);
        if let Some(slot) = self.slot_mut(index) {
            let free = slot.next;
            *slot = Slot { hash, next, connection: Some(connection) };
            self.free = Some(free).filter(|f| *f != NONE);
        }
        self.len += 1;
        index
    }

    /// More slots; the first of them.
    fn grow(&mut self) -> u32 {
        let first = self.chunks.len() as u32 * CHUNK;
        let slot = |i: u32| {
            let next = if i + 1 < CHUNK { first + i + 1 } else { NONE };
            Slot { hash: 0, next, connection: None }
        };
        self.chunks.push((0..CHUNK).map(slot).collect());
        first
    }

    /// Twice as many chains.
    fn widen(&mut self) {
        let heads = (self.heads.len() * 2).max(CHUNK as usize);
        self.heads = vec![NONE; heads];
        for index in 0..self.chunks.len() as u32 * CHUNK {
            let Some((hash, true)) = self.slot(index).map(|s| (s.hash, s.connection.is_some())) else {
                continue;
            };
            let head = hash as usize & (heads - 1);
            let next = std::mem::replace(&mut self.heads[head], index);
            if let Some(slot) = self.slot_mut(index) {
                slot.next = next;
            }
        }
    }

    /// Removes the connection in a slot.
    pub(crate) fn remove(&mut self, index: u32) {
        let Some((hash, next)) =
            self.slot(index).filter(|s| s.connection.is_some()).map(|s| (s.hash, s.next))
        else {
            return;
        };
        let before = self.chain(hash).find(|(_, slot)| slot.next == index).map(|(i, _)| i);
        match before.and_then(|i| self.slot_mut(i)) {
            Some(slot) => slot.next = next,
            None => {
                let head = self.head(hash).unwrap_or(0);
                self.heads[head] = next;
            }
        }
        let free = self.free.replace(index).unwrap_or(NONE);
        if let Some(slot) = self.slot_mut(index) {
            (slot.connection, slot.next) = (None, free);
        }
        self.len -= 1;
        if self.len == 0 {
            // What a flood took is given back.
            *self = Shard::default();
        }
    }

    /// Removes the connections that `goes` says.
    pub(crate) fn remove_if(&mut self, goes: impl Fn(&Connection) -> bool) {
        for index in 0..self.chunks.len() as u32 * CHUNK {
            if self.slot(index).and_then(|s| s.connection.as_ref()).is_some_and(&goes) {
                self.remove(index);
            }
        }
    }

    /// All connections.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.chunks.iter().flatten().filter_map(|slot| slot.connection.as_ref())
    }
}
