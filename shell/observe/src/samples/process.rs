//! Metrics of the process, from `/proc`.

use metrics::table::{CPU_SECONDS, MAX_FDS, OPEN_FDS, RESIDENT_BYTES, START_SECONDS, THREADS, VIRTUAL_BYTES};
use metrics::{Metric, Samples, Value};
use std::time::{Duration, Instant};

/// Time between two counts of file descriptors: a switch with 10,000 ports has 20,000 of them.
const COUNT_FDS: Duration = Duration::from_secs(10);

/// Stores values that are expensive to read.
#[derive(Default)]
pub struct Process {
    /// The number of file descriptors, and when they were counted.
    fds: Option<(Instant, u64)>,
}

impl Process {
    /// Adds the metrics of the process; those that cannot be read are left out.
    pub fn add(&mut self, samples: &mut Samples) {
        let mut set = |metric: &'static Metric, value: Option<Value>| {
            if let Some(value) = value {
                samples.set(metric, Samples::NO_LABELS, value);
            }
        };
        let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let page = rustix::param::page_size() as u64;
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let stat = Stat::parse(&text);
        let field = |n: usize| stat.as_ref().and_then(|s| s.number(n));
        let seconds = |n: u64| n as f64 / ticks;
        // Fields by their numbers in proc(5).
        let cpu = field(14).zip(field(15)).map(|(user, system)| seconds(user + system));
        set(&CPU_SECONDS, cpu.map(Value::from));
        set(&THREADS, field(20).map(Value::from));
        let start = field(22).zip(boot_time()).map(|(since, boot)| boot as f64 + seconds(since));
        set(&START_SECONDS, start.map(Value::from));
        set(&VIRTUAL_BYTES, field(23).map(Value::from));
        set(&RESIDENT_BYTES, field(24).map(|pages| Value::from(pages * page)));
        set(&OPEN_FDS, Some(self.fds().into()));
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        set(&MAX_FDS, limit.map(Value::from));
    }

    fn fds(&mut self) -> u64 {
        match self.fds {
            Some((at, n)) if at.elapsed() < COUNT_FDS => n,
            _ => {
                // The descriptor that reads the directory is not counted.
                let n =
                    std::fs::read_dir("/proc/self/fd").map_or(0, |all| all.count() as u64).saturating_sub(1);
                self.fds = Some((Instant::now(), n));
                n
            }
        }
    }
}

/// The fields of `/proc/self/stat`.
struct Stat<'a>(Vec<&'a str>);

impl Stat<'_> {
    /// Parses the fields after the program's name, which is in parentheses and may contain any character.
    fn parse(text: &str) -> Option<Stat<'_>> {
        let (_, rest) = text.rsplit_once(')')?;
        Some(Stat(rest.split_ascii_whitespace().collect()))
    }

    /// A field by its number in proc(5); the state, the first after the name, is 3.
    fn number(&self, field: usize) -> Option<u64> {
        self.0.get(field.checked_sub(3)?)?.parse().ok()
    }
}

/// The start of the machine, in seconds since 1970.
fn boot_time() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_the_manual() {
        let rest: Vec<String> = (3..=52).map(|n| n.to_string()).collect();
        let text = format!("7 (a) b) {}", rest.join(" "));
        let stat = Stat::parse(&text).unwrap();
        assert_eq!(
            (stat.number(14), stat.number(24), stat.number(99), stat.number(1)),
            (Some(14), Some(24), None, None)
        );
    }

    #[test]
    fn this_process_has_all_of_them() {
        let mut samples = Samples::default();
        Process::default().add(&mut samples);
        assert_eq!(samples.len(), 7);
    }
}
