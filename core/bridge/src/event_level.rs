//! Log levels of protocol events.

/// The log level of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Events that the administrator should look at.
    Warn,
    /// For information.
    Info,
    /// For debugging.
    Debug,
}
