//! Events for the log.

use super::bpdu::Refusal;
use crate::event_level::Level;
use std::fmt;

/// An event; its text follows the name of the bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The tree has changed.
    TopologyChange,
    /// A BPDU was discarded.
    Refused(Refusal),
    /// RSTP: a BPDU that was received on the port with this number was discarded.
    Bad {
        /// The port's number.
        number: u16,
        /// Why.
        why: Refusal,
    },
    /// The state machines of RSTP did not come to rest.
    Restless,
}

impl Event {
    /// Its log level.
    pub fn level(&self) -> Level {
        match self {
            Event::TopologyChange => Level::Info,
            Event::Refused(_) | Event::Restless => Level::Warn,
            Event::Bad { .. } => Level::Debug,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::TopologyChange => f.write_str(": detected topology change."),
            Event::Refused(why) => write!(f, ": {why}"),
            Event::Bad { number, why } => {
                write!(f, ", port {number}: Bad STP or RSTP BPDU received ({why})")
            }
            Event::Restless => f.write_str(": the state machines did not come to rest"),
        }
    }
}
