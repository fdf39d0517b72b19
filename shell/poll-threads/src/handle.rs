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

/// The worker of the kernel's ports ("main thread" in `pmd-stats-show`).
pub const MAIN: WorkerId = WorkerId(0);

/// The worker of a core.
pub(crate) fn worker_of(core: CoreId) -> WorkerId {
    WorkerId(1 + core.0 as u16)
}

/// Where a worker runs, for tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerPlace {
    /// Which worker.
    pub id: WorkerId,
    /// The core it is pinned to; `UNPINNED` for the worker of kernel ports.
    pub core: CoreId,
    /// The NUMA node of that core.
    pub numa: u32,
    /// The core polls pinned queues only.
    pub isolated: bool,
    /// When it was started.
    pub since: Millis,
}

/// How workers run.
pub(crate) enum Mode {
    /// In the main loop; true: handler threads translate their misses.
    Inline(bool),
    /// On threads of their own.
    Threads(Clock),
}

/// What runs a worker: a thread or the main loop.
pub(crate) enum Runner {
    Inline(Box<ThreadState>),
    Thread(JoinHandle<()>),
}

/// The main thread's handle of a worker.
pub(crate) struct WorkerHandle {
    pub(crate) place: WorkerPlace,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) runner: Runner,
    pub(crate) load: WorkerLoad,
    /// The worker records its turns.
    pub(crate) recorded: bool,
}

/// A worker whose misses handler threads translate.
pub(crate) fn parking(mut worker: Worker, mailbox: &Arc<Mailbox>) -> Worker {
    let wakeup = Arc::clone(mailbox);
    worker.park_misses(datapath::park::Limits::default(), Arc::new(move || wakeup.wake()), cycles::now);
    worker
}

/// A worker on a thread of its own.
pub(crate) fn threaded(worker: Worker, mailbox: &Arc<Mailbox>) -> Worker {
    let mut worker = parking(worker, mailbox);
    worker.set_tick(cycles::per_second() / 1000);
    worker.sample_stages(|| cycles::now().0);
    worker
}

/// A worker of the main loop, where time is virtual. Handler threads translate its misses if the mode says so.
pub(crate) fn inline(worker: Worker, mailbox: &Arc<Mailbox>, park: bool) -> Worker {
    if park { parking(worker, mailbox) } else { worker }
}
