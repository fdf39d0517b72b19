//! One `Controller` row.

use crate::row::{Row, map_int};
use ovsdb::Uuid;
use std::collections::BTreeMap;
use units::Millis;

/// What is wanted of the connection to one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerConfig {
    /// Its row.
    pub uuid: Uuid,
    /// `tcp:…`, `unix:…`, `ptcp:…`, `punix:…`
    pub target: String,
    /// Longest wait between two attempts.
    pub max_backoff: Millis,
    /// An idle connection is probed after this long; `None`: never.
    pub inactivity_probe: Option<Millis>,
    /// Whether it gets asynchronous messages until it asks otherwise.
    pub async_messages: bool,
    /// `other_config`
    pub other_config: BTreeMap<String, String>,
}

impl ControllerConfig {
    /// Reads a row. Back-off: at least 1 s, default 8 s. Probe: 0 is off, below 5 s becomes 5 s, default 5 s.
    pub fn read(row: &Row<'_>) -> ControllerConfig {
        let probe = match row.opt_int("inactivity_probe") {
            None => Some(Millis(5000)),
            Some(..=0) => None,
            Some(v) => Some(Millis(v.max(5000) as u64)),
        };
        ControllerConfig {
            uuid: row.uuid,
            target: row.str("target").to_owned(),
            max_backoff: Millis(row.opt_int("max_backoff").unwrap_or(8000).max(1000) as u64),
            inactivity_probe: probe,
            async_messages: row.opt_bool("enable_async_messages").unwrap_or(true),
            other_config: row.map("other_config"),
        }
    }

    /// `other_config:dscp`, 48 (CS6) where it is absent or out of range.
    pub fn dscp(&self) -> u8 {
        map_int(&self.other_config, "dscp", (0, 63), 48) as u8
    }
}
