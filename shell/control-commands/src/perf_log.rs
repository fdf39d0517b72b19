//! `dpif-netdev/pmd-perf-log-set`: which iterations of PMD threads are logged as suspicious.

use pmd::metrics::Watch;
use pmd::metrics::sample::HISTORY_LEN;
use poll_threads::cycles;
use runtime::Module;

static LOG: Module = Module::new("pmd_perf");

const USAGE: &str = "Usage: ovs-appctl dpif-netdev/pmd-perf-log-set [on|off] [-b before] [-a after] [-e|-ne] [-us \
                     usec] [-q qlen]";

/// Maximum number of iterations that are logged before and after a suspicious iteration, together.
const LOGGED_MAX: usize = HISTORY_LEN - 2;

/// The settings made by commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfLog {
    watch: Watch,
    /// The threshold in microseconds from which `watch.cycles` was computed.
    micros: u32,
}

impl Default for PerfLog {
    fn default() -> PerfLog {
        PerfLog { watch: Watch::default(), micros: 250 }
    }
}

impl PerfLog {
    /// The settings after a command. Settings that the arguments do not name are unchanged. `None`: the arguments are
    /// wrong.
    fn changed(mut self, args: &[String]) -> Option<PerfLog> {
        let watch = &mut self.watch;
        let mut rest = args;
        while let [first, more @ ..] = rest {
            rest = more;
            match first.as_str() {
                "on" => watch.on = true,
                "off" => watch.on = false,
                "-e" => watch.extend = true,
                "-ne" => watch.extend = false,
                option => {
                    let [value, more @ ..] = more else { return None };
                    let value: u32 = value.parse().ok()?;
                    match option {
                        "-a" => watch.after = (value as usize).min(LOGGED_MAX),
                        "-b" => watch.before = (value as usize).min(LOGGED_MAX),
                        "-q" => watch.queued = value.into(),
                        "-us" => self.micros = value,
                        _ => return None,
                    }
                    rest = more;
                }
            }
        }
        watch.after = watch.after.min(LOGGED_MAX - watch.before);
        Some(self)
    }
}

/// Executes the command. Returns the new settings of recorders.
pub(crate) fn set(present: &mut PerfLog, args: &[String]) -> Result<Watch, String> {
    let mut new = present.changed(args).ok_or(USAGE)?;
    let micros = new.micros;
    new.watch.cycles = (u128::from(micros) * u128::from(cycles::per_second()) / 1_000_000) as u64;
    let Watch { on, extend, before, after, queued, .. } = new.watch;
    runtime::info!(
        LOG,
        "pmd-perf-log-set: {}, before={before}, after={after}, extend={extend}, us_thr={micros}, q_thr={queued}",
        if on { "on" } else { "off" }
    );
    *present = new;
    Ok(new.watch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(line: &str) -> Option<PerfLog> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        PerfLog::default().changed(&args)
    }

    #[test]
    fn options_and_their_bounds() {
        assert_eq!(changed(""), Some(PerfLog::default()));
        let all = changed("on -e -b 30 -a 2000 -us 100 -q 64").unwrap();
        let Watch { on, extend, before, after, queued, .. } = all.watch;
        assert_eq!((on, extend, before, after), (true, true, 30, 968));
        assert_eq!((all.micros, queued), (100, 64));
        for bad in ["maybe", "-a", "-a x", "-us -1", "-q"] {
            assert_eq!(changed(bad), None, "{bad}");
        }
    }
}
