//! One `Controller` row.

use crate::row::Row;
use crate::settings::Value;
use crate::settings::connection::{ENABLE_ASYNC_MESSAGES, INACTIVITY_PROBE, MAX_BACKOFF};
use ovsdb::Uuid;
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
}

impl ControllerConfig {
    /// Reads a row. A probe of 0 is none.
    pub fn read(row: &Row<'_>) -> ControllerConfig {
        let probe = match row.opt_int("inactivity_probe") {
            Some(..=0) => None,
            given => INACTIVITY_PROBE.hold(given).map(|ms| Millis(ms as u64)),
        };
        ControllerConfig {
            uuid: row.uuid,
            target: row.str("target").to_owned(),
            max_backoff: Millis(MAX_BACKOFF.hold(row.opt_int("max_backoff")).unwrap_or_default() as u64),
            inactivity_probe: probe,
            async_messages: row
                .opt_bool("enable_async_messages")
                .unwrap_or(ENABLE_ASYNC_MESSAGES.value == Value::Bool(true)),
        }
    }
}
