//! Latency-target sleep of one PMD thread: carries out the decisions of `pmd::LatencySleep` and measures the sleeps.
//!
//! Before a thread sleeps on device events, it arms the events and polls once more, for packets that arrived before the
//! events were armed. Only then does it block in `poll(2)`. Orders to the thread and answers to upcalls wake the thread by
//! its eventfd. Orders also end timer sleeps, as with `pmd-sleep-max`.

use crate::cycles;
use crate::thread_state::ThreadState;
use pmd::IdleAction;
use runtime::cpu_time::thread_time;
use runtime::poll_loop::Interest;
use runtime::{PollLoop, WaitSet};
use std::time::Duration;

/// The CPU time of one timer sleep in this many is measured.
const MEASURE_EVERY: u32 = 16;

/// The state of latency-target sleep of one PMD thread.
pub(crate) struct LatencySleeper {
    poll: PollLoop,
    /// Device events are armed.
    armed: bool,
    /// The thread was woken from a sleep on device events: it disarms the events after the next iteration.
    woken: bool,
    /// Number of timer sleeps.
    sleeps: u32,
}

impl LatencySleeper {
    pub(crate) fn new(poll: PollLoop) -> LatencySleeper {
        LatencySleeper { poll, armed: false, woken: false, sleeps: 0 }
    }

    /// Called after each iteration. `busy`: the iteration had something to do. Returns true if the thread slept, so that
    /// cached times are out of date.
    pub(crate) fn after_iteration(&mut self, state: &mut ThreadState, busy: bool) -> bool {
        let packets = state.worker.packets_in_iteration();
        if std::mem::take(&mut self.woken) {
            self.disarm(state);
        }
        let action = match busy && packets == 0 {
            // The iteration only handled answers to upcalls; more may follow soon.
            true => IdleAction::Poll,
            false => state.latency_sleep.after_iteration(cycles::now(), packets),
        };
        match action {
            IdleAction::UntilDeviceEvent(time) if self.armed => self.sleep_armed(state, time),
            IdleAction::UntilDeviceEvent(_) => {
                self.arm(state);
                false
            }
            other => {
                self.disarm(state);
                self.sleep(state, other)
            }
        }
    }

    /// Waits in user space or sleeps on a timer. Returns false if the thread must poll again at once.
    fn sleep(&mut self, state: &mut ThreadState, action: IdleAction) -> bool {
        state.worker.send_held();
        let asleep = cycles::now();
        match action {
            IdleAction::Pause(time) => cpu::pause::pause_until(asleep.0 + time),
            IdleAction::Timer(time) => {
                self.sleeps = self.sleeps.wrapping_add(1);
                let measured = self.sleeps.is_multiple_of(MEASURE_EVERY).then(thread_time);
                // An order to the thread unparks it.
                std::thread::park_timeout(duration(time));
                if let Some(before) = measured {
                    state.latency_sleep.add_cost(cycles_of_nanoseconds(thread_time() - before));
                }
                let woke = cycles::now();
                state.latency_sleep.slept(woke, time, (woke - asleep).0);
            }
            IdleAction::Poll | IdleAction::UntilDeviceEvent(_) => return false,
        }
        state.worker.slept(cycles::now() - asleep);
        true
    }

    /// Arms the events of all devices. The next iteration polls for packets that arrived before the events were armed.
    fn arm(&mut self, state: &mut ThreadState) {
        state.mailbox.arm(true);
        self.armed = true;
        if !state.worker.arm(true) {
            state.latency_sleep.set_can_arm(false);
            self.disarm(state);
        }
    }

    /// Disarms the events of all devices, if they are armed.
    pub(crate) fn disarm(&mut self, state: &mut ThreadState) {
        if std::mem::take(&mut self.armed) {
            state.mailbox.arm(false);
            state.worker.arm(false);
        }
    }

    /// Sleeps until a device raises an event, an order or an answer arrives, or `time` has passed. Returns false if an
    /// order was waiting already.
    fn sleep_armed(&mut self, state: &mut ThreadState, time: u64) -> bool {
        if state.mailbox.may_have_orders() {
            self.disarm(state);
            return false;
        }
        let asleep = cycles::now();
        state.worker.go_idle();
        let mut set = WaitSet::new();
        for fd in state.fds() {
            set.fd(fd, Interest::Read);
        }
        set.no_longer_than(duration(time));
        self.poll.block(set);
        // The thread first polls the packets that woke it; it disarms the devices after that iteration.
        self.woken = true;
        let woke = cycles::now();
        let took = woke - asleep;
        if took.0 >= time {
            state.latency_sleep.slept(woke, time, took.0);
        }
        state.worker.slept(took);
        state.worker.woken(woke);
        true
    }
}

fn duration(cycles: u64) -> Duration {
    Duration::from_nanos(
        (u128::from(cycles) * 1_000_000_000 / u128::from(cycles::per_second().max(1))) as u64,
    )
}

fn cycles_of_nanoseconds(time: u64) -> u64 {
    (u128::from(time) * u128::from(cycles::per_second()) / 1_000_000_000) as u64
}
