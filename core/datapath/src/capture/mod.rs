//! Capture: copies of packets for a reader outside the datapath, with their port, megaflow and drop reason.
//!
//! A [`Capture`] specifies which packets are captured. Workers offer packets to it in three places: after the look-up
//! of a batch (`rx`), before a device gets a burst (`tx`), and where a packet is dropped. A reader gets the copies
//! with [`Capture::take`].
//!
//! **Cost.** Without a capture, no packet costs an instruction: the look-up stage is reached by the counter of the
//! shadow check (`path/inspection.rs`), the tx queues of a port are wrapped only while the port is captured
//! ([`CapturedQueue`]), and the third place is executed only for dropped packets. Offering a packet is not inlined
//! into the path.
//!
//! **Bounds.** A capture holds at most [`CaptureSpec::memory`] bytes; each packet uses its kept bytes and
//! [`OVERHEAD`]. A packet that does not fit is counted as lost, and so is a packet whose queue another thread has
//! locked: a worker never waits for a reader.

mod control;
mod copies;
mod offered;
mod queue;
mod running;
mod set;
#[cfg(test)]
mod tests;

pub use copies::{Copies, OVERHEAD, Record};
pub(crate) use offered::Offered;
pub use offered::Side;
pub(crate) use queue::CapturedQueue;
pub use running::{CAPTURES_MAX, Capture, CaptureClock, CaptureCounts, CaptureSpec};
pub(crate) use set::Captures;
