//! Runs a server in a thread of its own, for a daemon that has other tasks, too.

use crate::server::{Readable, Server};
use ovsdb::stream::STACK;
use runtime::{Clock, PollLoop, WaitSet, Waker};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A running server; dropping the handle stops it and closes its files.
pub struct Handle {
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
    refused: BTreeMap<String, String>,
}

impl Server {
    /// Starts the server in a new thread. Its sockets are open on return.
    pub fn spawn(mut self) -> io::Result<Handle> {
        // The thread has its own clock: tests stop the virtual time of the switch, while the database server must
        // continue.
        let poll = PollLoop::new(Clock::new())?;
        let waker = poll.waker();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        self.run(&Readable::default(), poll.clock().now());
        let refused = self.remotes.refused();
        let thread = std::thread::Builder::new().name("ovsdb".into()).stack_size(STACK).spawn(move || {
            let mut readable = Readable::default();
            while !stopped.load(Ordering::Acquire) {
                runtime::ordered_panic::panic_if_ordered();
                let now = poll.clock().now();
                self.run(&readable, now);
                let mut set = WaitSet::new();
                let waits = self.wait(&mut set, now);
                readable = waits.readable(&poll.block(set));
            }
        })?;
        Ok(Handle { stop, waker, thread: Some(thread), refused })
    }
}

impl Handle {
    /// Why the server could not listen on this remote when it started. The server keeps trying.
    pub fn refused(&self, remote: &str) -> Option<&str> {
        self.refused.get(remote).map(String::as_str)
    }

    /// Stops serving and closes the files.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}
