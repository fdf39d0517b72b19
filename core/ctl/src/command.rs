//! One command of the table, and the programs that offer it.

use bitflags::bitflags;

bitflags! {
    /// The programs that offer a command, and with which option.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct By: u8 {
        /// The switch, always.
        const SWITCH = 1;
        /// The switch, once DPDK is initialized.
        const SWITCH_WITH_DPDK = 1 << 1;
        /// The switch with `--enable-dummy`.
        const SWITCH_WITH_DUMMIES = 1 << 2;
        /// The switch with `--enable-panic`.
        const SWITCH_WITH_PANIC = 1 << 3;
        /// The database server.
        const DATABASE = 1 << 4;
    }
}

impl By {
    /// The switch in normal operation, not started with options for tests.
    pub const ANY_SWITCH: By = By::SWITCH.union(By::SWITCH_WITH_DPDK).union(By::SWITCH_WITH_DUMMIES);
}

/// One command of the control socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The name, such as `fdb/show`.
    pub name: &'static str,
    /// The arguments, as `list-commands` shows them.
    pub usage: &'static str,
    /// Minimum number of arguments.
    pub min_args: usize,
    /// Maximum number of arguments.
    pub max_args: usize,
    /// Whether `list-commands` shows the command.
    pub listed: bool,
    /// The programs that offer it.
    pub by: By,
    /// What it does, in a few words; empty if no manual page lists it.
    pub help: &'static str,
    /// It is one of the most used commands.
    pub common: bool,
}
