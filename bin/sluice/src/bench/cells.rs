//! What is measured: cells of experiments.

use super::traffic::Distribution;
use flowcache::{Choice, Kind};

/// One measurement.
#[derive(Clone, Debug)]
pub struct Cell {
    /// What the cache is called here.
    pub cache: &'static str,
    pub choice: Choice,
    pub flows: usize,
    pub subtables: usize,
    pub megaflows: usize,
    pub distribution: Distribution,
    /// Megaflows that are replaced, in a thousand packets.
    pub churn: f64,
    /// Packets before, and in each of the windows.
    pub packets: (usize, usize),
}

pub struct Experiment {
    pub letter: char,
    pub cells: Vec<Cell>,
}

/// The contestants: name, kind, `emc-insert-inv-prob`, SMC.
type Contestant = (&'static str, Kind, u32, bool);

const UNIFIED: Contestant = ("unified", Kind::Unified, 0, false);
const DPCLS: Contestant = ("none", Kind::Ovs, 0, false);
const EMC: Contestant = ("ovs: emc", Kind::Ovs, 100, false);
const EMC_SMC: Contestant = ("ovs: emc+smc", Kind::Ovs, 100, true);
const SMC: Contestant = ("smc", Kind::Smc, 0, true);
const DFC: Contestant = ("dfc", Kind::Dfc, 0, false);
const CD: Contestant = ("cd", Kind::Cd, 0, false);
const EMC_DFC: Contestant = ("emc+dfc", Kind::Dfc, 100, false);
const EMC_CD: Contestant = ("emc+cd", Kind::Cd, 100, false);

fn choice((_, kind, emc_insert_inv_prob, smc): Contestant) -> Choice {
    match kind {
        Kind::Unified => Choice::default(),
        kind => Choice { kind, emc_insert_inv_prob, smc },
    }
}

/// How many flows are the most, and packets a window.
#[derive(Clone, Copy)]
struct Size {
    flows: usize,
    window: usize,
}

impl Size {
    fn cell(self, contestant: Contestant, flows: usize) -> Cell {
        let flows = flows.min(self.flows);
        Cell {
            cache: contestant.0,
            choice: choice(contestant),
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

/// (a) 10k flows, 3 subtables, one and two places, each size, let in always and one in a hundred.
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
            // One in a hundred needs a hundred times the packets to settle.
            let before = cell.packets.0 * if inv_prob == 1 { 1 } else { 20 };
            cells.push(Cell { subtables: 3, packets: (before, cell.packets.1), ..cell });
        }
    }
    Experiment { letter: 'a', cells }
}

/// (b) The table of the discussion, and every cache in its cells.
fn by_subtables(size: Size) -> Experiment {
    let contestants = [DPCLS, EMC, EMC_SMC, SMC, DFC, CD, EMC_DFC, EMC_CD, UNIFIED];
    let mut cells = Vec::new();
    for flows in [10_000, 100_000, 1_000_000].into_iter().filter(|f| *f <= size.flows) {
        for subtables in [1, 3, 5, 10, 20] {
            cells.extend(contestants.iter().map(|&c| Cell { subtables, ..size.cell(c, flows) }));
        }
    }
    Experiment { letter: 'b', cells }
}

/// (c) Distributions by megaflows, without and with churn.
fn by_traffic(size: Size) -> Experiment {
    let contestants = [EMC, EMC_SMC, DFC, CD, UNIFIED];
    let distributions = [Distribution::Uniform, Distribution::Zipf(0.9), Distribution::Zipf(1.1)];
    let mut cells = Vec::new();
    for distribution in distributions {
        for megaflows in [20, 1000, 60_000, 200_000].into_iter().filter(|m| *m <= size.flows) {
            for churn in [0.0, 1.0] {
                cells.extend(contestants.iter().map(|&c| {
                    let cell = size.cell(c, 200_000);
                    Cell { megaflows, distribution, churn, ..cell }
                }));
            }
        }
    }
    Experiment { letter: 'c', cells }
}

/// (d) The large tables at a million flows.
fn pages(size: Size) -> Experiment {
    let cells = [SMC, DFC, CD, UNIFIED].map(|c| Cell { subtables: 10, ..size.cell(c, 1_000_000) });
    Experiment { letter: 'd', cells: cells.to_vec() }
}
