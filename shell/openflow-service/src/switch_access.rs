//! Interface to the parts of the switch that are not in the bridge: the datapath, its counters, devices.

use crate::port::BridgePort;
use flow::Flow;
use ofproto::{TableChanges, Tables};
use openflow::OfError;
use openflow::packet_io::PacketOut;
use openflow::session::CtFlush;
use openflow::stats::{IpfixStats, PortStats};
use runtime::Waker;
use std::sync::Arc;
use units::{Millis, PortNo};
use xlate::{BridgeId, Frozen};

/// Counters of a QoS queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets dropped.
    pub dropped: u64,
}

/// Operations on the switch outside the bridge.
pub trait SwitchAccess {
    /// The time.
    fn now(&self) -> Millis;
    /// Statistics of a bridge's IPFIX exporter, or with `of_flows` of its exporters for `sample` actions. `None`: IPFIX is not configured.
    fn ipfix_stats(&mut self, bridge: BridgeId, of_flows: bool) -> Option<Vec<IpfixStats>>;
    /// The waker by which another thread wakes the main loop when its work is done; `None` in dummy mode: all
    /// work is done in the main thread.
    fn waker(&self) -> Option<Waker>;
    /// Adds the datapath's counters to the counters of rules, groups and ports.
    fn fold_statistics(&mut self);
    /// The counters of a port.
    fn port_stats(&mut self, bridge: BridgeId, port: &mut BridgePort) -> PortStats;
    /// Counters of a QoS queue of a port; `None`: the queue has no counters.
    fn queue_counts(&mut self, port: &BridgePort, queue: u32) -> Option<QueueCounts>;
    /// Sets a device up or down, and updates the port's `facts`. Returns false if that failed.
    fn set_port_admin(&mut self, port: &mut BridgePort, up: bool) -> bool;
    /// The version (number of a published snapshot) with which all changes so far will be published.
    fn next_version(&self) -> u64;
    /// Whether all megaflows correspond to this version or a later one. If not, the main loop is woken when they do.
    fn is_revalidated(&self, version: u64) -> bool;
    /// Reports that every translation may have another result.
    fn mark_all_changed(&mut self);
    /// Reports a change of the tables of a bridge.
    fn note_table_changes(&mut self, bridge: BridgeId, changes: &TableChanges);
    /// Executes a packet-out whose actions were checked. `tables`: the bridge's tables to use; `None`: the current ones.
    fn packet_out(&mut self, packet: &PacketOut, tables: Option<Arc<Tables>>);
    /// Removes tracked connections. If that is not complete at once, returns the number of the removal, which the main loop continues.
    fn flush_connections(&mut self, wanted: &CtFlush) -> Option<u64>;
    /// Whether a removal of tracked connections is done.
    fn is_flushed(&self, number: u64) -> bool;
    /// Continues the translation of a packet that was frozen when the packet was sent to a controller.
    fn resume(&mut self, packet: ResumedPacket) -> Result<(), OfError>;
}

/// A packet that a controller resumes.
pub struct ResumedPacket {
    /// The packet's bytes.
    pub packet: Vec<u8>,
    /// The packet's metadata.
    pub metadata: Flow,
    /// The remaining steps of the translation.
    pub state: Frozen,
    /// The datapath port that received the packet.
    pub port: PortNo,
}
