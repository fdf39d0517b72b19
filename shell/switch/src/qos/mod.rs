//! QoS of ports: rows of `QoS` and `Queue`, and the policing columns of `Interface`. **Thread**: the main loop.
//!
//! | file | what |
//! |---|---|
//! | `configure.rs` | from rows to ports |
//! | `rates.rs` | what the settings of the types of Linux mean |
//! | `kernel.rs` | queueing disciplines of kernel devices |
//! | `egress.rs` | policers and shapers of ports that have no kernel behind them |
//! | `show.rs` | what commands and controllers ask |

mod configure;
mod egress;
mod kernel;
mod rates;
mod show;

pub(crate) use configure::police;
pub use show::{queue_counts, statistics};
