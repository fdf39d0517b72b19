//! How important an event of a protocol is, for the log.

/// The log level of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The administrator should look at it.
    Warn,
    /// For information.
    Info,
    /// For debugging.
    Debug,
}
