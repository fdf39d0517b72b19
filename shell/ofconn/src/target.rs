//! What is wanted of the connection to a controller.

use units::Millis;

/// What kind of peer a connection has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnKind {
    /// A tool that connected to the management socket.
    Service,
    /// A controller of the configuration.
    Controller,
}

/// What is wanted of the connection to a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerTarget {
    /// `tcp:…`, `unix:…`, `ptcp:…`, `punix:…`
    pub target: String,
    /// Longest wait between attempts.
    pub max_backoff: Millis,
    /// An idle connection is probed after this long; `None`: never.
    pub inactivity_probe: Option<Millis>,
    /// It gets asynchronous messages until it asks otherwise.
    pub async_messages: bool,
    /// Packet-ins that wait for it at most.
    pub queue_size: usize,
    /// Packet-ins per second, of misses and of actions each; `None`: as many as come.
    pub rate_limit: Option<u32>,
    /// Packet-ins that the rate lets through at once, and that wait for it; `None`: a quarter of it.
    pub burst_limit: Option<u32>,
}

impl ControllerTarget {
    /// What tools get that connect to the management socket.
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
