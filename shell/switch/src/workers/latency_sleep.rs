//! Latency-target sleep of one poll thread: carries out and measures what `pmd::LatencySleep` decides.
//!
//! Before a thread sleeps on device events it arms them and polls once more, for packets that arrived before the events
//! were armed. Only then it blocks in `poll(2)`. Orders to the thread and answers to upcalls wake it by its eventfd. Timer
//! sleeps are ended by orders, as those of `pmd-sleep-max` are.

use super::desk::Desk;
use crate::cycles::{self, processor_time};
use pmd::IdleAction;
use runtime::poll_loop::Interest;
use runtime::{PollLoop, WaitSet};
use std::time::Duration;

/// The CPU time of one timer sleep in this many is measured.
const MEASURED: u32 = 16;

/// State of one poll thread.
pub(super) struct LatencySleeper {
    poll: PollLoop,
    /// Device events are armed.
    armed: bool,
    /// The last armed sleep has ended: events must be armed again before the next one.
    woken: bool,
    sleeps: u32,
}

impl LatencySleeper {
    pub(super) fn new(poll: PollLoop) -> LatencySleeper {
        LatencySleeper { poll, armed: false, woken: false, sleeps: 0 }
    }

    /// Called after each iteration. Returns true if the thread slept, so that cached clocks are out of date.
    pub(super) fn after_turn(&mut self, desk: &mut Desk, busy: bool) -> bool {
        let packets = desk.worker.packets_in_turn();
        if std::mem::take(&mut self.woken) {
            self.disarm(desk);
        }
        let action = match busy && packets == 0 {
            // Only answers to upcalls were handled; more may follow.
            true => IdleAction::Poll,
            false => desk.latency_sleep.after_iteration(cycles::now(), packets),
        };
        match action {
            IdleAction::Armed(time) if self.armed => self.sleep_armed(desk, time),
            IdleAction::Armed(_) => {
                self.arm(desk);
                false
            }
            other => {
                self.disarm(desk);
                self.sleep(desk, other)
            }
        }
    }

    fn sleep(&mut self, desk: &mut Desk, action: IdleAction) -> bool {
        desk.worker.send_held();
        let asleep = cycles::now();
        match action {
            IdleAction::Pause(time) => cpu::pause::pause_until(asleep.0 + time),
            IdleAction::Timer(time) => {
                self.sleeps = self.sleeps.wrapping_add(1);
                let measured = self.sleeps.is_multiple_of(MEASURED).then(processor_time);
                // An order to the thread unparks it.
                std::thread::park_timeout(duration(time));
                if let Some(before) = measured {
                    desk.latency_sleep.add_cost(of_nanoseconds(processor_time() - before));
                }
                let woke = cycles::now();
                desk.latency_sleep.slept(woke, time, (woke - asleep).0);
            }
            IdleAction::Poll | IdleAction::Armed(_) => return false,
        }
        desk.worker.slept(cycles::now() - asleep);
        true
    }

    /// Arms the events of all devices. The next iteration polls for packets that arrived before.
    fn arm(&mut self, desk: &mut Desk) {
        desk.mailbox.arm(true);
        self.armed = true;
        if !desk.worker.arm(true) {
            desk.latency_sleep.set_can_arm(false);
            self.disarm(desk);
        }
    }

    /// Disarms the events of all devices: the thread polls again.
    pub(super) fn disarm(&mut self, desk: &mut Desk) {
        if std::mem::take(&mut self.armed) {
            desk.mailbox.arm(false);
            desk.worker.arm(false);
        }
    }

    fn sleep_armed(&mut self, desk: &mut Desk, time: u64) -> bool {
        if desk.mailbox.has_mail() {
            self.disarm(desk);
            return false;
        }
        let asleep = cycles::now();
        desk.worker.rest();
        let mut set = WaitSet::new();
        for fd in desk.fds() {
            set.fd(&**fd, Interest::Read);
        }
        set.no_longer_than(duration(time));
        self.poll.block(set);
        // Serve the packets first; devices are disarmed after the next iteration.
        self.woken = true;
        let woke = cycles::now();
        let took = woke - asleep;
        if took.0 >= time {
            desk.latency_sleep.slept(woke, time, took.0);
        }
        desk.worker.slept(took);
        true
    }
}

fn duration(cycles: u64) -> Duration {
    Duration::from_nanos(
        (u128::from(cycles) * 1_000_000_000 / u128::from(cycles::per_second().max(1))) as u64,
    )
}

fn of_nanoseconds(time: u64) -> u64 {
    (u128::from(time) * u128::from(cycles::per_second()) / 1_000_000_000) as u64
}
