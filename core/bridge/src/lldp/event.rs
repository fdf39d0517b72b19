//! The events that a session reports for the log.

use super::message::{Id, Refusal};
use crate::event_level::Level;
use std::fmt;

/// An event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A frame was discarded.
    Refused(Refusal),
    /// A frame has a destination address that is not one of LLDP.
    OtherDestination,
    /// A neighbour is new.
    Discovered {
        /// Its chassis.
        chassis: Id,
        /// Its port.
        port: Id,
    },
    /// The decision of a server about a service has changed.
    Assigned {
        /// Number of the service.
        isid: u32,
        /// Name of the decision.
        status: &'static str,
    },
}

impl Event {
    /// The log level.
    pub fn level(&self) -> Level {
        match self {
            Event::Refused(_) => Level::Warn,
            Event::OtherDestination | Event::Discovered { .. } | Event::Assigned { .. } => Level::Info,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Refused(why) => why.fmt(f),
            Event::OtherDestination => f.write_str("frame not targeted at LLDP multicast address"),
            Event::Discovered { chassis, port } => {
                write!(f, "first message of chassis {chassis}, port {port}")
            }
            Event::Assigned { isid, status } => write!(f, "new status of service {isid} ({status})"),
        }
    }
}
