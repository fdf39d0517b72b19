//! The environment of the service besides the bridge: the datapath, its counters, devices.

use crate::port::BridgePort;
use flow::Flow;
use ofproto::{Effects, Tables};
use openflow::OfError;
use openflow::packet_io::PacketOut;
use openflow::session::CtFlush;
use openflow::stats::{IpfixStats, PortStats};
use runtime::Waker;
use std::sync::Arc;
use units::{Millis, PortNo};
use xlate::{BridgeId, Frozen};

/// Counters of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Packets that were dropped.
    pub dropped: u64,
}

/// What the service needs besides the bridge.
pub trait Host {
    /// The time.
    fn now(&self) -> Millis;
    /// The statistics of the IPFIX exporter of a bridge, or of its `sample` actions. `None`: it has none.
    fn ipfix_stats(&mut self, bridge: BridgeId, of_flows: bool) -> Option<Vec<IpfixStats>>;
    /// Wakes the main loop when another thread has done some work; `None`: other threads must not be used.
    fn waker(&self) -> Option<Waker>;
    /// Credits the datapath's counters to rules, groups and ports.
    fn fold_statistics(&mut self);
    /// The counters of a port.
    fn port_stats(&mut self, bridge: BridgeId, port: &mut BridgePort) -> PortStats;
    /// Counters of a queue of a port; `None`: unknown.
    fn queue_counts(&mut self, port: &BridgePort, queue: u32) -> Option<QueueCounts>;
    /// Sets a device up or down, and updates `facts`. Returns false if that failed.
    fn set_port_admin(&mut self, port: &mut BridgePort, up: bool) -> bool;
    /// The version with which all changes so far will be published.
    fn next_version(&self) -> u64;
    /// Whether all megaflows are at least of this version. If not, the main loop is woken when they are.
    fn is_done(&self, version: u64) -> bool;
    /// Reports a change of tables, groups or ports that translations depend on.
    fn changed(&mut self);
    /// Reports a change of the tables of a bridge.
    fn changed_by(&mut self, bridge: BridgeId, effects: &Effects);
    /// Executes a checked list of actions on a packet, with these tables of the bridge or the current ones.
    fn packet_out(&mut self, packet: &PacketOut, tables: Option<Arc<Tables>>);
    /// Removes tracked connections. Returns the number of this removal if it takes longer: the main loop goes on with it.
    fn flush_connections(&mut self, wanted: &CtFlush) -> Option<u64>;
    /// Whether a removal of tracked connections is done.
    fn is_flushed(&self, number: u64) -> bool;
    /// Resumes a packet where its translation was frozen.
    fn resume(&mut self, packet: Resumed) -> Result<(), OfError>;
}

/// A packet that a controller resumes.
pub struct Resumed {
    /// The packet's bytes.
    pub packet: Vec<u8>,
    /// The packet's metadata.
    pub metadata: Flow,
    /// The remaining steps of the translation.
    pub state: Frozen,
    /// The datapath port that received it.
    pub port: PortNo,
}
