//! Settings of PMD threads, and restarts of devices that the settings require.
//!
//! `Workers` records a change of settings, and `apply_worker_changes` applies the change; the main loop calls `apply_worker_changes` in each
//! turn and around every command.

use crate::backer::Backer;
use crate::log::LOG;
use crate::switch::Switch;
use netdev::device::Netdev;
use openflow_service::Backing;
use pmd::balance::Settings;
use pmd::metrics::Watch;
use pmd::predictive::DEFAULT_LOAD_THRESHOLD;
use pmd::{Algorithm, LatencyTarget, Policy, SleepMax};
use poll_threads::PmdSettings;
use runtime::Module;
use runtime::log::Level;
use settings::root::{
    PMD_AUTO_LB, PMD_AUTO_LB_IMPROVEMENT_THRESHOLD, PMD_AUTO_LB_LOAD_THRESHOLD, PMD_AUTO_LB_POLICY,
    PMD_AUTO_LB_REBAL_INTERVAL, PMD_CPU_MASK, PMD_LATENCY_TARGET, PMD_MAXSLEEP, PMD_PERF_METRICS,
    PMD_RXQ_ASSIGN, PMD_RXQ_ISOLATE, PMD_SLEEP_MAX,
};
use std::collections::BTreeMap;
use units::{Millis, PortNo, QueueId};

static DPIF: Module = Module::new("dpif_netdev");

/// After a failed restart of a device, the next attempt is made after this time, or when the device changes. Attempts
/// are rare because waiting for a device to stop blocks the main loop.
const RETRY: Millis = Millis(1000);

/// Reads the settings of PMD threads. A setting that contradicts another one is logged and ignored.
fn read_pmd_settings(config: &BTreeMap<String, String>) -> PmdSettings {
    let algorithm = Algorithm::parse(PMD_RXQ_ASSIGN.word(config)).unwrap_or_else(|| {
        runtime::warn!(
            DPIF,
            "Unsupported rx queue to PMD assignment mode in pmd-rxq-assign. Defaulting to 'cycles'."
        );
        Algorithm::Cycles
    });
    let mut isolate = PMD_RXQ_ISOLATE.flag_of(config);
    if !isolate && algorithm != Algorithm::Group {
        runtime::warn!(DPIF, "pmd-rxq-isolate can only be set false when using pmd-rxq-assign=group");
        isolate = true;
    }
    PmdSettings {
        mask: PMD_CPU_MASK.get(config).map(str::to_owned),
        algorithm,
        isolate,
        metrics: PMD_PERF_METRICS.flag_of(config),
        balance: read_balance(config),
    }
}

fn read_balance(config: &BTreeMap<String, String>) -> Settings {
    let load = PMD_AUTO_LB_LOAD_THRESHOLD.number(config) as u8;
    let given = PMD_AUTO_LB_LOAD_THRESHOLD.get(config).is_some();
    Settings {
        on: PMD_AUTO_LB.flag_of(config),
        load,
        predictive_load_threshold: if given { load } else { DEFAULT_LOAD_THRESHOLD },
        policy: PMD_AUTO_LB_POLICY.get(config).map(|word| Policy::parse(word).unwrap_or(Policy::Predictive)),
        improvement: PMD_AUTO_LB_IMPROVEMENT_THRESHOLD.number(config) as u8,
        // 0 means the default, 1 minute.
        minutes: PMD_AUTO_LB_REBAL_INTERVAL.number(config).max(1) as u64,
    }
}

/// Reads `pmd-sleep-max` (deprecated name: `pmd-maxsleep`). Errors in the value are added to `faults`.
fn read_sleep(config: &BTreeMap<String, String>, faults: &mut Vec<String>) -> SleepMax {
    let old = || {
        let text = PMD_MAXSLEEP.get(config)?;
        runtime::warn!(DPIF, "pmd-maxsleep is deprecated. Please use pmd-sleep-max instead.");
        Some(text)
    };
    let text = PMD_SLEEP_MAX.get(config).or_else(old).unwrap_or_default();
    SleepMax::parse_with_warnings(text, |why| faults.push(format!("{}: {why}", PMD_SLEEP_MAX.key)))
}

/// Logs what changed.
fn log_changes(old: &PmdSettings, new: &PmdSettings) {
    if old.algorithm != new.algorithm {
        runtime::info!(DPIF, "Rxq to PMD assignment mode changed to: '{}'.", new.algorithm.name());
    }
    match (old.isolate, new.isolate) {
        (false, true) => runtime::info!(DPIF, "pmd-rxq-affinity isolates PMD core"),
        (true, false) => runtime::info!(DPIF, "pmd-rxq-affinity does not isolate PMD core"),
        _ => {}
    }
}

impl Switch {
    /// Applies the settings of PMD threads in `other_config`.
    pub(crate) fn configure_polling(&mut self, config: &BTreeMap<String, String>) {
        let pmd_settings = read_pmd_settings(config);
        log_changes(&self.poll.pmd_settings, &pmd_settings);
        for backer in self.datapaths.with_bridges_mut() {
            backer.workers.configure(&pmd_settings);
        }
        self.poll.pmd_settings = pmd_settings;
        let mut faults = Vec::new();
        let sleep = read_sleep(config, &mut faults);
        if sleep != self.poll.sleep {
            self.datapaths.with_bridges_mut().for_each(|b| b.workers.set_sleep(&sleep));
            self.poll.sleep = sleep;
        }
        let text = PMD_LATENCY_TARGET.get(config).unwrap_or_default();
        let note = |why| faults.push(format!("{}: {why}", PMD_LATENCY_TARGET.key));
        let target = LatencyTarget::parse_with_warnings(text, note);
        if target != self.poll.latency {
            self.datapaths.with_bridges_mut().for_each(|b| b.workers.set_latency(&target));
            self.poll.latency = target;
        }
        self.log_sleep_faults(faults);
    }

    /// Logs each fault when it appears, and again only after it was absent.
    fn log_sleep_faults(&mut self, faults: Vec<String>) {
        // Scripts that test Open vSwitch fail on warnings that it does not log.
        let level = if self.options.dummy_mode() { Level::Info } else { Level::Warn };
        for fault in faults.iter().filter(|f| !self.poll.faults.contains(f)) {
            DPIF.log(level, format_args!("{fault}"));
        }
        self.poll.faults = faults;
    }

    /// Sets, for all PMD threads, which iterations are logged.
    pub fn watch_iterations(&mut self, watch: Watch) {
        self.poll.watch = watch;
        self.datapaths.all_mut().for_each(|b| b.workers.set_watch(watch));
    }

    /// Whether the queue is in use: a guest may use fewer queues than the device has.
    pub fn is_rxq_enabled(&self, backer: &Backer, no: PortNo, queue: QueueId) -> bool {
        let made = self.datapaths.unbridged_named(&backer.name()).and_then(|m| m.devices.get(&no));
        let of_bridges = || {
            let bridges = self.bridges.values().filter(|b| b.config.datapath_type == backer.datapath_type);
            bridges.flat_map(|b| b.ports.values()).find_map(|p| match &p.backing {
                Backing::Device { netdev, number } if *number == no => Some(netdev),
                _ => None,
            })
        };
        made.or_else(of_bridges).is_none_or(|netdev| netdev.rxq_enabled(queue))
    }

    /// Applies recorded changes: restarts devices that request it, starts and ends PMD threads, moves rx queues.
    pub(crate) fn apply_worker_changes(&mut self) {
        let now = self.clock.now();
        for bridge in self.bridges.values_mut().filter(|b| !b.ports.watches_none()) {
            let Some(backer) = self.datapaths.of_bridge_mut(bridge) else { continue };
            for ofport in bridge.ports.watched() {
                let Some(port) = bridge.ports.get_mut_unmarked(&ofport) else { continue };
                let Backing::Device { netdev, number } = &mut port.backing else { continue };
                if netdev.is_pmd() && backer.workers.forecast_due(now) {
                    let missed = netdev.stats().ok().and_then(|s| s.rx_missed_errors);
                    missed.into_iter().for_each(|missed| backer.workers.set_device_drops(*number, missed));
                }
                let had_failed = backer.retry.contains_key(number);
                if let Some(result) = restart(backer, *number, &mut **netdev, now) {
                    self.status.due = true;
                    // The warning about a setting that the device refused remains after a successful restart, unless
                    // the previous restart failed.
                    if let Some(port) = bridge.ports.get_mut(&ofport)
                        && (had_failed || result.is_err())
                    {
                        port.warning = result.err();
                    }
                }
            }
        }
        for made in self.datapaths.unbridged_mut() {
            for (number, netdev) in &mut made.devices {
                restart(&mut made.backer, *number, &mut **netdev, now);
            }
        }
        let mut changed = false;
        for backer in self.datapaths.all_mut() {
            backer.workers.tick(&backer.datapath, now);
            changed |= backer.update_shared_rx();
            backer.workers.reconfigure(&backer.datapath);
        }
        if changed {
            let is_member = |backing: &Backing| match backing {
                Backing::Device { netdev, .. } => netdev.shared_member().is_some(),
                _ => false,
            };
            let members = self.ports_where(|port| is_member(&port.backing));
            self.refresh_devices(&members);
        }
    }
}

/// Restarts a device if it requests that, unless a failed restart is too recent. Returns the result of the restart.
fn restart(
    backer: &mut Backer,
    number: PortNo,
    netdev: &mut dyn Netdev,
    now: Millis,
) -> Option<Result<(), String>> {
    if backer.workers.is_due() {
        netdev.set_senders(backer.workers.worker_count(false));
    }
    let is_waiting = |&(at, seq): &(Millis, u64)| now < at && netdev.change_seq() == seq;
    if !netdev.needs_restart() || backer.retry.get(&number).is_some_and(is_waiting) {
        return None;
    }
    let result = backer.restart(number, netdev).map_err(|e| e.to_string());
    backer.retry.remove(&number);
    if let Err(text) = &result {
        backer.retry.insert(number, (now + RETRY, netdev.change_seq()));
        runtime::err!(LOG, "Failed to set interface {} new configuration: {text}", netdev.name());
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> PmdSettings {
        read_pmd_settings(&pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn settings_and_their_defaults() {
        assert_eq!(of(&[]), PmdSettings::default());
        let group = of(&[("pmd-rxq-assign", "group"), ("pmd-rxq-isolate", "false"), ("pmd-cpu-mask", "3")]);
        assert_eq!(
            (group.algorithm, group.isolate, group.mask.as_deref()),
            (Algorithm::Group, false, Some("3"))
        );
        assert_eq!(of(&[("pmd-rxq-assign", "what")]).algorithm, Algorithm::Cycles);
        assert!(of(&[("pmd-rxq-isolate", "false")]).isolate);
    }

    #[test]
    fn balance_and_its_bounds() {
        let all = of(&[
            ("pmd-auto-lb", "true"),
            ("pmd-auto-lb-load-threshold", "0"),
            ("pmd-auto-lb-improvement-threshold", "100"),
            ("pmd-auto-lb-rebal-interval", "20000"),
        ]);
        assert_eq!(
            all.balance,
            Settings {
                on: true,
                load: 0,
                improvement: 100,
                minutes: 20_000,
                policy: None,
                predictive_load_threshold: 0
            }
        );
        for bad in ["101", "-1", "x"] {
            let bad = of(&[("pmd-auto-lb-load-threshold", bad), ("pmd-auto-lb-improvement-threshold", bad)]);
            assert_eq!(bad.balance, Settings { predictive_load_threshold: 95, ..Settings::default() });
        }
        let policy = |word| of(&[("pmd-auto-lb-policy", word)]).balance.policy;
        assert_eq!(policy("variance"), Some(Policy::Variance));
        assert_eq!(policy("what"), Some(Policy::Predictive));
        assert_eq!(of(&[("pmd-auto-lb-rebal-interval", "0")]).balance.minutes, 1);
        assert_eq!(of(&[("pmd-auto-lb-rebal-interval", "20001")]).balance.minutes, 1);
    }
}
