//! The early end of a command: failure, or output that cannot be written.

use std::io::Write;

/// Why a command ended early.
#[derive(Debug)]
pub enum Fail {
    /// The error text, to be printed to standard error after the tool's name.
    Message(String),
    /// Exit with this status, without a further text.
    ExitStatus(u8),
}

/// Fails with this text.
pub fn fail<T>(text: impl Into<String>) -> Result<T, Fail> {
    Err(Fail::Message(text.into()))
}

impl From<flow::text::TextError> for Fail {
    fn from(e: flow::text::TextError) -> Fail {
        Fail::Message(e.0)
    }
}

/// Prints to standard output. If the reader has closed the pipe, the command ends.
pub fn print(text: &str) -> Result<(), Fail> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|_| Fail::ExitStatus(1))
}
