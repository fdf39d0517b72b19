//! One command of the table, and the programs that offer it.

use bitflags::bitflags;

bitflags! {
    /// The programs that offer a command, and the options that they need for it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OfferedBy: u8 {
        /// The switch, always.
        const SWITCH = 1;
        /// The switch, after DPDK was initialized.
        const SWITCH_WITH_DPDK = 1 << 1;
        /// The switch with `--enable-dummy`.
        const SWITCH_WITH_DUMMIES = 1 << 2;
        /// The switch with `--enable-panic`.
        const SWITCH_WITH_PANIC = 1 << 3;
        /// The database server.
        const DATABASE = 1 << 4;
    }
}

impl OfferedBy {
    /// The switch, with all options except `--enable-panic`.
    pub const ANY_SWITCH: OfferedBy =
        OfferedBy::SWITCH.union(OfferedBy::SWITCH_WITH_DPDK).union(OfferedBy::SWITCH_WITH_DUMMIES);
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
    /// The programs that offer the command.
    pub offered_by: OfferedBy,
    /// The purpose of the command in a few words; empty if no manual page lists the command.
    pub help: &'static str,
    /// Whether the manual page of `sluice appctl` lists the command, because it is often used.
    pub common: bool,
}
