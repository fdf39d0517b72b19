//! The threads that translate misses, so that the workers need not: how many there are, on which cores, and their sleep.
//!
//! They run where no poll thread does; if every core polls there are none, and the workers translate by themselves. In
//! dummy mode, where scheduling must not show, there are none unless they are asked for (`--dummy-handlers`); commands then
//! wait for what they translate. A change of their number or of the cores ends all of them and starts others; what waits
//! meanwhile goes back to the workers.
//!
//! A thread that finds nothing to do parks, or pauses where much is to be done (`coalescing.rs`). Enqueueing an upcall wakes one
//! sleeping thread; if none sleeps it costs one atomic load for each. A thread that wakes to more than it can do alone wakes
//! the next.

use crate::upcall::coalescing::Coalescing;
use crate::upcall::priority::HandlerPriority;
use datapath::{Datapath, UpcallServer};
use runtime::Module;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};
use sync::SleepFlag;

static LOG: Module = Module::new("ofproto_dpif_upcall");

/// The most threads of a datapath.
const MOST: usize = 128;

/// What threads there are to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// So many.
    pub threads: usize,
    /// On these cores.
    pub cores: BTreeSet<u32>,
}

impl Plan {
    /// `asked`: `n-handler-threads`. `allowed`: the cores of this process; `polled`: those that poll threads have.
    ///
    /// Unasked, there are as many as Open vSwitch has (a quarter of the cores and one are for revalidators), but no
    /// more than there are cores for them.
    pub fn new(asked: Option<usize>, allowed: &BTreeSet<u32>, polled: &BTreeSet<u32>) -> Plan {
        let cores: BTreeSet<u32> = allowed.difference(polled).copied().collect();
        if cores.is_empty() {
            return Plan::default();
        }
        let n = allowed.len();
        let unasked = n.saturating_sub(n / 4 + 1).min(cores.len());
        Plan { threads: asked.unwrap_or(unasked).clamp(1, MOST), cores }
    }
}

/// Where a thread sleeps.
#[derive(Default)]
struct Sleeper {
    asleep: SleepFlag,
    thread: OnceLock<Thread>,
}

struct HandlerPool {
    sleepers: Vec<Sleeper>,
    coalescing: Coalescing,
    closing: AtomicBool,
}

impl HandlerPool {
    /// Something waits: wakes one that sleeps, if any does, and none will look by itself.
    fn notify(&self) {
        if !self.coalescing.is_pausing() {
            self.wake_one();
        }
    }

    /// Wakes one that sleeps, if any does.
    fn wake_one(&self) {
        for sleeper in &self.sleepers {
            if sleeper.asleep.claim() {
                if let Some(thread) = sleeper.thread.get() {
                    thread.unpark();
                }
                return;
            }
        }
    }

    fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.sleepers.iter().filter_map(|b| b.thread.get()).for_each(Thread::unpark);
    }
}

/// The threads of one datapath.
#[derive(Default)]
pub struct Handlers {
    plan: Plan,
    pool: Option<Arc<HandlerPool>>,
    threads: Vec<JoinHandle<()>>,
}

impl Handlers {
    /// Brings the threads to what is planned.
    pub fn set(&mut self, datapath: &Arc<Datapath>, plan: &Plan) {
        if self.plan == *plan {
            return;
        }
        self.stop();
        self.plan = plan.clone();
        if plan.threads == 0 {
            return;
        }
        runtime::info!(LOG, "Starting {} handler threads", plan.threads);
        let sleepers = (0..plan.threads).map(|_| Sleeper::default()).collect();
        let pool = Arc::new(HandlerPool {
            sleepers,
            coalescing: Coalescing::default(),
            closing: AtomicBool::new(false),
        });
        let wake = Arc::clone(&pool);
        datapath.set_upcall_wake(Arc::new(move || wake.notify()));
        for i in 0..plan.threads {
            let (pool, datapath, cores) = (Arc::clone(&pool), Arc::clone(datapath), plan.cores.clone());
            let name = format!("handler{}", i + 1);
            let thread = std::thread::Builder::new().name(name.clone()).spawn(move || {
                runtime::log::set_thread_name(&name);
                runtime::log::never_wait();
                stay_on(&cores);
                serve(&pool, i, &datapath, datapath.upcall_server());
            });
            match thread {
                Ok(thread) => self.threads.push(thread),
                Err(e) => runtime::err!(LOG, "handler thread: {}", runtime::error_text(&e)),
            }
        }
        self.pool = Some(pool);
    }

    fn stop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.close();
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        self.stop();
    }
}

fn serve(pool: &HandlerPool, i: usize, datapath: &Datapath, mut server: UpcallServer) {
    let Some(sleeper) = pool.sleepers.get(i) else { return };
    let _ = sleeper.thread.set(std::thread::current());
    let mut priority = HandlerPriority::new();
    while !pool.closing.load(Ordering::SeqCst) {
        runtime::ordered_panic::obey();
        let served = server.serve();
        if served != 0 {
            pool.coalescing.served(served);
            priority.worked();
            continue;
        }
        if pool.coalescing.is_worth_it(runtime::cpu_time::monotonic()) {
            pool.coalescing.pause();
        } else {
            priority.rests();
            sleep(pool, sleeper, datapath);
        }
        if datapath.upcalls_waiting() > 1 {
            pool.wake_one();
        }
    }
}

/// Sleeps until a worker queues an upcall.
fn sleep(pool: &HandlerPool, sleeper: &Sleeper, datapath: &Datapath) {
    sleeper.asleep.announce();
    // A worker that queues an upcall after this look sees the flag; a wake before the park makes that return at once.
    if datapath.upcalls_waiting() == 0 && !pool.closing.load(Ordering::SeqCst) {
        std::thread::park();
    }
    sleeper.asleep.withdraw();
}

/// Keeps the calling thread off other cores; also that of who keeps megaflows right.
pub fn stay_on(cores: &BTreeSet<u32>) {
    let mut set = CpuSet::new();
    cores.iter().map(|&c| c as usize).filter(|&c| c < CpuSet::MAX_CPU).for_each(|c| set.set(c));
    if let Err(e) = sched_setaffinity(None, &set) {
        runtime::warn!(LOG, "handler thread affinity: {}", runtime::error_text(&e.into()));
    }
}

/// The cores that this process may use.
pub fn allowed_cores() -> BTreeSet<u32> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|&c| set.is_set(c)).map(|c| c as u32).collect()
}

#[cfg(test)]
mod tests;
