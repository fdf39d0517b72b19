//! Counters, and the interface by which the control half gets the statistics of megaflows.

use crate::DpAction;
use flow::Flow;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use units::{Millis, Ufid, WorkerId};

/// A counter of packets and bytes; any thread may count.
#[derive(Debug, Default)]
pub struct Counter {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Counter {
    /// Adds to the counters.
    #[inline]
    pub fn add(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Packets and bytes so far.
    pub fn get(&self) -> (u64, u64) {
        (self.packets.load(Relaxed), self.bytes.load(Relaxed))
    }
}

/// Statistics of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowStats {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Time of the last packet; `None`: never.
    pub used: Option<Millis>,
    /// All TCP flags seen.
    pub tcp_flags: u16,
}

impl FlowStats {
    /// Adds the statistics of another lane.
    pub fn add(&mut self, o: &FlowStats) {
        self.packets = self.packets.wrapping_add(o.packets);
        self.bytes = self.bytes.wrapping_add(o.bytes);
        self.used = self.used.max(o.used);
        self.tcp_flags |= o.tcp_flags;
    }
}

/// The control half's part of a megaflow. It gets the statistics of the megaflow, adds them to the statistics of rules and
/// ports, and renews the age of MAC addresses.
///
/// Called by the thread that collects statistics, and by a worker for a packet whose translation made no megaflow; never
/// while a lock of the datapath is held. `Any` lets the control half downcast to its own type.
pub trait FlowOwner: Any + Send + Sync {
    /// Adds the statistics since the last call.
    fn credit(&self, delta: &FlowStats);

    /// Estimated memory in bytes.
    fn footprint(&self) -> usize {
        size_of_val(self)
    }
}

/// The owner of flows that a command added (`dpctl/add-flow`): it ignores the statistics.
#[derive(Debug)]
pub struct NoOwner;

impl FlowOwner for NoOwner {
    fn credit(&self, _delta: &FlowStats) {}
}

/// A megaflow in a dump.
#[derive(Clone)]
pub struct DpFlow {
    /// The fields of the packet that created the megaflow, including fields that the mask does not match; `in_port` is a
    /// datapath number.
    pub key: Flow,
    /// The matched bits.
    pub mask: Flow,
    /// The actions.
    pub actions: Arc<[DpAction]>,
    /// The statistics: those of `worker`, or of all workers.
    pub stats: FlowStats,
    /// The unique identifier.
    pub ufid: Ufid,
    /// The worker whose statistics `stats` has; `None`: the sum over all workers.
    pub worker: Option<WorkerId>,
    /// The control half's part.
    pub owner: Arc<dyn FlowOwner>,
    /// When a packet created the megaflow; `None`: a command added it. `stats` do not include this packet, which the owner
    /// counted at once.
    pub created: Option<Millis>,
}

/// Totals of a datapath (`dpctl/show`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DpStats {
    /// Packets that a megaflow matched.
    pub hit: u64,
    /// Packets without a megaflow, which were passed to the control half.
    pub missed: u64,
    /// Missed packets that were dropped without a translation.
    pub lost: u64,
    /// Present number of megaflows.
    pub n_flows: u64,
    /// Number of subtables that look-ups visited.
    pub mask_hit: u64,
    /// Present number of masks.
    pub n_masks: u64,
}

/// Counters of one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets passed to the device.
    pub tx_packets: u64,
    /// Bytes passed to the device.
    pub tx_bytes: u64,
    /// Packets that the device refused.
    pub tx_dropped: u64,
    /// Packets that the ingress policer dropped.
    pub rx_policed: u64,
    /// Packets that an egress policer or a shaper dropped.
    pub tx_qos_dropped: u64,
}
