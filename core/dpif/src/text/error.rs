//! Errors in texts of flows and actions.

use thiserror::Error;

/// Why a text is not a valid flow or list of actions.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TextError {
    /// Invalid syntax; the rest of the text from this position on.
    #[error("syntax error at {0}")]
    Syntax(String),
    /// Lists are nested too deeply.
    #[error("too deeply nested")]
    Depth,
}
