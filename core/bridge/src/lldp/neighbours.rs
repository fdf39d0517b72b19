//! The neighbours of a port, with their lifetimes.

use super::message::{Id, Message};
use std::collections::BTreeMap;
use units::Millis;

/// Maximum number of neighbours of a port. Messages of others are counted as dropped, so that a neighbour with changing identifiers uses
/// bounded memory.
const NEIGHBOURS_MAX: usize = 32;

/// Identity of a neighbour: its chassis and its port.
pub(super) type Key = (Id, Id);

/// A neighbour.
#[derive(Clone, Debug)]
pub(super) struct Neighbour {
    /// Its last message.
    pub(super) message: Message,
    /// When the message becomes invalid.
    pub(super) expires: Millis,
}

/// The neighbours of a port.
#[derive(Clone, Debug, Default)]
pub(super) struct Neighbours {
    all: BTreeMap<Key, Neighbour>,
}

/// The effect of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// The neighbour is new.
    Inserted,
    /// The neighbour is known.
    Updated,
    /// The neighbour sent a shutdown LLDPDU (TTL 0), so it was removed.
    Deleted,
    /// There are too many neighbours.
    Dropped,
    /// An unknown neighbour sent a shutdown LLDPDU.
    Unknown,
}

impl Neighbours {
    /// The neighbours in the order of their identities.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Neighbour> {
        self.all.values()
    }

    /// Stores a received message.
    pub(super) fn store(&mut self, message: Message, now: Millis) -> Stored {
        let key = (message.chassis.clone(), message.port.clone());
        if message.ttl == 0 {
            return if self.all.remove(&key).is_some() { Stored::Deleted } else { Stored::Unknown };
        }
        let is_known = self.all.contains_key(&key);
        if !is_known && self.all.len() >= NEIGHBOURS_MAX {
            return Stored::Dropped;
        }
        let expires = now + Millis(u64::from(message.ttl) * 1000);
        self.all.insert(key, Neighbour { message, expires });
        if is_known { Stored::Updated } else { Stored::Inserted }
    }

    /// When the next neighbour expires.
    pub(super) fn deadline(&self) -> Option<Millis> {
        self.iter().map(|neighbour| neighbour.expires).min()
    }

    /// Removes the neighbours whose last message is invalid now, and returns their number.
    pub(super) fn expire(&mut self, now: Millis) -> u64 {
        let before = self.all.len();
        self.all.retain(|_, neighbour| now < neighbour.expires);
        (before - self.all.len()) as u64
    }
}
