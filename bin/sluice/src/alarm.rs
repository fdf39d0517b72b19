//! `--timeout`: ends a tool that takes too long with SIGALRM, as the tools of Open vSwitch do.

use runtime::Module;
use std::time::Duration;

static FATAL_SIGNAL: Module = Module::new("fatal_signal");
const SIGALRM: i32 = 14;

/// Ends the process with SIGALRM after `seconds`, unless it has ended before.
pub fn set(seconds: u32) {
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(seconds.into()));
        expire()
    });
}

/// Ends the process with SIGALRM.
pub fn expire() -> ! {
    runtime::warn!(FATAL_SIGNAL, "terminating with signal {SIGALRM} (Alarm clock)");
    runtime::signals::Signals::die(SIGALRM)
}
