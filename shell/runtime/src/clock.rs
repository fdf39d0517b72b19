//! The monotonic clock, with the virtual time of `time/stop` and `time/warp`.
//!
//! All threads share one `Clock`. Reading it costs two loads and a system call that the vDSO serves. `stop` freezes the
//! time; `advance` adds to it, whether it is stopped or not. As in Open vSwitch, wall-clock time is never warped, so log
//! lines have real dates.

use crate::waker::Waker;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use units::Millis;

#[derive(Debug)]
struct Inner {
    /// Monotonic time when the clock was created. This and all other times are in ms.
    boot: u64,
    /// Sum of all warps.
    warp: AtomicU64,
    stopped: AtomicBool,
    /// Monotonic time at which the clock was stopped.
    frozen: AtomicU64,
    /// The event loops to wake when virtual time changes.
    subscribers: Mutex<Vec<Waker>>,
}

/// A handle on the process's clock; clones read the same time.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Inner>);

fn monotonic_ms() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (t.tv_sec as u64) * 1000 + (t.tv_nsec as u64) / 1_000_000
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// A running clock that reads the system's monotonic time.
    pub fn new() -> Clock {
        Clock(Arc::new(Inner {
            boot: monotonic_ms(),
            warp: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            frozen: AtomicU64::new(0),
            subscribers: Mutex::new(Vec::new()),
        }))
    }

    /// The monotonic time plus all warps; frozen while the clock is stopped.
    pub fn now(&self) -> Millis {
        let base = if self.0.stopped.load(Ordering::Acquire) {
            self.0.frozen.load(Ordering::Acquire)
        } else {
            monotonic_ms()
        };
        Millis(base.saturating_add(self.0.warp.load(Ordering::Acquire)))
    }

    /// The time when the clock was created.
    pub fn boot(&self) -> Millis {
        Millis(self.0.boot)
    }

    /// Milliseconds since the Unix epoch; never warped.
    pub fn wall_ms(&self) -> u64 {
        wall_ms()
    }

    /// Freezes the clock (`time/stop`). As in Open vSwitch, a second call sets the frozen time to the present time.
    pub fn stop(&self) {
        self.0.frozen.store(monotonic_ms(), Ordering::Release);
        self.0.stopped.store(true, Ordering::Release);
        self.wake_subscribers();
    }

    /// Returns whether the clock is stopped: then a deadline is only reached if time is warped.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Acquire)
    }

    /// Advances the time and wakes all subscribed event loops, so that they check their deadlines.
    pub fn advance(&self, ms: u64) {
        self.0.warp.fetch_add(ms, Ordering::AcqRel);
        self.wake_subscribers();
    }

    /// Registers an event loop to be woken when virtual time changes.
    pub fn subscribe(&self, waker: Waker) {
        self.0.subscribers.lock().unwrap_or_else(PoisonError::into_inner).push(waker);
    }

    fn wake_subscribers(&self) {
        for w in self.0.subscribers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            w.wake();
        }
    }
}

/// Milliseconds since the Unix epoch.
pub fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

/// A running `time/warp [LARGE] STEP` command. The main loop makes one step per turn, so that everything that is due
/// after a step happens before the next step.
#[derive(Debug)]
pub struct Warp {
    left: u64,
    step: u64,
}

impl Warp {
    /// Parses the command's arguments; the error is the text of the reply.
    pub fn parse(args: &[String]) -> Result<Warp, &'static str> {
        let (left, step) = match args {
            [step] => (0, leading_integer(step)),
            [large, step, ..] => (leading_integer(large), leading_integer(step)),
            [] => (0, 0),
        };
        if step <= 0 || left < 0 {
            return Err("invalid MSECS");
        }
        Ok(Warp { left: left as u64, step: step as u64 })
    }

    /// Makes one step; returns true after the last one, when the command must be answered.
    pub fn step(&mut self, clock: &Clock) -> bool {
        let ms = if self.left == 0 { self.step } else { self.left.min(self.step) };
        clock.advance(ms);
        self.left = self.left.saturating_sub(ms);
        self.left == 0
    }
}

/// The integer at the beginning of a text; 0 if there is none. Open vSwitch parses these arguments like that.
fn leading_integer(s: &str) -> i64 {
    let s = s.trim_start();
    let (sign, digits) = match s.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, s.strip_prefix('+').unwrap_or(s)),
    };
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let digits = digits.get(..end).unwrap_or_default();
    if digits.is_empty() {
        return 0;
    }
    digits.parse::<i64>().map_or(i64::MAX, |v| v) * sign
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_clock_moves_by_warping_only() {
        let clock = Clock::new();
        clock.stop();
        let t = clock.now();
        std::thread::sleep(std::time::Duration::from_millis(3));
        assert_eq!(clock.now(), t);
        clock.advance(500);
        assert_eq!(clock.now(), Millis(t.0 + 500));
    }

    #[test]
    fn a_large_warp_goes_in_steps() {
        let clock = Clock::new();
        clock.stop();
        let t = clock.now().0;
        let mut w = Warp::parse(&["250".into(), "100".into()]).unwrap();
        assert!(!w.step(&clock));
        assert!(!w.step(&clock));
        assert!(w.step(&clock));
        assert_eq!(clock.now().0, t + 250);
        assert!(Warp::parse(&["x".into()]).is_err());
        assert!(Warp::parse(&["-5".into()]).is_err());
    }
}
