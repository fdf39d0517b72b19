//! Takes sampled packets from the datapath, passes them to the exporters of their bridge, and sends the datagrams to collectors.
//!
//! | file | what | threads |
//! |---|---|---|
//! | `exporters.rs` | the exporters of all bridges: what other threads call | any |
//! | `queue.rs` | the bounded queue of sampled packets | workers, handlers; the exporter thread takes |
//! | `samples.rs` | sFlow and IPFIX by bridge | exporter thread, main loop |
//! | `netflows.rs` | NetFlow by bridge | threads that credit megaflows, exporter thread |
//! | `collectors.rs` | the sockets | exporter thread, main loop |
//! | `settings.rs` | what the database configures | main loop |
//!
//! A worker never waits here: it copies the beginning of a packet into the queue, and drops the sample if the queue is full. In
//! dummy mode there is no thread: the main loop does its work, so that all consequences of a packet are complete when a command
//! is answered.

mod collectors;
mod exporters;
mod netflows;
mod queue;
mod samples;
mod settings;
#[cfg(test)]
mod tests;

pub use exporters::Exporters;
pub use queue::SampledPacket;
pub use settings::{BridgeIpfix, BridgeSettings, Enabled, Ipfix, Netflow, Sflow};
