//! Scheduling policies under simulated load: the crate `pmd` makes every decision from the measurements of simulated PMD
//! threads.
//!
//! PMD threads measure served load. If the demand of a core's queues exceeds its capacity, the core serves each of them
//! proportionally less. The remaining packets are dropped, and counted as drops of the device.

use pmd::assign::assign;
use pmd::balance::{Balancer, DryRunCore, Overload, Settings, dry_run};
use pmd::forecast::{Forecast, QueueCounters};
use pmd::load::INTERVAL;
use pmd::plan_moves::{PollingCore, Queue};
use pmd::predictive::{DEFAULT_LOAD_THRESHOLD, PredictiveBalancer};
use pmd::{Algorithm, Core, History, Rxq};
use units::{CoreId, Cycles, Millis, NumaId, PortNo, QueueId};

/// Cycles per second.
const HZ: f64 = 1e9;
/// Packets per second that a core can forward.
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

/// The switch's state of a queue.
#[derive(Clone, Debug, Default)]
struct QueueState {
    counters: QueueCounters,
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
    predictive_balancer: PredictiveBalancer,
    now: Millis,
}

/// The result of a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Second {
    /// Demand of the busiest core, in cores.
    pub busiest: f64,
    /// Even load: the lowest demand of the busiest core that an assignment could reach, in cores.
    pub even_load: f64,
    /// Demand that was not served, in cores.
    pub lost: f64,
    /// Demand of all queues, in cores.
    pub demand: f64,
    /// Number of queues moved at the end of the second.
    pub moves: usize,
}

impl Switch {
    /// Assigns the queues round robin, as the switch does at its start, when no load has been measured.
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
            predictive_balancer: PredictiveBalancer::default(),
            now: Millis(0),
        }
    }

    /// Simulates one second. `demands`: the demand of each queue, in cores.
    pub fn run_second(&mut self, demands: &[f64]) -> Second {
        let mut core_demands = vec![0.0; self.cores.len()];
        self.owners.iter().zip(demands).for_each(|(core, demand)| core_demands[*core] += demand);
        let max = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        let sum: f64 = demands.iter().sum();
        let mut second = Second {
            busiest: max(&core_demands),
            even_load: max(demands).max(sum / self.cores.len() as f64),
            lost: core_demands.iter().map(|demand| (demand - 1.0).max(0.0)).sum(),
            demand: sum,
            moves: 0,
        };
        self.update_counters(demands, &core_demands);
        self.now = self.now + Millis(1000);
        let before = self.owners.clone();
        self.run_policy(&core_demands);
        second.moves = before.iter().zip(&self.owners).filter(|(a, b)| a != b).count();
        second
    }

    /// Adds the second to the counters of queues and cores.
    fn update_counters(&mut self, demands: &[f64], core_demands: &[f64]) {
        for ((queue, demand), owner) in self.queues.iter_mut().zip(demands).zip(&self.owners) {
            let served = demand / core_demands[*owner].max(1.0);
            queue.counters.cycles += (served * HZ) as u64;
            queue.counters.packets += (served * RATE) as u64;
            queue.counters.dropped += ((demand - served) * RATE) as u64;
        }
        for (cycles, demand) in self.busy_cycles.iter_mut().zip(core_demands) {
            *cycles += (demand.min(1.0) * HZ) as u64;
        }
        if self.now.0.is_multiple_of(INTERVAL.0) {
            self.end_interval();
        }
    }

    /// Stores the loads at the end of an interval of the load history.
    fn end_interval(&mut self) {
        self.queues.iter_mut().for_each(|q| q.history.sample(Cycles(q.counters.cycles)));
        let all = (INTERVAL.0 as f64 / 1000.0 * HZ) as u64;
        let load = self.balancer.settings().load;
        for ((busy, cycles), overload) in self.busy.iter_mut().zip(&self.busy_cycles).zip(&mut self.overloads)
        {
            busy.sample(Cycles(*cycles));
            overload.interval(busy.last(), all, load);
        }
    }

    fn run_policy(&mut self, core_demands: &[f64]) {
        match self.policy {
            Policy::Once(_) => {}
            Policy::Variance(algorithm) => self.run_variance(algorithm),
            Policy::Predictive => self.run_predictive(core_demands),
        }
    }

    fn run_variance(&mut self, algorithm: Algorithm) {
        if !self.balancer.begin_check_if_due(self.now) || !self.overloads.iter().any(Overload::lasts_a_minute)
        {
            return;
        }
        let cycles = (INTERVAL.0 as f64 / 1000.0 * HZ) as u64;
        let polling = |core: &Core| DryRunCore { core: *core, isolated: false, cycles };
        let polling: Vec<DryRunCore> = self.cores.iter().map(polling).collect();
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
        if dry_run(&polling, &rxqs, &owners, (algorithm, true), improvement).worthwhile {
            let cores = assign(&self.cores, &rxqs, algorithm, true).cores;
            self.owners = cores.into_iter().flatten().map(|c| c.0 as usize).collect();
            // In Open vSwitch the PMD threads restart, and start to count intervals of overload again.
            self.overloads = vec![Overload::default(); self.cores.len()];
        }
    }

    fn run_predictive(&mut self, core_demands: &[f64]) {
        let polling_core = |core: &Core| PollingCore { core: *core, sibling: None, isolated: false };
        let polling: Vec<PollingCore> = self.cores.iter().map(polling_core).collect();
        let mut queues = Vec::new();
        for (queue, owner) in self.queues.iter_mut().zip(&self.owners) {
            queue.forecast.add_counters(queue.counters, HZ as u64, core_demands[*owner] >= 1.0);
            let (load, deviation) = (queue.forecast.next(), queue.forecast.deviation());
            queues.push(Queue { owner: CoreId(*owner as u32), pinned: false, load, deviation });
        }
        for step in self.predictive_balancer.plan_moves(&polling, &queues, DEFAULT_LOAD_THRESHOLD).moves {
            self.owners[step.queue] = step.to.0 as usize;
        }
    }
}
