//! Exporters of traffic statistics: they turn sampled packets and counters into datagrams for collectors.
//!
//! | module | what | specification |
//! |---|---|---|
//! | `sflow` | sampled packets and counters of ports | sFlow version 5, sflow.org |
//! | `ipfix` | sampled packets, collected by flow | RFC 7011, RFC 7012 |
//! | `netflow` | counters of flows | NetFlow version 5 |
//!
//! Nothing here reads a clock or sends anything: the caller passes the time with each call, sends the datagrams and reports
//! how many could not be sent. All state is bounded: sFlow has one incomplete datagram, and the caches of IPFIX and NetFlow
//! have a maximum number of flows.

pub mod ipfix;
pub mod netflow;
mod now;
mod port;
pub mod sflow;
mod write;

pub use now::Now;
pub use port::{PortFacts, TunnelKind};
