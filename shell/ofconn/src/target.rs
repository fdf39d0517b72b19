//! Settings of connections.

use openflow::VersionSet;
use std::path::PathBuf;
use units::Millis;

/// What kind of peer a connection has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnKind {
    /// A tool that connected to the management socket.
    Service,
    /// A controller of the configuration.
    Controller,
}

/// Settings of the connection to a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerTarget {
    /// `tcp:…`, `unix:…`, `ptcp:…`, `punix:…`
    pub target: String,
    /// Longest delay between attempts to connect.
    pub max_backoff: Millis,
    /// An idle connection is probed after this time; `None`: never.
    pub inactivity_probe: Option<Millis>,
    /// It gets asynchronous messages by default.
    pub async_messages: bool,
    /// Packet-ins that may wait for it.
    pub queue_size: usize,
    /// Packet-ins per second, for misses and actions each; `None`: unlimited.
    pub rate_limit: Option<u32>,
    /// Packet-ins that may exceed the rate at once, and that may wait for it; `None`: a quarter of the rate.
    pub burst_limit: Option<u32>,
}

impl ControllerTarget {
    /// Settings of tools on the management socket.
    pub(crate) fn service(queue_size: usize) -> ControllerTarget {
        let probe = Some(Millis::from_secs(60));
        ControllerTarget {
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
pub struct ManagerConfig {
    /// Directory of the sockets.
    pub rundir: PathBuf,
    /// OpenFlow versions of the bridge.
    pub versions: VersionSet,
    /// Controllers.
    pub controllers: Vec<ControllerTarget>,
    /// Packet-ins that may wait for a tool on the management socket.
    pub queue_size: usize,
    /// Accept actions for tests (`--enable-dummy`).
    pub debug_actions: bool,
}

/// Whether a controller connects to us.
pub(crate) fn is_passive(target: &str) -> bool {
    ["ptcp:", "pssl:", "punix:"].iter().any(|kind| target.starts_with(kind))
}
