//! The outputs of a protocol entity, which its caller carries out.

use super::event::Event;
use std::collections::{BTreeMap, BTreeSet};
use units::OfPort;

/// Key-value pairs of a column of the database.
pub type Pairs<T> = BTreeMap<&'static str, T>;

/// The learned addresses that the caller must remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flush {
    /// All addresses of the bridge.
    pub all: bool,
    /// The addresses behind these ports.
    pub ports: BTreeSet<OfPort>,
    /// Pairs of ports: before the removal, the addresses behind the first port move to the second port.
    pub moved: Vec<(OfPort, OfPort)>,
}

impl Flush {
    /// Whether nothing has to be removed or moved.
    pub fn is_empty(&self) -> bool {
        !self.all && self.ports.is_empty() && self.moved.is_empty()
    }

    /// Adds later requests.
    pub fn append(&mut self, later: Flush) {
        self.all |= later.all;
        self.ports.extend(later.ports);
        self.moved.extend(later.moved);
    }
}

/// The outputs of a protocol entity since the last call of `take_output`.
#[derive(Debug, Default)]
pub struct Output {
    /// Frames to send from these ports, in order.
    pub frames: Vec<(OfPort, Vec<u8>)>,
    /// Ports whose state has changed, in the order of the changes.
    pub changed: Vec<OfPort>,
    /// Addresses to remove.
    pub flush: Flush,
    /// Events for the log.
    pub events: Vec<Event>,
}

impl Output {
    /// Records that the state of a port has changed.
    pub(super) fn note_state(&mut self, port: OfPort) {
        if !self.changed.contains(&port) {
            self.changed.push(port);
        }
    }
}
