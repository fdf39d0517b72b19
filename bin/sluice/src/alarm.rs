//! `--timeout`: the end of a tool that took too long, by the signal that callers of the peer's tools look for.

use runtime::Module;
use std::time::Duration;

static FATAL_SIGNAL: Module = Module::new("fatal_signal");
const SIGALRM: i32 = 14;

/// Ends the process in so many seconds, if it still runs then.
pub fn set(seconds: u32) {
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(seconds.into()));
        ring()
    });
}

/// Ends the process now.
pub fn ring() -> ! {
    runtime::warn!(FATAL_SIGNAL, "terminating with signal {SIGALRM} (Alarm clock)");
    runtime::signals::Signals::die(SIGALRM)
}
