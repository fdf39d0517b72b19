//! Statistics: requests and replies of multipart messages.

use crate::action::Action;
use crate::flow_mod::{Duration, FlowFlags, GROUP_ANY, TABLE_ALL};
use flow::Match;
use units::OfPort;

/// Value of an unknown counter.
pub const UNKNOWN: u64 = u64::MAX;

/// Description of the switch (`OFPMP_DESC`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Desc {
    pub manufacturer: String,
    pub hardware: String,
    pub software: String,
    pub serial: String,
    pub datapath: String,
}

/// Statistics of an IPFIX exporter (extension of Open vSwitch).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpfixStats {
    /// The number of the set of collectors for `sample` actions; 0 for the exporter of a bridge.
    pub collector_set_id: u32,
    /// Flows that were added to the cache.
    pub flows: u64,
    /// Flows in the cache.
    pub current_flows: u64,
    /// Sampled packets.
    pub packets: u64,
    /// Sampled packets of IPv4.
    pub ipv4: u64,
    /// Sampled packets of IPv6.
    pub ipv6: u64,
    /// Sampled packets that were not recognised.
    pub errors: u64,
    /// Sampled packets of IPv4 that were not recognised.
    pub ipv4_errors: u64,
    /// Sampled packets of IPv6 that were not recognised.
    pub ipv6_errors: u64,
    /// Sent messages.
    pub tx_packets: u64,
    /// Messages that could not be sent.
    pub tx_errors: u64,
}

/// Filter of flow and aggregate statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStatsRequest {
    /// Only flows that this match covers.
    pub matching: Match,
    /// Only flows of this table.
    pub table: u8,
    /// Only flows whose cookie has this value in the bits of `cookie_mask`.
    pub cookie: u64,
    /// The bits of `cookie` to compare.
    pub cookie_mask: u64,
    /// Only flows that output to this port; `NONE`: any.
    pub out_port: OfPort,
    /// Only flows that use this group; `GROUP_ANY`: any.
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
    /// Table of the flow.
    pub table: u8,
    /// Match of the flow.
    pub matching: Match,
    /// Cookie of the flow.
    pub cookie: u64,
    /// Priority of the flow.
    pub priority: u16,
    /// Idle timeout in seconds; 0: none.
    pub idle_timeout: u16,
    /// Hard timeout in seconds; 0: none.
    pub hard_timeout: u16,
    /// Importance for eviction.
    pub importance: u16,
    /// Flags of the flow mod.
    pub flags: FlowFlags,
    /// Time since the flow was added.
    pub duration: Duration,
    /// Seconds since the last packet, if requested (`NXT_FLOW_AGE`).
    pub idle_age: Option<u32>,
    /// Seconds since the last change, if requested.
    pub hard_age: Option<u32>,
    /// Packets; [`UNKNOWN`] if not counted.
    pub packets: u64,
    /// Bytes; [`UNKNOWN`] if not counted.
    pub bytes: u64,
    /// Actions and instructions.
    pub actions: Vec<Action>,
}

/// Sums over flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AggregateStats {
    /// Packets; [`UNKNOWN`] if not counted.
    pub packets: u64,
    /// Bytes; [`UNKNOWN`] if not counted.
    pub bytes: u64,
    /// Flows.
    pub flows: u32,
}

/// Counters of a port; a counter that the device does not have is [`UNKNOWN`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PortStats {
    pub port: OfPort,
    /// Time since the port was added, from OpenFlow 1.3; all ones: not known.
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
    /// RFC 2819 counters in the order of Intel's property (1.4 and later); `None`: not counted.
    pub rfc2819: Option<Box<[u64; 21]>>,
    /// Named counters of the device, in Intel's property (1.4 and later).
    pub custom: Vec<(String, u64)>,
}

impl Default for PortStats {
    /// All counters unknown.
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

/// Queue number that stands for all queues of a port.
pub const QUEUE_ALL: u32 = 0xffff_ffff;

/// Filter of queue statistics and configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueRequest {
    /// Port; `ALL`: all.
    pub port: OfPort,
    /// Queue; [`QUEUE_ALL`]: all.
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
    /// Time since the queue was added (1.3); all ones: not known.
    pub duration: Duration,
}

/// A queue's settings (`OFPT_QUEUE_GET_CONFIG`, `OFPMP_QUEUE_DESC`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueConfig {
    /// Its port.
    pub port: OfPort,
    /// Its number.
    pub queue: u32,
    /// Minimum rate in tenths of a percent; `None`: not set.
    pub min_rate: Option<u16>,
    /// Maximum rate in tenths of a percent; `None`: not set.
    pub max_rate: Option<u16>,
}
