//! IPFIX (RFC 7011): sampled packets, summed up by flow in a cache.
//!
//! An exporter has a cache of flows. A sample creates an entry or is added to one. The record of an entry is sent when the
//! entry has been in the cache for the timeout, when the cache is full, or when the exporter ends. The templates, which
//! describe the records, are sent before the first record of each observation domain and then at an interval.

mod cache;
mod element;
mod exporter;
mod record;
mod sample;
mod template;
#[cfg(test)]
mod tests;

pub use exporter::{Exporter, Settings, Stats};
pub use sample::{Direction, IpfixSample, SampledTunnel};
