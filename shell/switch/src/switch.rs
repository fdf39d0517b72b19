//! The switch: owns everything, and takes its turns in the main loop.

use crate::backer::Backer;
use crate::bridge::Bridge;
use crate::commands::{Pending, PerfLog};
use crate::database::DbClient;
use crate::hand_made::HandMade;
use crate::lookups::Lookups;
use crate::options::Options;
use crate::revalidate::Limits;
use crate::workers::Polling;
use config::Desired;
use netdev::open::{DummyLevel, Netdevs};
use netdev::rtnl::LinkMonitor;
use pmd::{LatencyTarget, SleepMax, Topology};
use runtime::{Clock, Waker};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use units::Millis;

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
    /// Datapaths by type.
    pub backers: BTreeMap<String, Backer>,
    /// Datapaths that commands made, by their full names.
    pub hand_made: BTreeMap<String, HandMade>,
    /// Bridges' ports (bridge, name) that a command took from the datapath, until the next reconfiguration.
    pub taken: BTreeSet<(String, String)>,
    /// The cores of the machine.
    pub topology: Arc<Topology>,
    /// What the database says of poll threads.
    pub polling: Polling,
    /// How long it lets poll threads sleep.
    pub sleep: SleepMax,
    /// How long it lets packets wait for sleeping ones.
    pub latency: LatencyTarget,
    /// What of the settings of both is not obeyed as it stands.
    pub(crate) sleep_faults: Vec<String>,
    /// Which of their turns are told to the log.
    pub perf_log: PerfLog,
    /// Which look-up in subtables is in force.
    pub lookups: Lookups,
    /// Opens devices.
    pub netdevs: Netdevs,
    /// Kernel events about devices.
    pub links: Option<LinkMonitor>,
    /// The database.
    pub db: DbClient,
    /// What the running switch has been brought to.
    pub applied: Desired,
    /// Limits of megaflows.
    pub limits: Limits,
    /// Commands that are not answered yet.
    pub pending: Vec<Pending>,
    /// `exit` was called: with or without clean-up.
    pub exiting: Option<bool>,
    /// The next bridge's identity.
    pub next_bridge: u32,
    /// When periodic work was last done.
    pub last: Periodic,
    /// Megaflows are left as they are until `revalidator/resume`.
    pub paused: bool,
    /// A state changed that the database shows.
    pub status_due: bool,
    /// Statistics are to be written at the next occasion.
    pub statistics_due: bool,
    /// The first configuration has been read.
    pub greeted: bool,
    /// Flows are being restored (`flow-restore-wait`): nothing is translated, and controllers wait. Once it is over it
    /// does not come back.
    pub restoring: bool,
    /// What was said about settings.
    pub(crate) told: BTreeSet<config::settings::check::Finding>,
    /// What rows say of what they ask for in vain.
    pub(crate) in_vain: crate::settings::InVain,
    /// What became of DPDK.
    pub dpdk: crate::dpdk_start::DpdkStart,
    /// The cores that this process may use.
    pub(crate) cores: BTreeSet<u32>,
    /// Name and version of the operating system.
    pub system: (String, String),
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
        let bell = waker.clone();
        netdevs.set_notify(move || bell.wake());
        let uname = rustix::system::uname();
        Ok(Switch {
            netdevs,
            clock,
            waker,
            bridges: BTreeMap::new(),
            backers: BTreeMap::new(),
            hand_made: BTreeMap::new(),
            taken: BTreeSet::new(),
            topology: Arc::new(crate::cpus::topology(options.topology.as_ref())),
            polling: Polling::default(),
            sleep: SleepMax::default(),
            latency: LatencyTarget::default(),
            sleep_faults: Vec::new(),
            perf_log: PerfLog::default(),
            lookups: Lookups::default(),
            links,
            db,
            applied: Desired::default(),
            limits: Limits::default(),
            pending: Vec::new(),
            exiting: None,
            next_bridge: 1,
            last: Periodic { expiry: now, idle: now, ..Periodic::default() },
            paused: false,
            status_due: false,
            statistics_due: false,
            greeted: false,
            restoring: true,
            told: BTreeSet::new(),
            in_vain: BTreeMap::new(),
            dpdk: Default::default(),
            cores: crate::handlers::allowed_cores(),
            system: (
                uname.sysname().to_string_lossy().to_lowercase(),
                uname.release().to_string_lossy().into_owned(),
            ),
            options,
        })
    }

    /// The datapath of a type, made when it is first asked for.
    pub fn backer(&mut self, kind: &str) -> std::io::Result<&mut Backer> {
        if !self.backers.contains_key(kind) {
            let threads = self.options.threads();
            let seed = self.options.seed;
            let mut backer =
                Backer::new(kind, threads, &self.topology, &self.clock, self.waker.clone(), seed)?;
            backer.workers.configure(&self.polling);
            backer.workers.set_sleep(&self.sleep);
            backer.workers.set_latency(&self.latency);
            backer.workers.watch(self.perf_log.watch());
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
            self.backers.insert(kind.to_owned(), backer);
        }
        self.backers.get_mut(kind).ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }
}
