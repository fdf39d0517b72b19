//! Receives sampled packets from the datapath, passes them to the exporters of their bridge, and sends the datagrams to
//! collectors.
//!
//! | file | what | threads |
//! |---|---|---|
//! | `exporters.rs` | the exporter thread, and its interface for other threads | any |
//! | `queue.rs` | the bounded queue of sampled packets | workers and handlers add; the exporter thread removes |
//! | `sample_exporters.rs` | sFlow and IPFIX by bridge | exporter thread, main loop |
//! | `netflows.rs` | NetFlow by bridge | threads that read megaflow counters, exporter thread |
//! | `collectors.rs` | the sockets | exporter thread, main loop |
//! | `settings.rs` | the settings in the database | main loop |
//!
//! A worker never waits in this crate: it copies the beginning of a packet into the queue, and drops the sample if the queue
//! is full. In dummy mode there is no exporter thread: the main loop does its work, so that all effects of a packet are
//! complete when a command is answered.

mod collectors;
mod exporters;
mod netflows;
mod queue;
mod sample_exporters;
mod settings;
#[cfg(test)]
mod tests;

pub use exporters::Exporters;
pub use queue::SampledPacket;
pub use settings::{BridgeIpfix, BridgeSettings, Ipfix, Netflow, SamplingProbabilities, Sflow};
