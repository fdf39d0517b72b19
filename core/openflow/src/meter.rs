//! Meters (OpenFlow 1.3 and later).

use crate::flow_mod::Duration;

/// Meter number that stands for all meters.
pub const METER_ALL: u32 = 0xffff_ffff;
/// The meter of packets sent to the controller.
pub const METER_CONTROLLER: u32 = 0xffff_fffe;
/// The meter of packets sent to the slow path.
pub const METER_SLOWPATH: u32 = 0xffff_fffd;
/// The highest number of an ordinary meter.
pub const METER_MAX: u32 = 0xffff_0000;

/// Flags of a meter (`OFPMF13_*`).
pub mod meter_flags {
    #![allow(missing_docs)]
    pub const KBPS: u16 = 1;
    pub const PKTPS: u16 = 2;
    pub const BURST: u16 = 4;
    pub const STATS: u16 = 8;
}

/// Command of a meter mod; the discriminant is the number on the wire.
#[repr(u16)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MeterCommand {
    #[default]
    Add = 0,
    Modify = 1,
    Delete = 2,
}

/// A band: a rate, and the effect on packets that exceed the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterBand {
    /// `None`: drop the packet; otherwise raise the drop precedence in its DSCP by this number.
    pub dscp_remark: Option<u8>,
    /// Rate in kbit/s or packets/s, as the flags of the meter select.
    pub rate: u32,
    /// Burst size in kbit or packets, as the flags of the meter select.
    pub burst: u32,
}

/// A meter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeterConfig {
    /// Number.
    pub meter: u32,
    /// See [`meter_flags`].
    pub flags: u16,
    /// Bands.
    pub bands: Vec<MeterBand>,
}

/// A meter mod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeterMod {
    /// Command.
    pub command: MeterCommand,
    /// The meter.
    pub config: MeterConfig,
}

/// Counters of a meter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeterStats {
    /// Number.
    pub meter: u32,
    /// Number of flows that use the meter.
    pub flow_count: u32,
    /// Packets received.
    pub packets: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Time since the meter was added.
    pub duration: Duration,
    /// Packets and bytes of each band.
    pub bands: Vec<(u64, u64)>,
}

/// Meter features of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterFeatures {
    /// Maximum number of meters.
    pub max_meters: u32,
    /// Bits by band type: 1 drop, 2 DSCP remark.
    pub band_types: u32,
    /// See [`meter_flags`].
    pub capabilities: u32,
    /// Maximum bands per meter.
    pub max_bands: u8,
    /// Maximum colour value.
    pub max_color: u8,
}
