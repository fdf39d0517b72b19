//! Log lines about guests.
//!
//! Every connection causes log lines, and a guest may reconnect any number of times. [`Budget`] limits the lines of each port, so that no
//! guest fills the disk.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Severity of a line; lower is more severe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// An operation failed.
    Error,
    /// A problem that does not stop the operation.
    Warning,
    /// A change of state.
    Info,
}

/// A function that receives log lines, on any thread. It must be fast and must not block.
pub type Sink = fn(Level, &str);

static SINK: OnceLock<Sink> = OnceLock::new();

/// Sets the function that receives log lines. Only the first call has an effect.
pub fn set_sink(sink: Sink) {
    let _ = SINK.set(sink);
}

/// Logs a line about a guest's port.
pub fn say(level: Level, text: &str) {
    if let Some(sink) = SINK.get() {
        sink(level, text);
    }
}

/// Number of lines that a guest may cause in a burst: a guest with 128 queue pairs causes 258 when it connects.
const LINES: u32 = 300;
/// After the burst, one line is allowed in each interval.
const INTERVAL: Duration = Duration::from_secs(1);

/// Limits the log lines that the guest of one port may cause.
#[derive(Debug, Default)]
pub struct Budget(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Number of lines that were logged, reduced by one for each [`INTERVAL`] since.
    lines: u32,
    /// The time at which `lines` was last reduced; `None`: no line was logged yet.
    last_reduced: Option<Instant>,
    /// Number of lines that were not logged since the last logged line.
    suppressed: u64,
}

impl Budget {
    /// Logs a line that a guest caused, unless the limit is reached.
    pub fn say(&self, level: Level, text: &str) {
        let allowed = self.0.lock().unwrap_or_else(PoisonError::into_inner).allow(Instant::now());
        match allowed {
            None => {}
            Some(0) => say(level, text),
            Some(n) => say(level, &format!("{text} ({n} lines before this one were suppressed)")),
        }
    }
}

impl State {
    /// If a line may be logged now: the number of lines suppressed before it. `None`: the line is suppressed.
    fn allow(&mut self, now: Instant) -> Option<u64> {
        let last_reduced = *self.last_reduced.get_or_insert(now);
        let passed = (now.saturating_duration_since(last_reduced).as_nanos() / INTERVAL.as_nanos()) as u32;
        self.lines = self.lines.saturating_sub(passed);
        self.last_reduced = Some(if self.lines == 0 { now } else { last_reduced + INTERVAL * passed });
        if self.lines >= LINES {
            self.suppressed += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_connects_again_and_again_does_not_fill_the_log() {
        let (mut state, start) = (State::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let mut logged = |from, to| (from..to).filter(|ms| state.allow(at(*ms)).is_some()).count();
        assert_eq!(logged(0, 900), LINES as usize);
        assert_eq!(logged(900, 100_000), 99);
        assert_eq!(logged(10_000_000, 10_000_900), LINES as usize, "after a quiet time");
        assert_eq!(state.allow(at(10_000_950)), None);
        assert_eq!(state.allow(at(10_002_000)), Some(601), "the next line says how many there were");
        assert_eq!(state.allow(at(10_002_001)), Some(0));
    }
}
