//! The main thread's handle of a worker, and how the worker's thread is started.

use crate::cycles;
use crate::load::WorkerLoad;
use crate::mailbox::Mailbox;
use crate::thread_state::ThreadState;
use datapath::Worker;
use runtime::Clock;
use std::sync::Arc;
use std::thread::JoinHandle;
use units::{CoreId, Millis, WorkerId};

/// The worker of kernel ports (`pmd-stats-show` calls it "main thread").
pub const KERNEL_WORKER: WorkerId = WorkerId(0);

/// The worker of the PMD thread on a core.
pub(crate) fn worker_of(core: CoreId) -> WorkerId {
    WorkerId(1 + core.0 as u16)
}

/// A worker and the core that it runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerInfo {
    /// The worker.
    pub id: WorkerId,
    /// The core to which its thread is pinned; `UNPINNED` for the worker of kernel ports.
    pub core: CoreId,
    /// The NUMA node of that core.
    pub numa: u32,
    /// The core polls pinned queues only.
    pub isolated: bool,
    /// When the worker was started.
    pub since: Millis,
}

/// How workers run.
pub(crate) enum Mode {
    /// In the main loop (dummy mode). True: handlers translate the misses.
    Inline(bool),
    /// Each worker on a thread of its own.
    Threads(Clock),
}

/// What runs a worker: a thread or the main loop.
pub(crate) enum Runner {
    Inline(Box<ThreadState>),
    Thread(JoinHandle<()>),
}

/// The main thread's handle of a worker.
pub(crate) struct WorkerHandle {
    pub(crate) info: WorkerInfo,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) runner: Runner,
    pub(crate) load: WorkerLoad,
    /// The worker records its iterations.
    pub(crate) recorded: bool,
}

/// Configures a worker to park misses while handlers translate them; an answer wakes the worker by its mailbox.
pub(crate) fn parking(mut worker: Worker, mailbox: &Arc<Mailbox>) -> Worker {
    let wakeup = Arc::clone(mailbox);
    worker.park_misses(datapath::park::Limits::default(), Arc::new(move || wakeup.wake()), cycles::now);
    worker
}

/// Configures a worker that runs on a thread of its own.
pub(crate) fn threaded(worker: Worker, mailbox: &Arc<Mailbox>) -> Worker {
    let mut worker = parking(worker, mailbox);
    worker.set_cycles_per_ms(cycles::per_second() / 1000);
    worker.sample_stages(|| cycles::now().0);
    worker
}

/// Configures a worker that the main loop runs, in virtual time. `park`: handlers translate its misses.
pub(crate) fn inline(worker: Worker, mailbox: &Arc<Mailbox>, park: bool) -> Worker {
    if park { parking(worker, mailbox) } else { worker }
}
