//! Errors in texts of flows and actions.

use thiserror::Error;

/// Why a text is no flow or no actions.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TextError {
    /// What stands here is not understood.
    #[error("syntax error at {0}")]
    Syntax(String),
    /// Lists in lists in lists.
    #[error("too deeply nested")]
    Depth,
}
