//! Deferred syncs of written data.
//!
//! With `durable` (RFC 7047 section 5.2.7) a client requests that its reply waits for the disk. All other
//! transactions are answered once they are written, which is safe against the end of this process. A separate
//! thread then syncs the file, so that a power failure loses at most a fraction of a second. There is one
//! thread per file, and its rate is limited, because syncs slow down writers.

use crate::disk::DiskFile;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause between two syncs.
const PAUSE: Duration = Duration::from_millis(20);

/// Syncs files in the background.
pub trait DeferredSync: Send {
    /// Requests a sync of the file.
    fn request_sync(&self, file: &Arc<dyn DiskFile>);
    /// Returns whether a sync failed since the last call: then it is unknown what of the file is on disk.
    fn take_failure(&self) -> bool;
}

/// The handle of the sync thread.
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
        // A capacity of one is enough: a queued request covers all later ones until it is taken.
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
        // Requests before the end are still served.
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
