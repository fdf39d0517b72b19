//! Long replies that are being sent on one connection, and the commands that must follow them.
//!
//! Updates of flow monitors must not be sent before the flows that the monitors report first, which may be a long reply. Another
//! long reply waits until this one is complete. All other messages may be sent between the parts.

use crate::command::{Command, Parts};
use openflow::{Body, Dialect, Message};
use std::collections::VecDeque;
use units::Millis;

/// A deferred update has a match of two flows, so it takes about this many times the memory of its encoded form.
const MEMORY_PER_BYTE: usize = 16;

/// A long reply whose remaining parts have not been made, and what follows it.
#[derive(Debug)]
pub(crate) struct LongReply {
    /// `None`: all parts were made.
    parts: Option<(Parts, Dialect)>,
    /// Commands that are carried out after the last part, in this order.
    following: VecDeque<Command>,
    /// Sum of the estimated lengths of these commands.
    following_bytes: usize,
}

/// What to do next for a long reply.
#[derive(Debug)]
pub(crate) enum Next {
    /// Send a part.
    Part(Message, Dialect),
    /// All parts were made.
    PartsEnd,
    /// Carry out a command that follows the reply.
    Command(Command),
    /// Nothing is left.
    End,
}

impl LongReply {
    pub(crate) fn new(parts: Parts, dialect: Dialect) -> LongReply {
        LongReply { parts: Some((parts, dialect)), following: VecDeque::new(), following_bytes: 0 }
    }

    /// The next step.
    pub(crate) fn next(&mut self, now: Millis) -> Next {
        if let Some((parts, dialect)) = &mut self.parts {
            if let Some(part) = parts.next(now) {
                return Next::Part(part, *dialect);
            }
            self.parts = None;
            return Next::PartsEnd;
        }
        let Some(command) = self.following.pop_front() else { return Next::End };
        self.following_bytes -= command.bytes();
        match command {
            Command::Parts(parts, dialect) => {
                self.parts = Some((parts, dialect));
                self.next(now)
            }
            other => Next::Command(other),
        }
    }

    /// Keeps the command if it must follow the reply; otherwise returns it.
    pub(crate) fn defer(&mut self, command: Command) -> Option<Command> {
        if !must_follow(&command) {
            return Some(command);
        }
        self.following_bytes += command.bytes();
        self.following.push_back(command);
        None
    }

    /// The memory of the deferred commands in bytes, estimated.
    pub(crate) fn deferred_memory(&self) -> usize {
        self.following_bytes * MEMORY_PER_BYTE
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
