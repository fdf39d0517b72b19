//! The switch: owns all state, and runs in the main loop.

use crate::backer::{Backer, Threads};
use crate::database::DbClient;
use crate::datapaths::Datapaths;
use crate::findings::Findings;
use crate::limits::Limits;
use crate::machine::Machine;
use crate::options::Options;
use crate::underlay::Underlay;
use config::Desired;
use netdev::open::{DummyLevel, Netdevs};
use netdev::rtnl::LinkMonitor;
use openflow_service::Bridge;
use pmd::metrics::Watch;
use pmd::{LatencyTarget, SleepMax};
use poll_threads::Polling;
use runtime::{Clock, Waker};
use sampling::Exporters;
use std::collections::{BTreeMap, BTreeSet};
use units::{Millis, OfPort};

/// The switch. Fields are in the order in which they are dropped.
pub struct Switch {
    /// Options from the command line.
    pub options: Options,
    /// The time.
    pub clock: Clock,
    /// Wakes the main loop.
    pub waker: Waker,
    /// Bridges by name.
    pub bridges: BTreeMap<String, Bridge>,
    /// The thread of their OpenFlow sockets. `None`: the main loop serves them, as in dummy mode.
    pub(crate) openflow: Option<ofconn::Serving>,
    /// Datapaths.
    pub datapaths: Datapaths,
    /// Ports (bridge, name) that a command removed from the datapath, until the next reconfiguration.
    pub taken: BTreeSet<(String, String)>,
    /// Settings of PMD threads.
    pub(crate) poll: PollSettings,
    /// Opens devices, and reports their changes.
    pub devices: Devices,
    /// Routes and neighbours for tunnels.
    pub underlay: Underlay,
    /// The database client.
    pub db: DbClient,
    /// The configuration that is in force.
    pub applied: Desired,
    /// Limits of megaflows, and other settings of datapaths.
    pub limits: Limits,
    /// The next bridge's identity.
    pub(crate) next_bridge: u32,
    /// When periodic work was last done.
    pub(crate) last: Periodic,
    /// Revalidation is suspended until `revalidator/resume`.
    pub paused: bool,
    /// State to be written to the database.
    pub status: StatusDue,
    /// How far the start is.
    pub(crate) start: Start,
    /// Problems that were found in settings.
    pub(crate) findings: Findings,
    /// Facts about the machine.
    pub machine: Machine,
}

/// How far the start is.
pub(crate) struct Start {
    /// The first configuration was applied.
    pub(crate) configured: bool,
    /// Flows are being restored (`flow-restore-wait`): nothing is translated, and controllers are not connected.
    /// Happens at most once.
    pub(crate) restoring: bool,
}

/// Settings of PMD threads.
#[derive(Default)]
pub(crate) struct PollSettings {
    /// Settings from the database.
    pub(crate) polling: Polling,
    /// The longest sleep, `pmd-sleep-max`.
    pub(crate) sleep: SleepMax,
    /// The longest time that packets may wait for a sleeping thread, `pmd-latency-target`.
    pub(crate) latency: LatencyTarget,
    /// Faults in the settings of both.
    pub(crate) faults: Vec<String>,
    /// Which iterations are logged.
    pub(crate) watch: Watch,
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
    /// A state changed that the database shows.
    pub due: bool,
    /// All rows are to be compared.
    pub(crate) all: bool,
    /// Progress of the pass over the counters of all ports, if one is in progress.
    pub(crate) round: Option<Round>,
    /// Routes, links, ports or rows changed since the status of tunnels was last computed.
    pub(crate) tunnels: bool,
}

impl StatusDue {
    /// Ports, links or rows changed: the database gets the new states, those of tunnels too.
    pub(crate) fn changed(&mut self) {
        (self.due, self.tunnels) = (true, true);
    }
}

/// A position in the list of all bridges and ports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    /// The bridge, by name.
    pub(crate) bridge: String,
    /// The last port of the bridge that was handled.
    pub(crate) after: Option<OfPort>,
}

/// When periodic work was last done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Periodic {
    /// Expiring flows.
    pub expiry: Millis,
    /// Folding statistics, expiring megaflows.
    pub idle: Millis,
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
    /// Creates a switch that follows the database of `options`. It does nothing before the first iteration.
    pub fn new(options: Options, clock: Clock, waker: Waker) -> Result<Switch, String> {
        let now = clock.now();
        // The database itself may be connected by TLS.
        transport::tls::configure(&options.tls)?;
        let mut db = DbClient::new(&options.database, now)?;
        // The server answers the first request while the rest is started.
        db.run(now);
        let kernel = options.dummy != DummyLevel::OverrideAll;
        let links = kernel.then(LinkMonitor::open).and_then(Result::ok);
        let mut netdevs = Netdevs::new(options.dummy);
        let for_devices = waker.clone();
        netdevs.set_notify(move || for_devices.wake());
        netdev::guest_log::divert(crate::guest_log::log_line);
        let openflow = match options.dummy_mode() {
            true => None,
            false => Some(ofconn::Serving::start(clock.clone(), waker.clone()).map_err(|e| {
                format!("cannot start the thread of OpenFlow connections: {}", runtime::error_text(&e))
            })?),
        };
        let exporters = Exporters::new(&clock, options.threads() == Threads::Real);
        Ok(Switch {
            clock,
            waker,
            bridges: BTreeMap::new(),
            openflow,
            datapaths: Datapaths::new(exporters),
            taken: BTreeSet::new(),
            poll: PollSettings::default(),
            devices: Devices { netdevs, links },
            underlay: Underlay::new(kernel && !options.disable_system_route),
            db,
            applied: Desired::default(),
            limits: Limits::default(),
            next_bridge: 1,
            last: Periodic { expiry: now, idle: now, ..Periodic::default() },
            paused: false,
            status: StatusDue::default(),
            start: Start { configured: false, restoring: true },
            findings: Findings::default(),
            machine: Machine::new(options.topology.as_ref()),
            options,
        })
    }

    /// The datapath of a type, which is created if necessary.
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
            crate::capabilities::announce(&backer.name());
            backer.workers.configure(&self.poll.polling);
            backer.workers.set_sleep(&self.poll.sleep);
            backer.workers.set_latency(&self.poll.latency);
            backer.workers.watch(self.poll.watch);
            backer.datapath.set_vlan_limit(self.limits.vlans);
            self.limits.apply_flow_limits(&backer);
            backer.revalidator.pause(self.paused);
            backer.datapath.set_flow_cache(self.limits.cache);
            if self.start.restoring {
                backer.datapath.clear_handler();
            }
            backer.datapath.set_shadow_check(self.limits.shadow_check);
            backer.datapath.set_validate(self.limits.lookups.validate());
            backer.datapath.set_tx_hold(self.limits.tx_hold);
            let (first, last) = self.underlay.source_ports;
            backer.datapath.set_tunnel_source_ports(first, last);
            self.datapaths.add(backer);
        }
        self.datapaths.of_mut(kind).ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }
}
