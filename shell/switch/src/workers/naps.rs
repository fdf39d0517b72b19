//! Sleeping by a latency target: what the decision (core/pmd) asks for is carried out and measured here.
//!
//! A worker that wants to be woken by devices asks them, then takes one more turn, for what came before they heard, and
//! only then sleeps in `poll(2)`. Orders and answers to upcalls wake it by the descriptor of its bell. Sleeps by the clock
//! are ended by orders as those of `pmd-sleep-max` are.

use super::desk::Desk;
use crate::cycles::{self, processor_time};
use pmd::Nap;
use runtime::poll_loop::Interest;
use runtime::{PollLoop, WaitSet};
use std::time::Duration;

/// What a sleep costs the processor is measured for one of so many.
const MEASURED: u32 = 16;

/// One thread's.
pub(super) struct Napping {
    poll: PollLoop,
    /// Devices were asked to wake us.
    armed: bool,
    /// They did, or time was up: they are to be asked again before the next sleep.
    woken: bool,
    sleeps: u32,
}

impl Napping {
    pub(super) fn new(poll: PollLoop) -> Napping {
        Napping { poll, armed: false, woken: false, sleeps: 0 }
    }

    /// After a turn: sleeps if that is wise. True: it slept, and clocks are old.
    pub(super) fn after_turn(&mut self, desk: &mut Desk, busy: bool) -> bool {
        let packets = desk.worker.packets_in_turn();
        if std::mem::take(&mut self.woken) {
            self.disarm(desk);
        }
        let nap = match busy && packets == 0 {
            // Answers to upcalls: more may be on their way.
            true => Nap::None,
            false => desk.napper.after_turn(cycles::now(), packets),
        };
        match nap {
            Nap::Armed(time) if self.armed => self.sleep_armed(desk, time),
            Nap::Armed(_) => {
                self.arm(desk);
                false
            }
            other => {
                self.disarm(desk);
                self.sleep(desk, other)
            }
        }
    }

    fn sleep(&mut self, desk: &mut Desk, nap: Nap) -> bool {
        desk.worker.send_held();
        let asleep = cycles::now();
        match nap {
            Nap::Pause(time) => cpu::pause::pause_until(asleep.0 + time),
            Nap::Timer(time) => {
                self.sleeps = self.sleeps.wrapping_add(1);
                let measured = self.sleeps.is_multiple_of(MEASURED).then(processor_time);
                // An order ends it.
                std::thread::park_timeout(duration(time));
                if let Some(before) = measured {
                    desk.napper.cost(of_nanoseconds(processor_time() - before));
                }
                let woke = cycles::now();
                desk.napper.slept(woke, time, (woke - asleep).0);
            }
            Nap::None | Nap::Armed(_) => return false,
        }
        desk.worker.slept(cycles::now() - asleep);
        true
    }

    /// Asks devices to wake us. The next turn looks for what came before they heard.
    fn arm(&mut self, desk: &mut Desk) {
        desk.mailbox.arm(true);
        self.armed = true;
        if !desk.worker.arm(true) {
            desk.napper.set_can_arm(false);
            self.disarm(desk);
        }
    }

    /// Back to polling: devices need not wake us.
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
        // Who woke us is served first: devices are told after the turn that follows.
        self.woken = true;
        let woke = cycles::now();
        let took = woke - asleep;
        if took.0 >= time {
            desk.napper.slept(woke, time, took.0);
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
