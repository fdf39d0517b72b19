//! QoS of a port.

use config::qos::QosConfig;
use std::collections::BTreeMap;
use units::Millis;

/// Settings in force, in the order in which they are shown.
pub type Details = Vec<(&'static str, String)>;

/// QoS of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortQos {
    /// The row that was applied last.
    pub applied: Option<QosConfig>,
    /// The QoS type; empty: none.
    pub kind: String,
    /// The settings of the type.
    pub details: Details,
    /// The queues, by number.
    pub queues: BTreeMap<u32, PortQueue>,
}

/// A queue of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortQueue {
    /// The settings of the queue.
    pub details: Details,
    /// When it was created.
    pub created: Millis,
}
