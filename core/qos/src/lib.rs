//! What a port may send: policers, which drop what exceeds a rate, and a shaper, which delays it.
//!
//! ```text
//! outcome.rs      what is counted, and what is refused
//! tokens.rs       bytes that may pass by now
//! single_rate.rs  `egress-policer`: one rate, one burst
//! two_rate.rs     `trtcm-policer`: a committed and an excess rate, of the port and of each queue (RFC 4115)
//! shaper/         `linux-htb` without a kernel: queues with a guaranteed and a highest rate under the rate of the port
//! ```
//!
//! Pure: the caller gives the time. The item that a shaper holds is a type parameter, as only its length matters here.

mod outcome;
pub mod shaper;
mod single_rate;
mod tokens;
mod two_rate;

pub use outcome::{Invalid, QueueCounts};
pub use shaper::{ClassSpec, Shaper, ShaperSpec};
pub use single_rate::{SingleRate, SingleRateSpec};
pub use two_rate::{TwoRate, TwoRateSpec, TwoRateTree};
