//! A backer (as in Open vSwitch: the object that backs all bridges of one datapath type): the datapath and everything that the bridges share, such as
//! ports by number, workers and the published snapshot.

use crate::datapath_port_numbers::DatapathPortNumbers;
use crate::link_aggregation::LinkAggregation;
use crate::log::LOG;
use crate::snapshot_builder::SnapshotBuilder;
use crate::tracking::Tracking;
use crate::tunnel_index::TunnelIndex;
use bridge::TunnelConfig;
use config::DatapathConfig;
use cpu::KeyedHash64;
use datapath::Datapath;
use datapath::ports::SHARED_RX;
use netdev::device::Netdev;
use netdev::error::NetdevError;
use netdev::shared_rx::SharedRx;
use openflow_service::Backing;
use pmd::Topology;
use poll_threads::{PortScheduling, WorkerTimeout, Workers};
use runtime::{Clock, Waker};
use sampling::Exporters;
use std::collections::BTreeMap;
use std::sync::Arc;
use translation::{
    Changes, Handlers, PatchAndTunnelCounters, Revalidator, SharedNeighbours, SharedState, Timers,
    UpcallTranslator,
};
use units::{Millis, PortNo};

/// A port of the datapath.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// Name of the port's device.
    pub name: String,
    /// Type of the port in the datapath: an `internal` port is `tap` or `dummy-internal` there.
    pub kind: String,
    /// Number of tunnels that share the port; 0 for a port with a device.
    pub tunnels: u32,
}

/// A datapath and its threads.
pub struct Backer {
    /// `system`, `netdev` or `dummy`.
    pub datapath_type: String,
    /// The part of the datapath's name after `@`: `ovs-` and the type, except for datapaths created by commands.
    pub dp_name: String,
    /// The datapath.
    pub datapath: Arc<Datapath>,
    /// State shared with the threads that translate.
    pub shared: Arc<SharedState>,
    /// Serves upcalls.
    pub upcall_translator: Arc<UpcallTranslator>,
    /// Counters of patch ports and tunnel ports.
    pub patch_tunnel_counters: Arc<PatchAndTunnelCounters>,
    /// Runs the timers of BFD, CFM, LLDP, LACP and spanning trees.
    pub timers: Timers,
    /// The handler threads.
    pub handler_threads: Handlers,
    /// The PMD threads and the worker of kernel ports; in dummy mode the main loop runs all workers.
    pub workers: Workers,
    /// The ports of the datapath.
    pub ports: BTreeMap<PortNo, PortInfo>,
    /// Changes that translations depend on and that are not published yet.
    pub changes: Changes,
    /// Revalidates megaflows.
    pub revalidator: Revalidator,
    /// Ports whose device failed to restart: the time of the next attempt, and the device's `change_seq` after the failure.
    pub retry: BTreeMap<PortNo, (Millis, u64)>,
    /// The datapath's configuration from the database.
    pub config: DatapathConfig,
    /// Timeouts of connections by zone, and flushes of connections that take several turns.
    pub(crate) tracking: Tracking,
    /// The snapshot to be published next.
    pub(crate) snapshot_builder: SnapshotBuilder,
    /// Chooses the numbers of new ports.
    pub(crate) port_numbers: DatapathPortNumbers,
    /// Finds tunnels with the same configuration.
    pub(crate) tunnel_index: TunnelIndex,
    /// Bonds, and ports that run LACP.
    pub link_aggregation: LinkAggregation,
    /// The rx queues that several ports share (`rx-pool=basic`).
    pub shared_rx: SharedRx,
}

/// Which threads poll and translate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// Dummy mode: the main loop polls and translates.
    None,
    /// Dummy mode with handler threads: the main loop polls, handler threads translate.
    Handlers,
    /// PMD threads poll, handler threads translate.
    PmdAndHandlers,
}

impl Backer {
    /// An empty datapath of a type.
    pub fn new(
        datapath_type: &str,
        threads: Threads,
        topology: &Arc<Topology>,
        clock: &Clock,
        waker: Waker,
        seed: u64,
        (neighbours, exporters): (&Arc<SharedNeighbours>, &Arc<Exporters>),
    ) -> std::io::Result<Backer> {
        let datapath = Datapath::new(&datapath::Config {
            seed,
            advise: Some(netdev::advise_huge),
            ..datapath::Config::default()
        });
        let for_memory = waker.clone();
        datapath.conntrack().set_memory_wake(Arc::new(move || for_memory.wake()));
        let shared = Arc::new(SharedState::new(waker, Arc::clone(neighbours), Arc::clone(exporters)));
        let patch_tunnel_counters = Arc::new(PatchAndTunnelCounters::default());
        let translator = Arc::new(UpcallTranslator::new(
            datapath_type,
            Arc::clone(&shared),
            Arc::clone(&patch_tunnel_counters),
            seed,
        ));
        datapath.set_handler(Arc::clone(&translator) as Arc<dyn dpif::UpcallHandler>);
        let workers = match threads {
            Threads::None => Workers::new_inline(&datapath, topology, false),
            Threads::Handlers => Workers::new_inline(&datapath, topology, true),
            Threads::PmdAndHandlers => Workers::new_threaded(&datapath, topology, clock)?,
        };
        let datapath_type = datapath_type.to_owned();
        let dp_name = format!("ovs-{datapath_type}");
        let name = format!("{datapath_type}@{dp_name}");
        let revalidator = match threads {
            Threads::None | Threads::Handlers => Revalidator::inline(&name, &datapath, &shared, &translator),
            Threads::PmdAndHandlers => Revalidator::threaded(&name, &datapath, &shared, &translator, clock)?,
        };
        let timers =
            Timers::new(&datapath, &translator, (threads == Threads::PmdAndHandlers).then_some(clock));
        let mut changes = Changes::default();
        changes.mark_all();
        let local =
            PortInfo { name: dp_name.clone(), kind: internal_kind(&datapath_type).to_owned(), tunnels: 0 };
        Ok(Backer {
            dp_name,
            datapath,
            shared,
            upcall_translator: translator,
            patch_tunnel_counters,
            timers,
            handler_threads: Handlers::default(),
            workers,
            // The datapath's own port has a name and a number, but no bridge uses it.
            ports: BTreeMap::from([(PortNo::LOCAL, local)]),
            changes,
            revalidator,
            retry: BTreeMap::new(),
            config: DatapathConfig::default(),
            tracking: Tracking::default(),
            snapshot_builder: SnapshotBuilder::new(KeyedHash64::new(cpu::derive(seed, b"xlations"))),
            port_numbers: DatapathPortNumbers::new(),
            tunnel_index: TunnelIndex::default(),
            link_aggregation: LinkAggregation::default(),
            shared_rx: SharedRx::default(),
            datapath_type,
        })
    }

    /// Marks everything that translations depend on as changed: all megaflows will be revalidated.
    pub fn mark_all_changed(&mut self) {
        self.changes.mark_all();
    }

    /// Adds the changes of learning tables, which handlers recorded, to [`changes`](Self::changes).
    pub fn take_live_changes(&mut self) {
        if let Some(changes) = self.shared.live.take_changes() {
            self.changes.append(changes);
        }
    }

    /// Whether some megaflows may be outdated, because a change of the tables has not been revalidated yet.
    pub fn has_pending_changes(&self) -> bool {
        !self.changes.is_empty() || self.revalidator.is_behind() || self.shared.live.has_undelivered_changes()
    }

    /// The full name of the datapath, for example `netdev@ovs-netdev`.
    pub fn name(&self) -> String {
        format!("{}@{}", self.datapath_type, self.dp_name)
    }

    /// The type of a device in this datapath, by which the device is opened and shown.
    pub fn open_kind<'a>(&self, kind: &'a str) -> &'a str
    where
        'static: 'a,
    {
        if kind == "internal" { internal_kind(&self.datapath_type) } else { kind }
    }

    /// Chooses the number of a new port.
    pub fn free_number(&self, name: &str) -> PortNo {
        self.port_numbers.choose(name, self.datapath_type == "dummy", |n| self.ports.contains_key(&n))
    }

    /// Records a port under its number.
    fn record_port(&mut self, number: PortNo, info: PortInfo) {
        self.ports.insert(number, info);
        self.port_numbers.note_used(|n| self.ports.contains_key(&n));
    }

    /// Releases a port number.
    fn release_number(&mut self, number: PortNo) {
        self.ports.remove(&number);
        self.snapshot_builder.snapshot.ingress.remove(&number);
        self.port_numbers.note_free(number);
    }

    /// Removes the datapath port of the bridge's port `name`; a tunnel's datapath port only if no other tunnel shares it.
    pub(crate) fn remove_backing(&mut self, name: &str, backing: &Backing) {
        match backing {
            Backing::Device { number, .. } => self.remove_port(*number),
            Backing::Tunnel { number, config } => self.remove_tunnel(*number, name, config),
            Backing::Patch { .. } => {}
        }
    }

    /// Makes an open device a port of the datapath.
    pub fn add_port(&mut self, number: PortNo, netdev: &mut dyn Netdev) -> Result<(), AddError> {
        netdev.set_senders(self.workers.worker_count(netdev.is_pmd()));
        if netdev.needs_restart() {
            netdev.restart().map_err(AddError::Device)?;
        }
        self.datapath.add_port(number, tx_queues(netdev)).map_err(|_| AddError::NoPortNumber)?;
        let info = PortInfo { name: netdev.name().to_owned(), kind: netdev.kind().to_owned(), tunnels: 0 };
        self.record_port(number, info);
        self.pass_rx_queues(number, netdev);
        self.mark_all_changed();
        Ok(())
    }

    /// Passes the rx queues of a device to the workers, and records whether the port uses the shared rx queues.
    fn pass_rx_queues(&mut self, number: PortNo, netdev: &mut dyn Netdev) {
        match netdev.shared_member() {
            Some(member) => self.shared_rx.join(number, member),
            None => self.shared_rx.leave(number),
        }
        let port = PortScheduling {
            name: netdev.name().to_owned(),
            numa: netdev.numa_id(),
            is_pmd: netdev.is_pmd(),
        };
        self.workers.add(number, port, netdev.take_rx_queues());
    }

    /// Opens, replaces or closes the shared rx queues as their members and the settings require. Returns whether the error text of the shared
    /// queues changed; then the caller must refresh the state of the members, which shows it.
    pub fn update_shared_rx(&mut self) -> bool {
        let before = self.shared_rx.fault().map(str::to_owned);
        let Some(handles) = self.shared_rx.apply_changes() else { return false };
        let fault = self.shared_rx.fault();
        let changed = fault != before.as_deref();
        if let Some(text) = fault.filter(|_| changed) {
            runtime::err!(LOG, "{}: {text}", self.name());
        }
        self.workers.remove(SHARED_RX);
        if !handles.is_empty() {
            let is_pmd = self.shared_rx.config().pmd;
            let port = PortScheduling { name: "rx-shared".to_owned(), is_pmd, ..PortScheduling::default() };
            self.workers.add(SHARED_RX, port, handles);
        }
        changed
    }

    /// Adds the tunnel of the bridge's port `port` to the datapath's port for its kind; the first tunnel creates the port.
    pub fn add_tunnel(&mut self, port: &str, config: &TunnelConfig) -> PortNo {
        self.mark_all_changed();
        self.snapshot_builder.tunnels_changed = true;
        self.tunnel_index.add(port, config);
        let name = config.datapath_name();
        let there = self.ports.iter_mut().find(|(_, p)| p.tunnels > 0 && p.name == name);
        let number = match there {
            Some((number, info)) => {
                info.tunnels += 1;
                *number
            }
            None => {
                let number = self.free_number(&name);
                self.record_port(number, PortInfo { name, kind: config.kind.clone(), tunnels: 1 });
                number
            }
        };
        if let Some(kind) = tunnel::Kind::of_name(&config.kind, config.gbp) {
            // Cannot fail: the number is in range and no other port has it.
            let _ = self.datapath.set_tunnel(number, kind);
        }
        number
    }

    /// Removes a tunnel from the datapath port that it shares; the last tunnel removes the port.
    pub fn remove_tunnel(&mut self, number: PortNo, port: &str, config: &TunnelConfig) {
        self.tunnel_index.remove(port, config);
        let Some(info) = self.ports.get_mut(&number).filter(|p| p.tunnels > 0) else { return };
        info.tunnels -= 1;
        self.snapshot_builder.tunnels_changed = true;
        if info.tunnels == 0 {
            self.release_number(number);
            self.datapath.del_tunnel(number);
        }
        self.mark_all_changed();
    }

    /// Removes a port; the device may be closed afterwards. If a worker does not answer, the rx queues that it still has keep the device's resources
    /// alive.
    pub fn remove_port(&mut self, number: PortNo) {
        self.workers.remove(number);
        self.shared_rx.leave(number);
        // Cannot fail: `self.ports` contains the port, and only this code removes ports of the datapath.
        let _ = self.datapath.del_port(number);
        let _ = self.workers.wait_for_release();
        self.release_number(number);
        self.retry.remove(&number);
        self.mark_all_changed();
    }

    /// Passes the new queues of a device to the workers, after the device replaced its queues.
    pub fn replace_queues(&mut self, number: PortNo, netdev: &mut dyn Netdev) {
        // The device does not serve the old queues any more, so it does no harm if a worker keeps them.
        let _ = self.workers.withdraw_queues(number);
        let _ = self.datapath.set_tx_queues(number, tx_queues(netdev));
        self.pass_rx_queues(number, netdev);
    }

    /// Stops a device, applies settings that need a stopped device, and starts it. Other ports are not affected. After a failure the device has no
    /// queues: it receives nothing, and packets sent to it are dropped and counted. Fails if a worker that may be using the device does not answer.
    pub fn restart(&mut self, number: PortNo, netdev: &mut dyn Netdev) -> Result<(), NetdevError> {
        let to_error = |timeout: WorkerTimeout| NetdevError::plain(&timeout.to_string());
        self.workers.withdraw_queues(number).map_err(to_error)?;
        // Cannot fail: `self.ports` contains the port.
        let _ = self.datapath.set_tx_queues(number, Vec::new());
        self.workers.wait_for_release().map_err(to_error)?;
        netdev.restart()?;
        let _ = self.datapath.set_tx_queues(number, tx_queues(netdev));
        self.pass_rx_queues(number, netdev);
        Ok(())
    }
}

/// Why a device could not become a port.
#[derive(Debug)]
pub enum AddError {
    /// No port number is free.
    NoPortNumber,
    /// The device cannot be started.
    Device(NetdevError),
}

fn tx_queues(netdev: &dyn Netdev) -> Vec<Box<dyn packet::queue::TxQueue>> {
    (0..netdev.n_txq().max(1)).map(|_| netdev.tx_queue()).collect()
}

/// The type of internal ports in a datapath of this type.
fn internal_kind(datapath_kind: &str) -> &'static str {
    if datapath_kind == "dummy" { "dummy-internal" } else { "tap" }
}
