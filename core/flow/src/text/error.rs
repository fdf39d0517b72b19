//! Errors in texts of fields, matches and flows.

use thiserror::Error;

/// Why a text is invalid. Scripts compare the message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct TextError(pub String);

impl TextError {
    pub(crate) fn new(message: impl Into<String>) -> TextError {
        TextError(message.into())
    }
}
