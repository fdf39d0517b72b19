//! The events that a session reports for the log.

use super::fault::Faults;
use super::message::{Message, Refusal};
use crate::event_level::Level;
use flow::Mac;
use std::fmt;
use units::Millis;

/// An event of a session. `id` is the identifier of a remote point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The faults changed.
    Faults {
        /// The old faults.
        from: Faults,
        /// The new faults.
        to: Faults,
    },
    /// No message of a remote point arrived between two checks.
    Silent {
        /// Identifier of the remote point.
        id: u64,
        /// Time since the last message of the remote point.
        time: Millis,
    },
    /// A message is sent too late.
    Late {
        /// Time since the previous message.
        delay: Millis,
        /// The configured interval.
        expected: Millis,
        /// Sequence number of the message.
        sequence: u32,
    },
    /// A message was received.
    Received {
        /// Identifier of the sender.
        id: u64,
        /// The message.
        message: Message,
    },
    /// A frame was discarded.
    Refused(Refusal),
    /// A message is from another maintenance association.
    OtherAssociation(Mac),
    /// A message has another interval than ours.
    OtherInterval {
        /// Identifier of the sender.
        id: u64,
        /// The message.
        message: Message,
    },
    /// There are too many remote points.
    Overflow {
        /// Sender of the message that was dropped.
        id: u64,
        /// MAC address of that sender.
        from: Mac,
    },
    /// A message has our own identifier.
    Loopback(u64),
    /// The sequence number of a message does not follow the previous one.
    Gap {
        /// Identifier of the sender.
        id: u64,
        /// Sequence number of the previous message.
        from: u32,
        /// Sequence number of this message.
        to: u32,
    },
}

impl Event {
    /// The log level of the event.
    pub fn level(&self) -> Level {
        match self {
            Event::Received { .. } => Level::Debug,
            Event::Faults { .. } | Event::Silent { .. } | Event::Late { .. } | Event::Refused(_) => {
                Level::Info
            }
            _ => Level::Warn,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Faults { from, to } => write!(f, "CFM faults changed from [{from}] to [{to}]."),
            Event::Silent { id, time } => write!(f, "Received no CCM from RMP {id} in the last {}ms", time.0),
            Event::Late { delay, expected, sequence } => {
                let (delay, expected) = (delay.0, expected.0);
                write!(f, "long delay of {delay}ms (expected {expected}ms) sending CCM seq {sequence}")
            }
            Event::Received { id, message } => {
                let Message { sequence, interval_code, rdi, .. } = message;
                write!(f, "received CCM (seq {sequence}) (mpid {id}) (interval {interval_code}) (RDI {rdi})")
            }
            Event::Refused(why) => write!(f, "{why}"),
            Event::OtherAssociation(mac) => write!(f, "Received unexpected remote MAID from MAC {mac}"),
            Event::OtherInterval { id, message } => match message.interval_code {
                0 => {
                    let interval = message.extended_interval.0;
                    write!(
                        f,
                        "received a CCM with an unexpected extended interval ({interval}ms) from RMP {id}"
                    )
                }
                code => write!(f, "received a CCM with an unexpected interval ({code}) from RMP {id}"),
            },
            Event::Overflow { id, from } => write!(f, "dropped CCM with MPID {id} from MAC {from}"),
            Event::Loopback(id) => write!(f, "received CCM with local MPID {id}"),
            Event::Gap { id, from, to } => write!(
                f,
                "(mpid {id}) detected sequence numbers which indicate possible connectivity problems \
                 (previous {from}) (current {to})"
            ),
        }
    }
}
