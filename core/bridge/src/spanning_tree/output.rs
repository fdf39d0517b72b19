//! What a protocol entity asks of its caller.

use super::event::Event;
use std::collections::{BTreeMap, BTreeSet};
use units::OfPort;

/// Key-value pairs of a column of the database.
pub type Pairs<T> = BTreeMap<&'static str, T>;

/// Which learned addresses are to be removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flush {
    /// All of the bridge.
    pub all: bool,
    /// Those behind these ports.
    pub ports: BTreeSet<OfPort>,
    /// Before that: those behind the first port are behind the second one now.
    pub moved: Vec<(OfPort, OfPort)>,
}

impl Flush {
    /// Whether nothing is to be removed.
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

/// The outputs since the last call.
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
    /// Notes that the state of a port has changed.
    pub(super) fn note_state(&mut self, port: OfPort) {
        if !self.changed.contains(&port) {
            self.changed.push(port);
        }
    }
}
