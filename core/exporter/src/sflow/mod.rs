//! sFlow version 5: sampled packets and counters of ports.
//!
//! Each bridge is an agent of its own, with its own number (sub-agent) under one address. Samples and counters are collected in
//! one datagram, which is sent when it is full or a second has passed.

mod agent;
mod counters;
mod datagram;
mod sample;
#[cfg(test)]
mod tests;

pub use agent::{Agent, Settings};
pub use counters::{Block, DatapathCounters, EthernetErrors, IfCounters, LacpCounters, Resources, UNKNOWN};
pub use sample::{Outer, Output, Sample};

/// What is sampled or counted (sFlow: data source).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The interface with this index.
    Interface(u32),
    /// The bridge whose agent has this number.
    Bridge(u32),
}

impl Source {
    /// Class and index in one word.
    fn word(self) -> u32 {
        // Class 2: a physical entity. Numbers up to 999 are left to entities of the host.
        match self {
            Source::Interface(index) => index & 0x00ff_ffff,
            Source::Bridge(agent) => 2 << 24 | (1000 + agent) & 0x00ff_ffff,
        }
    }
}
