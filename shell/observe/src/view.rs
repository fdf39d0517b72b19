//! The view: the state of the switch that the main thread publishes for the metrics. It contains names, states and counters
//! of the objects that the main thread owns.
//!
//! The counters of workers, rx queues, megaflows and connections are not copied: the view has references to them, and the
//! server reads them for each request.

use datapath::{Datapath, RxqLoad};
use netdev::device::KernelCounters;
use netdev::stats::Stats;
use poll_threads::WorkerInfo;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use units::{Millis, OfPort, PortNo, QueueId};

/// The view of one moment.
#[derive(Default)]
pub struct View {
    /// Increases with each view.
    pub serial: u64,
    /// When the view was complete: `runtime::cpu_time::monotonic`, in ns.
    pub taken: u64,
    /// When the view was complete, by the switch's clock.
    pub now: Millis,
    /// The configuration of the database is applied.
    pub configured: bool,
    /// The database is connected.
    pub database_connected: bool,
    /// `next_cfg`
    pub next_cfg: i64,
    /// Interfaces without a device.
    pub failed: usize,
    /// CPU time that the main thread has used for all views, in ns.
    pub cost: u64,
    /// Cores that this process may use and that have no PMD thread.
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
    /// Name, for example `netdev@ovs-netdev`.
    pub name: String,
    /// `datapath_type` of its bridges.
    pub kind: String,
    /// The datapath.
    pub datapath: Arc<Datapath>,
    /// The workers.
    pub workers: Vec<WorkerInfo>,
    /// The rx queues: first those that PMD threads poll.
    pub rxqs: Vec<RxqView>,
    /// Names of the ports.
    pub names: BTreeMap<PortNo, String>,
    /// Number of handlers.
    pub handlers: usize,
    /// The revalidator has not handled all changes yet.
    pub revalidation_pending: bool,
    /// Duration of the revalidator's last round over all megaflows, in ms.
    pub round_ms: u64,
    /// Number of moves of rx queues by auto load balance.
    pub moves: u64,
}

/// An rx queue.
pub struct RxqView {
    /// Port number.
    pub no: PortNo,
    /// Name of the port.
    pub port: String,
    /// Number of the queue in the port.
    pub queue: QueueId,
    /// Index of the queue's worker in `DatapathView::workers`.
    pub worker: usize,
    /// Counters.
    pub load: Arc<RxqLoad>,
    /// Load forecast, in cores.
    pub forecast: f64,
    /// Whether the queue is in use.
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
    /// Number of open OpenFlow connections, and of bytes that are not sent to them yet.
    pub connections: (usize, usize),
    /// Controllers, and whether they are connected.
    pub controllers: Vec<(String, bool)>,
    /// Tables in use: number, flows, packets that matched, packets that did not match.
    pub tables: Vec<(u8, u64, u64, u64)>,
    /// Meters: number, packets, bytes, packets above a band's rate.
    pub meters: Vec<(u32, u64, u64, u64)>,
}

/// A port of a bridge.
pub struct PortView {
    /// Name of the port's bridge.
    pub bridge: Arc<str>,
    /// Index of the port's datapath in `View::datapaths`.
    pub datapath: usize,
    /// Name.
    pub name: String,
    /// Type of the interface.
    pub kind: String,
    /// The port's name in OVN: iface-id, or the chassis of a tunnel; empty if there is none.
    pub logical: String,
    /// OpenFlow port number.
    pub ofport: OfPort,
    /// Port number in the datapath.
    pub number: Option<PortNo>,
    /// The port is administratively up and has a link.
    pub up: bool,
    /// Number of changes of the link.
    pub link_resets: u64,
    /// MTU.
    pub mtu: Option<u32>,
    /// VLAN; `None` for a trunk without a native VLAN.
    pub vlan: Option<u16>,
    /// Speed of the link in Mbit/s.
    pub speed_mbps: Option<u32>,
    /// BFD session: up, forwarding, number of state changes.
    pub bfd: Option<(bool, bool, u64)>,
    /// Whether there is information from the LACP partner, current or expired.
    pub has_lacp_partner_info: Option<bool>,
    /// Counters.
    pub counters: Counters,
    /// Rx queues that are not in use.
    pub disabled_rxqs: Vec<QueueId>,
}

/// The counters of a port.
pub enum Counters {
    /// The server's thread reads the counters from the kernel, then corrects them with these.
    Kernel(KernelCounters),
    /// The main thread has read the counters.
    Read(Box<Stats>),
    /// The counters cannot be read.
    None,
}
