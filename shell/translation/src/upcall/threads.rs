//! Handler threads: their number, their cores, and how they sleep.
//!
//! Handler threads run on cores without PMD thread. If all cores have PMD threads, there are no handler threads, and the
//! workers translate misses themselves. In dummy mode, where scheduling must not be visible, there are no handler threads
//! unless requested (`--dummy-handlers`); commands then wait for the translations they cause. When the number of threads or
//! their cores change, all threads are ended and new ones are started; queued upcalls return to the workers.
//!
//! A thread without work parks, or pauses under load (`coalescing.rs`). Enqueueing an upcall wakes one sleeping thread, unless a thread
//! pauses: that thread serves the upcall after its pause. If none sleeps, the check costs one atomic load per thread. A thread that wakes
//! up and finds more than one upcall wakes another thread.

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

/// Maximum number of handler threads of a datapath.
const THREADS_MAX: usize = 128;

/// The planned handler threads of a datapath.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Number of threads.
    pub threads: usize,
    /// The cores that the threads run on.
    pub cores: BTreeSet<u32>,
}

impl Plan {
    /// Computes the number of threads and their cores. `configured`: `n-handler-threads`; `allowed`: the cores of this
    /// process; `polled`: the cores of PMD threads.
    ///
    /// Without `n-handler-threads` the number is that of Open vSwitch, which uses n/4 + 1 of n cores for revalidators and
    /// the rest for handlers; but at most the number of cores without PMD thread.
    pub fn new(configured: Option<usize>, allowed: &BTreeSet<u32>, polled: &BTreeSet<u32>) -> Plan {
        let cores: BTreeSet<u32> = allowed.difference(polled).copied().collect();
        if cores.is_empty() {
            return Plan::default();
        }
        let n = allowed.len();
        let default = n.saturating_sub(n / 4 + 1).min(cores.len());
        Plan { threads: configured.unwrap_or(default).clamp(1, THREADS_MAX), cores }
    }
}

/// A handler thread that may sleep, with its sleep flag.
#[derive(Default)]
struct Sleeper {
    asleep: SleepFlag,
    thread: OnceLock<Thread>,
}

/// The state that the handler threads of a datapath share.
struct HandlerPool {
    sleepers: Vec<Sleeper>,
    coalescing: Coalescing,
    closing: AtomicBool,
}

impl HandlerPool {
    /// Called when an upcall was queued: wakes one sleeping thread, unless a thread pauses, because that thread checks the
    /// queue afterwards.
    fn notify(&self) {
        if !self.coalescing.is_pausing() {
            self.wake_one();
        }
    }

    /// Wakes one thread if any sleeps.
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

/// The handler threads of one datapath.
#[derive(Default)]
pub struct Handlers {
    plan: Plan,
    pool: Option<Arc<HandlerPool>>,
    threads: Vec<JoinHandle<()>>,
}

impl Handlers {
    /// Number of threads.
    pub fn count(&self) -> usize {
        self.threads.len()
    }

    /// If the plan has changed, ends all threads and starts new ones.
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
                pin_to_cores(&cores);
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

/// The loop of handler thread `i`.
fn serve(pool: &HandlerPool, i: usize, datapath: &Datapath, mut server: UpcallServer) {
    let Some(sleeper) = pool.sleepers.get(i) else { return };
    let _ = sleeper.thread.set(std::thread::current());
    let mut priority = HandlerPriority::new();
    while !pool.closing.load(Ordering::SeqCst) {
        runtime::ordered_panic::panic_if_ordered();
        let served = server.serve();
        if served != 0 {
            pool.coalescing.served(served);
            priority.round_done();
            continue;
        }
        if pool.coalescing.should_pause(runtime::cpu_time::monotonic()) {
            pool.coalescing.pause();
        } else {
            priority.queue_emptied();
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
    // A worker that queues an upcall after this check sees the flag and wakes this thread. If the wake-up comes before the
    // park, the park returns at once.
    if datapath.upcalls_waiting() == 0 && !pool.closing.load(Ordering::SeqCst) {
        std::thread::park();
    }
    sleeper.asleep.withdraw();
}

/// Pins the calling thread to these cores.
pub fn pin_to_cores(cores: &BTreeSet<u32>) {
    let mut set = CpuSet::new();
    cores.iter().map(|&c| c as usize).filter(|&c| c < CpuSet::MAX_CPU).for_each(|c| set.set(c));
    if let Err(e) = sched_setaffinity(None, &set) {
        runtime::warn!(LOG, "cannot pin this thread to its cores: {}", runtime::error_text(&e.into()));
    }
}

/// The cores that this process may use.
pub fn allowed_cores() -> BTreeSet<u32> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|&c| set.is_set(c)).map(|c| c as u32).collect()
}

#[cfg(test)]
mod tests;
