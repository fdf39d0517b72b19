//! `pmd-auto-lb-policy=variance`, the policy of Open vSwitch 3.7: decides whether to reassign all rx queues because a
//! core is overloaded.
//!
//! Queues are reassigned if three conditions hold: a core was overloaded for a whole minute; the configured interval
//! since the last check has passed; and a dry run of the assignment reduces the variance of the core loads of a NUMA
//! node by the configured percentage.

use crate::assign::{Algorithm, Rxq, assign};
use crate::cores::Core;
use crate::load::{INTERVALS, variance};
use crate::predictive::{DEFAULT_LOAD_THRESHOLD, Policy};
use std::collections::{BTreeMap, BTreeSet};
use units::{CoreId, Millis, NumaId};

const MINUTE: Millis = Millis::from_secs(60);

/// The settings of auto load balance in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `pmd-auto-lb`
    pub on: bool,
    /// `pmd-auto-lb-load-threshold` for the variance policy: a core that is busy for this percentage of the
    /// time is overloaded.
    pub load: u8,
    /// `pmd-auto-lb-improvement-threshold`: smallest reduction of the variance, in percent, for which queues are
    /// reassigned.
    pub improvement: u8,
    /// `pmd-auto-lb-rebal-interval`: time between two checks, in minutes.
    pub minutes: u64,
    /// `pmd-auto-lb-policy`, if set.
    pub policy: Option<Policy>,
    /// Load limit of the predictive policy in percent: the load threshold if it is set, otherwise the default of that
    /// policy.
    pub predictive_load_threshold: u8,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            on: false,
            load: 95,
            improvement: 25,
            minutes: 1,
            policy: None,
            predictive_load_threshold: DEFAULT_LOAD_THRESHOLD,
        }
    }
}

/// Counts the consecutive intervals in which a core was overloaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overload {
    intervals: usize,
}

impl Overload {
    /// Called at the end of an interval in which `busy` of `all` cycles were spent on packets. `threshold`: in percent.
    pub fn interval(&mut self, busy: u64, all: u64, threshold: u8) {
        let percent = (u128::from(busy) * 100).checked_div(u128::from(all)).unwrap_or(0);
        self.intervals = if percent >= u128::from(threshold) { self.intervals + 1 } else { 0 };
    }

    /// Whether the core has been overloaded for a minute.
    pub fn lasts_a_minute(&self) -> bool {
        self.intervals >= INTERVALS
    }
}

/// A core with a PMD thread, as the dry run needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DryRunCore {
    /// The core.
    pub core: Core,
    /// The core polls pinned queues only.
    pub isolated: bool,
    /// Cycles that passed in the last interval.
    pub cycles: u64,
}

/// Decides when to check the balance, and whether a check can find an improvement.
#[derive(Clone, Debug, Default)]
pub struct Balancer {
    /// `None`: not configured yet.
    settings: Option<Settings>,
    /// Time of the last check.
    last: Option<Millis>,
    /// Whether a dry run can find an improvement; `None`: the configuration changed since this was determined.
    can_improve: Option<bool>,
}

impl Balancer {
    /// The present settings.
    pub fn settings(&self) -> Settings {
        self.settings.unwrap_or_default()
    }

    /// Applies new settings and returns the lines to log.
    pub fn configure(&mut self, new: Settings) -> Vec<String> {
        let old = self.settings.replace(new);
        let differs = |part: fn(&Settings) -> u64| old.as_ref().map(part) != Some(part(&new));
        let mut lines = Vec::new();
        if differs(|s| s.minutes) {
            lines.push(format!("interval set to {} mins", new.minutes));
        }
        if differs(|s| s.improvement.into()) {
            lines.push(format!("improvement threshold set to {}%", new.improvement));
        }
        if differs(|s| s.load.into()) {
            lines.push(format!("load threshold set to {}%", new.load));
        }
        if !lines.is_empty() || differs(|s| s.on.into()) {
            lines.push(match new.on {
                true => format!(
                    "is enabled, interval {} mins, pmd load threshold {}%, improvement threshold {}%.",
                    new.minutes, new.load, new.improvement
                ),
                false => "is disabled.".to_owned(),
            });
        }
        if !new.on {
            self.last = None;
        }
        lines.iter().map(|l| format!("PMD auto load balance {l}")).collect()
    }

    /// To be called when cores, queues or the assignment have changed.
    pub fn configuration_changed(&mut self) {
        self.can_improve = None;
    }

    /// Returns whether a check is due now. If so, or if there was no check yet, the next interval begins at
    /// `now`.
    pub fn begin_check_if_due(&mut self, now: Millis) -> bool {
        let Settings { on, minutes, .. } = self.settings();
        let interval = Millis(MINUTE.0 * minutes);
        let time = on && self.last.is_some_and(|last| last + interval < now);
        if on && (time || self.last.is_none()) {
            self.last = Some(now);
        }
        time
    }

    /// Whether reassigning can change anything; otherwise the reason why not. `queues`: the number of queues that
    /// each core polls.
    pub fn can_improve(
        &mut self,
        algorithm: Algorithm,
        cores: &[(DryRunCore, usize)],
    ) -> Result<(), &'static str> {
        match self.can_improve {
            Some(true) => return Ok(()),
            Some(false) => return Err("no configuration changes since last check."),
            None => {}
        }
        let free = || cores.iter().filter(|(core, _)| !core.isolated);
        let found = if algorithm == Algorithm::RoundRobin {
            Err("pmd-rxq-assign=roundrobin assignment type configured.")
        } else if free().count() < 2 || free().all(|(_, queues)| *queues < 2) {
            Err("not enough non-isolated PMDs or RxQs.")
        } else {
            Ok(())
        };
        self.can_improve = Some(found.is_ok());
        found
    }
}

/// The result of a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DryRun {
    /// The improvement reaches the threshold.
    pub worthwhile: bool,
    /// The lines to log.
    pub lines: Vec<String>,
}

/// Computes a new assignment without applying it and compares the variance of the core loads. `owners`: the core that
/// polls each queue now. `algorithm_and_isolate`: the algorithm, and whether cores with pinned queues are isolated. `threshold`: in percent.
pub fn dry_run(
    cores: &[DryRunCore],
    rxqs: &[Rxq],
    owners: &[Option<CoreId>],
    algorithm_and_isolate: (Algorithm, bool),
    threshold: u8,
) -> DryRun {
    let all: Vec<Core> = cores.iter().map(|c| c.core).collect();
    let estimate = assign(&all, rxqs, algorithm_and_isolate.0, algorithm_and_isolate.1);
    let mut lines: Vec<String> = estimate.notes.into_iter().map(|n| n.text).collect();
    let nodes: BTreeSet<NumaId> = all.iter().map(|c| c.numa).collect();
    if estimate.cross_numa && nodes.len() > 1 {
        lines.push(
            "PMD auto load balance detected cross-numa polling with multiple numa nodes. Unable to accurately estimate."
                .to_owned(),
        );
        return DryRun { worthwhile: false, lines };
    }
    let mut load: BTreeMap<CoreId, u64> = BTreeMap::new();
    for (rxq, owner) in rxqs.iter().zip(owners) {
        owner.iter().for_each(|core| *load.entry(*core).or_insert(0) += rxq.cycles);
    }
    let isolated = cores.iter().filter(|c| c.isolated).map(|c| c.core.id).collect();
    let mut worthwhile = false;
    for node in nodes {
        let (now, then) = (
            load_variance(cores, node, &isolated, &load),
            load_variance(cores, node, &estimate.isolated, &estimate.load),
        );
        let improvement = (now.saturating_sub(then) * 100).checked_div(now).unwrap_or(0);
        lines.push(format!(
            "Numa node {}. Current variance {now} Estimated variance {then}. Variance improvement {improvement}%.",
            node.0
        ));
        worthwhile |= improvement >= u64::from(threshold);
    }
    let met = if worthwhile { "met" } else { "not met" };
    lines.push(format!("PMD load variance improvement threshold {threshold}% is {met}."));
    DryRun { worthwhile, lines }
}

/// The variance of the loads (in percent) of the node's cores that are not isolated.
fn load_variance(
    cores: &[DryRunCore],
    node: NumaId,
    isolated: &BTreeSet<CoreId>,
    load: &BTreeMap<CoreId, u64>,
) -> u64 {
    let busy = |c: &DryRunCore| {
        let minute = u128::from(c.cycles) * INTERVALS as u128;
        let load = u128::from(load.get(&c.core.id).copied().unwrap_or(0));
        (load * 100).checked_div(minute).unwrap_or(0) as u64
    };
    let here = cores.iter().filter(|c| c.core.numa == node && !isolated.contains(&c.core.id));
    variance(&here.map(busy).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{PortNo, QueueId};

    const HOW: (Algorithm, bool) = (Algorithm::Cycles, true);

    fn polling(id: u32, numa: u32) -> DryRunCore {
        let core = Core { id: CoreId(id), numa: NumaId(numa) };
        DryRunCore { core, isolated: false, cycles: 1000 }
    }

    fn rxq(queue: u16, cycles: u64) -> Rxq {
        let (no, queue) = (PortNo(1), QueueId(queue));
        Rxq { port: "p".to_owned(), no, queue, numa: NumaId(0), cycles, pinned: None }
    }

    fn on() -> Balancer {
        let mut balancer = Balancer::default();
        balancer.configure(Settings { on: true, ..Settings::default() });
        balancer
    }

    #[test]
    fn changed_settings_are_logged() {
        let mut balancer = Balancer::default();
        let lines = balancer.configure(Settings::default());
        assert_eq!(lines.first().unwrap(), "PMD auto load balance interval set to 1 mins");
        assert_eq!((lines.len(), lines.last().unwrap().as_str()), (4, "PMD auto load balance is disabled."));
        assert!(balancer.configure(Settings::default()).is_empty());
        assert_eq!(
            balancer.configure(Settings { on: true, load: 80, improvement: 50, ..Settings::default() }),
            [
                "PMD auto load balance improvement threshold set to 50%",
                "PMD auto load balance load threshold set to 80%",
                "PMD auto load balance is enabled, interval 1 mins, pmd load threshold 80%, improvement threshold 50%."
            ]
        );
    }

    #[test]
    fn overload_must_last_a_minute() {
        let mut overload = Overload::default();
        (0..11).for_each(|_| overload.interval(95, 100, 95));
        assert!(!overload.lasts_a_minute());
        overload.interval(96, 100, 95);
        assert!(overload.lasts_a_minute());
        overload.interval(94, 100, 95);
        assert!(!overload.lasts_a_minute());
        (0..12).for_each(|_| overload.interval(0, 0, 0));
        assert!(overload.lasts_a_minute());
    }

    #[test]
    fn it_checks_once_an_interval() {
        let mut balancer = on();
        assert!(!balancer.begin_check_if_due(Millis(1000)) && !balancer.begin_check_if_due(Millis(61_000)));
        assert!(balancer.begin_check_if_due(Millis(61_001)) && !balancer.begin_check_if_due(Millis(61_002)));
        balancer.configure(Settings::default());
        assert!(!balancer.begin_check_if_due(Millis(1_000_000)));
    }

    #[test]
    fn no_dry_run_if_it_cannot_change_anything() {
        let mut balancer = on();
        let two = [(polling(0, 0), 1), (polling(1, 0), 2)];
        assert!(balancer.can_improve(Algorithm::RoundRobin, &two).unwrap_err().contains("roundrobin"));
        assert!(balancer.can_improve(Algorithm::Cycles, &two).unwrap_err().starts_with("no configuration"));
        balancer.configuration_changed();
        assert_eq!(balancer.can_improve(Algorithm::Cycles, &two), Ok(()));
        let isolated = DryRunCore { isolated: true, ..polling(1, 0) };
        for cores in [&two[1..], &[(polling(0, 0), 1), (polling(1, 0), 1)], &[two[1], (isolated, 3)]] {
            balancer.configuration_changed();
            assert!(balancer.can_improve(Algorithm::Cycles, cores).unwrap_err().starts_with("not enough"));
        }
    }

    #[test]
    fn two_busy_queues_of_one_core_are_worth_reassigning() {
        let cores = [polling(0, 0), polling(1, 0)];
        let rxqs = [rxq(0, 6000), rxq(1, 6000), rxq(2, 0)];
        let here = [Some(CoreId(0)), Some(CoreId(0)), Some(CoreId(1))];
        let trial = dry_run(&cores, &rxqs, &here, HOW, 50);
        assert!(trial.worthwhile);
        assert!(trial.lines.contains(
            &"Numa node 0. Current variance 2500 Estimated variance 0. Variance improvement 100%.".to_owned()
        ));
        assert_eq!(trial.lines.last().unwrap(), "PMD load variance improvement threshold 50% is met.");
        // The assignment is already the best possible.
        let there = [Some(CoreId(0)), Some(CoreId(1)), Some(CoreId(1))];
        assert!(!dry_run(&cores, &rxqs, &there, HOW, 50).worthwhile);
        assert!(dry_run(&cores, &rxqs, &there, HOW, 0).worthwhile);
    }

    #[test]
    fn nothing_is_estimated_across_nodes() {
        let rxqs = [rxq(0, 6000), rxq(1, 6000)];
        let owners = [Some(CoreId(0)), Some(CoreId(0))];
        let foreign = dry_run(&[polling(0, 1), polling(1, 2)], &rxqs, &owners, HOW, 0);
        assert!(!foreign.worthwhile && foreign.lines.last().unwrap().contains("cross-numa polling"));
        // If only one node has PMD threads, the estimate is accurate.
        assert!(dry_run(&[polling(0, 1), polling(1, 1)], &rxqs, &owners, HOW, 25).worthwhile);
    }
}
