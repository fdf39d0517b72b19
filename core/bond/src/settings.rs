//! The settings of a bond, from its row. Names and defaults are those of ovs-vswitchd.conf.db(5), table `Port`.

use units::Millis;

/// How a bond distributes its traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// One link carries all traffic.
    #[default]
    ActiveBackup,
    /// By source address and VLAN. The other end needs no configuration.
    BalanceSlb,
    /// By connection. The other end must have agreed by LACP.
    BalanceTcp,
}

impl Mode {
    /// The text in rows and commands.
    pub fn text(self) -> &'static str {
        match self {
            Mode::ActiveBackup => "active-backup",
            Mode::BalanceSlb => "balance-slb",
            Mode::BalanceTcp => "balance-tcp",
        }
    }

    /// Parses the text in a row.
    pub fn parse(text: &str) -> Option<Mode> {
        [Mode::ActiveBackup, Mode::BalanceSlb, Mode::BalanceTcp].into_iter().find(|m| m.text() == text)
    }
}

/// The settings of a bond.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The port's name.
    pub name: String,
    /// How traffic is distributed.
    pub mode: Mode,
    /// How long a link must be up before it is used.
    pub up_delay: Millis,
    /// How long a link must be down before it is no longer used.
    pub down_delay: Millis,
    /// Initial value of the hash that distributes traffic.
    pub basis: u32,
    /// Time between rebalances; 0: never.
    pub rebalance_interval: Millis,
    /// The preferred link.
    pub primary: Option<String>,
    /// Broadcasts are accepted on all links.
    pub all_active: bool,
    /// If the other end does not use LACP, the bond works as an active-backup bond.
    pub fallback: bool,
    /// The datapath itself selects the link of each bucket, so that packets are sent without a second look-up.
    pub lb_output: bool,
}
