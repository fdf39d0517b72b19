//! The experiments and their cells. A cell is one measurement: a cache under one kind of traffic.

use super::traffic::Distribution;
use flowcache::{CacheParams, Kind};

/// One measurement.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Name of the cache in the report.
    pub cache: &'static str,
    pub cache_params: CacheParams,
    pub flows: usize,
    pub subtables: usize,
    pub megaflows: usize,
    pub distribution: Distribution,
    /// Megaflows that are replaced per thousand packets.
    pub churn: f64,
    /// Number of packets before the measurement, and in each window of the measurement.
    pub packets: (usize, usize),
}

/// An experiment: its letter in the report, and its cells.
pub struct Experiment {
    pub letter: char,
    pub cells: Vec<Cell>,
}

/// A cache configuration: name, kind, `emc-insert-inv-prob`, SMC.
type CacheConfig = (&'static str, Kind, u32, bool);

const UNIFIED: CacheConfig = ("unified", Kind::Unified, 0, false);
const DPCLS: CacheConfig = ("none", Kind::Ovs, 0, false);
const EMC: CacheConfig = ("ovs: emc", Kind::Ovs, 100, false);
const EMC_SMC: CacheConfig = ("ovs: emc+smc", Kind::Ovs, 100, true);
const SMC: CacheConfig = ("smc", Kind::Smc, 0, true);
const DFC: CacheConfig = ("dfc", Kind::Dfc, 0, false);
const CD: CacheConfig = ("cd", Kind::Cd, 0, false);
const EMC_DFC: CacheConfig = ("emc+dfc", Kind::Dfc, 100, false);
const EMC_CD: CacheConfig = ("emc+cd", Kind::Cd, 100, false);

fn cache_params((_, kind, emc_insert_inv_prob, smc): CacheConfig) -> CacheParams {
    match kind {
        Kind::Unified => CacheParams::default(),
        kind => CacheParams { kind, emc_insert_inv_prob, smc },
    }
}

/// Scale of the experiments: maximum number of flows, and packets in a window.
#[derive(Clone, Copy)]
struct Size {
    flows: usize,
    window: usize,
}

impl Size {
    fn cell(self, config: CacheConfig, flows: usize) -> Cell {
        let flows = flows.min(self.flows);
        Cell {
            cache: config.0,
            cache_params: cache_params(config),
            flows,
            subtables: 5,
            megaflows: 20,
            distribution: Distribution::Equal,
            churn: 0.0,
            packets: (flows.max(20_000) * 8, self.window.max(flows)),
        }
    }
}

impl Experiment {
    pub fn all(quick: bool) -> Vec<Experiment> {
        let size = match quick {
            true => Size { flows: 10_000, window: 20_000 },
            false => Size { flows: 1_000_000, window: 1_000_000 },
        };
        vec![emc_ways(size), by_subtables(size), by_traffic(size), pages(size)]
    }
}

/// (a) Exact match caches with 10,000 flows and 3 subtables: one and two possible slots for a flow, both sizes, insertion
/// with probability 1 and 1/100.
fn emc_ways(size: Size) -> Experiment {
    let kinds = [
        ("1-hash 8k", Kind::Emc1),
        ("1-hash 16k", Kind::Emc1Large),
        ("2-hash 8k", Kind::Emc2),
        ("2-hash 16k", Kind::Emc2Large),
    ];
    let mut cells = Vec::new();
    for inv_prob in [1, 100] {
        for (name, kind) in kinds {
            let cell = size.cell((name, kind, inv_prob, false), 10_000);
            // With insertion probability 1/100 the steady state is reached later, so warm up with 20 times as many packets.
            let before = cell.packets.0 * if inv_prob == 1 { 1 } else { 20 };
            cells.push(Cell { subtables: 3, packets: (before, cell.packets.1), ..cell });
        }
    }
    Experiment { letter: 'a', cells }
}

/// (b) Every cache, with varying numbers of flows and subtables.
fn by_subtables(size: Size) -> Experiment {
    let configs = [DPCLS, EMC, EMC_SMC, SMC, DFC, CD, EMC_DFC, EMC_CD, UNIFIED];
    let mut cells = Vec::new();
    for flows in [10_000, 100_000, 1_000_000].into_iter().filter(|f| *f <= size.flows) {
        for subtables in [1, 3, 5, 10, 20] {
            cells.extend(configs.iter().map(|&c| Cell { subtables, ..size.cell(c, flows) }));
        }
    }
    Experiment { letter: 'b', cells }
}

/// (c) Distributions of flows with varying numbers of megaflows, with and without churn.
fn by_traffic(size: Size) -> Experiment {
    let configs = [EMC, EMC_SMC, DFC, CD, UNIFIED];
    let distributions = [Distribution::Uniform, Distribution::Zipf(0.9), Distribution::Zipf(1.1)];
    let mut cells = Vec::new();
    for distribution in distributions {
        for megaflows in [20, 1000, 60_000, 200_000].into_iter().filter(|m| *m <= size.flows) {
            for churn in [0.0, 1.0] {
                cells.extend(configs.iter().map(|&c| {
                    let cell = size.cell(c, 200_000);
                    Cell { megaflows, distribution, churn, ..cell }
                }));
            }
        }
    }
    Experiment { letter: 'c', cells }
}

/// (d) The large caches with a million flows, for the effect of huge pages.
fn pages(size: Size) -> Experiment {
    let cells = [SMC, DFC, CD, UNIFIED].map(|c| Cell { subtables: 10, ..size.cell(c, 1_000_000) });
    Experiment { letter: 'd', cells: cells.to_vec() }
}
