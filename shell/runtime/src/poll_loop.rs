//! The waiting part of an event loop: components register descriptors and deadlines in a `WaitSet`, and
//! `PollLoop::block` sleeps until a descriptor is ready or a deadline is reached.
//!
//! A component's `run` must not block and may be called at any time: a wake-up is only a hint. While virtual time is
//! stopped, a deadline in the future is not reached; when time is warped, the clock wakes the loop.

use crate::clock::Clock;
pub use crate::waker::Waker;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::cell::Cell;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use units::Millis;

/// The event to wait for on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Data to read, or the peer has closed.
    Read,
    /// Space to write.
    Write,
    /// One of the two.
    Both,
}

/// Identifies a registration in a `WaitSet`, to look up its result after `block`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(usize);

/// The events that end the next sleep.
#[derive(Debug, Default)]
pub struct WaitSet<'fd> {
    fds: Vec<PollFd<'fd>>,
    /// The earliest deadline.
    deadline: Option<Millis>,
    /// Longest sleep in real time.
    most: Option<Duration>,
    /// Do not sleep.
    immediate: bool,
    /// Poll for this time before sleeping.
    spin: Option<Duration>,
}

impl<'fd> WaitSet<'fd> {
    /// An empty set: `block` sleeps until another thread uses the waker.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a descriptor.
    pub fn fd(&mut self, fd: &'fd impl AsFd, interest: Interest) -> Token {
        let flags = match interest {
            Interest::Read => PollFlags::IN,
            Interest::Write => PollFlags::OUT,
            Interest::Both => PollFlags::IN | PollFlags::OUT,
        };
        self.fds.push(PollFd::new(fd, flags));
        Token(self.fds.len() - 1)
    }

    /// The token of the next registration.
    pub fn next_token(&self) -> Token {
        Token(self.fds.len())
    }

    /// Limits the sleep to the time `when`.
    pub fn deadline(&mut self, when: Millis) {
        self.deadline = Some(self.deadline.map_or(when, |d| d.min(when)));
    }

    /// Limits the sleep to a duration of real time.
    pub fn no_longer_than(&mut self, time: Duration) {
        self.most = Some(self.most.map_or(time, |t| t.min(time)));
    }

    /// Makes `block` poll without sleeping for this time before it sleeps; see [`Spinning`](crate::spinning::Spinning).
    pub fn spin_first(&mut self, time: Duration) {
        self.spin = Some(time);
    }

    /// Makes `block` return at once.
    pub fn wake_now(&mut self) {
        self.immediate = true;
    }
}

/// For each registration, whether it was ready.
#[derive(Debug, Default)]
pub struct Ready {
    fds: Vec<bool>,
    came_while_spinning: Option<bool>,
}

impl Ready {
    /// Whether an event came before the thread slept; `None` if it did not poll first.
    pub fn came_while_spinning(&self) -> Option<bool> {
        self.came_while_spinning
    }

    /// Returns whether this registration's descriptor was ready.
    pub fn contains(&self, token: Token) -> bool {
        self.fds.get(token.0).copied().unwrap_or(false)
    }

    /// Returns whether a registration from `first` up to, but not including, `end` was ready.
    pub fn contains_any(&self, first: Token, end: Token) -> bool {
        self.fds.get(first.0..end.0).is_some_and(|ready| ready.contains(&true))
    }
}

/// Whether a descriptor may be ready. False only after a sleep that ended without an event of the descriptor; the owner then leaves
/// out a system call that would return `EAGAIN`.
#[derive(Debug)]
pub struct Readiness {
    /// The registration in the last set of events.
    token: Cell<Option<Token>>,
    may_be_ready: bool,
}

impl Default for Readiness {
    fn default() -> Readiness {
        Readiness { token: Cell::new(None), may_be_ready: true }
    }
}

impl Readiness {
    /// Adds the descriptor to the events that end the next sleep; `None`: does not wait for the descriptor.
    pub fn wait<'fd>(&self, set: &mut WaitSet<'fd>, fd: &'fd impl AsFd, interest: Option<Interest>) {
        self.token.set(interest.map(|interest| set.fd(fd, interest)));
    }

    /// Records whether the descriptor was ready at the end of the sleep that followed [`wait`](Self::wait).
    pub fn record_sleep(&mut self, ready: &Ready) {
        self.may_be_ready = self.token.take().is_none_or(|token| ready.contains(token));
    }

    /// As [`record_sleep`](Self::record_sleep), if another object waited for the descriptor.
    pub fn set(&mut self, may_be_ready: bool) {
        self.may_be_ready = may_be_ready;
    }

    /// Whether the descriptor may be ready.
    pub fn may_be_ready(&self) -> bool {
        self.may_be_ready
    }
}

/// The event loop of one thread.
#[derive(Debug)]
pub struct PollLoop {
    clock: Clock,
    waker: Waker,
}

impl PollLoop {
    /// Creates an event loop, which `clock` wakes when it is stopped or warped.
    pub fn new(clock: Clock) -> std::io::Result<PollLoop> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let waker = Waker(Arc::new(fd));
        clock.subscribe(waker.clone());
        Ok(PollLoop { clock, waker })
    }

    /// The waker, for other threads.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// The clock of the deadlines.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Sleeps until an event of the set occurs, the waker is used or a signal arrives.
    pub fn block<'a>(&'a self, mut set: WaitSet<'a>) -> Ready {
        let n = set.fds.len();
        set.fds.push(PollFd::new(&*self.waker.0, PollFlags::IN));
        let timeout = self.timeout(&set);
        let spin = set.spin.filter(|_| !set.immediate);
        let mut pollfds: Vec<PollFd<'_>> = set.fds;
        let came_while_spinning = spin.map(|time| is_ready_within(&mut pollfds, time));
        if came_while_spinning != Some(true) && poll(&mut pollfds, timeout.as_ref()).is_err() {
            // A signal: all registrations count as not ready, and the next sleep reports them.
            return Ready::default();
        }
        let fds = pollfds.iter().map(|p| !p.revents().is_empty()).collect::<Vec<_>>();
        if fds.get(n).copied().unwrap_or(false) {
            let mut count = [0; 8];
            let _ = rustix::io::read(&*self.waker.0, &mut count);
        }
        Ready { fds, came_while_spinning }
    }

    fn timeout(&self, set: &WaitSet<'_>) -> Option<Timespec> {
        let time = match (set.immediate, self.left(set), set.most) {
            (true, ..) => Duration::ZERO,
            (false, Some(left), Some(most)) => left.min(most),
            (false, left, most) => left.or(most)?,
        };
        Some(Timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos() as _ })
    }

    /// The time until the deadline; `None` if there is no deadline, or time is stopped before it.
    fn left(&self, set: &WaitSet<'_>) -> Option<Duration> {
        let left = set.deadline?.0.saturating_sub(self.clock.now().0);
        (left == 0 || !self.clock.is_stopped()).then(|| Duration::from_millis(left.min(i32::MAX as u64)))
    }
}

/// Polls without sleeping until an event comes or the time is over. It does not yield the core: another thread might keep the core
/// for milliseconds. A thread that sleeps in `poll` gets a core when its event comes.
fn is_ready_within(fds: &mut [PollFd<'_>], time: Duration) -> bool {
    let start = Instant::now();
    while start.elapsed() < time {
        if poll(fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|events| events > 0) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_ends_the_sleep() {
        let l = PollLoop::new(Clock::new()).unwrap();
        let mut set = WaitSet::new();
        let until = Millis(l.clock().now().0 + 5);
        set.deadline(until);
        l.block(set);
        assert!(l.clock().now() >= until);
    }

    #[test]
    fn the_shorter_of_two_limits_ends_the_sleep() {
        let l = PollLoop::new(Clock::new()).unwrap();
        let start = std::time::Instant::now();
        let mut set = WaitSet::new();
        set.deadline(Millis(l.clock().now().0 + 60_000));
        set.no_longer_than(Duration::from_micros(300));
        l.block(set);
        let took = start.elapsed();
        assert!(took >= Duration::from_micros(300) && took < Duration::from_secs(30), "{took:?}");
    }

    #[test]
    fn stopped_time_sleeps_until_warped() {
        let l = PollLoop::new(Clock::new()).unwrap();
        let clock = l.clock().clone();
        clock.stop();
        l.block(WaitSet::new()); // the wake-up of stop() itself
        let until = Millis(clock.now().0 + 5);
        let other = clock.clone();
        let t = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(30));
            other.advance(10);
        });
        let mut set = WaitSet::new();
        set.deadline(until);
        l.block(set);
        assert!(clock.now() >= until);
        t.join().unwrap();
    }

    #[test]
    fn readiness_is_told_by_token() {
        use std::io::Write;
        let (a, mut b) = std::os::unix::net::UnixStream::pair().unwrap();
        let (c, _d) = std::os::unix::net::UnixStream::pair().unwrap();
        b.write_all(b"x").unwrap();
        let l = PollLoop::new(Clock::new()).unwrap();
        let mut set = WaitSet::new();
        let ta = set.fd(&a, Interest::Read);
        let tc = set.fd(&c, Interest::Read);
        let ready = l.block(set);
        assert!(ready.contains(ta) && !ready.contains(tc));
    }
}
