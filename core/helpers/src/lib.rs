//! Helpers of connection tracking: they track the connections that FTP and TFTP control connections announce.
//!
//! ```text
//! ftp.rs           reads announcements in segments of FTP control connections
//! skew.rs          shifts of sequence numbers after text was replaced by text of another length
//! expectations.rs  expected connections of each control connection
//! zone_shares.rs   number of expectations per zone; which expectation is evicted when the table is full
//! ```
//!
//! This crate has no table of connections: the tracker passes payloads and endpoints to it, and looks up the first packet of each
//! connection in its expectations.

mod expectations;
pub mod ftp;
mod skew;
mod zone_shares;

pub use expectations::{EXPECTED_MAX, Endpoints, Expectation, Expectations, PER_PARENT_MAX, Parent};
pub use skew::Skew;

#[cfg(test)]
mod expectation_tests;
#[cfg(test)]
mod tests;
