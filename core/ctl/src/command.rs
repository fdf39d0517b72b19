//! One command of the table, and who offers it.

use bitflags::bitflags;

bitflags! {
    /// Programs that offer a command, and when.
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
    /// The switch as it is run, other than in tests of its own.
    pub const ANY_SWITCH: By = By::SWITCH.union(By::SWITCH_WITH_DPDK).union(By::SWITCH_WITH_DUMMIES);
}

/// One command of the control socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The name, such as `fdb/show`.
    pub name: &'static str,
    /// The arguments, as `list-commands` shows them.
    pub usage: &'static str,
    /// Fewest arguments.
    pub min_args: usize,
    /// Most arguments.
    pub max_args: usize,
    /// Whether `list-commands` shows the command.
    pub listed: bool,
    /// The programs that offer it.
    pub by: By,
    /// What it does, in a few words; empty where no page shows it.
    pub help: &'static str,
    /// It is one of those that are used most.
    pub common: bool,
}
