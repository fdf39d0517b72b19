//! `dummy`, `dummy-internal`, `dummy-pmd`: ports without a device of the operating system.
//!
//! Received frames come from a control command, from a stream (`options:stream`, `options:pstream`), or are replies
//! to ARP requests for an address that a control command assigned. Sent frames are written to the stream and to a pcap file. The test suites
//! run the complete switch with dummies. Dummies need not be fast, so one lock protects the whole state of a dummy.

mod arp;
mod checksums;
mod pcap;
mod port;
mod queue;
mod state;
mod stream;

pub use port::Dummy;
pub use state::{ChangedDummies, ConnState, DummyHandle, InjectError};
