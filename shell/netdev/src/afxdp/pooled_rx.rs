//! The rx queue of a port in mode `spp`. It receives into buffers of a shared pool. It posts as many buffers as it needs,
//! within its allowance.

use super::queue::{Port, missing_request};
use crate::linux::umem_socket::Lease;
use crate::linux::xsk_ring::{Consumer, Desc, Producer};
use crate::rx_buffers::{QueueUse, RxBuffers};
use packet::frame::{Frame, FrameBatch, FramePool};
use packet::queue::{RX_BURST, RxQueue, RxResult};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt;
use rustix::time::Timespec;
use rxpool::refill::Change;
use rxpool::{Alpha, Drain, LOW_WATERMARK, Refill};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The state of a queue: the worker writes it, the main thread reads it.
#[derive(Debug, Default)]
pub struct QueueState {
    posted: AtomicU32,
    busy: AtomicBool,
    woken: AtomicU64,
    first_burst_lost: AtomicU64,
}

/// A queue as the main thread sees it.
pub struct QueueMonitor {
    /// Name of the pool.
    pub pool: String,
    /// The socket.
    pub lease: Arc<Lease>,
    /// Written by the worker.
    pub state: Arc<QueueState>,
    /// The settings.
    pub wanted: RxBuffers,
    /// High watermark.
    pub high: u32,
    /// When the queue was first found idle with too many buffers, and how often it had become busy until then.
    idle_since: Mutex<Option<(Instant, u64)>>,
}

/// How long a queue must be idle before its buffers are taken back. That needs another socket, and packets that arrive
/// meanwhile would be lost.
const IDLE: Duration = Duration::from_secs(1);

/// Packets for which the kernel had no buffer.
fn lost(lease: &Lease) -> u64 {
    sockopt::xdp_statistics(&*lease.fd).ok().and_then(|s| s.rx_fill_ring_empty_descs).unwrap_or(0)
}

impl QueueMonitor {
    /// A queue of this socket.
    pub fn new(pool: String, lease: Arc<Lease>, wanted: RxBuffers, high: u32) -> QueueMonitor {
        QueueMonitor { pool, lease, state: Arc::default(), wanted, high, idle_since: Mutex::default() }
    }

    /// Whether the queue has been idle for [`IDLE`] and holds posted buffers that other queues need: more than twice the low
    /// watermark, while less than a quarter of the shared part is free. The socket must be closed for that, because the
    /// kernel does not give a posted buffer back earlier.
    pub fn should_give_back(&self) -> bool {
        let (shared, free) = self.lease.umem.pool.shared();
        let woken = self.state.woken.load(Ordering::Relaxed);
        let is_idle = !self.state.busy.load(Ordering::Relaxed);
        let holds_much = self.state.posted.load(Ordering::Relaxed) > 2 * LOW_WATERMARK;
        let mut since = self.idle_since.lock().unwrap_or_else(PoisonError::into_inner);
        if !(is_idle && holds_much && free < shared / 4) {
            *since = None;
            return false;
        }
        let (at, before) = *since.get_or_insert_with(|| (Instant::now(), woken));
        if before != woken {
            *since = Some((Instant::now(), woken));
            return false;
        }
        at.elapsed() >= IDLE
    }

    /// The buffers of the queue at this moment.
    pub fn usage(&self) -> QueueUse {
        let (pool, [rx, tx]) = (&self.lease.umem.pool, self.lease.places);
        self.lease.umem.collect();
        QueueUse {
            pool: self.pool.clone(),
            of_pool: (pool.buffers(), pool.held_by_all()),
            held: pool.held(rx),
            sending: pool.held(tx),
            posted: self.state.posted.load(Ordering::Relaxed),
            peak: pool.peak(rx),
            allowance: pool.allowance(rx, self.wanted.alpha),
            reserve: self.wanted.reserve,
            high: self.high,
            busy: self.state.busy.load(Ordering::Relaxed),
            woken: self.state.woken.load(Ordering::Relaxed),
            first_burst_lost: self.state.first_burst_lost.load(Ordering::Relaxed),
            lost: lost(&self.lease),
        }
    }
}

/// Receives from one socket; owned by one worker.
pub struct PooledRx {
    port: Arc<Port>,
    lease: Arc<Lease>,
    fill: Producer<u64>,
    rx: Consumer<Desc>,
    state: Arc<QueueState>,
    partial_checksums: bool,
    refill: Refill,
    /// Present if the threshold is weighted.
    drain: Option<Drain>,
    alpha: Alpha,
    posted: u32,
    /// The kernel's counter of packets that found no buffer, as read when the queue became idle.
    lost_when_idle: u64,
}

impl PooledRx {
    /// A queue whose low watermark is posted.
    pub fn new(
        port: Arc<Port>,
        (fill, rx): (Producer<u64>, Consumer<Desc>),
        monitor: &QueueMonitor,
        partial_checksums: bool,
    ) -> PooledRx {
        let wanted = &monitor.wanted;
        let mut queue = PooledRx {
            port,
            lease: Arc::clone(&monitor.lease),
            fill,
            rx,
            state: Arc::clone(&monitor.state),
            partial_checksums,
            refill: Refill::new(LOW_WATERMARK, monitor.high),
            drain: wanted.by_drain.then(Drain::default),
            alpha: wanted.alpha,
            posted: 0,
            lost_when_idle: 0,
        };
        queue.refill();
        queue
    }

    /// Posts buffers up to the target.
    fn refill(&mut self) {
        let Lease { umem, ends: [end, _], places: [place, _], .. } = *self.lease;
        let alpha = self.drain.map_or(self.alpha, |drain| self.alpha.weighted(drain.weight()));
        let allowance = umem.pool.allowance(place, alpha);
        let missing = self.refill.target(allowance).saturating_sub(self.posted);
        if missing == 0 {
            return;
        }
        let mut left = umem.pool.charge(place, missing, allowance) as usize;
        let mut addresses = [0; RX_BURST];
        while left > 0 {
            let n = left.min(RX_BURST);
            let taken = umem.post(place, end, &mut addresses[..n]);
            // The ring has at least as many entries as the high watermark.
            self.posted += self.fill.put(&addresses[..taken]) as u32;
            left -= n;
        }
        self.state.posted.store(self.posted, Ordering::Relaxed);
    }

    /// Notes whether the queue became busy or idle. The kernel's counter is read only then.
    fn note(&mut self, full: bool) {
        match self.refill.polled(full) {
            Change::Same => return self.refill(),
            Change::BecameBusy => {
                self.refill();
                let now = lost(&self.lease);
                let first = now.saturating_sub(self.lost_when_idle);
                self.state.first_burst_lost.fetch_add(first, Ordering::Relaxed);
                self.state.woken.fetch_add(1, Ordering::Relaxed);
            }
            Change::BecameIdle => self.lost_when_idle = lost(&self.lease),
        }
        self.state.busy.store(self.refill.is_busy(), Ordering::Relaxed);
    }
}

impl RxQueue for PooledRx {
    /// The socket is readable whenever frames wait. While packets hold all buffers of the queue, none can arrive, and it
    /// must be polled so that it posts buffers again.
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
        let (umem, end) = (self.lease.umem, self.lease.ends[0]);
        let max = max.min(RX_BURST);
        if let Some(drain) = &mut self.drain {
            let backlog = self.rx.waiting();
            drain.polled(backlog as u32, backlog.min(max) as u32);
        }
        let partial_checksums = self.partial_checksums;
        let received = self.rx.take(max, |desc| {
            let frame = umem.received(desc.addr, end).and_then(|(buffer, start)| {
                // If the kernel's offset and length are not inside the buffer, the frame is dropped and the buffer freed.
                Frame::in_buffer(buffer, start, desc.len as usize)
            });
            match frame {
                Some(mut frame) => {
                    if partial_checksums {
                        frame.set_offload(missing_request(&frame));
                    }
                    out.push(frame);
                }
                None => result.dropped += 1,
            }
        });
        self.posted = self.posted.saturating_sub(received as u32);
        self.note(received == max);
        if received == 0 && self.fill.needs_wakeup() {
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            // The error concerns the device; the main thread learns of it by netlink.
            let _ = poll(&mut [PollFd::new(&*self.lease.fd, PollFlags::IN)], Some(&now));
        }
        self.port.counters.count_rx_dropped(u64::from(result.dropped));
        result.more = received == max;
        result
    }
}
