//! Reads the parameters of bonds and LACP from a `Port` row and its interfaces.

use crate::row::Row;
use bond::{Mode, Settings};
use settings::interface::{LACP_AGGREGATION_KEY, LACP_PORT_ID, LACP_PORT_PRIORITY};
use settings::port::{
    ALL_MEMBERS_ACTIVE, BOND_DOWNDELAY, BOND_HASH_BASIS, BOND_MODE, BOND_PRIMARY, BOND_REBALANCE_INTERVAL,
    BOND_UPDELAY, LACP, LACP_FALLBACK_AB, LACP_SYSTEM_ID, LACP_SYSTEM_PRIORITY, LACP_TIME, LB_OUTPUT_ACTION,
};
use std::collections::BTreeMap;
use units::Millis;

/// LACP on a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LacpConfig {
    /// The port sends messages even if the partner has sent none.
    pub active: bool,
    /// System id as text; `None`: the bridge's address.
    pub system: Option<String>,
    /// System priority.
    pub priority: Option<u16>,
    /// The port requests a message every second instead of every 30 seconds.
    pub fast: bool,
}

/// LACP parameters of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LacpLink {
    /// Port number; `None`: the OpenFlow port number.
    pub number: Option<u16>,
    /// Port priority.
    pub priority: u16,
    /// Key; 0: the port number of the first link.
    pub key: u16,
}

impl LacpLink {
    /// Reads `other_config` of an interface.
    pub(crate) fn read(other_config: &BTreeMap<String, String>) -> LacpLink {
        let number = |n: i64| u16::try_from(n).unwrap_or_default();
        LacpLink {
            number: LACP_PORT_ID.opt_number(other_config).map(number),
            priority: number(LACP_PORT_PRIORITY.number(other_config)),
            key: number(LACP_AGGREGATION_KEY.number(other_config)),
        }
    }
}

/// Reads a port's LACP parameters; `None` if LACP is off.
pub(crate) fn lacp(row: &Row<'_>) -> Option<LacpConfig> {
    let active = match row.str(LACP.column) {
        "active" => true,
        "passive" => false,
        _ => return None,
    };
    let other_config = row.map("other_config");
    let priority = LACP_SYSTEM_PRIORITY.opt_number(&other_config);
    Some(LacpConfig {
        active,
        system: LACP_SYSTEM_ID.get(&other_config).map(str::to_owned),
        priority: priority.and_then(|n| u16::try_from(n).ok()),
        fast: LACP_TIME.get(&other_config).is_some_and(|text| text.eq_ignore_ascii_case("fast")),
    })
}

/// Reads a port's bond parameters.
pub(crate) fn bond(row: &Row<'_>) -> Settings {
    /// The shortest interval between rebalances in milliseconds; shorter intervals are raised to it.
    const LEAST_INTERVAL: u64 = 1000;
    let other_config = row.map("other_config");
    let delay = |n: Option<i64>| Millis(n.and_then(|n| u64::try_from(n).ok()).unwrap_or_default());
    let interval = BOND_REBALANCE_INTERVAL.number(&other_config).unsigned_abs();
    let mode = Mode::parse(row.str(BOND_MODE.column)).unwrap_or_default();
    let fallback = LACP_FALLBACK_AB.flag_of(&other_config);
    let has_primary = mode == Mode::ActiveBackup || fallback;
    Settings {
        name: row.str("name").to_owned(),
        mode,
        up_delay: delay(row.opt_int(BOND_UPDELAY.column)),
        down_delay: delay(row.opt_int(BOND_DOWNDELAY.column)),
        basis: BOND_HASH_BASIS.number(&other_config) as u32,
        rebalance_interval: Millis(if interval == 0 { 0 } else { interval.max(LEAST_INTERVAL) }),
        primary: BOND_PRIMARY.get(&other_config).filter(|_| has_primary).map(str::to_owned),
        all_active: ALL_MEMBERS_ACTIVE.flag_of(&other_config),
        fallback,
        lb_output: mode == Mode::BalanceTcp && LB_OUTPUT_ACTION.flag_of(&other_config),
    }
}
