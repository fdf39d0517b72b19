//! The path of one batch, a file per stage.

pub mod port;
