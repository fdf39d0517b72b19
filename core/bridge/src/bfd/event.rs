//! What a session has to tell the log.

use super::message::{Diagnostic, Message, Refusal, State};
use std::fmt;
use units::Millis;

/// How loud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Someone should look at it.
    Warn,
    /// Good to know.
    Info,
    /// For debugging.
    Debug,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// From one state and diagnostic to others.
    Changed {
        /// Before.
        from: (State, Diagnostic),
        /// After.
        to: (State, Diagnostic),
    },
    /// A poll sequence begins (RFC 5880 §6.5).
    PollBegun,
    /// It has been answered.
    PollEnded,
    /// The other end takes messages at another pace.
    RemoteMinRx(Millis),
    /// The other end lets another number of messages be missed.
    RemoteMult(u8, u8),
    /// The other end says that it is down.
    RemoteDown,
    /// A packet was discarded.
    Refused(Refusal),
    /// The slower pace that the settings ask for is faster than the other.
    DecayTooFast(Millis),
    /// A message is sent this much too late.
    Late {
        /// After it was due.
        delay: Millis,
        /// The interval of messages.
        expected: Millis,
    },
    /// A message is sent.
    Sent(Message),
    /// A message was received.
    Received(Message),
}

impl Event {
    /// How loud it is.
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
