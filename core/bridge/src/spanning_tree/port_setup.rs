//! The inputs of a port: its settings, and the state of its device.

use flow::Mac;
use units::OfPort;

/// Whether a port is connected to at most one other bridge (IEEE 802.1D-2004 §6.4.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PointToPoint {
    /// Unknown; treated like `No`.
    Auto,
    /// There may be several other bridges.
    No,
    /// There is at most one other bridge.
    #[default]
    Yes,
}

/// The settings of a port that exist only in RSTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// The port connects to hosts only (AdminEdge).
    pub admin_edge: bool,
    /// Detect whether the port connects to hosts only (AutoEdge).
    pub auto_edge: bool,
    /// Try RSTP again with a neighbour that used STP.
    pub mcheck: bool,
    /// Whether at most one other bridge is connected.
    pub point_to_point: PointToPoint,
    /// The port may be used (administrative bridge port state).
    pub enabled: bool,
}

impl Default for PortSettings {
    fn default() -> PortSettings {
        let point_to_point = PointToPoint::Yes;
        PortSettings { admin_edge: false, auto_edge: true, mcheck: false, point_to_point, enabled: true }
    }
}

/// The state of a port's device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// The device's MAC address, which is the source address of BPDUs.
    pub mac: Mac,
    /// The port can be used.
    pub up: bool,
}

/// A port of a bridge and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSetup {
    /// The port's OpenFlow number.
    pub port: OfPort,
    /// The name of the port's device.
    pub name: String,
    /// Number in the port identifier; `None`: any free one.
    pub number: Option<u16>,
    /// Priority in the port identifier; lower is preferred.
    pub priority: u8,
    /// Cost of the path through the port.
    pub path_cost: u32,
    /// Settings of RSTP.
    pub rapid: PortSettings,
    /// The state of the port's device.
    pub link: Link,
}
