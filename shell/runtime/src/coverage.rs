//! Event counters and the text of `coverage/show`.
//!
//! A counter is a static that registers itself when it counts its first event; counting costs a relaxed atomic
//! addition. The main loop calls `run`, which samples the totals every five seconds.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use units::Millis;

/// Time between two samples, in ms.
const INTERVAL_MS: u64 = 5_000;
/// Number of samples in a minute.
const PER_MINUTE: usize = 12;
/// Number of minutes in an hour.
const PER_HOUR: usize = 60;

/// An event counter: `static HITS: Counter = Counter::new("xlate_actions");`
#[derive(Debug)]
pub struct Counter {
    name: &'static str,
    total: AtomicU64,
    registered: AtomicBool,
}

struct History {
    counter: &'static Counter,
    /// Total at the last sample.
    last: u64,
    /// Events in each interval of the last minute.
    minute: [u64; PER_MINUTE],
    /// Events in each minute of the last hour.
    hour: [u64; PER_HOUR],
}

struct Registry {
    counters: BTreeMap<&'static str, History>,
    /// Number of the next interval within the hour.
    slot: usize,
    /// Time of the next sample, in ms.
    next_run: Option<u64>,
}

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { counters: BTreeMap::new(), slot: 0, next_run: None });

impl Counter {
    /// A counter, for a static.
    pub const fn new(name: &'static str) -> Counter {
        Counter { name, total: AtomicU64::new(0), registered: AtomicBool::new(false) }
    }

    /// Counts one event.
    pub fn hit(&'static self) {
        self.add(1);
    }

    /// Counts `n` events.
    pub fn add(&'static self, n: u64) {
        self.total.fetch_add(n, Ordering::Relaxed);
        if !self.registered.load(Ordering::Relaxed) {
            self.register();
        }
    }

    /// Registers the counter before its first event: `coverage/read-counter` and [`totals`] know it, and `coverage/show` counts it among
    /// the events never hit.
    pub fn register(&'static self) {
        if !self.registered.swap(true, Ordering::Relaxed) {
            let fresh = History { counter: self, last: 0, minute: [0; PER_MINUTE], hour: [0; PER_HOUR] };
            registry().counters.entry(self.name).or_insert(fresh);
        }
    }
}

fn registry() -> std::sync::MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether `run` takes a sample at `now`. Before the sample the caller updates the counters that it copies from other modules. The
/// result is also true before the first `run`, which only starts the interval.
pub fn is_due(now: Millis) -> bool {
    registry().next_run.is_none_or(|due| now.0 >= due)
}

/// Samples the totals of all counters if five seconds have passed since the last sample.
pub fn run(now: Millis) {
    let mut r = registry();
    let due = *r.next_run.get_or_insert(now.0 + INTERVAL_MS);
    if now.0 < due {
        return;
    }
    // After a long pause, the events are spread over the intervals that have passed, at most those of an hour.
    let slots = ((now.0 - due) / INTERVAL_MS + 1).min((PER_MINUTE * PER_HOUR) as u64);
    let first = r.slot;
    for h in r.counters.values_mut() {
        let total = h.counter.total.load(Ordering::Relaxed);
        let grown = total - h.last.min(total);
        h.last = total;
        for j in 0..slots {
            let idx = (first + j as usize) % (PER_MINUTE * PER_HOUR);
            let (m, hr) = (idx % PER_MINUTE, idx / PER_MINUTE);
            h.minute[m] = grown / slots + if j + 1 == slots { grown % slots } else { 0 };
            h.hour[hr] = if m == 0 { h.minute[m] } else { h.hour[hr] + h.minute[m] };
        }
    }
    r.slot = (first + slots as usize) % (PER_MINUTE * PER_HOUR);
    r.next_run = Some(now.0 + INTERVAL_MS);
}

/// The reply to `coverage/show`.
pub fn show() -> String {
    let r = registry();
    let last = (r.slot + PER_MINUTE - 1) % PER_MINUTE;
    let mut body = String::new();
    // The hash (FNV-1a) identifies the set of counters that are listed.
    let mut hash = 0x811c_9dc5_u32;
    let mut never = 0;
    for (name, h) in &r.counters {
        let total = h.counter.total.load(Ordering::Relaxed);
        if total == 0 {
            never += 1;
            continue;
        }
        for b in name.bytes() {
            hash = (hash ^ u32::from(b)).wrapping_mul(0x0100_0193);
        }
        let _ = writeln!(
            body,
            "{name:<24} {:5.1}/sec {:9.3}/sec {:13.4}/sec   total: {total}",
            h.minute[last] as f64 * 1000.0 / INTERVAL_MS as f64,
            h.minute.iter().sum::<u64>() as f64 / 60.0,
            h.hour.iter().sum::<u64>() as f64 / 3600.0
        );
    }
    format!(
        "Event coverage, avg rate over last: 5 seconds, last minute, last hour,  \
         hash={hash:08x}:\n{body}{never} events never hit\n"
    )
}

/// The names and totals of all counters.
pub fn totals() -> Vec<(&'static str, u64)> {
    registry().counters.iter().map(|(name, h)| (*name, h.counter.total.load(Ordering::Relaxed))).collect()
}

/// The reply to `coverage/read-counter`.
pub fn read_counter(name: &str) -> Result<String, &'static str> {
    let r = registry();
    let h = r.counters.get(name).ok_or("No such counter")?;
    Ok(format!("{}\n", h.counter.total.load(Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_shown() {
        static C: Counter = Counter::new("test_event");
        C.add(3);
        run(Millis(0));
        run(Millis(5000));
        let text = show();
        assert!(
            text.contains("test_event                 0.6/sec     0.050/sec        0.0008/sec   total: 3\n")
        );
        assert_eq!(read_counter("test_event").unwrap(), "3\n");
        assert_eq!(read_counter("nosuch"), Err("No such counter"));
    }
}
