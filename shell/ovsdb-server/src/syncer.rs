//! Deferred syncs of written data.
//!
//! With `durable` (RFC 7047 section 5.2.7) a client requests that the reply is sent only after a sync. All other
//! transactions are answered as soon as they are written: they survive a crash of this process. A separate thread then
//! syncs the file, so that a power failure loses at most the transactions of a fraction of a second. There is one thread
//! per file, and its rate is limited, because syncs slow down writers.

use crate::disk::DiskFile;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause of the thread between two syncs.
const PAUSE: Duration = Duration::from_millis(20);

/// Syncs files in the background.
pub trait DeferredSync: Send {
    /// Requests a sync of the file.
    fn request_sync(&self, file: &Arc<dyn DiskFile>);
    /// Returns whether a sync has failed since the last call: then it is unknown which part of the file is on disk.
    fn take_failure(&self) -> bool;
}

/// The handle of the sync thread.
pub struct Syncer {
    /// Wakes the thread; dropped first, which ends the thread.
    requests: Option<SyncSender<()>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// The file to sync.
    file: Mutex<Option<Arc<dyn DiskFile>>>,
    /// A sync has failed since the last call of `take_failure`.
    failed: AtomicBool,
}

impl Syncer {
    /// Starts the thread.
    pub fn start() -> io::Result<Syncer> {
        // A capacity of one is enough: while a request is queued, later requests need not be queued.
        let (requests, received_requests) = sync_channel(1);
        let shared = Arc::new(Shared::default());
        let shared_with_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("sync".into())
            .spawn(move || shared_with_thread.serve(&received_requests))?;
        Ok(Syncer { requests: Some(requests), shared, thread: Some(thread) })
    }
}

impl DeferredSync for Syncer {
    fn request_sync(&self, file: &Arc<dyn DiskFile>) {
        *self.shared.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(file));
        match self.requests.as_ref().map(|requests| requests.try_send(())) {
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
    fn serve(&self, received_requests: &Receiver<()>) {
        // A request that was queued before the sender was dropped is still served.
        while received_requests.recv().is_ok() {
            runtime::ordered_panic::panic_if_ordered();
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
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}
