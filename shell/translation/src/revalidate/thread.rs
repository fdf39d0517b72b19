//! The thread that revalidates, beside the main loop, which hands it the changes that it has published. In dummy mode, where
//! scheduling must not show, there is none: the main loop does at once what there is to do.

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

/// With nothing else to do the thread looks at some megaflows this often, to be safe.
const SAFETY_INTERVAL: Millis = Millis(100);
/// Megaflows are looked at for idleness this often, if that takes no longer.
const IDLE_INTERVAL: Millis = Millis(500);
/// After a step of that the thread rests for so many times as long as the step took: a table of hundreds of thousands
/// of megaflows does not cost a processor.
const REST: u32 = 9;
/// All have been looked at in this part of the time after which an idle one goes.
const IDLE_PART: u64 = 4;

/// What the main loop has for the thread.
#[derive(Default)]
struct Inbox {
    changes: Changes,
    /// The version that `changes` belong to.
    version: u64,
    paused: bool,
    closing: bool,
    /// Cores to be on, if they changed.
    cores: Option<BTreeSet<u32>>,
    idle: Millis,
}

#[derive(Default)]
struct Shared {
    inbox: Mutex<Inbox>,
    wakeup: Condvar,
    /// Something that was handed over is not done.
    behind: AtomicBool,
    /// No megaflow is of an older version than this.
    done: AtomicU64,
    /// The main loop wants to be woken when `done` grows.
    awaited: AtomicBool,
    /// How long the last pass over all took, milliseconds.
    took_ms: AtomicU64,
}

impl Shared {
    /// A panic elsewhere leaves the inbox usable: each change to it is complete in itself.
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the module.
pub struct Revalidator {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Ends what the thread is at.
    stop: Arc<AtomicBool>,
    /// Without a thread.
    inline: Option<Passes>,
    cores: BTreeSet<u32>,
}

impl Revalidator {
    /// One that works when it is called.
    pub fn inline(
        name: &str,
        datapath: &Arc<Datapath>,
        state: &Arc<SharedState>,
        handler: &Arc<Handler>,
    ) -> Revalidator {
        let passes = Passes::new(name, datapath, state, handler);
        let (stop, inline) = (passes.stop(), Some(passes));
        Revalidator { shared: Arc::default(), thread: None, stop, inline, cores: BTreeSet::new() }
    }

    /// One with a thread.
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
        Ok(Revalidator { shared, thread: Some(thread), stop, inline: None, cores: BTreeSet::new() })
    }

    /// Takes on what was published as this version.
    pub fn take(&mut self, changes: Changes, version: u64) {
        let mut inbox = self.shared.inbox();
        inbox.changes.append(changes);
        inbox.version = version;
        self.shared.behind.store(true, Ordering::SeqCst);
        drop(inbox);
        self.shared.wakeup.notify_one();
    }

    /// Without a thread: does what there is to do.
    pub fn run(&mut self, now: Millis) {
        let Some(passes) = &mut self.inline else { return };
        let mut inbox = self.shared.inbox();
        if inbox.paused {
            return;
        }
        let (changes, version) = (std::mem::take(&mut inbox.changes), inbox.version);
        drop(inbox);
        passes.take(&changes, now);
        passes.finish(now);
        self.shared.done.store(version, Ordering::SeqCst);
        self.shared.behind.store(false, Ordering::SeqCst);
    }

    /// Without a thread: removes idle megaflows.
    pub fn expire(&self, now: Millis) {
        let idle = self.shared.inbox().idle;
        self.inline.iter().for_each(|passes| passes.expire(idle, now));
    }

    /// Leaves megaflows as they are, or goes on.
    pub fn pause(&self, paused: bool) {
        self.shared.inbox().paused = paused;
        self.shared.wakeup.notify_one();
    }

    /// Megaflows that no packet has used for this long go.
    pub fn set_idle(&self, idle: Millis) {
        self.shared.inbox().idle = idle;
    }

    /// The thread stays on these cores.
    pub fn stay_on(&mut self, cores: &BTreeSet<u32>) {
        if self.cores != *cores {
            self.cores = cores.clone();
            self.shared.inbox().cores = Some(cores.clone());
            self.shared.wakeup.notify_one();
        }
    }

    /// No megaflow is of an older version than this. If some are, the main loop is woken when there is progress.
    pub fn is_done(&self, version: u64) -> bool {
        let done = || self.shared.done.load(Ordering::SeqCst) >= version;
        if done() {
            return true;
        }
        self.shared.awaited.store(true, Ordering::SeqCst);
        done()
    }

    /// Some megaflows may not be what the published tables say.
    pub fn is_behind(&self) -> bool {
        self.shared.behind.load(Ordering::SeqCst)
    }

    /// How long the last pass over all megaflows took, milliseconds.
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

/// The thread.
struct Worker {
    shared: Arc<Shared>,
    clock: Clock,
    passes: Passes,
    /// The version that has been dealt with.
    settled: u64,
    /// When a pass over all began.
    began: Option<Instant>,
    /// When the last look at megaflows for idleness began, and when it goes on.
    idled: Millis,
    resting: Instant,
    /// When some megaflows were last looked at to be safe.
    made_safe: Millis,
}

impl Worker {
    fn new(shared: Arc<Shared>, clock: Clock, passes: Passes) -> Worker {
        let (idled, made_safe, resting) = (Millis(0), Millis(0), Instant::now());
        Worker { shared, clock, passes, settled: 0, began: None, idled, resting, made_safe }
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
                self.began.get_or_insert_with(Instant::now);
                self.passes.go_on(now);
            }
            if !self.passes.is_under_way() {
                self.finished(version);
            }
            self.expire(now);
            self.be_safe(now);
        }
    }

    /// What to do next; `None`: nothing any more. Waits if there is nothing.
    fn next(&mut self) -> Option<(Changes, u64, bool)> {
        let shared = Arc::clone(&self.shared);
        let mut inbox = shared.inbox();
        let busy = self.passes.is_under_way() && !inbox.paused;
        if !busy && (inbox.changes.is_empty() || inbox.paused) && !inbox.closing {
            let rest = self.resting.saturating_duration_since(Instant::now());
            let wait = if self.passes.is_expiring() && !inbox.paused {
                rest
            } else {
                Duration::from_millis(SAFETY_INTERVAL.0)
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

    /// Nothing is left of what was taken on up to this version.
    fn finished(&mut self, version: u64) {
        if let Some(began) = self.began.take() {
            let took = began.elapsed().as_millis() as u64;
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

    /// A step of the look at megaflows for idleness, if it is time.
    fn expire(&mut self, now: Millis) {
        if now.since(self.idled) >= IDLE_INTERVAL && !self.passes.is_expiring() {
            self.idled = now;
            self.passes.begin_expiry();
        }
        let began = Instant::now();
        if !self.passes.is_expiring() || began < self.resting {
            return;
        }
        let idle = self.shared.inbox().idle;
        self.passes.expire_some(idle, now);
        let time = (idle.0 / IDLE_PART).saturating_sub(now.since(self.idled).0);
        let most = Duration::from_millis(time) / self.passes.expiry_steps().max(1);
        self.resting = began + (began.elapsed() * (REST + 1)).min(most);
    }

    /// Some megaflows are translated again although nothing has changed, if it is time and nothing else is to be done.
    fn be_safe(&mut self, now: Millis) {
        if now.since(self.made_safe) < SAFETY_INTERVAL || self.passes.is_under_way() {
            return;
        }
        if self.shared.inbox().changes.is_empty() {
            self.made_safe = now;
            self.passes.be_safe(self.settled, now);
        }
    }
}
