//! Auto load balance by forecast (`pmd-auto-lb-policy=predictive`): once a second core/pmd gets the counters, and the moves that it
//! decides are carried out.
//!
//! A move is a hand-over of one queue: no thread stops, histories stay, and no packet is lost or overtaken. In dummy mode time is
//! virtual and loads mean nothing, so this policy runs only if it is configured.

use crate::cycles;
use crate::forecast::Planned;
use crate::handle::{MAIN, Mode, worker_of};
use crate::log::LOG;
use crate::ports::Forecasted;
use crate::workers::Workers;
use datapath::{Datapath, Event};
use pmd::plan::{Plan, PollingCore, Queue};
use pmd::predictive::{Policy, preview};
use runtime::log::RateLimit;
use std::collections::BTreeMap;
use units::PortNo;
use units::{CoreId, Millis, NumaId, WorkerId};

const SECOND: Millis = Millis(1000);
/// A worker that was idle for less than 1/33 of a second counts as never idle.
const IDLE_PARTS: u64 = 33;

static ELEPHANTS: RateLimit = RateLimit::new(10, 10);

impl Workers {
    /// The policy in force.
    pub fn policy(&self) -> Policy {
        let by_itself = match self.mode {
            Mode::Inline(_) => Policy::Variance,
            Mode::Threads(_) => Policy::Predictive,
        };
        self.balancer.settings().policy.unwrap_or(by_itself)
    }

    pub(crate) fn predicts(&self) -> bool {
        self.balancer.settings().on && self.policy() == Policy::Predictive
    }

    /// When the main loop must call again.
    pub(crate) fn next_forecast(&self) -> Option<Millis> {
        self.predict.next.filter(|_| self.reads())
    }

    /// Whether loads are read each second. With threads they always are, for commands that preview a rebalance; in dummy mode only
    /// while the policy is in force.
    fn reads(&self) -> bool {
        let threads = matches!(self.mode, Mode::Threads(_)) && self.handles.len() > 1;
        threads || self.predicts()
    }

    /// Whether a second has ended, so that the drop counters of devices must be read.
    pub fn forecast_due(&self, now: Millis) -> bool {
        self.reads() && self.predict.next.is_none_or(|next| now >= next)
    }

    /// Whether auto load balance is on.
    pub fn balances(&self) -> bool {
        self.balancer.settings().on
    }

    /// Sets how many packets a port's device has dropped because they were not fetched in time.
    pub fn missed(&mut self, no: PortNo, packets: u64) {
        self.ports.missed(no, packets);
    }

    /// Moves that this policy has made so far.
    pub fn moves(&self) -> u64 {
        self.predict.moves
    }

    /// The moves that would balance the loads now.
    pub fn preview(&self) -> (Plan, Vec<Planned>) {
        let plan = preview(&self.polling_cores(), &self.plan_queues());
        let moves = self.named(&plan);
        (plan, moves)
    }

    /// The queues that would change their core if all were assigned by `pmd-rxq-assign` now.
    pub fn rebalanced(&self) -> Vec<Planned> {
        let cores: Vec<pmd::Core> = self.polling_cores().iter().map(|s| s.core).collect();
        let rxqs = self.ports.polled();
        let how = &self.polling;
        let given = pmd::assign::assign(&cores, &rxqs, how.algorithm, how.isolate).cores;
        let forecasts = self.ports.forecasts();
        let planned = |((rxq, to), f): ((&pmd::Rxq, &Option<CoreId>), Forecasted<'_>)| {
            let from = self.handles.get(&f.owner?)?.place.core;
            let to = to.filter(|to| *to != from)?;
            Some(Planned { port: rxq.port.clone(), queue: rxq.queue.0, from, to, load: f.forecast.next() })
        };
        rxqs.iter().zip(&given).zip(forecasts).filter_map(planned).collect()
    }

    /// Called by the main loop: once a second, reads the counters and makes the moves.
    pub(crate) fn predict(&mut self, datapath: &Datapath, now: Millis) {
        if !self.forecast_due(now) {
            return;
        }
        self.predict.next = Some(now + SECOND);
        self.read(datapath);
        if self.due || !self.predicts() {
            // Queues are about to be reassigned anyway, or the other policy is in force.
            return;
        }
        let (handles, queues) = (self.polling_cores(), self.plan_queues());
        self.log_elephants();
        let plan = self.predict.predictor.second(&handles, &queues, self.balancer.settings().hot);
        for node in plan.nodes.iter().filter(|n| n.moves != 0) {
            runtime::info!(
                LOG,
                "PMD auto load balance moves {} rx queues on numa node {}: busiest core {:.0}% -> {:.0}%, bound {:.0}%.",
                node.moves,
                node.numa.0,
                node.before * 100.0,
                node.after * 100.0,
                node.bound * 100.0
            );
        }
        for step in self.named(&plan) {
            runtime::info!(
                LOG,
                "PMD auto load balance moves port '{}' rx queue {} ({:.0}%) from core {} to core {}.",
                step.port,
                step.queue,
                step.load * 100.0,
                step.from.0,
                step.to.0
            );
        }
        self.predict.moves += plan.moves.len() as u64;
        let keys: Vec<_> = self.movable().map(|f| f.key).collect();
        for step in &plan.moves {
            self.send(keys[step.queue], worker_of(step.to), true);
        }
        self.deliver();
    }

    fn read(&mut self, datapath: &Datapath) {
        let at = cycles::now();
        let elapsed = (at - std::mem::replace(&mut self.predict.read_at, at)).0;
        let mut saturated = BTreeMap::new();
        for id in self.handles.keys() {
            let tally = datapath.worker_tally(*id);
            let idle = tally.get(Event::IdleCycles) + tally.get(Event::SleepCycles);
            let before = self.predict.idle.insert(*id, idle).unwrap_or(0);
            saturated.insert(*id, idle.saturating_sub(before) < elapsed / IDLE_PARTS);
        }
        self.ports.second(elapsed, |id| saturated.get(&id).copied().unwrap_or(false));
    }

    fn polling_cores(&self) -> Vec<PollingCore> {
        let handles = self.handles.values().filter(|s| s.place.id != MAIN);
        handles
            .map(|s| PollingCore {
                core: pmd::Core { id: s.place.core, numa: NumaId(s.place.numa) },
                sibling: self.topology.sibling(s.place.core),
                isolated: s.place.isolated,
            })
            .collect()
    }

    /// The polled queues, in the order of `Ports::forecasts`.
    fn movable(&self) -> impl Iterator<Item = Forecasted<'_>> {
        self.ports.forecasts().filter(|f| f.owner.is_some_and(|owner| owner != MAIN))
    }

    fn plan_queues(&self) -> Vec<Queue> {
        let core = |id: WorkerId| self.handles.get(&id).map_or(CoreId::UNPINNED, |s| s.place.core);
        self.movable()
            .map(|f| Queue {
                owner: f.owner.map_or(CoreId::UNPINNED, core),
                pinned: f.pinned,
                load: f.forecast.next(),
                doubt: f.forecast.doubt(),
            })
            .collect()
    }

    fn named(&self, plan: &Plan) -> Vec<Planned> {
        let queues: Vec<_> = self.movable().collect();
        let planned = |step: &pmd::plan::Move| {
            let queue = queues.get(step.queue)?;
            let port = queue.port.to_owned();
            let load = queue.forecast.next();
            Some(Planned { port, queue: queue.key.1.0, from: step.from, to: step.to, load })
        };
        plan.moves.iter().filter_map(planned).collect()
    }

    /// Logs queues that are too much for any core alone: an administrator has to split them.
    fn log_elephants(&mut self) {
        for f in self.ports.forecasts() {
            let load = f.forecast.level();
            if self.predict.predictor.is_elephant(f.key, load) {
                runtime::warn_rl!(
                    LOG,
                    ELEPHANTS,
                    "PMD auto load balance: port '{}' rx queue {} alone wants {:.0}% of a core, which no move can \
                     relieve. More rx queues would split it (it has {}: options:n_rxq, or queue pairs of the guest).",
                    f.port,
                    f.key.1.0,
                    load * 100.0,
                    f.queues
                );
            }
        }
    }
}
