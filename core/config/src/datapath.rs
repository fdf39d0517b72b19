//! The configuration of `Datapath` rows: settings for all bridges of one datapath type.

use crate::row::Row;
use ovsdb::Uuid;
use std::collections::BTreeMap;

/// A row of `Datapath`, and the rows of `CT_Zone` to which it refers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatapathConfig {
    /// UUID of the row.
    pub uuid: Uuid,
    /// Maximum number of connections in each zone without a limit of its own.
    pub default_limit: Option<u32>,
    /// Maximum number of connections in single zones.
    pub zone_limits: BTreeMap<u16, u32>,
    /// Timeouts of the connections of single zones.
    pub zone_timeouts: BTreeMap<u16, Timeouts>,
}

/// Seconds after which a connection expires, for each of [`TIMEOUTS`]; `None`: the default timeout.
pub type Timeouts = [Option<u32>; TIMEOUTS.len()];

/// The connection states that have a timeout, by their names in `CT_Timeout_Policy`, in the order of the datapath.
const TIMEOUTS: [&str; 11] = [
    "tcp_syn_sent",
    "tcp_syn_recv",
    "tcp_established",
    "tcp_fin_wait",
    "tcp_time_wait",
    "tcp_close",
    "udp_first",
    "udp_single",
    "udp_multiple",
    "icmp_first",
    "icmp_reply",
];

impl DatapathConfig {
    pub(crate) fn read(row: &Row<'_>) -> DatapathConfig {
        let limit = |n: i64| u32::try_from(n).ok();
        let zones = row.int_references("ct_zones", "CT_Zone");
        let limit_of = |(zone, row): &(i64, Row<'_>)| {
            Some((u16::try_from(*zone).ok()?, row.opt_int("limit").and_then(limit)?))
        };
        let timeouts_of = |(zone, row): &(i64, Row<'_>)| {
            let policy = row.references("timeout_policy", "CT_Timeout_Policy").into_iter().next()?;
            let seconds = policy.int_map("timeouts");
            let timeouts = TIMEOUTS.map(|name| seconds.get(name).and_then(|n| u32::try_from(*n).ok()));
            Some((u16::try_from(*zone).ok()?, timeouts))
        };
        DatapathConfig {
            uuid: row.uuid,
            default_limit: row.opt_int("ct_zone_default_limit").and_then(limit),
            zone_limits: zones.iter().filter_map(limit_of).collect(),
            zone_timeouts: zones.iter().filter_map(timeouts_of).collect(),
        }
    }

    /// Whether the database sets a limit. If so, commands must not change limits.
    pub fn has_limits(&self) -> bool {
        self.default_limit.is_some() || !self.zone_limits.is_empty()
    }
}
