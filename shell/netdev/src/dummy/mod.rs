//! `dummy`, `dummy-internal`, `dummy-pmd`: ports without an operating system under them.
//!
//! Frames come from a control command, from a stream (`options:stream`, `options:pstream`) or as the
//! answer to an ARP request for an address given by command; what is sent goes to the stream and to a
//! pcap file. The test-suites drive the whole switch through them. State lies behind one lock: these
//! ports are for exactness, not speed.

mod arp;
mod pcap;
mod port;
mod queue;
mod state;
mod stream;

pub use port::Dummy;
pub use state::{ConnState, DummyHandle, InjectError, Notes};
