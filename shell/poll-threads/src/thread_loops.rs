//! The loops of the threads: the thread of kernel ports sleeps when there are no packets, a PMD thread polls.

use crate::cycles;
use crate::latency_sleep::LatencySleeper;
use crate::thread_state::ThreadState;
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

/// The number at the end of the next thread's name.
static NEXT_ID: AtomicU32 = AtomicU32::new(1);

/// The thread of kernel ports sleeps only after this many iterations without a packet, because the next packets of a
/// burst often follow soon.
const IDLE_POLLS: u32 = 4;

/// A PMD thread reads the clock again after this many cycles: some tens of microseconds.
const CLOCK_CYCLES: Cycles = Cycles(100_000);

/// Timer slack of PMD threads, in ns. Their sleeps last microseconds; the default slack of 50 µs would prolong them.
const TIMER_SLACK: NonZeroU64 = NonZeroU64::new(1000).unwrap();

/// Starts the thread of kernel ports, which sleeps in `poll(2)` while there are no packets.
pub(crate) fn start_kernel_thread(mut state: ThreadState, poll: PollLoop) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("worker".to_owned()).spawn(move || {
        runtime::log::never_wait();
        let mut idle = 0;
        loop {
            runtime::ordered_panic::panic_if_ordered();
            if state.mailbox.may_have_orders() && !state.carry_out_orders(poll.clock().now()) {
                return;
            }
            if state.poll_kernel_ports(poll.clock().now(), idle != 0) {
                idle = 0;
                continue;
            }
            idle += 1;
            if idle >= IDLE_POLLS {
                idle = 0;
                state.worker.go_idle();
                let mut set = WaitSet::new();
                for fd in state.fds() {
                    set.fd(fd, Interest::Read);
                }
                poll.block(set);
            }
        }
    })
}

/// Starts a PMD thread, pinned to a core. Its name has the form of Open vSwitch, because administrators look for it in
/// `top`.
pub(crate) fn start_pmd_thread(
    state: ThreadState,
    poll: PollLoop,
    core: CoreId,
) -> std::io::Result<JoinHandle<()>> {
    let name = format!("pmd-c{:02}/id:{}", core.0, NEXT_ID.fetch_add(1, Ordering::Relaxed));
    let short: String = name.chars().take(15).collect();
    std::thread::Builder::new().name(short).spawn(move || {
        runtime::log::set_thread_name(&name);
        runtime::log::never_wait();
        state.mailbox.set_reader();
        pin(core);
        let _ = set_current_timer_slack(Some(TIMER_SLACK));
        run_pmd_thread(state, poll);
    })
}

/// The main loop of a PMD thread.
fn run_pmd_thread(mut state: ThreadState, poll: PollLoop) {
    let clock = poll.clock().clone();
    let mut sleeper = LatencySleeper::new(poll);
    let mailbox = Arc::clone(&state.mailbox);
    let mut registration = Registration::new();
    let mut now = clock.now();
    let mut read_at = cycles::now();
    loop {
        runtime::ordered_panic::panic_if_ordered();
        if mailbox.may_have_orders() {
            sleeper.disarm(&mut state);
            if !state.carry_out_orders(clock.now()) {
                return;
            }
            // DPDK may have been started meanwhile: a thread must be registered with it.
            registration = registration.or_else(Registration::new);
        }
        if !state.has_queues() && !state.worker.holds_frames() {
            state.worker.go_idle();
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
        let busy = state.poll(now, at, cycles::now);
        if state.latency_sleep.is_on() {
            if sleeper.after_iteration(&mut state, busy) {
                (now, read_at) = (clock.now(), cycles::now());
            }
        } else if state.sleeper.may_sleep()
            && let Some(time) = state.sleeper.after_iteration(state.worker.most_in_iteration())
        {
            state.worker.send_held();
            let asleep = cycles::now();
            // An order unparks the thread, which ends the sleep.
            std::thread::park_timeout(Duration::from_micros(time.0));
            let woke = cycles::now();
            state.worker.slept(woke - asleep);
            (now, read_at) = (clock.now(), woke);
        }
    }
}

/// Pins the calling thread to a core. If the kernel refuses that (a container may have fewer cores), the thread runs on
/// any core.
fn pin(core: CoreId) {
    let mut set = CpuSet::new();
    if (core.0 as usize) < CpuSet::MAX_CPU {
        set.set(core.0 as usize);
    }
    if let Err(e) = sched_setaffinity(None, &set) {
        runtime::err!(LOG, "Thread setaffinity error: {}", runtime::error_text(&e.into()));
    }
}
