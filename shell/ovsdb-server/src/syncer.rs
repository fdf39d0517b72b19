//! Brings to the disk what was written and need not be there yet.
//!
//! RFC 7047 (5.2.7) has a client say `durable` when its answer must wait for the disk. All other transactions are answered when
//! they are written, which no end of this process can undo; a thread of its own then syncs the file, so that what a loss of
//! power can take is a fraction of a second. One thread per file, at most so many syncs a second: they slow writers down.

use crate::disk::DiskFile;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two syncs.
const PAUSE: Duration = Duration::from_millis(20);

/// Who syncs files that nobody waits for.
pub trait Later: Send {
    /// Has the file synced soon.
    fn soon(&self, file: &Arc<dyn DiskFile>);
    /// Whether a sync failed since the last call: then nobody knows what of the file is on the disk.
    fn take_failure(&self) -> bool;
}

/// The thread and what is asked of it.
pub struct Syncer {
    /// Dropped first, which ends the thread.
    ask: Option<SyncSender<()>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    file: Mutex<Option<Arc<dyn DiskFile>>>,
    failed: AtomicBool,
}

impl Syncer {
    /// Starts the thread.
    pub fn start() -> io::Result<Syncer> {
        // One request in the channel stands for all that come before it is taken.
        let (ask, asked) = sync_channel(1);
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("sync".into()).spawn(move || of_thread.serve(&asked))?;
        Ok(Syncer { ask: Some(ask), shared, thread: Some(thread) })
    }
}

impl Later for Syncer {
    fn soon(&self, file: &Arc<dyn DiskFile>) {
        *self.shared.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(file));
        match self.ask.as_ref().map(|ask| ask.try_send(())) {
            Some(Err(TrySendError::Disconnected(()))) | None => {
                self.shared.failed.store(true, Ordering::Release)
            }
            _ => {}
        }
    }

    fn take_failure(&self) -> bool {
        self.shared.failed.swap(false, Ordering::AcqRel)
    }
}

impl Shared {
    fn serve(&self, asked: &Receiver<()>) {
        // What was asked for before the end is still done.
        while asked.recv().is_ok() {
            runtime::ordered_panic::obey();
            let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
            if file.is_some_and(|file| file.sync().is_err()) {
                self.failed.store(true, Ordering::Release);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.ask = None;
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}
