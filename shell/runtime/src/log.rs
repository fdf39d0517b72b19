//! The log ("vlog"): modules with a level per destination, patterns, rate limits.
//!
//! A module is a static; a message that no destination accepts costs a few relaxed loads. The state is process-wide, so
//! that no function needs a log as an argument. Any thread may log. Lines and replies are those of Open vSwitch 3.7.
//!
//! A [`line::Line`] contains the destinations that were configured when it was logged. The thread that logs it writes it
//! at once; after [`start_writer`] the writer thread writes it. No lock is held while a line is formatted or written.

mod control;
mod format;
mod level;
mod line;
mod macros;
mod module;
mod modules;
mod panic;
mod queue;
mod rate;
mod sink;
mod spec;
mod writer;

pub use control::{
    command, set, set_file, set_max_verbosity, set_syslog_method, set_syslog_target, set_tool_defaults,
    start_writer,
};
pub use format::moment_text;
pub use level::{Dest, Level};
pub use module::{Module, init, set_thread_name};
pub use panic::install as log_panics;
pub use rate::RateLimit;
pub use writer::{flush, never_wait};
