//! The switch: owns all state of the control half, and runs in the main loop.

use crate::backer::{Backer, Threads};
use crate::database::DbClient;
use crate::datapaths::Datapaths;
use crate::findings::Findings;
use crate::limits::Limits;
use crate::machine::Machine;
use crate::options::Options;
use crate::port_position::PortPosition;
use crate::underlay::Underlay;
use config::Desired;
use netdev::open::{DummyLevel, Netdevs};
use netdev::rtnl::LinkMonitor;
use openflow_service::Bridge;
use pmd::metrics::Watch;
use pmd::{LatencyTarget, SleepMax};
use poll_threads::PmdSettings;
use runtime::{Clock, Waker};
use sampling::Exporters;
use std::collections::{BTreeMap, BTreeSet};
use translation::upcall::threads::Plan;
use units::Millis;

/// The switch. The order of the fields is the order in which they are dropped.
pub struct Switch {
    /// Options from the command line.
    pub options: Options,
    /// The clock: real or virtual time.
    pub clock: Clock,
    /// Wakes the main loop.
    pub waker: Waker,
    /// Bridges by name.
    pub bridges: BTreeMap<String, Bridge>,
    /// The thread that serves the OpenFlow sockets of bridges. `None` (dummy mode): the main loop serves them.
    pub(crate) openflow: Option<ofconn::SocketThread>,
    /// All datapaths.
    pub datapaths: Datapaths,
    /// Ports (bridge, name) that a command removed from the datapath. The next reconfiguration adds them again.
    pub removed_by_command: BTreeSet<(String, String)>,
    /// Settings of PMD threads.
    pub(crate) poll: PollSettings,
    /// Opens devices, and reports their changes.
    pub devices: Devices,
    /// Routes and neighbours for tunnels.
    pub underlay: Underlay,
    /// The database client.
    pub db: DbClient,
    /// The configuration that was applied last.
    pub applied: Desired,
    /// Limits of megaflows, and other settings of datapaths.
    pub limits: Limits,
    /// The identity of the next new bridge.
    pub(crate) next_bridge: u32,
    /// When periodic work was last done.
    pub(crate) last: Periodic,
    /// Revalidation is suspended until `revalidator/resume`.
    pub revalidation_paused: bool,
    /// State to be written to the database.
    pub status: StatusDue,
    /// Progress of the start of the switch.
    pub(crate) start: Start,
    /// Problems that were found in settings.
    pub(crate) findings: Findings,
    /// Facts about the machine.
    pub machine: Machine,
}

/// Progress of the start of the switch.
pub(crate) struct Start {
    /// The first configuration was applied.
    pub(crate) configured: bool,
    /// Flows are being restored (`flow-restore-wait`): packets are not translated, and controllers are not connected.
    /// This happens at most once, at the start.
    pub(crate) restoring: bool,
}

/// Settings of PMD threads.
#[derive(Default)]
pub(crate) struct PollSettings {
    /// Settings from the database.
    pub(crate) pmd_settings: PmdSettings,
    /// The longest sleep, `pmd-sleep-max`.
    pub(crate) sleep: SleepMax,
    /// The longest time that packets may wait for a sleeping thread, `pmd-latency-target`.
    pub(crate) latency: LatencyTarget,
    /// Faults in `pmd-sleep-max` and `pmd-latency-target`.
    pub(crate) faults: Vec<String>,
    /// Which iterations of PMD threads are logged.
    pub(crate) watch: Watch,
    /// The plan of handler threads, and what it was made from.
    pub(crate) handlers: Option<(HandlerNeeds, Plan)>,
}

/// What the plan of handler threads is made from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HandlerNeeds {
    /// `n-handler-threads`
    pub(crate) configured: Option<usize>,
    /// The cores of PMD threads.
    pub(crate) polled: Vec<u32>,
}

/// Opens devices, and reports their changes.
pub struct Devices {
    /// Opens devices.
    pub netdevs: Netdevs,
    /// Kernel notifications about devices.
    pub(crate) links: Option<LinkMonitor>,
}

/// State to be written to the database by the next transaction.
#[derive(Debug, Default)]
pub struct StatusDue {
    /// A state that the database shows has changed.
    pub due: bool,
    /// All rows have to be compared.
    pub(crate) all: bool,
    /// The position in the list of all ports, while the counters of all ports are being written.
    pub(crate) statistics: Option<PortPosition>,
    /// Routes, links, ports or rows changed since the status of tunnels was last computed.
    pub(crate) tunnels: bool,
}

impl StatusDue {
    /// Records that ports, links or rows changed: the new states, including those of tunnels, are written to the
    /// database.
    pub(crate) fn changed(&mut self) {
        (self.due, self.tunnels) = (true, true);
    }
}

/// When periodic work was last done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Periodic {
    /// Expiring flows.
    pub expiry: Millis,
    /// The main loop's part of megaflow expiry (`expire` in `run.rs`).
    pub megaflow_expiry: Millis,
    /// Updating the sessions' counts of received packets.
    pub counts: Millis,
    /// Reading link states of devices.
    pub link_states: Millis,
    /// Writing statistics to the database.
    pub statistics: Millis,
    /// Writing states to the database.
    pub status: Millis,
    /// The computation of the status of all tunnels.
    pub tunnel_status: Millis,
}

impl Switch {
    /// Creates a switch that follows the database of `options`. It does nothing before the first turn of the main loop.
    pub fn new(options: Options, clock: Clock, waker: Waker) -> Result<Switch, String> {
        let now = clock.now();
        // TLS is configured first, because the connection to the database may need it.
        transport::tls::configure(&options.tls)?;
        let mut db = DbClient::new(&options.database, now)?;
        // The first request is sent now, so that the server can answer it while the rest of the switch starts.
        db.run(now);
        let kernel = options.dummy != DummyLevel::OverrideAll;
        let links = kernel.then(LinkMonitor::open).and_then(Result::ok);
        let mut netdevs = Netdevs::new(options.dummy);
        let for_devices = waker.clone();
        netdevs.set_notify(move || for_devices.wake());
        netdev::guest_log::set_sink(crate::guest_log::log_line);
        let openflow = match options.dummy_mode() {
            true => None,
            false => Some(ofconn::SocketThread::start(clock.clone(), waker.clone()).map_err(|e| {
                format!("cannot start the thread of OpenFlow connections: {}", runtime::error_text(&e))
            })?),
        };
        let exporters = Exporters::new(&clock, options.threads() == Threads::PmdAndHandlers);
        Ok(Switch {
            clock,
            waker,
            bridges: BTreeMap::new(),
            openflow,
            datapaths: Datapaths::new(exporters),
            removed_by_command: BTreeSet::new(),
            poll: PollSettings::default(),
            devices: Devices { netdevs, links },
            underlay: Underlay::new(kernel && !options.disable_system_route),
            db,
            applied: Desired::default(),
            limits: Limits::default(),
            next_bridge: 1,
            last: Periodic { expiry: now, megaflow_expiry: now, ..Periodic::default() },
            revalidation_paused: false,
            status: StatusDue::default(),
            start: Start { configured: false, restoring: true },
            findings: Findings::default(),
            machine: Machine::new(options.topology.as_ref()),
            options,
        })
    }

    /// The datapath of a type; it is created if it does not exist.
    pub fn backer(&mut self, kind: &str) -> std::io::Result<&mut Backer> {
        if self.datapaths.of(kind).is_none() {
            let threads = self.options.threads();
            let seed = self.options.seed;
            let mut backer = Backer::new(
                kind,
                threads,
                &self.machine.topology,
                &self.clock,
                self.waker.clone(),
                seed,
                (&self.underlay.neighbours, &self.datapaths.exporters),
            )?;
            crate::capabilities::log_features(&backer.name());
            backer.workers.configure(&self.poll.pmd_settings);
            backer.workers.set_sleep(&self.poll.sleep);
            backer.workers.set_latency(&self.poll.latency);
            backer.workers.set_watch(self.poll.watch);
            backer.datapath.set_vlan_limit(self.limits.vlans);
            self.limits.apply_flow_limits(&backer);
            backer.revalidator.pause(self.revalidation_paused);
            backer.datapath.set_flow_cache(self.limits.cache);
            if self.start.restoring {
                backer.datapath.clear_handler();
            }
            backer.datapath.set_shadow_check(self.limits.shadow_check);
            backer.datapath.set_validate(self.limits.lookups.uses_autovalidator());
            backer.datapath.set_tx_flush_interval(self.limits.tx_flush_interval_us);
            let (first, last) = self.underlay.source_ports;
            backer.datapath.set_tunnel_source_ports(first, last);
            self.datapaths.add(backer);
        }
        self.datapaths.of_mut(kind).ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }
}
