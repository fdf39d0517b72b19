//! Helpers of connection tracking: FTP and TFTP open connections that only their control connection announces.
//!
//! ```text
//! ftp.rs           what a segment of an FTP control connection announces
//! skew.rs          shifts of sequence numbers after text was replaced by text of another length
//! expectations.rs  expected connections, by control connection
//! ```
//!
//! This crate knows no connections: the tracker passes it payloads and ends, and queries it for the first
//! packets of connections.

mod expectations;
pub mod ftp;
mod skew;

pub use expectations::{EXPECTED_MAX, Ends, Expectation, Expectations, PER_PARENT, Parent};
pub use skew::Skew;

#[cfg(test)]
mod tests;
