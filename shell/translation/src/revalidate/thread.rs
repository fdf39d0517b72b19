//! The revalidator thread, which runs beside the main loop and gets from it the changes that were published. In dummy
//! mode, where scheduling must not be visible, there is no thread: the main loop revalidates immediately.

use super::passes::Passes;
use crate::changes::Changes;
use crate::shared_state::SharedState;
use crate::upcall::handler::Handler;
use crate::upcall::threads::stay_on;
use datapath::Datapath;
use runtime::{Clock, Module};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use units::Millis;

static LOG: Module = Module::new("ofproto_dpif_upcall");

/// Interval of sweep steps while the thread has nothing else to do.
const SWEEP_INTERVAL: Millis = Millis(100);
/// Shortest interval between two expiry passes over all megaflows.
const IDLE_INTERVAL: Millis = Millis(500);
/// After a step of expiry the thread sleeps 9 times as long as the step took, so that a table of hundreds of thousands
/// of megaflows costs at most a tenth of a core.
const REST_FACTOR: u32 = 9;
/// An expiry pass takes at most a quarter of the idle timeout.
const IDLE_PART: u64 = 4;

/// What the main loop hands to the thread.
#[derive(Default)]
struct Inbox {
    changes: Changes,
    /// The version that `changes` belong to.
    version: u64,
    paused: bool,
    closing: bool,
    /// The cores to run on, if they changed.
    cores: Option<BTreeSet<u32>>,
    idle: Millis,
}

#[derive(Default)]
struct Shared {
    inbox: Mutex<Inbox>,
    wakeup: Condvar,
    /// Some changes that were handed over are not done.
    behind: AtomicBool,
    /// All megaflows are at least of this version.
    done: AtomicU64,
    /// The main loop wants to be woken when `done` increases.
    awaited: AtomicBool,
    /// Duration of the last pass over all megaflows, in milliseconds.
    took_ms: AtomicU64,
}

impl Shared {
    /// The inbox stays usable after a panic of another thread: each change to it is complete.
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The revalidator of one datapath, with or without a thread.
pub struct Revalidator {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Makes the thread abandon its current step.
    stop: Arc<AtomicBool>,
    /// The passes, if there is no thread.
    inline: Option<Passes>,
    cores: BTreeSet<u32>,
    /// The largest number of megaflows that [`Revalidator::note_flows`] was told.
    flows_max: u64,
}

impl Revalidator {
    /// A revalidator without a thread.
    pub fn inline(
        name: &str,
        datapath: &Arc<Datapath>,
        state: &Arc<SharedState>,
        handler: &Arc<Handler>,
    ) -> Revalidator {
        let passes = Passes::new(name, datapath, state, handler);
        let (stop, inline) = (passes.stop(), Some(passes));
        Revalidator {
            shared: Arc::default(),
            thread: None,
            stop,
            inline,
            cores: BTreeSet::new(),
            flows_max: 0,
        }
    }

    /// A revalidator with a thread.
    pub fn threaded(
        name: &str,
        datapath: &Arc<Datapath>,
        state: &Arc<SharedState>,
        handler: &Arc<Handler>,
        clock: &Clock,
    ) -> std::io::Result<Revalidator> {
        let shared = Arc::<Shared>::default();
        let passes = Passes::new(name, datapath, state, handler);
        let stop = passes.stop();
        let (theirs, clock) = (Arc::clone(&shared), clock.clone());
        let thread = std::thread::Builder::new().name("revalidator1".to_owned()).spawn(move || {
            runtime::log::set_thread_name("revalidator1");
            Worker::new(theirs, clock, passes).run();
        })?;
        Ok(Revalidator {
            shared,
            thread: Some(thread),
            stop,
            inline: None,
            cores: BTreeSet::new(),
            flows_max: 0,
        })
    }

    /// Hands over the changes that were published as this version.
    pub fn take(&mut self, changes: Changes, version: u64) {
        let mut inbox = self.shared.inbox();
        inbox.changes.append(changes);
        inbox.version = version;
        self.shared.behind.store(true, Ordering::SeqCst);
        drop(inbox);
        self.shared.wakeup.notify_one();
    }

    /// Without a thread: does all pending revalidation.
    pub fn run(&mut self, now: Millis) {
        let Some(passes) = &mut self.inline else { return };
        let mut inbox = self.shared.inbox();
        if inbox.paused {
            return;
        }
        let (changes, version) = (std::mem::take(&mut inbox.changes), inbox.version);
        drop(inbox);
        passes.take(&changes, now);
        passes.complete_pass(now);
        self.shared.done.store(version, Ordering::SeqCst);
        self.shared.behind.store(false, Ordering::SeqCst);
    }

    /// Without a thread: removes idle megaflows.
    pub fn expire(&self, now: Millis) {
        let idle = self.shared.inbox().idle;
        self.inline.iter().for_each(|passes| passes.expire(idle, now));
    }

    /// Suspends or resumes revalidation.
    pub fn pause(&self, paused: bool) {
        self.shared.inbox().paused = paused;
        self.shared.wakeup.notify_one();
    }

    /// Sets the time after which an unused megaflow is removed.
    pub fn set_idle(&self, idle: Millis) {
        self.shared.inbox().idle = idle;
    }

    /// Pins the thread to these cores.
    pub fn stay_on(&mut self, cores: &BTreeSet<u32>) {
        if self.cores != *cores {
            self.cores = cores.clone();
            self.shared.inbox().cores = Some(cores.clone());
            self.shared.wakeup.notify_one();
        }
    }

    /// Whether all megaflows are at least of this version. If not, the main loop will be woken when there is progress.
    pub fn is_done(&self, version: u64) -> bool {
        let done = || self.shared.done.load(Ordering::SeqCst) >= version;
        if done() {
            return true;
        }
        self.shared.awaited.store(true, Ordering::SeqCst);
        done()
    }

    /// Whether some megaflows may differ from the published tables.
    pub fn is_behind(&self) -> bool {
        self.shared.behind.load(Ordering::SeqCst)
    }

    /// Notes the present number of megaflows.
    pub fn note_flows(&mut self, count: u64) {
        self.flows_max = self.flows_max.max(count);
    }

    /// The largest number of megaflows so far.
    pub fn flows_max(&self) -> u64 {
        self.flows_max
    }

    /// Duration of the last pass over all megaflows, in milliseconds.
    pub fn took_ms(&self) -> u64 {
        self.shared.took_ms.load(Ordering::Relaxed)
    }
}

impl Drop for Revalidator {
    fn drop(&mut self) {
        self.shared.inbox().closing = true;
        self.stop.store(true, Ordering::Relaxed);
        self.shared.wakeup.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread's state.
struct Worker {
    shared: Arc<Shared>,
    clock: Clock,
    passes: Passes,
    /// The version for which revalidation is complete.
    settled: u64,
    /// When the current pass over all began.
    pass_began: Option<Instant>,
    /// When the last expiry pass began, and when its next step is due.
    expiry_began: Millis,
    resting: Instant,
    /// When the last sweep step was done.
    last_sweep: Millis,
}

impl Worker {
    fn new(shared: Arc<Shared>, clock: Clock, passes: Passes) -> Worker {
        let (expiry_began, last_sweep, resting) = (Millis(0), Millis(0), Instant::now());
        Worker { shared, clock, passes, settled: 0, pass_began: None, expiry_began, resting, last_sweep }
    }

    fn run(mut self) {
        runtime::debug!(LOG, "revalidating beside the main loop");
        while let Some((changes, version, paused)) = self.next() {
            runtime::ordered_panic::obey();
            let now = self.clock.now();
            if paused {
                continue;
            }
            self.passes.take(&changes, now);
            if self.passes.is_under_way() {
                self.pass_began.get_or_insert_with(Instant::now);
                self.passes.continue_pass(now);
            }
            if !self.passes.is_under_way() {
                self.finished(version);
            }
            self.expire(now);
            self.sweep(now);
        }
    }

    /// Waits for work and returns it; `None` if the thread has to end.
    fn next(&mut self) -> Option<(Changes, u64, bool)> {
        let shared = Arc::clone(&self.shared);
        let mut inbox = shared.inbox();
        let busy = self.passes.is_under_way() && !inbox.paused;
        if !busy && (inbox.changes.is_empty() || inbox.paused) && !inbox.closing {
            let rest = self.resting.saturating_duration_since(Instant::now());
            let wait = if self.passes.is_expiring() && !inbox.paused {
                rest
            } else {
                Duration::from_millis(SWEEP_INTERVAL.0)
            };
            (inbox, _) = shared.wakeup.wait_timeout(inbox, wait).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(cores) = inbox.cores.take() {
            stay_on(&cores);
        }
        if inbox.closing {
            return None;
        }
        let changes = if inbox.paused { Changes::default() } else { std::mem::take(&mut inbox.changes) };
        Some((changes, inbox.version, inbox.paused))
    }

    /// Records that revalidation is complete up to this version.
    fn finished(&mut self, version: u64) {
        if let Some(pass_began) = self.pass_began.take() {
            let took = pass_began.elapsed().as_millis() as u64;
            self.shared.took_ms.store(took, Ordering::Relaxed);
        }
        self.shared.done.store(version, Ordering::SeqCst);
        if self.shared.awaited.swap(false, Ordering::SeqCst) {
            self.passes.wake();
        }
        let inbox = self.shared.inbox();
        if inbox.changes.is_empty() {
            self.settled = version;
            self.shared.behind.store(false, Ordering::SeqCst);
        }
    }

    /// Does a step of expiry if it is due.
    fn expire(&mut self, now: Millis) {
        if now.since(self.expiry_began) >= IDLE_INTERVAL && !self.passes.is_expiring() {
            self.expiry_began = now;
            self.passes.begin_expiry();
        }
        let pass_began = Instant::now();
        if !self.passes.is_expiring() || pass_began < self.resting {
            return;
        }
        let idle = self.shared.inbox().idle;
        self.passes.expire_some(idle, now);
        let time = (idle.0 / IDLE_PART).saturating_sub(now.since(self.expiry_began).0);
        let most = Duration::from_millis(time) / self.passes.expiry_steps().max(1);
        self.resting = pass_began + (pass_began.elapsed() * (REST_FACTOR + 1)).min(most);
    }

    /// Does a step of the sweep if it is due and nothing else is to be done.
    fn sweep(&mut self, now: Millis) {
        if now.since(self.last_sweep) < SWEEP_INTERVAL || self.passes.is_under_way() {
            return;
        }
        if self.shared.inbox().changes.is_empty() {
            self.last_sweep = now;
            self.passes.sweep(self.settled, now);
        }
    }
}
