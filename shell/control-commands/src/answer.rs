//! The result of a command, or the event that the command waits for.

use crate::verify::Verify;
use runtime::clock::Warp;
use unixctl::{LongText, Reply, RequestId};

/// The result of a command, or the event that the command waits for.
pub enum Answer {
    /// The result.
    Now(Result<Reply, String>),
    /// Text that is produced while the client reads it.
    Long(LongText),
    /// The reply is sent later, when this event has happened.
    Later(Wait),
}

impl From<String> for Answer {
    fn from(text: String) -> Answer {
        Answer::Now(Ok(Reply::Text(text)))
    }
}

impl From<&str> for Answer {
    fn from(text: &str) -> Answer {
        Answer::from(text.to_owned())
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Answer {
        Answer::Now(Ok(reply))
    }
}

impl From<Result<String, String>> for Answer {
    fn from(result: Result<String, String>) -> Answer {
        Answer::Now(result.map(Reply::Text))
    }
}

impl From<Result<&str, &str>> for Answer {
    fn from(result: Result<&str, &str>) -> Answer {
        Answer::from(result.map(str::to_owned).map_err(str::to_owned))
    }
}

impl From<Result<Reply, String>> for Answer {
    fn from(result: Result<Reply, String>) -> Answer {
        Answer::Now(result)
    }
}

/// The reply to an unknown command. This reply occurs only if the table of commands and the dispatcher disagree.
pub(crate) fn unknown(name: &str) -> Answer {
    Answer::Now(Err(format!("\"{name}\" is not a valid command")))
}

/// A command that has not been answered yet.
pub struct Pending {
    /// Identifies the request.
    pub id: RequestId,
    /// What the command waits for.
    pub wait: Wait,
}

/// What a command waits for.
pub enum Wait {
    /// A warp: virtual time advances step by step.
    Warp(Warp),
    /// The next check, after the last step of a warp. After a warp of one step it is still in the same turn.
    Warped,
    /// Revalidation of all megaflows.
    Revalidated {
        /// The command was checked once, in the turn of its request. The revalidator is checked from the next turn on.
        checked_once: bool,
    },
    /// The comparison of all megaflows with the tables.
    Verified(Verify),
    /// The end of the process: the reply is sent when everything is closed.
    Exit,
}
