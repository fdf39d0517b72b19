//! A long reply that is being sent on one connection, and the commands that must follow it.
//!
//! Updates of flow monitors must not be sent before the flows that the monitors report first, which may be a long reply. Another
//! long reply waits until this one is complete. All other messages may be sent between the parts.

use crate::command::{Command, Parts};
use openflow::{Body, Dialect, Message};
use units::Millis;

/// A long reply whose remaining parts have not been made.
#[derive(Debug)]
pub(crate) struct LongReply {
    parts: Parts,
    dialect: Dialect,
    /// Commands that are carried out after the last part, in this order.
    following: Vec<Command>,
}

impl LongReply {
    pub(crate) fn new(parts: Parts, dialect: Dialect) -> LongReply {
        LongReply { parts, dialect, following: Vec::new() }
    }

    /// Makes the next part. `None`: the reply is complete.
    pub(crate) fn next_part(&mut self, now: Millis) -> Option<(Message, Dialect)> {
        Some((self.parts.next(now)?, self.dialect))
    }

    /// Keeps the command if it must follow the reply; otherwise returns it.
    pub(crate) fn defer(&mut self, command: Command) -> Option<Command> {
        if !must_follow(&command) {
            return Some(command);
        }
        self.following.push(command);
        None
    }

    /// The commands to carry out after the last part.
    pub(crate) fn into_following(self) -> Vec<Command> {
        self.following
    }
}

fn must_follow(command: &Command) -> bool {
    match command {
        Command::Parts(..) => true,
        Command::Send(message, _) => matches!(
            message.body,
            Body::FlowMonitorReply(_) | Body::FlowMonitorPaused | Body::FlowMonitorResumed
        ),
        Command::PacketIn(..) | Command::DroppedPacketIn(_) => false,
    }
}
