//! The policies, as the switch runs them: the crate `pmd` makes every decision from the measurements of simulated PMD
//! threads.
//!
//! PMD threads measure served load: a core with more demand than capacity serves each of its queues proportionally less. The rest
//! is dropped and counted as a device counts it.

use pmd::assign::assign;
use pmd::balance::{Balancer, Overload, Polling, Settings, try_out};
use pmd::forecast::{Counted, Forecast};
use pmd::load::INTERVAL;
use pmd::plan::{PollingCore, Queue};
use pmd::predictive::{HOT, Predictor};
use pmd::{Algorithm, Core, History, Rxq};
use units::{CoreId, Cycles, Millis, NumaId, PortNo, QueueId};

/// Cycles per second.
const HZ: f64 = 1e9;
/// Packets per second that a core forwards.
const RATE: f64 = 1e7;

/// A policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Queues are assigned once, by this algorithm.
    Once(Algorithm),
    /// `pmd-auto-lb` of Open vSwitch with its defaults, with this algorithm.
    Variance(Algorithm),
    /// `pmd-auto-lb-policy=predictive`.
    Predictive,
}

impl Policy {
    /// The policies that are compared.
    pub const ALL: [Policy; 4] = [
        Policy::Once(Algorithm::RoundRobin),
        Policy::Variance(Algorithm::Cycles),
        Policy::Variance(Algorithm::Group),
        Policy::Predictive,
    ];

    /// The name in the output.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Once(Algorithm::RoundRobin) => "roundrobin",
            Policy::Once(_) => "once",
            Policy::Variance(Algorithm::Group) => "group+variance",
            Policy::Variance(_) => "cycles+variance",
            Policy::Predictive => "predictive",
        }
    }
}

/// A queue as the switch sees it.
#[derive(Clone, Debug, Default)]
struct QueueState {
    counted: Counted,
    history: History,
    forecast: Forecast,
}

/// A switch with PMD threads.
pub struct Switch {
    policy: Policy,
    cores: Vec<Core>,
    /// The core of each queue, by index.
    owners: Vec<usize>,
    queues: Vec<QueueState>,
    busy: Vec<History>,
    busy_cycles: Vec<u64>,
    overloads: Vec<Overload>,
    balancer: Balancer,
    predictor: Predictor,
    now: Millis,
}

/// The result of a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Second {
    /// Demand of the busiest core.
    pub makespan: f64,
    /// Minimum demand of the busiest core over all assignments.
    pub bound: f64,
    /// Demand that was not served, in cores.
    pub lost: f64,
    /// Demand.
    pub asked: f64,
    /// Queues moved after it.
    pub moves: usize,
}

impl Switch {
    /// Assigns queues round robin, as at the start, when nothing has been measured.
    pub fn new(policy: Policy, queues: usize, cores: usize) -> Switch {
        let core = |id| Core { id: CoreId(id as u32), numa: NumaId(0) };
        let mut balancer = Balancer::default();
        balancer.configure(Settings { on: true, ..Settings::default() });
        Switch {
            policy,
            cores: (0..cores).map(core).collect(),
            owners: (0..queues).map(|q| q % cores).collect(),
            queues: vec![QueueState::default(); queues],
            busy: vec![History::default(); cores],
            busy_cycles: vec![0; cores],
            overloads: vec![Overload::default(); cores],
            balancer,
            predictor: Predictor::default(),
            now: Millis(0),
        }
    }

    /// Simulates a second with this demand of the queues.
    pub fn second(&mut self, wants: &[f64]) -> Second {
        let mut asked = vec![0.0; self.cores.len()];
        self.owners.iter().zip(wants).for_each(|(core, want)| asked[*core] += want);
        let max = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        let sum: f64 = wants.iter().sum();
        let mut second = Second {
            makespan: max(&asked),
            bound: max(wants).max(sum / self.cores.len() as f64),
            lost: asked.iter().map(|a| (a - 1.0).max(0.0)).sum(),
            asked: sum,
            moves: 0,
        };
        self.count(wants, &asked);
        self.now = self.now + Millis(1000);
        let before = self.owners.clone();
        self.decide(&asked);
        second.moves = before.iter().zip(&self.owners).filter(|(a, b)| a != b).count();
        second
    }

    fn count(&mut self, wants: &[f64], asked: &[f64]) {
        for ((queue, want), owner) in self.queues.iter_mut().zip(wants).zip(&self.owners) {
            let served = want / asked[*owner].max(1.0);
            queue.counted.cycles += (served * HZ) as u64;
            queue.counted.packets += (served * RATE) as u64;
            queue.counted.dropped += ((want - served) * RATE) as u64;
        }
        for (cycles, asked) in self.busy_cycles.iter_mut().zip(asked) {
            *cycles += (asked.min(1.0) * HZ) as u64;
        }
        if self.now.0.is_multiple_of(INTERVAL.0) {
            self.interval();
        }
    }

    fn interval(&mut self) {
        self.queues.iter_mut().for_each(|q| q.history.sample(Cycles(q.counted.cycles)));
        let all = (INTERVAL.0 as f64 / 1000.0 * HZ) as u64;
        let load = self.balancer.settings().load;
        for ((busy, cycles), overload) in self.busy.iter_mut().zip(&self.busy_cycles).zip(&mut self.overloads)
        {
            busy.sample(Cycles(*cycles));
            overload.interval(busy.last(), all, load);
        }
    }

    fn decide(&mut self, asked: &[f64]) {
        match self.policy {
            Policy::Once(_) => {}
            Policy::Variance(algorithm) => self.variance(algorithm),
            Policy::Predictive => self.predictive(asked),
        }
    }

    fn variance(&mut self, algorithm: Algorithm) {
        if !self.balancer.is_time(self.now) || !self.overloads.iter().any(Overload::lasts) {
            return;
        }
        let cycles = (INTERVAL.0 as f64 / 1000.0 * HZ) as u64;
        let polling = |core: &Core| Polling { core: *core, isolated: false, cycles };
        let polling: Vec<Polling> = self.cores.iter().map(polling).collect();
        let rxq = |(i, q): (usize, &QueueState)| Rxq {
            port: String::new(),
            no: PortNo(i as u32),
            queue: QueueId(0),
            numa: NumaId(0),
            cycles: q.history.total(),
            pinned: None,
        };
        let rxqs: Vec<Rxq> = self.queues.iter().enumerate().map(rxq).collect();
        let owners: Vec<Option<CoreId>> = self.owners.iter().map(|o| Some(CoreId(*o as u32))).collect();
        let improvement = self.balancer.settings().improvement;
        if try_out(&polling, &rxqs, &owners, (algorithm, true), improvement).worthwhile {
            let cores = assign(&self.cores, &rxqs, algorithm, true).cores;
            self.owners = cores.into_iter().flatten().map(|c| c.0 as usize).collect();
            // In Open vSwitch the PMD threads restart and count overload from the beginning.
            self.overloads = vec![Overload::default(); self.cores.len()];
        }
    }

    fn predictive(&mut self, asked: &[f64]) {
        let polling_core = |core: &Core| PollingCore { core: *core, sibling: None, isolated: false };
        let polling: Vec<PollingCore> = self.cores.iter().map(polling_core).collect();
        let mut queues = Vec::new();
        for (known, owner) in self.queues.iter_mut().zip(&self.owners) {
            known.forecast.read(known.counted, HZ as u64, asked[*owner] >= 1.0);
            let (load, doubt) = (known.forecast.next(), known.forecast.doubt());
            queues.push(Queue { owner: CoreId(*owner as u32), pinned: false, load, doubt });
        }
        for step in self.predictor.second(&polling, &queues, HOT).moves {
            self.owners[step.queue] = step.to.0 as usize;
        }
    }
}
