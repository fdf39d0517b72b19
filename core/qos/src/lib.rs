//! QoS of a port: policers, which drop packets that exceed a rate, and a shaper, which delays them.
//!
//! ```text
//! counts_and_errors.rs  counters and errors
//! tokens.rs       token bucket of bytes
//! single_rate.rs  `egress-policer`: one rate, one burst
//! two_rate.rs     `trtcm-policer`: a committed and an excess rate, of the port and of each queue (RFC 4115)
//! shaper/         `linux-htb` without a kernel: queues with guaranteed and maximum rates within the rate of the port
//! ```
//!
//! The code reads no clock: the caller passes the time. The type of a packet is a type parameter of the shaper, because
//! the shaper only needs the packet's length.

mod counts_and_errors;
pub mod shaper;
mod single_rate;
mod tokens;
mod two_rate;

pub use counts_and_errors::{InvalidRates, QueueCounts};
pub use shaper::{ClassSpec, Shaper, ShaperSpec};
pub use single_rate::{SingleRate, SingleRateSpec};
pub use two_rate::{TwoRate, TwoRateSpec, TwoRateTree};
