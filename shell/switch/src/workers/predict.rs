//! Auto load balance by forecast: once a second the decision (core/pmd) is told what was counted, and its moves are made.
//!
//! Only the queues that move are touched, by the hand-over of every move: nobody stops, histories stay, no packet is lost
//! or overtaken. In dummy mode, whose time is virtual and whose loads mean nothing, it works only when it is asked for.

use super::{LOG, MAIN, Mode, Workers, worker_of};
use crate::cycles;
use datapath::{Datapath, Event};
use pmd::plan::{Plan, PollingCore, Queue};
use pmd::predictive::{Policy, Predictor, preview};
use runtime::log::RateLimit;
use std::collections::BTreeMap;
use units::{CoreId, Cycles, Millis, NumaId, PortNo, WorkerId};

const SECOND: Millis = Millis(1000);
/// A worker that was idle for less than one part of so many had no time to spare.
const IDLE_PARTS: u64 = 33;

static ELEPHANTS: RateLimit = RateLimit::new(10, 10);

/// What the loop remembers.
#[derive(Debug, Default)]
pub(super) struct Loop {
    predictor: Predictor,
    next: Option<Millis>,
    read_at: Cycles,
    /// Of each worker: cycles that it ever was idle or asleep.
    idle: BTreeMap<WorkerId, u64>,
    /// Queues that it ever moved.
    moves: u64,
}

/// A move and what it is good for, for who asks.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// Name of the port.
    pub port: String,
    /// The queue's number there.
    pub queue: u16,
    /// Who polls it.
    pub from: CoreId,
    /// Who is to.
    pub to: CoreId,
    /// What the queue is forecast to want, in cores.
    pub load: f64,
}

impl Workers {
    /// The policy in force.
    pub fn policy(&self) -> Policy {
        let by_itself = match self.mode {
            Mode::Inline(_) => Policy::Variance,
            Mode::Threads(_) => Policy::Predictive,
        };
        self.balancer.settings().policy.unwrap_or(by_itself)
    }

    pub(super) fn predicts(&self) -> bool {
        self.balancer.settings().on && self.policy() == Policy::Predictive
    }

    /// When the main loop is to come back for it.
    pub(super) fn next_forecast(&self) -> Option<Millis> {
        self.predict.next.filter(|_| self.reads())
    }

    /// Loads are read each second, for who asks what a rebalance would do; in dummy mode only when they are obeyed.
    fn reads(&self) -> bool {
        let threads = matches!(self.mode, Mode::Threads(_)) && self.seats.len() > 1;
        threads || self.predicts()
    }

    /// A second has ended: what devices dropped is wanted.
    pub fn forecast_due(&self, now: Millis) -> bool {
        self.reads() && self.predict.next.is_none_or(|next| now >= next)
    }

    /// Queues are given out anew when a core has too much to do.
    pub fn balances(&self) -> bool {
        self.balancer.settings().on
    }

    /// A port's device has ever dropped so many packets since nobody took them.
    pub fn missed(&mut self, no: PortNo, packets: u64) {
        self.ports.missed(no, packets);
    }

    /// How many queues the loop ever moved.
    pub fn moves(&self) -> u64 {
        self.predict.moves
    }

    /// What would be moved if loads were to be made even this very moment.
    pub fn preview(&self) -> (Plan, Vec<Planned>) {
        let plan = preview(&self.polling_cores(), &self.plan_queues());
        let moves = self.named(&plan);
        (plan, moves)
    }

    /// Who would poll what if the queues were given out by `pmd-rxq-assign` this very moment: those that would change.
    pub fn rebalanced(&self) -> Vec<Planned> {
        let cores: Vec<pmd::Core> = self.polling_cores().iter().map(|s| s.core).collect();
        let rxqs = self.ports.polled();
        let how = &self.polling;
        let given = pmd::assign::assign(&cores, &rxqs, how.algorithm, how.isolate).cores;
        let forecasts = self.ports.forecasts();
        let planned = |((rxq, to), f): ((&pmd::Rxq, &Option<CoreId>), super::ports::Forecasted<'_>)| {
            let from = self.seats.get(&f.owner?)?.place.core;
            let to = to.filter(|to| *to != from)?;
            Some(Planned { port: rxq.port.clone(), queue: rxq.queue.0, from, to, load: f.forecast.next() })
        };
        rxqs.iter().zip(&given).zip(forecasts).filter_map(planned).collect()
    }

    /// Once a second: reads what was counted, and moves what has to move.
    pub(super) fn predict(&mut self, datapath: &Datapath, now: Millis) {
        if !self.forecast_due(now) {
            return;
        }
        self.predict.next = Some(now + SECOND);
        self.read(datapath);
        if self.due || !self.predicts() {
            // Queues are about to be given out anyway, or by the other policy.
            return;
        }
        let (seats, queues) = (self.polling_cores(), self.plan_queues());
        self.tell_elephants();
        let plan = self.predict.predictor.second(&seats, &queues, self.balancer.settings().hot);
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
        for id in self.seats.keys() {
            let tally = datapath.worker_tally(*id);
            let idle = tally.get(Event::IdleCycles) + tally.get(Event::SleepCycles);
            let before = self.predict.idle.insert(*id, idle).unwrap_or(0);
            saturated.insert(*id, idle.saturating_sub(before) < elapsed / IDLE_PARTS);
        }
        self.ports.second(elapsed, |id| saturated.get(&id).copied().unwrap_or(false));
    }

    fn polling_cores(&self) -> Vec<PollingCore> {
        let seats = self.seats.values().filter(|s| s.place.id != MAIN);
        seats
            .map(|s| PollingCore {
                core: pmd::Core { id: s.place.core, numa: NumaId(s.place.numa) },
                sibling: self.topology.sibling(s.place.core),
                isolated: s.place.isolated,
            })
            .collect()
    }

    /// The queues that are polled, in one order for all who count them.
    fn movable(&self) -> impl Iterator<Item = super::ports::Forecasted<'_>> {
        self.ports.forecasts().filter(|f| f.owner.is_some_and(|owner| owner != MAIN))
    }

    fn plan_queues(&self) -> Vec<Queue> {
        let core = |id: WorkerId| self.seats.get(&id).map_or(CoreId::UNPINNED, |s| s.place.core);
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

    /// Queues that alone are too much for any core: somebody has to split them.
    fn tell_elephants(&mut self) {
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
