//! Bonds: several links of a bridge that are used as one port, and the protocol (LACP) that agrees on them with the other
//! end.
//!
//! Nothing here waits, sends or reads a clock: time, link states, received frames and byte counts come in; frames to send,
//! the choice of links and the time of the next call go out. [`Bond`] belongs to the main loop. [`View`] is what translations
//! see of it: an unchanging choice of links. [`lacp::Aggregation`] is the other protocol's side, and tells a bond which of
//! its links may carry traffic.

mod active;
mod bond;
mod buckets;
pub mod lacp;
mod link;
mod link_state;
mod orders;
mod plan;
mod rebalance;
mod settings;
mod sharing;
mod show;
mod view;

pub use bond::Bond;
pub use buckets::{BUCKETS, station_hash};
pub use link::{Link, LinkFacts};
pub use settings::{Mode, Settings};
pub use view::{Admission, Choice, Tally, View};

#[cfg(test)]
mod tests;
