//! Counters, and who wants to hear of them.

use crate::DpAction;
use flow::Flow;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use units::{Millis, Ufid, WorkerId};

/// Packets and bytes, which any thread may count.
#[derive(Debug, Default)]
pub struct Counter {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Counter {
    /// Counts more.
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

/// What a flow has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowStats {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// When the last packet came; `None`: never.
    pub used: Option<Millis>,
    /// All TCP flags seen.
    pub tcp_flags: u16,
}

impl FlowStats {
    /// Adds what another lane has counted.
    pub fn add(&mut self, o: &FlowStats) {
        self.packets = self.packets.wrapping_add(o.packets);
        self.bytes = self.bytes.wrapping_add(o.bytes);
        self.used = self.used.max(o.used);
        self.tcp_flags |= o.tcp_flags;
    }
}

/// The control half's side of a megaflow: told what the flow has counted, it credits rules and renews MAC ages.
///
/// Called by the thread that folds statistics, and by a worker for a packet whose translation made no megaflow; never
/// with a lock of the datapath held. `Any` lets the control half find its own type again.
pub trait FlowOwner: Any + Send + Sync {
    /// The flow counted this much since the last call.
    fn credit(&self, delta: &FlowStats);

    /// Bytes of memory that it takes, as near as can be told cheaply.
    fn footprint(&self) -> usize {
        size_of_val(self)
    }
}

/// The owner of flows that were put by hand (`dpctl/add-flow`): nobody to credit.
#[derive(Debug)]
pub struct NoOwner;

impl FlowOwner for NoOwner {
    fn credit(&self, _delta: &FlowStats) {}
}

/// A megaflow as a dump shows it.
#[derive(Clone)]
pub struct DpFlow {
    /// Fields of the packet that made it, also those that the mask does not match; `in_port` is a datapath number.
    pub key: Flow,
    /// Mask.
    pub mask: Flow,
    /// What it does.
    pub actions: Arc<[DpAction]>,
    /// What it counted: in the lane of `worker`, or in all of them.
    pub stats: FlowStats,
    /// Its identifier.
    pub ufid: Ufid,
    /// Whose lane `stats` is; `None`: all lanes together.
    pub worker: Option<WorkerId>,
    /// The control half's side.
    pub owner: Arc<dyn FlowOwner>,
    /// When a packet made it, which `stats` do not count: its rules were credited at once. `None`: put by hand.
    pub created: Option<Millis>,
}

/// Totals of a datapath (`dpctl/show`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DpStats {
    /// Packets that a megaflow matched.
    pub hit: u64,
    /// Packets that were handed to the control half since none did.
    pub missed: u64,
    /// Packets that were lost on the way there.
    pub lost: u64,
    /// Megaflows now.
    pub n_flows: u64,
    /// Subtables visited by look-ups.
    pub mask_hit: u64,
    /// Distinct masks now.
    pub n_masks: u64,
    /// Hits of the flow cache, part of `hit`.
    pub cache_hit: u64,
}

/// What the datapath counted at one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets handed to the device.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Packets the device did not take.
    pub tx_dropped: u64,
    /// Packets that the ingress policer dropped.
    pub rx_policed: u64,
    /// Packets that an egress policer or a shaper dropped.
    pub tx_qos_dropped: u64,
}
