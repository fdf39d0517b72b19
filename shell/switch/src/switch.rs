//! The switch: owns everything, and takes its turns in the main loop.

use crate::backer::Backer;
use crate::database::DbClient;
use crate::datapaths::Datapaths;
use crate::findings::Findings;
use crate::limits::Limits;
use crate::lookups::Lookups;
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
use std::collections::{BTreeMap, BTreeSet};
use units::{Millis, OfPort};

/// See the module. Fields are in the order in which they are torn down.
pub struct Switch {
    /// What the command line says.
    pub options: Options,
    /// The time.
    pub clock: Clock,
    /// The main loop's.
    pub waker: Waker,
    /// Bridges by name.
    pub bridges: BTreeMap<String, Bridge>,
    /// Datapaths.
    pub datapaths: Datapaths,
    /// Bridges' ports (bridge, name) that a command took from the datapath, until the next reconfiguration.
    pub taken: BTreeSet<(String, String)>,
    /// What poll threads are to do.
    pub(crate) poll: PollSettings,
    /// Which look-up in subtables is in force.
    pub lookups: Lookups,
    /// Opens devices, and hears of them.
    pub devices: Devices,
    /// The network under tunnels.
    pub underlay: Underlay,
    /// The database.
    pub db: DbClient,
    /// What the running switch has been brought to.
    pub applied: Desired,
    /// Limits of megaflows.
    pub limits: Limits,
    /// The next bridge's identity.
    pub(crate) next_bridge: u32,
    /// When periodic work was last done.
    pub(crate) last: Periodic,
    /// Megaflows are left as they are until `revalidator/resume`.
    pub paused: bool,
    /// What is to be written to the database.
    pub status: StatusDue,
    /// The first configuration has been read.
    pub(crate) greeted: bool,
    /// Flows are being restored (`flow-restore-wait`): nothing is translated, and controllers wait. Once it is over it
    /// does not come back.
    pub(crate) restoring: bool,
    /// What was found wrong with settings.
    pub(crate) findings: Findings,
    /// The machine.
    pub machine: Machine,
}

/// What poll threads are to do.
#[derive(Default)]
pub(crate) struct PollSettings {
    /// What the database says of them.
    pub(crate) polling: Polling,
    /// How long it lets them sleep.
    pub(crate) sleep: SleepMax,
    /// How long it lets packets wait for sleeping ones.
    pub(crate) latency: LatencyTarget,
    /// What of the settings of both is not obeyed as it stands.
    pub(crate) faults: Vec<String>,
    /// Which of their turns are told to the log.
    pub(crate) watch: Watch,
}

/// Opens devices, and hears of them.
pub struct Devices {
    /// Opens them.
    pub netdevs: Netdevs,
    /// Kernel events about them.
    pub(crate) links: Option<LinkMonitor>,
}

/// What is to be written to the database at the next occasion.
#[derive(Debug, Default)]
pub struct StatusDue {
    /// A state changed that the database shows.
    pub due: bool,
    /// Every row is to be compared.
    pub(crate) all: bool,
    /// Where the round through the counters of all ports is, if one is under way.
    pub(crate) round: Option<Round>,
}

/// A place in all bridges and ports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    /// The bridge, by name.
    pub(crate) bridge: String,
    /// The port in it whose turn was last.
    pub(crate) after: Option<OfPort>,
}

/// When periodic work was last done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Periodic {
    /// Expiring flows.
    pub expiry: Millis,
    /// Folding statistics, expiring megaflows.
    pub idle: Millis,
    /// Telling BFD what ports have received.
    pub counts: Millis,
    /// Looking at devices' links.
    pub looks: Millis,
    /// Writing statistics to the database.
    pub statistics: Millis,
    /// Writing states to the database.
    pub status: Millis,
}

impl Switch {
    /// A switch that follows the database of `options`. Nothing runs before the first turn.
    pub fn new(options: Options, clock: Clock, waker: Waker) -> Result<Switch, String> {
        let now = clock.now();
        // The database itself may be reached by TLS.
        transport::tls::configure(&options.tls)?;
        let db = DbClient::new(&options.database, now)?;
        let kernel = options.dummy != DummyLevel::OverrideAll;
        let links = kernel.then(LinkMonitor::open).and_then(Result::ok);
        let mut netdevs = Netdevs::new(options.dummy);
        let for_devices = waker.clone();
        netdevs.set_notify(move || for_devices.wake());
        Ok(Switch {
            clock,
            waker,
            bridges: BTreeMap::new(),
            datapaths: Datapaths::default(),
            taken: BTreeSet::new(),
            poll: PollSettings::default(),
            lookups: Lookups::default(),
            devices: Devices { netdevs, links },
            underlay: Underlay::new(kernel && !options.disable_system_route),
            db,
            applied: Desired::default(),
            limits: Limits::default(),
            next_bridge: 1,
            last: Periodic { expiry: now, idle: now, ..Periodic::default() },
            paused: false,
            status: StatusDue::default(),
            greeted: false,
            restoring: true,
            findings: Findings::default(),
            machine: Machine::new(options.topology.as_ref()),
            options,
        })
    }

    /// The datapath of a type, made when it is first asked for.
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
                &self.underlay.neighbours,
            )?;
            backer.workers.configure(&self.poll.polling);
            backer.workers.set_sleep(&self.poll.sleep);
            backer.workers.set_latency(&self.poll.latency);
            backer.workers.watch(self.poll.watch);
            backer.datapath.set_vlan_limit(self.limits.vlans);
            self.limits.give_room(&backer);
            backer.revalidator.pause(self.paused);
            backer.datapath.set_flow_cache(self.limits.cache);
            if self.restoring {
                backer.datapath.clear_handler();
            }
            backer.datapath.set_shadow_check(self.limits.shadow_check);
            backer.datapath.set_validate(self.lookups.validate());
            backer.datapath.set_tx_hold(self.limits.tx_hold);
            let (first, last) = self.underlay.source_ports;
            backer.datapath.set_tunnel_source_ports(first, last);
            self.datapaths.add(backer);
        }
        self.datapaths.of_mut(kind).ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }
}
