//! QoS of ports: rows of `QoS` and `Queue`, and the policing columns of `Interface`. **Thread**: the main loop.
//!
//! | file | what |
//! |---|---|
//! | `configure.rs` | applies rows to ports |
//! | `rates.rs` | rates in the settings of `linux-htb` and `linux-hfsc` |
//! | `kernel.rs` | queueing disciplines of kernel devices |
//! | `egress.rs` | policers and shapers of ports without a kernel device |
//! | `show.rs` | counters and settings for commands and controllers |

mod configure;
mod egress;
mod kernel;
mod rates;
mod show;

pub(crate) use configure::police;
pub use show::{queue_counts, statistics};
