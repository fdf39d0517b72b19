//! Log lines about guests.

use std::sync::OnceLock;

/// Severity of a line; lower is more severe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something failed.
    Error,
    /// Something is wrong, or will be.
    Warning,
    /// Worth a line.
    Info,
}

/// Receives log lines, on any thread. It must be quick and must not block.
pub type Sink = fn(Level, &str);

static SINK: OnceLock<Sink> = OnceLock::new();

/// Sends lines to `sink` for the rest of the process. Later calls do nothing.
pub fn divert(sink: Sink) {
    let _ = SINK.set(sink);
}

/// Logs a line about a guest's port.
pub fn say(level: Level, text: &str) {
    if let Some(sink) = SINK.get() {
        sink(level, text);
    }
}
