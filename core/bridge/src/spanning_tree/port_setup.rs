//! Settings of a port, and the state of its device.

use flow::Mac;
use units::OfPort;

/// Whether a port is connected to one other bridge at most (§6.4.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PointToPoint {
    /// It is not known: treated like `No`.
    Auto,
    /// There may be several.
    No,
    /// There is one at most.
    #[default]
    Yes,
}

/// Settings of a port that only RSTP has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// The port connects to hosts only (AdminEdge).
    pub admin_edge: bool,
    /// Detect whether it does (AutoEdge).
    pub auto_edge: bool,
    /// Try RSTP with a neighbour that used STP.
    pub mcheck: bool,
    /// Whether one other bridge is connected at most.
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
    /// Its MAC address: the source of BPDUs.
    pub mac: Mac,
    /// The port can be used.
    pub up: bool,
}

/// A port of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSetup {
    /// Its OpenFlow number.
    pub port: OfPort,
    /// The name of its device.
    pub name: String,
    /// Number in the port identifier; `None`: any free one.
    pub number: Option<u16>,
    /// Priority in the port identifier; lower is preferred.
    pub priority: u8,
    /// Cost of the path through the port.
    pub path_cost: u32,
    /// Settings of RSTP.
    pub rapid: PortSettings,
    /// Its device.
    pub link: Link,
}
