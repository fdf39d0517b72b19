//! Syncs data that was written and need not be on disk immediately.
//!
//! According to RFC 7047 (5.2.7) a client sends `durable` if the reply must wait for the disk. All other transactions
//! are answered when they are written, which survives the end of this process; a separate thread then syncs the file,
//! so that a power loss costs at most a fraction of a second. One thread per file, and at most one sync in 20 ms,
//! because syncs slow writers down.

use crate::disk::DiskFile;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Shortest time between two syncs.
const PAUSE: Duration = Duration::from_millis(20);

/// Syncs files without a caller that waits.
pub trait Later: Send {
    /// Requests a sync of the file.
    fn soon(&self, file: &Arc<dyn DiskFile>);
    /// Whether a sync failed since the last call: then it is unknown which part of the file is on disk.
    fn take_failure(&self) -> bool;
}

/// The thread and the requests for it.
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
        // One request in the channel stands for all that are made before it is taken.
        let (ask, asked) = sync_channel(1);
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("sync".into()).spawn(move || of_thread.serve(&asked))?;
        Ok(Syncer { ask: Some(ask), shared, thread: Some(thread) })
    }
}

impl DeferredSync for Syncer {
    fn request_sync(&self, file: &Arc<dyn DiskFile>) {
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
        // Requests made before the end are still carried out.
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
