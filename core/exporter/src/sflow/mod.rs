//! sFlow version 5: sampled packets and counters of ports.
//!
//! Each bridge has an agent of its own, with its own number (sub-agent) under one address. An agent collects samples and
//! counters in one datagram, which is sent when it is full or a second has passed.

mod agent;
mod counters;
mod datagram;
mod sample;
mod source;
#[cfg(test)]
mod tests;

pub use agent::{Agent, Settings};
pub use counters::{
    CounterRecord, DatapathCounters, EthernetErrors, IfCounters, LacpCounters, Resources, UNKNOWN,
};
pub use sample::{OuterHeader, Output, Sample};
pub use source::Source;
