//! Settings of a bond, as its row has them. Names and defaults are those of ovs-vswitchd.conf.db(5), table `Port`.

use units::Millis;

/// How a bond shares its traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// One link carries everything.
    #[default]
    ActiveBackup,
    /// By source address and VLAN. The other end need not be configured for the bond.
    BalanceSlb,
    /// By connection. The other end must have agreed by LACP.
    BalanceTcp,
}

impl Mode {
    /// As rows and commands have it.
    pub fn text(self) -> &'static str {
        match self {
            Mode::ActiveBackup => "active-backup",
            Mode::BalanceSlb => "balance-slb",
            Mode::BalanceTcp => "balance-tcp",
        }
    }

    /// From the text of a row.
    pub fn parse(text: &str) -> Option<Mode> {
        [Mode::ActiveBackup, Mode::BalanceSlb, Mode::BalanceTcp].into_iter().find(|m| m.text() == text)
    }
}

/// The settings of a bond.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The port's name.
    pub name: String,
    /// How traffic is shared.
    pub mode: Mode,
    /// How long a link must be up before it is used.
    pub up_delay: Millis,
    /// How long a link must be down before it is no longer used.
    pub down_delay: Millis,
    /// Basis of the hash that shares traffic.
    pub basis: u32,
    /// Time between rebalances; 0: never.
    pub rebalance_interval: Millis,
    /// The preferred link.
    pub primary: Option<String>,
    /// Broadcasts are accepted on all links.
    pub all_active: bool,
    /// Without LACP of the other end, works as active-backup.
    pub fallback: bool,
    /// The datapath knows which link has which bucket, so that packets are not looked up again to be sent.
    pub lb_output: bool,
}
