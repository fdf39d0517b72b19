//! The configuration of `Datapath` rows: settings for all bridges of one datapath type.

use crate::row::Row;
use ovsdb::Uuid;
use std::collections::BTreeMap;

/// A row of `Datapath`, with the rows of `CT_Zone` to which it refers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatapathConfig {
    /// UUID of the row.
    pub uuid: Uuid,
    /// Maximum number of connections in each zone without a limit of its own.
    pub default_limit: Option<u32>,
    /// Maximum number of connections in single zones.
    pub zone_limits: BTreeMap<u16, u32>,
}

impl DatapathConfig {
    pub(crate) fn read(row: &Row<'_>) -> DatapathConfig {
        let limit = |n: i64| u32::try_from(n).ok();
        let zones = row.int_references("ct_zones", "CT_Zone");
        let limit_of = |(zone, row): (i64, Row<'_>)| {
            Some((u16::try_from(zone).ok()?, row.opt_int("limit").and_then(limit)?))
        };
        DatapathConfig {
            uuid: row.uuid,
            default_limit: row.opt_int("ct_zone_default_limit").and_then(limit),
            zone_limits: zones.into_iter().filter_map(limit_of).collect(),
        }
    }

    /// Whether the database sets a limit. Commands must not change limits then.
    pub fn has_limits(&self) -> bool {
        self.default_limit.is_some() || !self.zone_limits.is_empty()
    }
}
