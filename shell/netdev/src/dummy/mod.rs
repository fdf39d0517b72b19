//! `dummy`, `dummy-internal`, `dummy-pmd`: ports without an operating system under them.
//!
//! Received frames come from a control command, from a stream (`options:stream`, `options:pstream`), or as the answer
//! to an ARP request for an address set by command. Sent frames go to the stream and to a pcap file. The test suites
//! drive the whole switch through dummies. Their state is behind one lock: they are made for exactness, not speed.

mod arp;
mod checksums;
mod pcap;
mod port;
mod queue;
mod state;
mod stream;

pub use port::Dummy;
pub use state::{ChangedDummies, ConnState, DummyHandle, InjectError};
