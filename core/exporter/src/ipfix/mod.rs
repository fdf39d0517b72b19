//! IPFIX (RFC 7011): sampled packets, collected by flow in a cache.
//!
//! An exporter has a cache of flows. A sample creates an entry or adds to one. An entry is sent when it has been in the cache for
//! its timeout, when the cache is full, or when the exporter ends. Before the first record of an observation domain, and at an
//! interval, the templates are sent that describe records.

mod cache;
mod element;
mod exporter;
mod record;
mod sampled;
mod template;
#[cfg(test)]
mod tests;

pub use exporter::{Exporter, Settings, Stats};
pub use sampled::{Direction, Sampled, TunnelEnds};
