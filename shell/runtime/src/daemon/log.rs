//! The log module of messages about start-up, and the text of errors.

use crate::log::Module;

pub(super) static LOG: Module = Module::new("daemon_unix");

/// The system's text for an error.
pub(super) fn text(e: impl Into<std::io::Error>) -> String {
    crate::error_text(&e.into())
}
