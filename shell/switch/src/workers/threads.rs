//! The two kinds of threads that workers run on: one that sleeps when there is nothing to do, and one that never does.

use crate::cycles;
use crate::workers::desk::Desk;
use crate::workers::latency_sleep::LatencySleeper;
use dpdk::thread::Registration;
use runtime::poll_loop::Interest;
use runtime::{Module, PollLoop, WaitSet};
use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use units::{CoreId, Cycles};

static LOG: Module = Module::new("ovs_numa");

/// Names of threads end with a number that no other thread has.
static NEXT_ID: AtomicU32 = AtomicU32::new(1);

/// After this many polls without a packet the thread goes to sleep: a burst's next packets are often close behind.
const IDLE_POLLS: u32 = 4;

/// A polling thread reads the clock when so many cycles have passed: some tens of microseconds.
const CLOCK_CYCLES: Cycles = Cycles(100_000);

/// A poll thread that sleeps for microseconds is to wake within one.
const TIMER_SLACK: NonZeroU64 = NonZeroU64::new(1000).unwrap();

/// Starts the worker of kernel ports: it sleeps in `poll(2)` while nothing comes.
pub(super) fn sleeping(mut desk: Desk, poll: PollLoop) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("worker".to_owned()).spawn(move || {
        runtime::log::never_wait();
        let mut idle = 0;
        loop {
            runtime::ordered_panic::obey();
            if desk.mailbox.has_mail() && !desk.obey(poll.clock().now()) {
                return;
            }
            if desk.worker.poll_with(poll.clock().now(), cycles::now) {
                idle = 0;
                continue;
            }
            idle += 1;
            if idle >= IDLE_POLLS {
                idle = 0;
                desk.worker.rest();
                let mut set = WaitSet::new();
                for fd in desk.fds() {
                    set.fd(&**fd, Interest::Read);
                }
                poll.block(set);
            }
        }
    })
}

/// Starts a poll thread on a core of its own. Its name is that of Open vSwitch, which people look for in `top`.
pub(super) fn polling(desk: Desk, poll: PollLoop, core: CoreId) -> std::io::Result<JoinHandle<()>> {
    let name = format!("pmd-c{:02}/id:{}", core.0, NEXT_ID.fetch_add(1, Ordering::Relaxed));
    let short: String = name.chars().take(15).collect();
    std::thread::Builder::new().name(short).spawn(move || {
        runtime::log::set_thread_name(&name);
        runtime::log::never_wait();
        desk.mailbox.read_here();
        pin(core);
        let _ = set_current_timer_slack(Some(TIMER_SLACK));
        turns(desk, poll);
    })
}

fn turns(mut desk: Desk, poll: PollLoop) {
    let clock = poll.clock().clone();
    let mut sleeper = LatencySleeper::new(poll);
    let mailbox = Arc::clone(&desk.mailbox);
    let mut registration = Registration::new();
    let mut now = clock.now();
    let mut read_at = cycles::now();
    loop {
        runtime::ordered_panic::obey();
        if mailbox.has_mail() {
            sleeper.disarm(&mut desk);
            if !desk.obey(clock.now()) {
                return;
            }
            // DPDK may have been started since.
            registration = registration.or_else(Registration::new);
        }
        if !desk.has_queues() {
            desk.worker.rest();
            if mailbox.is_empty() {
                std::thread::park();
            }
            (now, read_at) = (clock.now(), cycles::now());
            continue;
        }
        let at = cycles::now();
        if at - read_at >= CLOCK_CYCLES {
            (now, read_at) = (clock.now(), at);
        }
        let busy = desk.poll(now, at, cycles::now);
        if desk.latency_sleep.is_on() {
            if sleeper.after_turn(&mut desk, busy) {
                (now, read_at) = (clock.now(), cycles::now());
            }
        } else if desk.sleeper.may_sleep()
            && let Some(time) = desk.sleeper.after_turn(desk.worker.most_in_turn())
        {
            desk.worker.send_held();
            let asleep = cycles::now();
            // An order ends it.
            std::thread::park_timeout(Duration::from_micros(time.0));
            let woke = cycles::now();
            desk.worker.slept(woke - asleep);
            (now, read_at) = (clock.now(), woke);
        }
    }
}

/// Stays on this core from now on. Where that is refused (a container may have fewer) the thread runs anywhere.
fn pin(core: CoreId) {
    let mut set = CpuSet::new();
    if (core.0 as usize) < CpuSet::MAX_CPU {
        set.set(core.0 as usize);
    }
    if let Err(e) = sched_setaffinity(None, &set) {
        runtime::err!(LOG, "Thread setaffinity error: {}", runtime::error_text(&e.into()));
    }
}
