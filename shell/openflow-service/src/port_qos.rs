//! QoS of a port as the main loop knows it.

use config::qos::QosConfig;
use std::collections::BTreeMap;
use units::Millis;

/// Settings in force, in the order in which they are shown.
pub type Details = Vec<(&'static str, String)>;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortQos {
    /// The row that was applied last.
    pub applied: Option<QosConfig>,
    /// How packets are queued; empty: as they come.
    pub kind: String,
    /// Its settings.
    pub details: Details,
    /// Its queues, by number.
    pub queues: BTreeMap<u32, PortQueue>,
}

/// A queue of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortQueue {
    /// Its settings.
    pub details: Details,
    /// When it was made.
    pub created: Millis,
}
