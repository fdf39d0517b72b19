//! Port descriptions and port mods.

use flow::Mac;
use units::OfPort;

/// Configuration of a port (`OFPPC_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortConfig {
    /// Administratively down.
    pub port_down: bool,
    /// No spanning tree on this port (1.0).
    pub no_stp: bool,
    /// Drop received packets, except for spanning tree packets.
    pub no_recv: bool,
    /// Drop received spanning tree packets (1.0).
    pub no_recv_stp: bool,
    /// Exclude the port from floods (1.0 and Nicira).
    pub no_flood: bool,
    /// Drop packets that are sent to the port.
    pub no_fwd: bool,
    /// Send no packet-in for misses on this port.
    pub no_packet_in: bool,
}

/// Spanning tree state of a port (1.0).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum StpState {
    #[default]
    Listen,
    Learn,
    Forward,
    Block,
}

/// State of a port (`OFPPS_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortState {
    /// No carrier.
    pub link_down: bool,
    /// Blocked (1.1 and later).
    pub blocked: bool,
    /// Live for fast failover (1.1 and later).
    pub live: bool,
    /// Spanning tree (1.0).
    pub stp: StpState,
}

/// Features of a port, in the bits of OpenFlow 1.1 and later; the codec converts the bits of 1.0.
pub mod features {
    #![allow(missing_docs)]
    pub const HD_10MB: u32 = 1 << 0;
    pub const FD_10MB: u32 = 1 << 1;
    pub const HD_100MB: u32 = 1 << 2;
    pub const FD_100MB: u32 = 1 << 3;
    pub const HD_1GB: u32 = 1 << 4;
    pub const FD_1GB: u32 = 1 << 5;
    pub const FD_10GB: u32 = 1 << 6;
    pub const FD_40GB: u32 = 1 << 7;
    pub const FD_100GB: u32 = 1 << 8;
    pub const FD_1TB: u32 = 1 << 9;
    pub const OTHER: u32 = 1 << 10;
    pub const COPPER: u32 = 1 << 11;
    pub const FIBER: u32 = 1 << 12;
    pub const AUTONEG: u32 = 1 << 13;
    pub const PAUSE: u32 = 1 << 14;
    pub const PAUSE_ASYM: u32 = 1 << 15;
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Port number.
    pub number: OfPort,
    /// Ethernet address.
    pub hw_addr: Mac,
    /// Name; truncated to 15 bytes on the wire.
    pub name: String,
    /// Configuration.
    pub config: PortConfig,
    /// State.
    pub state: PortState,
    /// Current features, see [`features`].
    pub current: u32,
    /// Advertised features.
    pub advertised: u32,
    /// Supported features.
    pub supported: u32,
    /// Features advertised by the link partner.
    pub peer: u32,
    /// Current speed in kbit/s; 0: unknown (1.1 and later).
    pub current_speed: u32,
    /// Maximum speed in kbit/s; 0: unknown (1.1 and later).
    pub max_speed: u32,
}

/// Reason of a port status message (`OFPPR_*`); the discriminant is the number on the wire.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PortReason {
    Add = 0,
    Delete = 1,
    Modify = 2,
}

/// A port status message: a port was added, removed or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// Reason.
    pub reason: PortReason,
    /// The port after the change.
    pub port: Port,
}

/// A port mod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortMod {
    /// Number.
    pub number: OfPort,
    /// Must equal the port's address; with OpenFlow 1.1 and later all zero skips this check.
    pub hw_addr: Mac,
    /// New configuration, for the bits in `mask`.
    pub config: PortConfig,
    /// The bits of the configuration to change.
    pub mask: PortConfig,
    /// Features to advertise; 0: no change.
    pub advertise: u32,
}
