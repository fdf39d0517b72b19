//! Notices a long turn of an event loop, so that another thread can do some of its work meanwhile.
//!
//! A timer is started when a turn begins, and is not stopped when the turn ends. If it still runs when the next turn begins, it is not started
//! again, so thousands of short turns a second need few system calls. When it expires, the other thread checks how long the present turn
//! has taken.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Times the turns of an event loop. Another thread waits for the timer, whose descriptor this is.
#[derive(Debug)]
pub struct TurnWatchdog {
    timer: OwnedFd,
    /// A turn that takes longer is a long one.
    limit: Duration,
    is_armed: AtomicBool,
    /// Begin of the present turn, in nanoseconds after `start`; 0: the loop sleeps.
    turn_began: AtomicU64,
    start: Instant,
}

impl TurnWatchdog {
    /// A turn longer than `limit` is a long one.
    pub fn new(limit: Duration) -> io::Result<TurnWatchdog> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let (is_armed, turn_began) = (AtomicBool::new(false), AtomicU64::new(0));
        Ok(TurnWatchdog { timer, limit, is_armed, turn_began, start: Instant::now() })
    }

    /// A turn of the loop begins.
    pub fn turn_begins(&self) {
        self.turn_began.store(self.now() | 1, Ordering::SeqCst);
        self.arm();
    }

    /// The loop is about to sleep.
    pub fn turn_ends(&self) {
        self.turn_began.store(0, Ordering::SeqCst);
    }

    /// Whether the present turn is a long one.
    pub fn is_long_turn(&self) -> bool {
        let began = self.turn_began.load(Ordering::SeqCst);
        began != 0 && Duration::from_nanos(self.now().saturating_sub(began)) >= self.limit
    }

    /// To be called when the timer has expired (the descriptor is readable): arms it again if a turn is in progress.
    pub fn expired(&self) {
        let _ = rustix::io::read(&self.timer, &mut [0; 8]);
        self.is_armed.store(false, Ordering::SeqCst);
        if self.turn_began.load(Ordering::SeqCst) != 0 {
            self.arm();
        }
    }

    fn arm(&self) {
        if self.is_armed.swap(true, Ordering::SeqCst) {
            return;
        }
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let once = Timespec { tv_sec: self.limit.as_secs() as _, tv_nsec: self.limit.subsec_nanos() as _ };
        let setting = Itimerspec { it_interval: never, it_value: once };
        // The descriptor and the time are valid, so this does not fail.
        let _ = rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &setting);
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

impl AsFd for TurnWatchdog {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(20);

    #[test]
    fn only_a_turn_in_progress_is_long() {
        let watchdog = TurnWatchdog::new(LIMIT).unwrap();
        assert!(!watchdog.is_long_turn());
        watchdog.turn_begins();
        assert!(!watchdog.is_long_turn());
        std::thread::sleep(LIMIT);
        assert!(watchdog.is_long_turn());
        watchdog.turn_begins();
        assert!(!watchdog.is_long_turn());
        watchdog.turn_ends();
        std::thread::sleep(LIMIT);
        assert!(!watchdog.is_long_turn());
    }
}
