//! The view that the main thread publishes for the metrics: names, states and counters of the objects that it owns.
//!
//! The counters of poll threads, rx queues, megaflows and connections are not copied: the view has references to them, and the server
//! reads them for each request.

use datapath::{Datapath, RxqLoad};
use netdev::device::KernelCounters;
use netdev::stats::Stats;
use poll_threads::WorkerPlace;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use units::{Millis, OfPort, PortNo, QueueId};

/// The view of one moment.
#[derive(Default)]
pub struct View {
    /// Increases with each view.
    pub serial: u64,
    /// When it was complete, by `runtime::cpu_time::monotonic`.
    pub taken: u64,
    /// The time of the switch's clock then.
    pub now: Millis,
    /// The configuration is in force.
    pub configured: bool,
    /// The database is connected.
    pub database: bool,
    /// `next_cfg`
    pub wanted_configuration: i64,
    /// Interfaces without a device.
    pub failed: usize,
    /// CPU time of the main thread for all views, in nanoseconds.
    pub cost: u64,
    /// Cores that this process may use and on which no poll thread runs.
    pub free_cores: BTreeSet<u32>,
    /// Datapaths.
    pub datapaths: Vec<DatapathView>,
    /// Bridges.
    pub bridges: Vec<BridgeView>,
    /// Ports of bridges.
    pub ports: Vec<PortView>,
    /// Bonds: bridge, name, links, links in use.
    pub bonds: Vec<(Arc<str>, String, usize, usize)>,
}

/// A datapath.
pub struct DatapathView {
    /// As in `netdev@ovs-netdev`.
    pub name: String,
    /// Its type, by which bridges select it.
    pub kind: String,
    /// The datapath.
    pub datapath: Arc<Datapath>,
    /// Its workers.
    pub workers: Vec<WorkerPlace>,
    /// Its rx queues: first those that poll threads poll.
    pub rxqs: Vec<RxqView>,
    /// Names of its ports.
    pub names: BTreeMap<PortNo, String>,
    /// Handler threads.
    pub handlers: usize,
    /// The revalidator has not handled all changes.
    pub behind: bool,
    /// Duration of its last pass.
    pub pass_ms: u64,
    /// Moves of rx queues.
    pub moves: u64,
}

/// An rx queue.
pub struct RxqView {
    /// Number of its port.
    pub no: PortNo,
    /// Name of its port.
    pub port: String,
    /// Its number.
    pub queue: QueueId,
    /// Place of its worker in `DatapathView::workers`.
    pub worker: usize,
    /// Its counters.
    pub load: Arc<RxqLoad>,
    /// Forecast of its load.
    pub forecast: f64,
    /// Whether it is in use.
    pub enabled: bool,
}

/// A bridge.
pub struct BridgeView {
    /// Its name.
    pub name: Arc<str>,
    /// Number of ports.
    pub ports: usize,
    /// Number of groups.
    pub groups: usize,
    /// Entries of the MAC learning table, and their limit.
    pub macs: (usize, usize),
    /// Multicast groups, and their limit, if the bridge has multicast snooping.
    pub multicast: Option<(usize, usize)>,
    /// Open connections, and bytes that wait for them.
    pub connections: (usize, usize),
    /// Controllers, and whether they are connected.
    pub controllers: Vec<(String, bool)>,
    /// Tables with flows: number, flows, packets that matched, packets that did not.
    pub tables: Vec<(u8, u64, u64, u64)>,
    /// Meters: number, packets, bytes, packets above a band's rate.
    pub meters: Vec<(u32, u64, u64, u64)>,
}

/// A port of a bridge.
pub struct PortView {
    /// Its bridge.
    pub bridge: Arc<str>,
    /// Place of its datapath in `View::datapaths`.
    pub datapath: usize,
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: String,
    /// The name that OVN has for it: its iface-id, or the chassis of a tunnel; empty if there is none.
    pub logical: String,
    /// Its OpenFlow number.
    pub ofport: OfPort,
    /// Its number in the datapath.
    pub number: Option<PortNo>,
    /// Administratively up, with link.
    pub up: bool,
    /// Changes of its link.
    pub link_resets: u64,
    /// Its MTU.
    pub mtu: Option<u32>,
    /// Its VLAN, unless it is a trunk without a native VLAN.
    pub vlan: Option<u16>,
    /// Megabits per second.
    pub speed_mbps: Option<u32>,
    /// State of its BFD session: up, forwarding, changes of state.
    pub bfd: Option<(bool, bool, u64)>,
    /// Whether its LACP partner is current.
    pub lacp: Option<bool>,
    /// Its counters.
    pub counters: Counters,
    /// Its rx queues that are not in use.
    pub disabled_rxqs: Vec<QueueId>,
}

/// Where the counters of a port are.
pub enum Counters {
    /// In the kernel, with these beside them.
    Kernel(KernelCounters),
    /// Read by the main thread.
    Read(Box<Stats>),
    /// The device cannot be read.
    None,
}
