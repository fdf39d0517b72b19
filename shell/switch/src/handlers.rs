//! The threads that translate misses, so that the workers need not: how many there are, on which cores, and their sleep.
//!
//! They run where no poll thread does; if every core polls there are none, and the workers translate by themselves. In
//! dummy mode, where scheduling must not show, there are none unless they are asked for (`--dummy-handlers`); commands then
//! wait for what they translate. A change of their number or of the cores ends all
//! of them and starts others; what waits meanwhile goes back to the workers.
//!
//! A thread that finds nothing to do parks, or naps where much is to be done ([`gather`]). Who queues something wakes one, by a
//! load if none sleeps; one that wakes to more than it can do alone wakes the next.

mod courtesy;
mod gather;

use crate::backer::Threads;
use crate::switch::Switch;
use config::settings::root::N_HANDLER_THREADS;
use courtesy::Courtesy;
use datapath::{Datapath, UpcallServer};
use gather::Gather;
use runtime::Module;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};
use units::CoreId;

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

    /// `other_config:n-handler-threads`
    fn asked(config: &BTreeMap<String, String>) -> Option<usize> {
        usize::try_from(N_HANDLER_THREADS.opt_number(config)?).ok()
    }
}

/// Where a thread sleeps.
#[derive(Default)]
struct Bed {
    asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

struct House {
    beds: Vec<Bed>,
    gather: Gather,
    closing: AtomicBool,
}

impl House {
    /// Something waits: wakes one that sleeps, if any does, and none will look by itself.
    fn ring(&self) {
        if !self.gather.naps() {
            self.wake_one();
        }
    }

    /// Wakes one that sleeps, if any does.
    fn wake_one(&self) {
        for bed in &self.beds {
            if bed.asleep.load(Ordering::SeqCst) && bed.asleep.swap(false, Ordering::SeqCst) {
                if let Some(thread) = bed.thread.get() {
                    thread.unpark();
                }
                return;
            }
        }
    }

    fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.beds.iter().filter_map(|b| b.thread.get()).for_each(Thread::unpark);
    }
}

/// The threads of one datapath.
#[derive(Default)]
pub struct Handlers {
    plan: Plan,
    house: Option<Arc<House>>,
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
        let beds = (0..plan.threads).map(|_| Bed::default()).collect();
        let house = Arc::new(House { beds, gather: Gather::default(), closing: AtomicBool::new(false) });
        let bell = Arc::clone(&house);
        datapath.set_upcall_wake(Arc::new(move || bell.ring()));
        for i in 0..plan.threads {
            let (house, datapath, cores) = (Arc::clone(&house), Arc::clone(datapath), plan.cores.clone());
            let name = format!("handler{}", i + 1);
            let thread = std::thread::Builder::new().name(name.clone()).spawn(move || {
                runtime::log::set_thread_name(&name);
                runtime::log::never_wait();
                stay_on(&cores);
                serve(&house, i, &datapath, datapath.upcall_server());
            });
            match thread {
                Ok(thread) => self.threads.push(thread),
                Err(e) => runtime::err!(LOG, "handler thread: {}", runtime::error_text(&e)),
            }
        }
        self.house = Some(house);
    }

    fn stop(&mut self) {
        if let Some(house) = self.house.take() {
            house.close();
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

fn serve(house: &House, i: usize, datapath: &Datapath, mut server: UpcallServer) {
    let Some(bed) = house.beds.get(i) else { return };
    let _ = bed.thread.set(std::thread::current());
    let mut courtesy = Courtesy::new();
    while !house.closing.load(Ordering::SeqCst) {
        runtime::ordered_panic::obey();
        let served = server.serve();
        if served != 0 {
            house.gather.served(served);
            courtesy.worked();
            continue;
        }
        if house.gather.is_worth_it(crate::cycles::nanoseconds()) {
            house.gather.nap();
        } else {
            courtesy.rests();
            sleep(house, bed, datapath);
        }
        if datapath.upcalls_waiting() > 1 {
            house.wake_one();
        }
    }
}

/// Until somebody queues something.
fn sleep(house: &House, bed: &Bed, datapath: &Datapath) {
    bed.asleep.store(true, Ordering::SeqCst);
    // Who queues after this look sees that we sleep; a wake before we park makes the park return at once.
    if datapath.upcalls_waiting() == 0 && !house.closing.load(Ordering::SeqCst) {
        std::thread::park();
    }
    bed.asleep.store(false, Ordering::SeqCst);
}

/// Keeps the calling thread off other cores; also that of who keeps megaflows right.
pub(crate) fn stay_on(cores: &BTreeSet<u32>) {
    let mut set = CpuSet::new();
    cores.iter().map(|&c| c as usize).filter(|&c| c < CpuSet::MAX_CPU).for_each(|c| set.set(c));
    if let Err(e) = sched_setaffinity(None, &set) {
        runtime::warn!(LOG, "handler thread affinity: {}", runtime::error_text(&e.into()));
    }
}

/// The cores that this process may use.
pub(crate) fn allowed_cores() -> BTreeSet<u32> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|&c| set.is_set(c)).map(|c| c as u32).collect()
}

impl Switch {
    /// Brings the threads to what the database and the poll threads leave room for. To be called after these changed.
    pub(crate) fn run_handlers(&mut self) {
        let threads = self.options.threads();
        if threads == Threads::None {
            return;
        }
        let made = self.hand_made.values().map(|m| &m.backer);
        let places = self.backers.values().chain(made).flat_map(|b| b.workers.places());
        // Who is polled by the main loop has a core in name only.
        let pinned = |core: &CoreId| *core != CoreId::UNPINNED && threads == Threads::Real;
        let polled = places.map(|p| p.core).filter(pinned).map(|core| core.0).collect();
        let plan = Plan::new(Plan::asked(&self.applied.other_config), &self.cores, &polled);
        let made = self.hand_made.values_mut().map(|m| &mut m.backer);
        for backer in self.backers.values_mut().chain(made) {
            backer.handlers.set(&backer.datapath, &plan);
            if !plan.cores.is_empty() {
                backer.revalidator.stay_on(&plan.cores);
                backer.timers.stay_on(&plan.cores);
            }
        }
    }
}

#[cfg(test)]
mod tests;
