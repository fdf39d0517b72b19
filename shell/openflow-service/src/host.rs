//! What the service needs besides the bridge: the datapath, its counters, devices.

use crate::port::BridgePort;
use flow::Flow;
use ofproto::{Effects, Tables};
use openflow::OfError;
use openflow::packet_io::PacketOut;
use openflow::session::CtFlush;
use openflow::stats::PortStats;
use runtime::Waker;
use runtime::log::Level;
use std::sync::Arc;
use units::{Millis, PortNo};
use xlate::{BridgeId, Frozen};

/// What passed a queue.
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
    /// How loud the log hears of flows that cannot be carried out.
    fn complaint_level(&self) -> Level;
    /// What ends the main loop's sleep when another thread has done something for it; `None`: no other thread is to.
    fn waker(&self) -> Option<Waker>;
    /// Credits the datapath's counters to rules, groups and ports.
    fn fold_statistics(&mut self);
    /// The counters of a port.
    fn port_stats(&mut self, bridge: BridgeId, port: &mut BridgePort) -> PortStats;
    /// What passed a queue of a port; `None`: nothing is known.
    fn queue_counts(&mut self, port: &BridgePort, queue: u32) -> Option<QueueCounts>;
    /// Sets a device up or down, and `facts` with it. False: it could not be done.
    fn set_port_admin(&mut self, port: &mut BridgePort, up: bool) -> bool;
    /// The version as which everything is published that has changed so far.
    fn next_version(&self) -> u64;
    /// No megaflow is of an older version than this. If some are, the main loop's sleep ends when none is.
    fn is_done(&self, version: u64) -> bool;
    /// Tables, groups or ports have changed in a way that translations depend on.
    fn changed(&mut self);
    /// The tables of a bridge changed.
    fn changed_by(&mut self, bridge: BridgeId, effects: &Effects);
    /// Sends a packet through a list of actions that has been checked, on these tables of the bridge or those of now.
    fn packet_out(&mut self, packet: &PacketOut, tables: Option<Arc<Tables>>);
    /// Forgets connections.
    fn flush_connections(&mut self, wanted: &CtFlush);
    /// Goes on with a packet where its translation was frozen.
    fn resume(&mut self, packet: Resumed) -> Result<(), OfError>;
}

/// A packet that a controller gives back.
pub struct Resumed {
    /// Its bytes.
    pub packet: Vec<u8>,
    /// Its metadata.
    pub metadata: Flow,
    /// What is left to do.
    pub state: Frozen,
    /// The datapath port by which it came in.
    pub port: PortNo,
}
