//! Simulation of rxq scheduling for hours of virtual time ([`policy`]), of receive buffers ([`buffers`]), of shared rx
//! queues ([`shared_queues`]), and of OVN deployments ([`region`]).
//!
//! Scheduling decisions are made by the crate `pmd`, the same code that the switch runs. Loads are generated from a seed,
//! and no clock is read: the same seed gives the same figures on every machine.

pub mod buffers;
pub mod load;
pub mod policy;
pub mod region;
pub mod shared_queues;

use load::{Kind, Load};
use policy::{Policy, Switch};

/// The result of a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Makespan (demand of the busiest core divided by the even load), mean over all seconds.
    pub mean: f64,
    /// Makespan, 99th percentile of all seconds.
    pub p99: f64,
    /// Demand that was not served, in percent.
    pub lost: f64,
    /// Queues moved per hour.
    pub moves: f64,
}

/// Runs a policy under a load for `seconds` seconds of virtual time.
pub fn run(
    policy: Policy,
    kind: Kind,
    (queues, cores): (usize, usize),
    seconds: usize,
    seed: u64,
) -> Outcome {
    let mut load = Load::new(kind, queues, cores, seed);
    let mut switch = Switch::new(policy, queues, cores);
    let (mut makespans, mut lost, mut demand, mut moves) = (Vec::with_capacity(seconds), 0.0, 0.0, 0);
    for _ in 0..seconds {
        let second = switch.run_second(&load.next_second());
        makespans.push(second.busiest / second.even_load);
        lost += second.lost;
        demand += second.demand;
        moves += second.moves;
    }
    makespans.sort_by(f64::total_cmp);
    let at = |share: f64| makespans.get((seconds as f64 * share) as usize).copied().unwrap_or(0.0);
    Outcome {
        mean: makespans.iter().sum::<f64>() / seconds.max(1) as f64,
        p99: at(0.99),
        lost: 100.0 * lost / demand,
        moves: moves as f64 * 3600.0 / seconds.max(1) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmd::Algorithm;

    #[test]
    fn equal_seeds_give_equal_results() {
        let once = || run(Policy::Predictive, Kind::OnOff, (16, 4), 200, 7);
        assert_eq!(once(), once());
    }

    #[test]
    fn predictive_holds_its_targets_where_load_drifts() {
        let of = |policy| run(policy, Kind::Drifting, (64, 8), 3600, 11);
        let (ours, group) = (of(Policy::Predictive), of(Policy::Variance(Algorithm::Group)));
        assert!(ours.mean <= 1.06 && ours.p99 <= 1.4 && ours.lost <= 0.05 && ours.moves <= 120.0, "{ours:?}");
        assert!(group.mean > ours.mean && group.lost > 5.0 * ours.lost, "{group:?}");
    }
}
