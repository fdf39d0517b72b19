//! The queue of sampled packets: workers add packets, the exporter thread removes them.
//!
//! Adding a packet never waits. It wakes the exporter thread only if the thread is idle: a busy exporter thread checks the
//! queue again by itself every few milliseconds, so that a worker under load need not pay for a wake-up per sample.

use dpif::{Userspace, UserspaceCookie};
use flow::Flow;
use runtime::coverage::Counter;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

static LOST: Counter = Counter::new("sample_queue_full");

/// Maximum number of samples in the queue: of at most 1.6 kB each (900 bytes and the copied bytes), together less than 7 MB.
const SAMPLES_MAX: usize = 4096;
/// Number of bytes that are copied of a packet: an sFlow sample has at most 700 bytes.
const HEADER_MAX: usize = 700;

/// A sampled packet.
pub struct SampledPacket {
    /// The action that sampled the packet.
    pub cookie: UserspaceCookie,
    /// The action names a tunnel port, whose outer header must be reported.
    pub tunnel_out_port: bool,
    /// The bridge, and what the packet's megaflow does with the packet.
    pub sample_data: Arc<dpif::SampleData>,
    /// The fields of the packet; `in_port` is a port number of the datapath.
    pub flow: Flow,
    /// The first bytes of the packet.
    pub header: Vec<u8>,
    /// Length of the packet in bytes.
    pub length: u32,
}

impl SampledPacket {
    /// Copies the part of a packet that samples report. `bridge`: the bridge, for a packet whose action was not made by a
    /// translation.
    pub fn new(
        packet: &[u8],
        flow: &Flow,
        userspace: &Userspace,
        bridge: Option<u32>,
    ) -> Option<SampledPacket> {
        let sample_data = match (&userspace.sample_data, bridge) {
            (Some(sample_data), _) => Arc::clone(sample_data),
            (None, bridge) => Arc::new(dpif::SampleData { bridge: bridge?, ..dpif::SampleData::default() }),
        };
        let header = match userspace.cookie {
            UserspaceCookie::Sflow { .. } => packet[..packet.len().min(HEADER_MAX)].to_vec(),
            _ => Vec::new(),
        };
        Some(SampledPacket {
            cookie: userspace.cookie.clone(),
            tunnel_out_port: userspace.tunnel_out_port.is_some(),
            sample_data,
            flow: *flow,
            header,
            length: packet.len() as u32,
        })
    }
}

/// The queue of sampled packets.
pub(crate) struct Queue {
    sender: SyncSender<Box<SampledPacket>>,
    receiver: Mutex<Receiver<Box<SampledPacket>>>,
    /// The exporter thread has nothing to do: it must be woken for a new packet.
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

    /// Removes and returns the next packet.
    pub(crate) fn take(&self) -> Option<Box<SampledPacket>> {
        lock(&self.receiver).try_recv().ok()
    }

    /// Sets the thread to wake for new packets.
    pub(crate) fn set_thread(&self, thread: Option<Thread>) {
        *lock(&self.thread) = thread;
    }

    /// Sets whether the thread has nothing to do and is about to sleep.
    pub(crate) fn set_idle(&self, idle: bool) {
        self.idle.store(idle, Ordering::SeqCst);
    }

    /// Wakes the thread if it has nothing to do.
    pub(crate) fn wake(&self) {
        if self.idle.load(Ordering::SeqCst) && self.idle.swap(false, Ordering::SeqCst) {
            // No thread waits long for this lock: it is held only to set the thread or to wake it.
            if let Some(thread) = &*lock(&self.thread) {
                thread.unpark();
            }
        }
    }
}

/// Locks a mutex, even after a panic of another thread: the state is consistent, because each operation on it is complete.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
