//! Auto load balance by forecast (`pmd-auto-lb-policy=predictive`): once a second, passes the load counters to the crate
//! `pmd` and executes the moves that it returns.
//!
//! A move is a hand-over of one queue: no thread stops, the queue keeps its load history, and no packet is lost or
//! reordered. In dummy mode time is virtual and loads have no meaning, so this policy runs only if it is configured.

use crate::cycles;
use crate::forecast::PlannedMove;
use crate::handle::{KERNEL_WORKER, Mode, worker_of};
use crate::log::LOG;
use crate::ports::QueueForecast;
use crate::workers::Workers;
use datapath::{Datapath, Event};
use pmd::plan_moves::{Plan, PollingCore, Queue};
use pmd::predictive::{Policy, preview};
use runtime::log::RateLimit;
use std::collections::BTreeMap;
use units::PortNo;
use units::{CoreId, Millis, NumaId, WorkerId};

const SECOND: Millis = Millis(1000);
/// A worker that was idle for less than 1/33 (3 %) of the second counts as saturated.
const SATURATED_IDLE_DIVISOR: u64 = 33;

static UNSPLITTABLE_QUEUES: RateLimit = RateLimit::new(10, 10);

impl Workers {
    /// The configured policy, or the default: predictive, in dummy mode variance.
    pub fn policy(&self) -> Policy {
        let default = match self.mode {
            Mode::Inline(_) => Policy::Variance,
            Mode::Threads(_) => Policy::Predictive,
        };
        self.balancer.settings().policy.unwrap_or(default)
    }

    /// Whether auto load balance is on with the predictive policy.
    pub(crate) fn is_predictive(&self) -> bool {
        self.balancer.settings().on && self.policy() == Policy::Predictive
    }

    /// When the main loop must call [`balance_by_forecast`](Self::balance_by_forecast) next. `None`: the counters are not read, or that
    /// function has not been called yet; its first call is due at once.
    pub(crate) fn next_forecast(&self) -> Option<Millis> {
        self.predict.next.filter(|_| self.reads_counters())
    }

    /// Whether the load counters are read each second. With PMD threads they always are, for commands that preview a
    /// rebalance; in dummy mode only while the predictive policy is on.
    fn reads_counters(&self) -> bool {
        let threads = matches!(self.mode, Mode::Threads(_)) && self.workers.len() > 1;
        threads || self.is_predictive()
    }

    /// Whether a second has ended, so that the caller must pass the drop counters of the devices
    /// ([`set_device_drops`](Self::set_device_drops)).
    pub fn forecast_due(&self, now: Millis) -> bool {
        self.reads_counters() && self.predict.next.is_none_or(|next| now >= next)
    }

    /// Whether auto load balance is on.
    pub fn is_auto_lb_on(&self) -> bool {
        self.balancer.settings().on
    }

    /// Sets how many packets a port's device has dropped because they were not fetched in time.
    pub fn set_device_drops(&mut self, no: PortNo, packets: u64) {
        self.ports.set_device_drops(no, packets);
    }

    /// Number of moves that the predictive policy has made so far.
    pub fn moves_made(&self) -> u64 {
        self.predict.moves
    }

    /// The moves that would balance the forecast loads now.
    pub fn preview(&self) -> (Plan, Vec<PlannedMove>) {
        let plan = preview(&self.polling_cores(), &self.plan_queues());
        let moves = self.with_port_names(&plan);
        (plan, moves)
    }

    /// The moves that a reassignment of all queues (`pmd-rxq-assign`) would make now.
    pub fn preview_reassignment(&self) -> Vec<PlannedMove> {
        let cores: Vec<pmd::Core> = self.polling_cores().iter().map(|s| s.core).collect();
        let rxqs = self.ports.pmd_queues();
        let settings = &self.pmd_settings;
        let given = pmd::assign::assign(&cores, &rxqs, settings.algorithm, settings.isolate).cores;
        let forecasts = self.ports.forecasts();
        let planned = |((rxq, to), f): ((&pmd::Rxq, &Option<CoreId>), QueueForecast<'_>)| {
            let from = self.workers.get(&f.owner?)?.info.core;
            let to = to.filter(|to| *to != from)?;
            Some(PlannedMove {
                port: rxq.port.clone(),
                queue: rxq.queue.0,
                from,
                to,
                load: f.forecast.next(),
            })
        };
        rxqs.iter().zip(&given).zip(forecasts).filter_map(planned).collect()
    }

    /// Called by the main loop: once a second, reads the counters and makes the moves.
    pub(crate) fn balance_by_forecast(&mut self, datapath: &Datapath, now: Millis) {
        if !self.forecast_due(now) {
            return;
        }
        self.predict.next = Some(now + SECOND);
        self.read_counters(datapath);
        if self.reconfiguration_due || !self.is_predictive() {
            // `reconfigure` is about to reassign queues anyway, or this policy is off.
            return;
        }
        let (cores, queues) = (self.polling_cores(), self.plan_queues());
        self.log_unsplittable_queues();
        let plan = self.predict.balancer.plan_moves(
            &cores,
            &queues,
            self.balancer.settings().predictive_load_threshold,
        );
        for node in plan.nodes.iter().filter(|n| n.moves != 0) {
            runtime::info!(
                LOG,
                "PMD auto load balance moves {} rx queues on numa node {}: busiest core {:.0}% -> {:.0}%, even load {:.0}%.",
                node.moves,
                node.numa.0,
                node.before * 100.0,
                node.after * 100.0,
                node.even_load * 100.0
            );
        }
        for queue_move in self.with_port_names(&plan) {
            runtime::info!(
                LOG,
                "PMD auto load balance moves port '{}' rx queue {} ({:.0}%) from core {} to core {}.",
                queue_move.port,
                queue_move.queue,
                queue_move.load * 100.0,
                queue_move.from.0,
                queue_move.to.0
            );
        }
        self.predict.moves += plan.moves.len() as u64;
        let keys: Vec<_> = self.queues_of_pmd_threads().map(|f| f.key).collect();
        for queue_move in &plan.moves {
            self.move_queue(keys[queue_move.queue], worker_of(queue_move.to), true);
        }
        self.deliver();
    }

    /// Reads the load counters and updates the forecasts.
    fn read_counters(&mut self, datapath: &Datapath) {
        let at = cycles::now();
        let elapsed = (at - std::mem::replace(&mut self.predict.read_at, at)).0;
        let mut saturated = BTreeMap::new();
        for id in self.workers.keys() {
            let tally = datapath.worker_tally(*id);
            let idle = tally.get(Event::IdleCycles) + tally.get(Event::SleepCycles);
            let before = self.predict.idle.insert(*id, idle).unwrap_or(0);
            saturated.insert(*id, idle.saturating_sub(before) < elapsed / SATURATED_IDLE_DIVISOR);
        }
        self.ports.add_second(elapsed, |id| saturated.get(&id).copied().unwrap_or(false));
    }

    fn polling_cores(&self) -> Vec<PollingCore> {
        let workers = self.workers.values().filter(|s| s.info.id != KERNEL_WORKER);
        workers
            .map(|s| PollingCore {
                core: pmd::Core { id: s.info.core, numa: NumaId(s.info.numa) },
                sibling: self.topology.sibling(s.info.core),
                isolated: s.info.isolated,
            })
            .collect()
    }

    /// The queues that PMD threads poll, in the order of `Ports::forecasts`.
    fn queues_of_pmd_threads(&self) -> impl Iterator<Item = QueueForecast<'_>> {
        self.ports.forecasts().filter(|f| f.owner.is_some_and(|owner| owner != KERNEL_WORKER))
    }

    /// The queues that PMD threads poll, as the planner needs them.
    fn plan_queues(&self) -> Vec<Queue> {
        let core = |id: WorkerId| self.workers.get(&id).map_or(CoreId::UNPINNED, |s| s.info.core);
        self.queues_of_pmd_threads()
            .map(|f| Queue {
                owner: f.owner.map_or(CoreId::UNPINNED, core),
                pinned: f.pinned,
                load: f.forecast.next(),
                deviation: f.forecast.deviation(),
            })
            .collect()
    }

    /// The moves of a plan, with the names of the ports.
    fn with_port_names(&self, plan: &Plan) -> Vec<PlannedMove> {
        let queues: Vec<_> = self.queues_of_pmd_threads().collect();
        let planned = |queue_move: &pmd::plan_moves::Move| {
            let queue = queues.get(queue_move.queue)?;
            let port = queue.port.to_owned();
            let load = queue.forecast.next();
            Some(PlannedMove { port, queue: queue.key.1.0, from: queue_move.from, to: queue_move.to, load })
        };
        plan.moves.iter().filter_map(planned).collect()
    }

    /// Logs each queue that needs nearly a whole core or more, once. Only more rx queues help, which the administrator must configure.
    fn log_unsplittable_queues(&mut self) {
        for f in self.ports.forecasts() {
            let load = f.forecast.level();
            if self.predict.balancer.must_report_unsplittable(f.key, load) {
                runtime::warn_rl!(
                    LOG,
                    UNSPLITTABLE_QUEUES,
                    "PMD auto load balance: port '{}' rx queue {} alone needs {:.0}% of a core, so moving \
                     queues does not help. More rx queues (options:n_rxq, or queue pairs of the guest) would divide the \
                     load; the port has {}.",
                    f.port,
                    f.key.1.0,
                    load * 100.0,
                    f.queues
                );
            }
        }
    }
}
