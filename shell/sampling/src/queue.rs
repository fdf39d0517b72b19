//! The queue of sampled packets: workers put, the exporter thread takes.
//!
//! Putting never waits. It wakes the exporter thread only if that has nothing to do: while it has, it looks again by itself, every
//! few milliseconds, so that a worker under load does not pay for a wake-up with each sample.

use dpif::{Userspace, UserspaceCookie};
use flow::Flow;
use runtime::coverage::Counter;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

static LOST: Counter = Counter::new("sample_queue_full");

/// Samples that may wait: of 1 kB each at most, together 4 MB.
const SAMPLES_MAX: usize = 4096;
/// Bytes of a packet that are kept. A sample of sFlow has at most 700 bytes.
const HEADER_MAX: usize = 700;

/// A sampled packet.
pub struct SampledPacket {
    /// What samples it.
    pub cookie: UserspaceCookie,
    /// The tunnel port whose outer header is reported.
    pub tunnel_out_port: bool,
    /// What its megaflow does with it.
    pub sampled: Arc<dpif::Sampled>,
    /// Its fields; `in_port` is a number of the datapath.
    pub flow: Flow,
    /// Its first bytes.
    pub header: Vec<u8>,
    /// Its length.
    pub length: u32,
}

impl SampledPacket {
    /// Copies what samples report of a packet. `bridge`: of a packet whose action was not made by a translation.
    pub fn new(
        packet: &[u8],
        flow: &Flow,
        userspace: &Userspace,
        bridge: Option<u32>,
    ) -> Option<SampledPacket> {
        let sampled = match (&userspace.sampled, bridge) {
            (Some(sampled), _) => Arc::clone(sampled),
            (None, bridge) => Arc::new(dpif::Sampled { bridge: bridge?, ..dpif::Sampled::default() }),
        };
        let header = match userspace.cookie {
            UserspaceCookie::Sflow { .. } => packet[..packet.len().min(HEADER_MAX)].to_vec(),
            _ => Vec::new(),
        };
        Some(SampledPacket {
            cookie: userspace.cookie.clone(),
            tunnel_out_port: userspace.tunnel_out_port.is_some(),
            sampled,
            flow: *flow,
            header,
            length: packet.len() as u32,
        })
    }
}

/// The queue.
pub(crate) struct Queue {
    sender: SyncSender<Box<SampledPacket>>,
    receiver: Mutex<Receiver<Box<SampledPacket>>>,
    /// The exporter thread has nothing to do.
    idle: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

impl Default for Queue {
    fn default() -> Queue {
        let (sender, receiver) = sync_channel(SAMPLES_MAX);
        Queue {
            sender,
            receiver: Mutex::new(receiver),
            idle: AtomicBool::new(false),
            thread: Mutex::default(),
        }
    }
}

impl Queue {
    /// Adds a packet; drops it if the queue is full.
    pub(crate) fn put(&self, packet: SampledPacket) {
        match self.sender.try_send(Box::new(packet)) {
            Ok(()) => self.wake(),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => LOST.hit(),
        }
    }

    /// Takes a packet.
    pub(crate) fn take(&self) -> Option<Box<SampledPacket>> {
        lock(&self.receiver).try_recv().ok()
    }

    /// The thread that takes; it is woken from now on.
    pub(crate) fn set_thread(&self, thread: Option<Thread>) {
        *lock(&self.thread) = thread;
    }

    /// Reports whether the thread has nothing to do and is about to sleep.
    pub(crate) fn set_idle(&self, idle: bool) {
        self.idle.store(idle, Ordering::SeqCst);
    }

    /// Wakes the thread if it has nothing to do.
    pub(crate) fn wake(&self) {
        if self.idle.load(Ordering::SeqCst) && self.idle.swap(false, Ordering::SeqCst) {
            // Nobody holds this lock for longer than it takes to copy a reference.
            if let Some(thread) = &*lock(&self.thread) {
                thread.unpark();
            }
        }
    }
}

/// The state stays usable after a panic of another thread: each operation is complete.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
