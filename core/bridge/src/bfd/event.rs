//! The events that a session reports for the log.

use super::message::{Diagnostic, Message, Refusal, State};
use crate::event_level::Level;
use std::fmt;
use units::Millis;

/// An event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The state or the diagnostic changed.
    Changed {
        /// The old state and diagnostic.
        from: (State, Diagnostic),
        /// The new state and diagnostic.
        to: (State, Diagnostic),
    },
    /// A poll sequence began (RFC 5880 §6.5).
    PollBegun,
    /// The other end answered the poll sequence.
    PollEnded,
    /// The other end changed its required minimum receive interval.
    RemoteMinRx(Millis),
    /// The other end changed its detection multiplier: old value, new value.
    RemoteMult(u8, u8),
    /// The other end signals that its session is down.
    RemoteDown,
    /// A packet was discarded.
    Refused(Refusal),
    /// `decay_min_rx` is smaller than `min_rx`; the value is `min_rx`.
    DecayTooFast(Millis),
    /// A message is sent too late.
    Late {
        /// Time since the message was due.
        delay: Millis,
        /// The transmit interval.
        expected: Millis,
    },
    /// A message was sent.
    Sent(Message),
    /// A message was received.
    Received(Message),
}

impl Event {
    /// The log level of the event.
    pub fn level(&self) -> Level {
        match self {
            Event::Refused(Refusal::TooShort(_)) => Level::Info,
            Event::Refused(_) | Event::DecayTooFast(_) => Level::Warn,
            Event::Sent(_) | Event::Received(_) => Level::Debug,
            _ => Level::Info,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = |(state, diagnostic): (State, Diagnostic)| {
            let (state, diagnostic) = (state.name(), diagnostic.name());
            format!("(bfd.SessionState: {state}, bfd.LocalDiag: \"{diagnostic}\")")
        };
        match self {
            Event::Changed { from, to } => {
                write!(f, "BFD state change: {} -> {}", state(*from), state(*to))
            }
            Event::PollBegun => f.write_str("Initiating poll sequence"),
            Event::PollEnded => f.write_str("Poll sequence terminated"),
            Event::RemoteMinRx(interval) => write!(f, "New remote min_rx: {}ms", interval.0),
            Event::RemoteMult(old, new) => write!(f, "remote mult value {old} changed to {new}"),
            Event::RemoteDown => f.write_str("Remote signaled STATE_DOWN"),
            Event::Refused(why) => write!(f, "{why}"),
            Event::DecayTooFast(least) => write!(f, "decay_min_rx cannot be less than {} ms", least.0),
            Event::Late { delay, expected } => {
                let (delay, expected) = (delay.0, expected.0);
                write!(f, "long delay of {delay}ms (expected {expected}ms) sending BFD control message")
            }
            Event::Sent(message) => write!(f, "Sending BFD Message: {message}"),
            Event::Received(message) => write!(f, "Received BFD control message: {message}"),
        }
    }
}
