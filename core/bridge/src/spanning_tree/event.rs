//! Events for the log.

use super::bpdu::Refusal;
use crate::event_level::Level;
use std::fmt;

/// An event. In the log its text follows the name of the bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The tree has changed.
    TopologyChange,
    /// A BPDU was discarded.
    Refused(Refusal),
    /// RSTP: a BPDU that was received on the port with this number was discarded.
    Bad {
        /// The port's number in its identifier.
        number: u16,
        /// Why the BPDU was discarded.
        why: Refusal,
    },
    /// The state machines of RSTP changed state endlessly.
    NotSettled,
}

impl Event {
    /// The event's log level.
    pub fn level(&self) -> Level {
        match self {
            Event::TopologyChange => Level::Info,
            Event::Refused(_) | Event::NotSettled => Level::Warn,
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
            Event::NotSettled => f.write_str(": the state machines did not settle"),
        }
    }
}
