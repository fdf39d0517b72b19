//! Helpers of connection tracking: FTP and TFTP open connections that only their control connection announces.
//!
//! ```text
//! ftp.rs           what a segment of an FTP control connection announces
//! skew.rs          sequence numbers of a connection whose text was replaced by text of another length
//! expectations.rs  connections that are expected, each because of a control connection
//! ```
//!
//! Nothing here knows a connection: the tracker passes payloads and ends in, and asks about the first packets of connections.

mod expectations;
pub mod ftp;
mod skew;

pub use expectations::{EXPECTED_MAX, Ends, Expectation, Expectations, PER_PARENT, Parent};
pub use skew::Skew;

#[cfg(test)]
mod tests;
