//! Bonds: several links of a bridge that are used as one port, and the protocol (LACP) that coordinates them
//! with the other end.
//!
//! This crate does not wait, send or read a clock. Its inputs are time, link states, received frames and byte counts;
//! its outputs are frames to send, the choice of links, and the time of the next call. [`Bond`] belongs to the main
//! loop. [`View`] is the immutable choice of links that translations read. [`lacp::Aggregation`] implements LACP; its
//! results determine which links of a bond may carry traffic.

mod active;
mod bond;
mod buckets;
mod commands;
pub mod lacp;
mod link;
mod link_state;
mod plan;
mod rebalance;
mod settings;
mod sharing;
mod show;
mod view;

pub use bond::{Bond, BucketRule};
pub use buckets::{BUCKETS, station_hash};
pub use link::{Link, LinkFacts};
pub use settings::{Mode, Settings};
pub use view::{Admission, Choice, Tally, View};

#[cfg(test)]
mod tests;
