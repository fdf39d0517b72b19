//! Memory reports: the line of `memory/show`, and log messages when the resident set grows.
//!
//! Used by the main thread only. The caller supplies the counts.

use crate::clock::Clock;
use crate::log::Module;
use std::collections::BTreeMap;
use units::Millis;

static LOG: Module = Module::new("memory");
/// Time between two checks of the resident set, in ms.
const CHECK_EVERY_MS: u64 = 10_000;

/// Formats counts as `name:count name:count …`, sorted by name.
pub fn report(usage: &BTreeMap<String, u64>) -> String {
    usage.iter().map(|(k, v)| format!("{k}:{v}")).collect::<Vec<_>>().join(" ")
}

/// Monitors the peak resident set.
#[derive(Debug)]
pub struct MemoryMonitor {
    /// Time of the next check, in ms.
    next_check: u64,
    /// Time of the last report, in ms.
    last_report: u64,
    /// Peak resident set at the last report, in KiB; 0: no report yet.
    last_peak_kb: u64,
}

impl MemoryMonitor {
    /// A monitor whose first report is ten seconds after the clock was created.
    pub fn new(clock: &Clock) -> Self {
        let boot = clock.boot().0;
        Self { next_check: boot + CHECK_EVERY_MS, last_report: boot, last_peak_kb: 0 }
    }

    /// Logs growth of the resident set; returns true if the caller should log its counts (`report`), too.
    pub fn run(&mut self, clock: &Clock) -> bool {
        let now = clock.now().0;
        if now < self.next_check {
            return false;
        }
        self.next_check = now + CHECK_EVERY_MS;
        let Some(peak) = peak_resident_kb() else { return false };
        if self.last_peak_kb == 0 {
            let secs = (now - clock.boot().0.min(now)) as f64 / 1000.0;
            crate::info!(LOG, "{peak} kB peak resident set size after {secs:.1} seconds");
        } else if peak >= self.last_peak_kb + self.last_peak_kb / 2 {
            crate::info!(
                LOG,
                "peak resident set size grew {:.0}% in last {:.1} seconds, from {} kB to {peak} kB",
                (peak as f64 / self.last_peak_kb as f64 - 1.0) * 100.0,
                now.saturating_sub(self.last_report) as f64 / 1000.0,
                self.last_peak_kb
            );
        } else {
            return false;
        }
        self.last_report = now;
        self.last_peak_kb = peak;
        true
    }

    /// The time at which `run` should be called next.
    pub fn deadline(&self) -> Millis {
        Millis(self.next_check)
    }
}

/// The peak resident set of this process, in KiB.
pub fn peak_resident_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
