//! The configuration of one `Controller` row.

use crate::row::Row;
use ovsdb::Uuid;
use settings::connection::{
    CONNECTION_MODE, CONTROLLER_BURST_LIMIT, CONTROLLER_QUEUE_SIZE, CONTROLLER_RATE_LIMIT,
    ENABLE_ASYNC_MESSAGES, INACTIVITY_PROBE, MAX_BACKOFF,
};
use settings::{Setting, Value};
use units::Millis;

/// The desired configuration of the connection to one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerConfig {
    /// UUID of the controller's row.
    pub uuid: Uuid,
    /// The target: `tcp:…`, `ssl:…`, `unix:…`, `ptcp:…`, `pssl:…` or `punix:…`.
    pub target: String,
    /// Whether the controller is reached through the bridge itself.
    pub in_band: bool,
    /// Longest time between two connection attempts.
    pub max_backoff: Millis,
    /// Idle time after which the connection is probed; `None`: never.
    pub inactivity_probe: Option<Millis>,
    /// Whether asynchronous messages are sent to the controller before it configures them.
    pub async_messages: bool,
    /// Maximum number of packet-ins queued for the controller; `None`: the bridge's setting.
    pub queue_size: Option<usize>,
    /// Maximum number of packet-ins per second; `None`: no limit.
    pub rate_limit: Option<u32>,
    /// Burst of the rate limit in packet-ins; `None`: a quarter of the rate.
    pub burst_limit: Option<u32>,
}

impl ControllerConfig {
    /// Whether the switch connects to this controller. Targets of unknown kinds are ignored.
    pub fn is_active(&self) -> bool {
        ["tcp:", "ssl:", "unix:"].iter().any(|kind| self.target.starts_with(kind))
    }

    /// Reads a row. A probe interval of 0 disables the probe.
    pub fn read(row: &Row<'_>) -> ControllerConfig {
        let probe = match row.opt_int("inactivity_probe") {
            Some(..=0) => None,
            given => INACTIVITY_PROBE.effective_number(given).map(|ms| Millis(ms as u64)),
        };
        let number = |setting: &Setting| {
            setting.effective_number(row.opt_int(setting.column)).and_then(|n| u32::try_from(n).ok())
        };
        ControllerConfig {
            uuid: row.uuid,
            target: row.str("target").to_owned(),
            in_band: is_in_band(row),
            max_backoff: Millis(
                MAX_BACKOFF.effective_number(row.opt_int("max_backoff")).unwrap_or_default() as u64
            ),
            inactivity_probe: probe,
            async_messages: row
                .opt_bool("enable_async_messages")
                .unwrap_or(ENABLE_ASYNC_MESSAGES.value == Value::Bool(true)),
            queue_size: number(&CONTROLLER_QUEUE_SIZE).map(|n| n as usize),
            rate_limit: number(&CONTROLLER_RATE_LIMIT),
            burst_limit: number(&CONTROLLER_BURST_LIMIT),
        }
    }
}

/// Whether the row of a controller or manager requests in-band control, which is the default.
pub(crate) fn is_in_band(row: &Row<'_>) -> bool {
    row.opt_str(CONNECTION_MODE.column) != Some("out-of-band")
}
