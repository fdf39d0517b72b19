//! Operating system services for every daemon and tool: the clock with virtual time, the event loop, the log,
//! start-up as a daemon, directories, coverage counters and memory reports.
//!
//! Nothing in this crate is specific to switching.

pub mod background;
pub mod clock;
pub mod coverage;
pub mod cpu_time;
pub mod daemon;
pub mod dirs;
mod error_text;
pub mod log;
pub mod memory;
pub mod ordered_panic;
pub mod poll_loop;
pub mod program;
pub mod signals;
pub mod spinning;
pub mod turn_watchdog;
mod waker;

pub use clock::{Clock, Warp};
pub use dirs::Dirs;
pub use error_text::error_text;
pub use log::{Module, RateLimit};
pub use poll_loop::{PollLoop, WaitSet, Waker};

/// The release of Open vSwitch whose interfaces Sluice implements; part of `version` replies.
pub const COMPAT_VERSION: &str = "3.7.1";

/// The text of `--version` and of the `version` command.
pub fn version_text(progname: &str) -> String {
    format!("{progname} (Open vSwitch) {COMPAT_VERSION}")
}
