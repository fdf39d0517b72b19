//! One datapath with what all bridges of its type share: ports by number, workers, the published snapshot.

use crate::next_snapshot::NextSnapshot;
use crate::timeouts::TimeoutPolicies;
use crate::uplinks::Uplinks;
use bridge::TunnelConfig;
use config::DatapathConfig;
use cpu::Chain;
use datapath::Datapath;
use netdev::device::Netdev;
use netdev::error::NetdevError;
use pmd::Topology;
use poll_threads::{PolledPort, Silent, Workers};
use runtime::{Clock, Waker};
use std::collections::BTreeMap;
use std::sync::Arc;
use translation::{
    Changes, Handler, Handlers, PatchCounters, Revalidator, SharedNeighbours, SharedState, Timers,
};
use units::{Millis, PortNo};

/// A port of the datapath, for tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// Its device.
    pub name: String,
    /// The type that the datapath shows: `internal` is `tap` or `dummy-internal` there.
    pub kind: String,
    /// So many tunnels share it; 0: it is a device's.
    pub tunnels: u32,
}

/// See the module.
pub struct Backer {
    /// `system`, `netdev` or `dummy`.
    pub kind: String,
    /// Its name after the `@`: `ovs-` and the type, but for those that commands make.
    pub dp_name: String,
    /// The datapath.
    pub datapath: Arc<Datapath>,
    /// Shared with the workers.
    pub shared: Arc<SharedState>,
    /// Answers the workers.
    pub handler: Arc<Handler>,
    /// Counters of patch ports.
    pub patches: Arc<PatchCounters>,
    /// Who looks at the clocks of protocols.
    pub timers: Timers,
    /// Who translates for those who poll.
    pub handlers: Handlers,
    /// Hashes what translations ask.
    pub chain: Chain,
    /// Who polls.
    pub workers: Workers,
    /// Its ports.
    pub ports: BTreeMap<PortNo, PortInfo>,
    /// What changed that translations depend on, to be published and to be looked at in megaflows.
    pub changes: Changes,
    /// How many changes of learning tables are in `changes`, or were before it was last published.
    pub noted: u64,
    /// Who keeps megaflows right.
    pub revalidator: Revalidator,
    /// Devices whose last restart failed: when the next may be tried, and the `change_seq` that it left.
    pub retry: BTreeMap<PortNo, (Millis, u64)>,
    /// Most megaflows ever seen.
    pub flows_max: u64,
    /// What the database wants of it.
    pub config: DatapathConfig,
    /// Timeouts of connections, by zone.
    pub(crate) timeouts: TimeoutPolicies,
    /// What is published next.
    pub(crate) next: NextSnapshot,
    /// No lower number of a port is free.
    first_free: u32,
    /// Its bonds, and the ports that speak LACP.
    pub uplinks: Uplinks,
}

/// Whether workers are threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// The main loop polls and translates: dummy mode.
    None,
    /// The main loop polls, and handler threads translate.
    Handlers,
    /// They are.
    Real,
}

impl Backer {
    /// An empty datapath of a type.
    pub fn new(
        kind: &str,
        threads: Threads,
        topology: &Arc<Topology>,
        clock: &Clock,
        waker: Waker,
        seed: u64,
        neighbours: &Arc<SharedNeighbours>,
    ) -> std::io::Result<Backer> {
        let datapath = Datapath::new(&datapath::Config {
            seed,
            advise: Some(netdev::advise_huge),
            ..datapath::Config::default()
        });
        let shared = Arc::new(SharedState::new(waker, Arc::clone(neighbours)));
        let patches = Arc::new(PatchCounters::default());
        let handler = Arc::new(Handler::new(kind, Arc::clone(&shared), Arc::clone(&patches), seed));
        datapath.set_handler(Arc::clone(&handler) as Arc<dyn dpif::UpcallHandler>);
        let workers = match threads {
            Threads::None => Workers::inline(&datapath, topology, false),
            Threads::Handlers => Workers::inline(&datapath, topology, true),
            Threads::Real => Workers::threads(&datapath, topology, clock)?,
        };
        let kind = kind.to_owned();
        let dp_name = format!("ovs-{kind}");
        let name = format!("{kind}@{dp_name}");
        let revalidator = match threads {
            Threads::None | Threads::Handlers => Revalidator::inline(&name, &datapath, &shared, &handler),
            Threads::Real => Revalidator::threaded(&name, &datapath, &shared, &handler, clock)?,
        };
        let timers = Timers::new(&datapath, &handler, (threads == Threads::Real).then_some(clock));
        let mut changes = Changes::default();
        changes.all();
        let local = PortInfo { name: dp_name.clone(), kind: internal_kind(&kind).to_owned(), tunnels: 0 };
        Ok(Backer {
            dp_name,
            datapath,
            shared,
            handler,
            patches,
            timers,
            handlers: Handlers::default(),
            chain: Chain::new(cpu::derive(seed, b"xlations")),
            workers,
            // The datapath's own port: it has a name and a number, and no bridge uses it.
            ports: BTreeMap::from([(PortNo::LOCAL, local)]),
            changes,
            noted: 0,
            revalidator,
            retry: BTreeMap::new(),
            flows_max: 0,
            config: DatapathConfig::default(),
            timeouts: TimeoutPolicies::default(),
            next: NextSnapshot::default(),
            first_free: 1,
            uplinks: Uplinks::default(),
            kind,
        })
    }

    /// Everything that translations depend on may have changed.
    pub fn changed(&mut self) {
        self.changes.all();
    }

    /// Takes on what has changed in learning tables.
    pub fn take_live_changes(&mut self) {
        if let Some((changes, noted)) = self.shared.live.take() {
            self.changes.append(changes);
            self.noted = noted;
        }
    }

    /// Some megaflows may not be what the tables and the learning tables say, because a change has not got to them yet.
    pub fn is_unsettled(&self) -> bool {
        !self.changes.is_empty() || self.revalidator.is_behind() || self.shared.live.is_ahead()
    }

    /// `netdev@ovs-netdev`
    pub fn name(&self) -> String {
        format!("{}@{}", self.kind, self.dp_name)
    }

    /// The type by which the datapath shows and opens a device.
    pub fn open_kind<'a>(&self, kind: &'a str) -> &'a str
    where
        'static: 'a,
    {
        if kind == "internal" { internal_kind(&self.kind) } else { kind }
    }

    /// A number for a new port. In a dummy datapath the first number in its name, plus 100 for a name that begins with
    /// "br", so that tests can tell numbers from names; else the lowest free one.
    pub fn free_number(&self, name: &str) -> PortNo {
        if self.kind == "dummy" {
            let digits: String =
                name.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
            let base = if name.starts_with("br") { 100 } else { 0 };
            if let Ok(n) = digits.parse::<u32>() {
                let wanted = PortNo(n.saturating_add(base));
                if wanted.0 != 0 && wanted.0 <= datapath::ports::MAX_PORT && !self.ports.contains_key(&wanted)
                {
                    return wanted;
                }
            }
        }
        (self.first_free..).map(PortNo).find(|n| !self.ports.contains_key(n)).unwrap_or(PortNo::NONE)
    }

    /// Notes a port under its number.
    fn take_number(&mut self, number: PortNo, info: PortInfo) {
        self.ports.insert(number, info);
        while self.ports.contains_key(&PortNo(self.first_free)) {
            self.first_free += 1;
        }
    }

    /// No port has that number any more.
    fn free(&mut self, number: PortNo) {
        self.ports.remove(&number);
        self.next.snapshot.ingress.remove(&number);
        if number.0 > 0 {
            self.first_free = self.first_free.min(number.0);
        }
    }

    /// Makes an open device a port.
    pub fn add_port(&mut self, number: PortNo, netdev: &mut dyn Netdev) -> Result<(), AddError> {
        netdev.set_senders(self.workers.senders(netdev.is_pmd()));
        if netdev.needs_restart() {
            netdev.restart().map_err(AddError::Device)?;
        }
        self.datapath.add_port(number, tx_queues(netdev)).map_err(|_| AddError::NoRoom)?;
        let info = PortInfo { name: netdev.name().to_owned(), kind: netdev.kind().to_owned(), tunnels: 0 };
        self.take_number(number, info);
        self.give_queues(number, netdev);
        self.changed();
        Ok(())
    }

    fn give_queues(&mut self, number: PortNo, netdev: &mut dyn Netdev) {
        let port =
            PolledPort { name: netdev.name().to_owned(), numa: netdev.numa_id(), is_pmd: netdev.is_pmd() };
        self.workers.add(number, port, netdev.take_rx_queues());
    }

    /// A share in the datapath's port of this tunnel's kind, which is made for the first that wants one.
    pub fn share_tunnel(&mut self, config: &TunnelConfig) -> PortNo {
        self.changed();
        self.next.tunnels_changed = true;
        let name = config.datapath_name();
        let there = self.ports.iter_mut().find(|(_, p)| p.tunnels > 0 && p.name == name);
        let number = match there {
            Some((number, info)) => {
                info.tunnels += 1;
                *number
            }
            None => {
                let number = self.free_number(&name);
                self.take_number(number, PortInfo { name, kind: config.kind.clone(), tunnels: 1 });
                number
            }
        };
        if let Some(kind) = tunnel::Kind::of_name(&config.kind, config.gbp) {
            // The number is in range: it is a free one.
            let _ = self.datapath.set_tunnel(number, kind);
        }
        number
    }

    /// Gives such a share back.
    pub fn leave_tunnel(&mut self, number: PortNo) {
        let Some(info) = self.ports.get_mut(&number).filter(|p| p.tunnels > 0) else { return };
        info.tunnels -= 1;
        self.next.tunnels_changed = true;
        if info.tunnels == 0 {
            self.free(number);
            self.datapath.del_tunnel(number);
        }
        self.changed();
    }

    /// Takes a port away; the device may be closed afterwards. Queues that a worker which does not answer still has keep what
    /// is theirs of it.
    pub fn remove_port(&mut self, number: PortNo) {
        self.workers.remove(number);
        // The port exists: it is in our list. Nobody else removes any.
        let _ = self.datapath.del_port(number);
        let _ = self.workers.settle();
        self.free(number);
        self.retry.remove(&number);
        self.changed();
    }

    /// Its queues were replaced: workers take the new ones.
    pub fn renew_queues(&mut self, number: PortNo, netdev: &mut dyn Netdev) {
        // The old ones are dead, whoever still has them.
        let _ = self.workers.take_back(number);
        let _ = self.datapath.set_tx_queues(number, tx_queues(netdev));
        self.give_queues(number, netdev);
    }

    /// Stops a device, puts in force what waits for that, and starts it. Only this port pauses. After a failure it has no
    /// queues: it brings nothing, and what is sent there is dropped and counted. It fails where a worker does not answer that
    /// may be using the device.
    pub fn restart(&mut self, number: PortNo, netdev: &mut dyn Netdev) -> Result<(), NetdevError> {
        let held_up = |silent: Silent| NetdevError::plain(&silent.to_string());
        self.workers.take_back(number).map_err(held_up)?;
        // The port is there: it is in our list.
        let _ = self.datapath.set_tx_queues(number, Vec::new());
        self.workers.settle().map_err(held_up)?;
        netdev.restart()?;
        let _ = self.datapath.set_tx_queues(number, tx_queues(netdev));
        self.give_queues(number, netdev);
        Ok(())
    }
}

/// Why a device did not become a port.
#[derive(Debug)]
pub enum AddError {
    /// There are too many.
    NoRoom,
    /// The device does not start.
    Device(NetdevError),
}

fn tx_queues(netdev: &dyn Netdev) -> Vec<Box<dyn packet::queue::TxQueue>> {
    (0..netdev.n_txq().max(1)).map(|_| netdev.tx_queue()).collect()
}

/// What an internal port is in a datapath of this type.
fn internal_kind(datapath_kind: &str) -> &'static str {
    if datapath_kind == "dummy" { "dummy-internal" } else { "tap" }
}
