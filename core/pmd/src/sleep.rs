//! Load-based sleep (`pmd-sleep-max`): how long a PMD thread sleeps.
//!
//! After each iteration with few packets the thread sleeps 1 µs longer than before, up to its maximum. An iteration in
//! which a queue received 16 packets resets the sleep to zero. No thread sleeps unless an administrator allows it.

use std::collections::BTreeMap;
use units::{CoreId, Micros};

/// Longest sleep that can be configured, as in Open vSwitch.
const MAX: Micros = Micros(10_000);
/// An iteration in which a queue received this many packets (half a burst of 32, as in Open vSwitch) resets the sleep.
const BUSY: u64 = 16;

/// `pmd-sleep-max`: a default for all cores, and values for single cores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SleepMax {
    /// Longest sleep on cores that have no entry in `cores`.
    pub default: Micros,
    /// Longest sleep on single cores.
    pub cores: BTreeMap<CoreId, Micros>,
}

impl SleepMax {
    /// Parses text such as `50,3:200,5:0`: a default, and `core:time` pairs, in microseconds. Items that are not numbers
    /// are skipped; values above the maximum are reduced to it.
    pub fn parse(text: &str) -> SleepMax {
        SleepMax::parse_with_warnings(text, |_| {})
    }

    /// Parses like [`SleepMax::parse`]; calls `warn` with a message for each item that is skipped or reduced.
    pub fn parse_with_warnings(text: &str, mut warn: impl FnMut(String)) -> SleepMax {
        let mut max = SleepMax::default();
        for item in text.split([',', ' ', '\t', '\r', '\n']).filter(|i| !i.is_empty()) {
            let mut understood = true;
            let mut reduced = false;
            let mut micros = |text: &str| {
                let micros = number(text)?;
                reduced |= micros > MAX.0;
                Some(Micros(micros.min(MAX.0)))
            };
            match item.split_once([':', '=']) {
                None => match micros(item) {
                    Some(time) => max.default = time,
                    None => understood = false,
                },
                Some((core, time)) => {
                    let id = number(core).and_then(|n| u32::try_from(n).ok()).filter(|id| *id != u32::MAX);
                    // A number without a colon is the default for all cores.
                    match (id, micros(time)) {
                        (Some(id), Some(time)) => _ = max.cores.insert(CoreId(id), time),
                        _ if time.is_empty() => match micros(core) {
                            Some(time) => max.default = time,
                            None => understood = false,
                        },
                        _ => understood = false,
                    }
                }
            }
            if !understood {
                warn(format!("'{item}' is not a valid time and is ignored"));
            } else if reduced {
                warn(format!(
                    "'{item}' is more than the maximum of {} microseconds; the maximum is used",
                    MAX.0
                ));
            }
        }
        max
    }

    /// The longest sleep on a core.
    pub fn of(&self, core: CoreId) -> Micros {
        self.cores.get(&core).copied().unwrap_or(self.default)
    }
}

/// Parses a number as C's `strtoull` does with base 0: decimal, hexadecimal or octal. A negative number wraps around to
/// a very large one.
fn number(text: &str) -> Option<u64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let n = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => u64::from_str_radix(&digits[2..], 16),
        [b'0', _, ..] => u64::from_str_radix(&digits[1..], 8),
        [b'0'..=b'9', ..] => digits.parse(),
        _ => return None,
    };
    n.ok().map(|n| if negative { n.wrapping_neg() } else { n })
}

/// The state of load-based sleep of one thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sleeper {
    /// The longest sleep; 0: the thread does not sleep.
    max: Micros,
    /// Length of the next sleep.
    next: Micros,
}

impl Sleeper {
    /// Sets the longest sleep.
    pub fn set_max(&mut self, max: Micros) {
        self.max = max;
    }

    /// Whether the thread may sleep at all.
    #[inline]
    pub fn may_sleep(&self) -> bool {
        self.max.0 != 0 || self.next.0 != 0
    }

    /// Called after an iteration. `most`: the largest number of packets that one queue received in it. Returns how long
    /// the thread sleeps now; `None`: it does not sleep.
    #[inline]
    pub fn after_iteration(&mut self, most: u64) -> Option<Micros> {
        if self.max.0 == 0 || most >= BUSY {
            self.next = Micros(0);
        }
        if self.max.0 == 0 {
            return None;
        }
        let now = self.next;
        self.next = Micros((now.0 + 1).min(self.max.0));
        (now.0 != 0).then_some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_for_all_and_for_some() {
        let max = SleepMax::parse("50,3:300,0:100,5:20000,x:1,7:y");
        assert_eq!([1, 3, 0, 5, 7].map(|c| max.of(CoreId(c)).0), [50, 300, 100, 10_000, 50]);
        assert_eq!(SleepMax::parse("3:400,200").default, Micros(200));
        assert_eq!(SleepMax::parse(""), SleepMax::default());
        // Numbers are parsed as in Open vSwitch, which uses C's functions.
        let default = |text| SleepMax::parse(text).default.0;
        assert_eq!(
            ["-5", "0x20", "010", "50:", "x", "0x", "08", "1e3"].map(default),
            [10_000, 32, 8, 50, 0, 0, 0, 0]
        );
        assert_eq!(SleepMax::parse("1:-1").of(CoreId(1)).0, 10_000);
    }

    #[test]
    fn an_idle_thread_sleeps_longer_and_longer() {
        let mut sleeper = Sleeper::default();
        assert_eq!(sleeper.after_iteration(0), None);
        sleeper.set_max(Micros(3));
        let slept: Vec<u64> = (0..6).map(|_| sleeper.after_iteration(0).map_or(0, |m| m.0)).collect();
        assert_eq!(slept, [0, 1, 2, 3, 3, 3]);
        assert_eq!(sleeper.after_iteration(15), Some(Micros(3)));
        assert_eq!((sleeper.after_iteration(16), sleeper.after_iteration(0)), (None, Some(Micros(1))));
        sleeper.set_max(Micros(0));
        assert_eq!(sleeper.after_iteration(0), None);
    }
}
