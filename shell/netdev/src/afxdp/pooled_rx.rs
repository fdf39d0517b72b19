//! The rx queue of a port in mode `spp`. It receives into buffers of a shared pool, and posts as many buffers as it needs
//! within its allowance.

use super::queue::{PortShared, offload_request_of_bytes};
use crate::linux::umem_socket::SocketUse;
use crate::linux::xsk_ring::{Consumer, Desc, Producer};
use crate::rx_buffers::{QueueUse, RxPoolSettings};
use packet::frame::{Frame, FrameBatch, FramePool};
use packet::queue::{RX_BURST, RxQueue, RxResult};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt;
use rustix::time::Timespec;
use rxpool::refill::Change;
use rxpool::{Alpha, DrainRate, LOW_WATERMARK, Refill};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The state of a queue, which the worker writes and the main thread reads.
#[derive(Debug, Default)]
pub struct QueueState {
    posted: AtomicU32,
    busy: AtomicBool,
    /// How often the queue became busy.
    became_busy: AtomicU64,
    /// Packets that were lost after the queue had become idle and until it became busy.
    first_burst_lost: AtomicU64,
}

/// A queue from the main thread's point of view.
pub struct QueueMonitor {
    /// Name of the pool.
    pub pool: String,
    /// The use of the umem by the queue's socket.
    pub socket_use: Arc<SocketUse>,
    /// The state that the worker writes.
    pub state: Arc<QueueState>,
    /// The settings of receive buffers.
    pub settings: RxPoolSettings,
    /// High watermark: maximum number of posted buffers.
    pub high: u32,
    /// Since when the queue has been idle with too many buffers, and the value of `became_busy` at that time; `None`: the queue is not in this state.
    idle_since: Mutex<Option<(Instant, u64)>>,
}

/// How long a queue must be idle before its buffers are released. The release needs a new socket, and packets that arrive
/// during the change are lost.
const IDLE: Duration = Duration::from_secs(1);

/// Number of packets for which the kernel had no buffer.
fn lost_packets(socket_use: &SocketUse) -> u64 {
    sockopt::xdp_statistics(&*socket_use.fd).ok().and_then(|s| s.rx_fill_ring_empty_descs).unwrap_or(0)
}

impl QueueMonitor {
    /// Creates the monitor of the queue with this socket.
    pub fn new(
        pool: String,
        socket_use: Arc<SocketUse>,
        settings: RxPoolSettings,
        high: u32,
    ) -> QueueMonitor {
        QueueMonitor { pool, socket_use, state: Arc::default(), settings, high, idle_since: Mutex::default() }
    }

    /// Whether the queue must release buffers that other queues need: it has been idle for [`IDLE`] and has posted more than twice the low
    /// watermark, while less than a quarter of the pool's shared part is free. Its socket must be closed for that, because
    /// otherwise the kernel does not release a posted buffer until a packet has been received into it.
    pub fn should_release_buffers(&self) -> bool {
        let (shared, free) = self.socket_use.umem.pool.shared();
        let became_busy = self.state.became_busy.load(Ordering::Relaxed);
        let is_idle = !self.state.busy.load(Ordering::Relaxed);
        let holds_much = self.state.posted.load(Ordering::Relaxed) > 2 * LOW_WATERMARK;
        let mut since = self.idle_since.lock().unwrap_or_else(PoisonError::into_inner);
        if !(is_idle && holds_much && free < shared / 4) {
            *since = None;
            return false;
        }
        let (at, before) = *since.get_or_insert_with(|| (Instant::now(), became_busy));
        if before != became_busy {
            *since = Some((Instant::now(), became_busy));
            return false;
        }
        at.elapsed() >= IDLE
    }

    /// The number of buffers that the queue uses now, and its counters.
    pub fn usage(&self) -> QueueUse {
        let (pool, [rx, tx]) = (&self.socket_use.umem.pool, self.socket_use.slots);
        self.socket_use.umem.collect();
        QueueUse {
            pool: self.pool.clone(),
            of_pool: (pool.buffers(), pool.held_by_all()),
            held: pool.held(rx),
            sending: pool.held(tx),
            posted: self.state.posted.load(Ordering::Relaxed),
            peak: pool.peak(rx),
            allowance: pool.allowance(rx, self.settings.alpha),
            reserve: self.settings.reserve,
            high: self.high,
            busy: self.state.busy.load(Ordering::Relaxed),
            became_busy: self.state.became_busy.load(Ordering::Relaxed),
            first_burst_lost: self.state.first_burst_lost.load(Ordering::Relaxed),
            lost: lost_packets(&self.socket_use),
        }
    }
}

/// Receives from one socket. One worker owns it. It has cache lines of its own (see [`sync::CachePadded`]).
#[repr(align(128))]
pub struct PooledRx {
    port: Arc<PortShared>,
    socket_use: Arc<SocketUse>,
    fill: Producer<u64>,
    rx: Consumer<Desc>,
    state: Arc<QueueState>,
    /// Frames may come with unfinished checksums.
    partial_checksums: bool,
    refill: Refill,
    /// The drain rate; `Some` if the dynamic threshold is weighted by it.
    drain: Option<DrainRate>,
    alpha: Alpha,
    posted: u32,
    /// The kernel's counter of packets for which it had no buffer, read when the queue became idle.
    lost_before: u64,
}

impl PooledRx {
    /// Creates the queue and posts the low watermark.
    pub fn new(
        port: Arc<PortShared>,
        (fill, rx): (Producer<u64>, Consumer<Desc>),
        monitor: &QueueMonitor,
        partial_checksums: bool,
    ) -> PooledRx {
        let settings = &monitor.settings;
        let mut queue = PooledRx {
            port,
            socket_use: Arc::clone(&monitor.socket_use),
            fill,
            rx,
            state: Arc::clone(&monitor.state),
            partial_checksums,
            refill: Refill::new(LOW_WATERMARK, monitor.high),
            drain: settings.by_drain.then(DrainRate::default),
            alpha: settings.alpha,
            posted: 0,
            lost_before: 0,
        };
        queue.refill();
        queue
    }

    /// Posts buffers until the target is reached or the pool gives no more.
    fn refill(&mut self) {
        let SocketUse { umem, sides: [side, _], slots: [slot, _], .. } = *self.socket_use;
        let alpha = self.drain.map_or(self.alpha, |drain| self.alpha.weighted(drain.weight()));
        let allowance = umem.pool.allowance(slot, alpha);
        let missing = self.refill.target(allowance).saturating_sub(self.posted);
        if missing == 0 {
            return;
        }
        let mut left = umem.pool.acquire(slot, missing, allowance) as usize;
        let mut addresses = [0; RX_BURST];
        while left > 0 {
            let n = left.min(RX_BURST);
            let taken = umem.post(slot, side, &mut addresses[..n]);
            // The ring has at least as many entries as the high watermark, so all buffers fit.
            self.posted += self.fill.put(&addresses[..taken]) as u32;
            left -= n;
        }
        self.state.posted.store(self.posted, Ordering::Relaxed);
    }

    /// Records a poll, which may make the queue busy or idle, and posts buffers; a queue that becomes idle needs none. The kernel's counter is
    /// read only when the queue becomes busy or idle.
    fn after_poll(&mut self, full: bool) {
        match self.refill.record_poll(full) {
            Change::Same => return self.refill(),
            Change::BecameBusy => {
                self.refill();
                let now = lost_packets(&self.socket_use);
                let first = now.saturating_sub(self.lost_before);
                self.state.first_burst_lost.fetch_add(first, Ordering::Relaxed);
                self.state.became_busy.fetch_add(1, Ordering::Relaxed);
            }
            Change::BecameIdle => self.lost_before = lost_packets(&self.socket_use),
        }
        self.state.busy.store(self.refill.is_busy(), Ordering::Relaxed);
    }
}

impl RxQueue for PooledRx {
    /// The socket is readable whenever packets wait. While frames use all buffers of the queue, the kernel can receive no
    /// packets. Then the result is false: the worker must continue to poll the queue, so that the queue posts buffers again.
    fn arm(&mut self, on: bool) -> bool {
        if on {
            self.refill.set_idle();
        }
        self.posted > 0
    }

    fn rx(&mut self, _pool: &mut FramePool, out: &mut FrameBatch, max: usize) -> RxResult {
        let mut result = RxResult::default();
        if self.port.counters.ended() {
            return result;
        }
        let (umem, side) = (self.socket_use.umem, self.socket_use.sides[0]);
        let max = max.min(RX_BURST);
        if let Some(drain) = &mut self.drain {
            let backlog = self.rx.waiting();
            drain.record_poll(backlog as u32, backlog.min(max) as u32);
        }
        let partial_checksums = self.partial_checksums;
        let received = self.rx.take(max, |desc| {
            let frame = umem.received_buffer(desc.addr, side).and_then(|(buffer, start)| {
                // If the kernel's offset and length are not inside the buffer, the frame is dropped and the buffer freed.
                Frame::in_buffer(buffer, start, desc.len as usize)
            });
            match frame {
                Some(mut frame) => {
                    if partial_checksums {
                        frame.set_offload(offload_request_of_bytes(&frame));
                    }
                    out.push(frame);
                }
                None => result.dropped += 1,
            }
        });
        self.posted = self.posted.saturating_sub(received as u32);
        self.after_poll(received == max);
        if received == 0 && self.fill.needs_wakeup() {
            // The call makes the kernel read the fill ring.
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            // An error concerns the device; the main thread is notified of that by netlink.
            let _ = poll(&mut [PollFd::new(&*self.socket_use.fd, PollFlags::IN)], Some(&at_once));
        }
        self.port.counters.count_rx_dropped(u64::from(result.dropped));
        result.more = received == max;
        result
    }
}
