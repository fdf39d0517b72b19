//! Settings of connections.

use openflow::VersionSet;
use std::path::PathBuf;
use units::Millis;

/// What kind of peer a connection has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnKind {
    /// A tool that connected to the management socket (`BRIDGE.mgmt`).
    Tool,
    /// A controller of the configuration.
    Controller,
}

/// Settings of the connection to a controller, or to a tool ([`ConnSettings::of_tool`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnSettings {
    /// `tcp:…`, `ssl:…`, `unix:…`, `ptcp:…`, `pssl:…`, `punix:…`
    pub target: String,
    /// Longest delay between attempts to connect.
    pub max_backoff: Millis,
    /// An idle connection is probed after this time; `None`: never.
    pub inactivity_probe: Option<Millis>,
    /// Whether the controller gets asynchronous messages by default.
    pub async_messages: bool,
    /// Limit of packet-ins that wait to be written to the controller.
    pub queue_size: usize,
    /// Packet-ins per second, separately for misses and actions; `None` or 0: unlimited.
    pub rate_limit: Option<u32>,
    /// Size of the token bucket, and limit of the packet-ins that wait for a token; `None`: a quarter of the rate.
    pub burst_limit: Option<u32>,
}

impl ConnSettings {
    /// Settings of the connection to a tool, which connected to the management socket.
    pub(crate) fn of_tool(queue_size: usize) -> ConnSettings {
        let probe = Some(Millis::from_secs(60));
        ConnSettings {
            target: String::new(),
            max_backoff: Millis::from_secs(8),
            inactivity_probe: probe,
            async_messages: true,
            queue_size,
            rate_limit: None,
            burst_limit: None,
        }
    }
}

/// Configuration of a bridge's connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionsConfig {
    /// Directory in which the sockets are created.
    pub rundir: PathBuf,
    /// OpenFlow versions of the bridge.
    pub versions: VersionSet,
    /// Settings of each controller.
    pub controllers: Vec<ConnSettings>,
    /// Limit of packet-ins that wait to be written to a tool on the management socket.
    pub queue_size: usize,
    /// Accept actions for tests (`--enable-dummy`).
    pub debug_actions: bool,
}

/// Whether the target is one where the controller connects to the switch.
pub(crate) fn is_passive(target: &str) -> bool {
    ["ptcp:", "pssl:", "punix:"].iter().any(|kind| target.starts_with(kind))
}
