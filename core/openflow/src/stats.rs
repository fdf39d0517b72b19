//! Statistics: requests and replies of multipart messages.

use crate::action::Action;
use crate::flow_mod::{Duration, FlowFlags, GROUP_ANY, TABLE_ALL};
use flow::Match;
use units::OfPort;

/// A counter that is not known.
pub const UNKNOWN: u64 = u64::MAX;

/// What the switch is (`OFPMP_DESC`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Desc {
    pub manufacturer: String,
    pub hardware: String,
    pub software: String,
    pub serial: String,
    pub datapath: String,
}

/// Which flows: for flow and aggregate statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStatsRequest {
    /// Those that this match covers.
    pub matching: Match,
    /// In this table.
    pub table: u8,
    /// With this cookie …
    pub cookie: u64,
    /// … in these bits.
    pub cookie_mask: u64,
    /// That send here; `NONE` is any.
    pub out_port: OfPort,
    /// That use this group.
    pub out_group: u32,
}

impl Default for FlowStatsRequest {
    fn default() -> FlowStatsRequest {
        FlowStatsRequest {
            matching: Match::CATCHALL,
            table: TABLE_ALL,
            cookie: 0,
            cookie_mask: 0,
            out_port: OfPort::NONE,
            out_group: GROUP_ANY,
        }
    }
}

/// A flow with its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStats {
    /// Its table.
    pub table: u8,
    /// Its match.
    pub matching: Match,
    /// Its cookie.
    pub cookie: u64,
    /// Its priority.
    pub priority: u16,
    /// As in the flow mod.
    pub idle_timeout: u16,
    /// As in the flow mod.
    pub hard_timeout: u16,
    /// As in the flow mod.
    pub importance: u16,
    /// As in the flow mod.
    pub flags: FlowFlags,
    /// How long it is there.
    pub duration: Duration,
    /// Seconds since the last packet, if that is asked for (`NXT_FLOW_AGE`).
    pub idle_age: Option<u32>,
    /// Seconds since the last change, if that is asked for.
    pub hard_age: Option<u32>,
    /// Packets; [`UNKNOWN`].
    pub packets: u64,
    /// Bytes; [`UNKNOWN`].
    pub bytes: u64,
    /// What it does.
    pub actions: Vec<Action>,
}

/// Sums over flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AggregateStats {
    /// Packets; [`UNKNOWN`].
    pub packets: u64,
    /// Bytes; [`UNKNOWN`].
    pub bytes: u64,
    /// Flows.
    pub flows: u32,
}

/// Counters of a port; [`UNKNOWN`] where the device does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PortStats {
    pub port: OfPort,
    /// All ones: not known. From OpenFlow 1.3.
    pub duration: Duration,
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_dropped: u64,
    pub tx_dropped: u64,
    pub rx_errors: u64,
    pub tx_errors: u64,
    pub rx_frame_errors: u64,
    pub rx_over_errors: u64,
    pub rx_crc_errors: u64,
    pub collisions: u64,
    /// RFC 2819 counters (1.4 and later, Intel's property), in the order of that property; `None`: not counted.
    pub rfc2819: Option<Box<[u64; 21]>>,
    /// Named counters of the device (1.4 and later, Intel's property).
    pub custom: Vec<(String, u64)>,
}

impl Default for PortStats {
    /// Nothing is known.
    fn default() -> PortStats {
        PortStats {
            port: OfPort::NONE,
            duration: Duration { sec: u32::MAX, nsec: u32::MAX },
            rx_packets: UNKNOWN,
            tx_packets: UNKNOWN,
            rx_bytes: UNKNOWN,
            tx_bytes: UNKNOWN,
            rx_dropped: UNKNOWN,
            tx_dropped: UNKNOWN,
            rx_errors: UNKNOWN,
            tx_errors: UNKNOWN,
            rx_frame_errors: UNKNOWN,
            rx_over_errors: UNKNOWN,
            rx_crc_errors: UNKNOWN,
            collisions: UNKNOWN,
            rfc2819: None,
            custom: Vec::new(),
        }
    }
}

/// All queues of a port.
pub const QUEUE_ALL: u32 = 0xffff_ffff;

/// Which queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueRequest {
    /// Port; `ALL` is all.
    pub port: OfPort,
    /// Queue; [`QUEUE_ALL`].
    pub queue: u32,
}

/// Counters of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Its port.
    pub port: OfPort,
    /// Its number.
    pub queue: u32,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets dropped.
    pub tx_errors: u64,
    /// Age (1.3); all ones: not known.
    pub duration: Duration,
}

/// A queue's settings (`OFPT_QUEUE_GET_CONFIG`, `OFPMP_QUEUE_DESC`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueConfig {
    /// Its port.
    pub port: OfPort,
    /// Its number.
    pub queue: u32,
    /// In tenths of a percent; `None`: not set.
    pub min_rate: Option<u16>,
    /// In tenths of a percent; `None`: not set.
    pub max_rate: Option<u16>,
}
