//! QoS of a port: the settings in force and the queues.

use config::qos::QosConfig;
use std::collections::BTreeMap;
use units::Millis;

/// Names and values of the settings in force, in the order in which `qos/show` prints them.
pub type Details = Vec<(&'static str, String)>;

/// QoS of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortQos {
    /// What was applied last.
    pub applied: Option<AppliedQos>,
    /// The QoS type; empty if no QoS is in force.
    pub kind: String,
    /// The settings of the type.
    pub details: Details,
    /// The queues, by number.
    pub queues: BTreeMap<u32, PortQueue>,
}

/// The row that was applied, and the properties of the device from which its missing settings were derived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedQos {
    /// The row.
    pub config: QosConfig,
    /// Speed of the device in Mbit/s; `None`: unknown.
    pub speed_mbps: Option<u32>,
    /// MTU of the device in bytes; `None`: unknown.
    pub mtu: Option<u32>,
}

/// A queue of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortQueue {
    /// The settings of the queue.
    pub details: Details,
    /// When the queue was created.
    pub created: Millis,
}
