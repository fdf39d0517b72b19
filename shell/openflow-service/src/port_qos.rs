//! QoS of a port: the settings in force and the queues.

use config::qos::QosConfig;
use std::collections::BTreeMap;
use units::Millis;

/// Names and values of the settings in force, in the order in which `qos/show` prints them.
pub type Details = Vec<(&'static str, String)>;

/// QoS of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortQos {
    /// The configuration that was applied last.
    pub applied: Option<QosConfig>,
    /// The QoS type; empty if no QoS is in force.
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
    /// When the queue was created.
    pub created: Millis,
}
