//! Logs lines about ports of guests and of DPDK under the module name that Open vSwitch uses for them.

use netdev::guest_log::Level as Theirs;
use runtime::Module;
use runtime::log::Level;

pub(crate) static PORTS: Module = Module::new("netdev_dpdk");

/// Logs a line about a guest's port. Called on any thread.
pub(crate) fn log_line(level: Theirs, line: &str) {
    let level = match level {
        Theirs::Error => Level::Err,
        Theirs::Warning => Level::Warn,
        Theirs::Info => Level::Info,
    };
    runtime::log_at!(PORTS, level, "{line}");
}
