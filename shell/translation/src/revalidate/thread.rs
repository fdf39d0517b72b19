//! The revalidator thread, to which the main thread passes the published changes. In dummy mode, where scheduling must not
//! be visible, there is no such thread: the main thread revalidates immediately.

use super::affected;
use super::rounds::Rounds;
use crate::changes::Changes;
use crate::shared_state::SharedState;
use crate::upcall::threads::pin_to_cores;
use crate::upcall::translator::UpcallTranslator;
use datapath::Datapath;
use runtime::{Clock, Module};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use units::Millis;

static LOG: Module = Module::new("ofproto_dpif_upcall");

/// Interval of sweep steps while the thread has no other work.
const SWEEP_INTERVAL: Millis = Millis(100);
/// Shortest interval between two expiry rounds over all megaflows.
const EXPIRY_INTERVAL: Millis = Millis(500);
/// After a step of expiry, the thread waits 9 times as long as the step took before it does the next one: so expiry costs at
/// most a tenth of a core. The wait is shorter if the round would otherwise exceed the limit of [`EXPIRY_DIVISOR`].
const REST_FACTOR: u32 = 9;
/// An expiry round is spread over at most a quarter of the idle timeout.
const EXPIRY_DIVISOR: u64 = 4;

/// Data that the main thread passes to the revalidator thread.
#[derive(Default)]
struct Inbox {
    changes: Changes,
    /// Published changes that affect no megaflow, for the history.
    without_effect: Changes,
    /// The version of the snapshot that contains all these changes.
    version: u64,
    paused: bool,
    /// The thread must end.
    closing: bool,
    /// The cores to run on, if they have changed.
    cores: Option<BTreeSet<u32>>,
    /// The idle timeout of megaflows.
    idle: Millis,
}

/// What the main thread and the revalidator thread exchange.
#[derive(Default)]
struct Channel {
    inbox: Mutex<Inbox>,
    wakeup: Condvar,
    /// Revalidation for some of the changes is not complete.
    behind: AtomicBool,
    /// Revalidation is complete up to this version of the snapshot.
    done: AtomicU64,
    /// The main thread must be woken when `done` increases.
    awaited: AtomicBool,
    /// Duration of the last round over all megaflows, in milliseconds.
    took_ms: AtomicU64,
}

impl Channel {
    /// Locks the inbox. It stays usable after a panic of another thread, because no panic can leave a change of it incomplete.
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that revalidation is complete up to this version. A newer version may be complete already.
    fn complete(&self, version: u64) {
        self.done.fetch_max(version, Ordering::SeqCst);
    }
}

/// The revalidator of one datapath, with or without a thread.
pub struct Revalidator {
    channel: Arc<Channel>,
    datapath: Arc<Datapath>,
    shared: Arc<SharedState>,
    thread: Option<JoinHandle<()>>,
    /// Makes the thread abandon its current step.
    stop_flag: Arc<AtomicBool>,
    /// The state of revalidation, if there is no thread.
    inline: Option<Rounds>,
    cores: BTreeSet<u32>,
    /// The largest number that [`Revalidator::note_flows`] has got.
    flows_max: u64,
}

impl Revalidator {
    /// Creates a revalidator without a thread.
    pub fn inline(
        name: &str,
        datapath: &Arc<Datapath>,
        shared: &Arc<SharedState>,
        translator: &Arc<UpcallTranslator>,
    ) -> Revalidator {
        let rounds = Rounds::new(name, datapath, shared, translator);
        let (stop_flag, inline) = (rounds.stop_flag(), Some(rounds));
        Revalidator {
            channel: Arc::default(),
            datapath: Arc::clone(datapath),
            shared: Arc::clone(shared),
            thread: None,
            stop_flag,
            inline,
            cores: BTreeSet::new(),
            flows_max: 0,
        }
    }

    /// Creates a revalidator with a thread.
    pub fn threaded(
        name: &str,
        datapath: &Arc<Datapath>,
        shared: &Arc<SharedState>,
        translator: &Arc<UpcallTranslator>,
        clock: &Clock,
    ) -> std::io::Result<Revalidator> {
        let channel = Arc::<Channel>::default();
        let rounds = Rounds::new(name, datapath, shared, translator);
        let stop_flag = rounds.stop_flag();
        let (thread_channel, clock) = (Arc::clone(&channel), clock.clone());
        let thread = std::thread::Builder::new().name("revalidator1".to_owned()).spawn(move || {
            runtime::log::set_thread_name("revalidator1");
            RevalidatorThread::new(thread_channel, clock, rounds).run();
        })?;
        Ok(Revalidator {
            channel,
            datapath: Arc::clone(datapath),
            shared: Arc::clone(shared),
            thread: Some(thread),
            stop_flag,
            inline: None,
            cores: BTreeSet::new(),
            flows_max: 0,
        })
    }

    /// Passes changes, which were published with this version of the snapshot, to the thread. If the changes affect no megaflow,
    /// the thread is not woken: their revalidation is complete.
    pub fn add_changes(&mut self, changes: Changes, version: u64) {
        let mut inbox = self.channel.inbox();
        inbox.version = version;
        let is_idle = self.thread.is_some() && !self.is_behind() && !inbox.paused;
        if is_idle && affected::affect_none(&self.datapath, &self.shared, &changes) {
            inbox.without_effect.append(changes);
            self.channel.complete(version);
            return;
        }
        inbox.changes.append(changes);
        self.channel.behind.store(true, Ordering::SeqCst);
        drop(inbox);
        self.channel.wakeup.notify_one();
    }

    /// Without a thread: does all pending revalidation. With a thread: does nothing.
    pub fn run(&mut self, now: Millis) {
        let Some(rounds) = &mut self.inline else { return };
        let mut inbox = self.channel.inbox();
        if inbox.paused {
            return;
        }
        let (changes, version) = (std::mem::take(&mut inbox.changes), inbox.version);
        drop(inbox);
        rounds.handle_changes(&changes, now);
        rounds.complete_round(now);
        self.channel.complete(version);
        self.channel.behind.store(false, Ordering::SeqCst);
    }

    /// Without a thread: removes idle megaflows.
    pub fn expire(&self, now: Millis) {
        let idle = self.channel.inbox().idle;
        self.inline.iter().for_each(|rounds| rounds.expire(idle, now));
    }

    /// Suspends or resumes revalidation.
    pub fn pause(&self, paused: bool) {
        self.channel.inbox().paused = paused;
        self.channel.wakeup.notify_one();
    }

    /// Sets the time after which an unused megaflow is removed.
    pub fn set_idle(&self, idle: Millis) {
        self.channel.inbox().idle = idle;
    }

    /// Pins the thread to these cores.
    pub fn pin_to_cores(&mut self, cores: &BTreeSet<u32>) {
        if self.cores != *cores {
            self.cores = cores.clone();
            self.channel.inbox().cores = Some(cores.clone());
            self.channel.wakeup.notify_one();
        }
    }

    /// Whether revalidation is complete up to this version. If not, the main thread is woken when this may have changed.
    pub fn is_done(&self, version: u64) -> bool {
        let done = || self.channel.done.load(Ordering::SeqCst) >= version;
        if done() {
            return true;
        }
        self.channel.awaited.store(true, Ordering::SeqCst);
        done()
    }

    /// Whether some megaflows may differ from the published tables.
    pub fn is_behind(&self) -> bool {
        self.channel.behind.load(Ordering::SeqCst)
    }

    /// Records the present number of megaflows.
    pub fn note_flows(&mut self, count: u64) {
        self.flows_max = self.flows_max.max(count);
    }

    /// The largest number of megaflows so far.
    pub fn flows_max(&self) -> u64 {
        self.flows_max
    }

    /// Duration of the last round over all megaflows, in milliseconds.
    pub fn took_ms(&self) -> u64 {
        self.channel.took_ms.load(Ordering::Relaxed)
    }
}

impl Drop for Revalidator {
    fn drop(&mut self) {
        self.channel.inbox().closing = true;
        self.stop_flag.store(true, Ordering::Relaxed);
        self.channel.wakeup.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the revalidator thread takes from the inbox.
#[derive(Default)]
struct Work {
    changes: Changes,
    without_effect: Changes,
    version: u64,
    paused: bool,
}

/// The state of the revalidator thread.
struct RevalidatorThread {
    channel: Arc<Channel>,
    clock: Clock,
    rounds: Rounds,
    /// The last version at which revalidation was complete and no further change was queued.
    settled: u64,
    /// When the current round over all megaflows began.
    round_began: Option<Instant>,
    /// When the last expiry round began.
    expiry_began: Millis,
    /// When the next step of the expiry round is due.
    expiry_due: Instant,
    /// When the last sweep step was done.
    last_sweep: Millis,
}

impl RevalidatorThread {
    fn new(channel: Arc<Channel>, clock: Clock, rounds: Rounds) -> RevalidatorThread {
        let (expiry_began, last_sweep, expiry_due) = (Millis(0), Millis(0), Instant::now());
        RevalidatorThread {
            channel,
            clock,
            rounds,
            settled: 0,
            round_began: None,
            expiry_began,
            expiry_due,
            last_sweep,
        }
    }

    fn run(mut self) {
        runtime::debug!(LOG, "the revalidator thread has started");
        while let Some(work) = self.next() {
            runtime::ordered_panic::panic_if_ordered();
            let now = self.clock.now();
            if work.paused {
                continue;
            }
            self.rounds.note_without_effect(&work.without_effect, now);
            self.rounds.handle_changes(&work.changes, now);
            if self.rounds.round_in_progress() {
                self.round_began.get_or_insert_with(Instant::now);
                self.rounds.continue_round(now);
            }
            if !self.rounds.round_in_progress() {
                self.finished(work.version);
            }
            self.expire(now);
            self.sweep(now);
        }
    }

    /// Waits for work. `None`: the thread has to end.
    fn next(&mut self) -> Option<Work> {
        let channel = Arc::clone(&self.channel);
        let mut inbox = channel.inbox();
        let busy = self.rounds.round_in_progress() && !inbox.paused;
        if !busy && (inbox.changes.is_empty() || inbox.paused) && !inbox.closing {
            let rest = self.expiry_due.saturating_duration_since(Instant::now());
            let wait = if self.rounds.is_expiring() && !inbox.paused {
                rest
            } else {
                Duration::from_millis(SWEEP_INTERVAL.0)
            };
            (inbox, _) = channel.wakeup.wait_timeout(inbox, wait).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(cores) = inbox.cores.take() {
            pin_to_cores(&cores);
        }
        if inbox.closing {
            return None;
        }
        let mut work = Work { version: inbox.version, paused: inbox.paused, ..Work::default() };
        if !inbox.paused {
            work.changes = std::mem::take(&mut inbox.changes);
            work.without_effect = std::mem::take(&mut inbox.without_effect);
        }
        Some(work)
    }

    /// Records that revalidation is complete up to this version.
    fn finished(&mut self, version: u64) {
        if let Some(round_began) = self.round_began.take() {
            let took = round_began.elapsed().as_millis() as u64;
            self.channel.took_ms.store(took, Ordering::Relaxed);
        }
        self.channel.complete(version);
        if self.channel.awaited.swap(false, Ordering::SeqCst) {
            self.rounds.wake();
        }
        let inbox = self.channel.inbox();
        if inbox.changes.is_empty() {
            self.settled = version;
            self.channel.behind.store(false, Ordering::SeqCst);
        }
    }

    /// Does a step of expiry if it is due.
    fn expire(&mut self, now: Millis) {
        if now.since(self.expiry_began) >= EXPIRY_INTERVAL && !self.rounds.is_expiring() {
            self.expiry_began = now;
            self.rounds.begin_expiry();
        }
        let step_began = Instant::now();
        if !self.rounds.is_expiring() || step_began < self.expiry_due {
            return;
        }
        let idle = self.channel.inbox().idle;
        self.rounds.expire_some(idle, now);
        let time = (idle.0 / EXPIRY_DIVISOR).saturating_sub(now.since(self.expiry_began).0);
        let max_pause = Duration::from_millis(time) / self.rounds.expiry_steps().max(1);
        self.expiry_due = step_began + (step_began.elapsed() * (REST_FACTOR + 1)).min(max_pause);
    }

    /// Does a step of the sweep if one is due and the thread has no other work.
    fn sweep(&mut self, now: Millis) {
        if now.since(self.last_sweep) < SWEEP_INTERVAL || self.rounds.round_in_progress() {
            return;
        }
        if self.channel.inbox().changes.is_empty() {
            self.last_sweep = now;
            self.rounds.sweep(self.settled, now);
        }
    }
}
