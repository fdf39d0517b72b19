//! Transmit: passes the frames that are collected for each port to its device in bursts.
//!
//! The device gets a worker's packets of one flow in the order in which they are added here.

use crate::egress_qos::CountedQueue;
use crate::engine::Engine;
use crate::engine::bursts::{Bursts, QOS_FLAG, QueuedFrames, TX_BURST, add_once};
use crate::engine::view::View;
use crate::last_drop::{DropLog, DropPort};
use crate::port::{Frame, FrameBatch, FramePool, QosResult, TxQueue, TxResult};
use crate::ports::Port;
use crate::steering::{self, OwnQueues, TxMode};
use crate::tally::{Event, Tally};
use dpif::DropReason;
use packet::held_buffers;
use packet::merge::merge;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use units::{Cycles, Millis, WorkerId};

/// Ends an iteration: sends all bursts if they have waited long enough, or if this thread holds buffers of senders.
#[inline]
pub(crate) fn end_iteration(engine: &mut Engine, at: Option<Cycles>) {
    if !engine.bursts.waiting.is_empty() && (engine.bursts.hold.is_over(at) || held_buffers::holds_any()) {
        flush(engine);
    }
}

/// Sends the bursts of all ports. A port whose shaper holds frames is served again in the next iteration.
fn flush(engine: &mut Engine) {
    while let Some(port) = engine.bursts.waiting.pop() {
        send(engine, port);
    }
    if !engine.bursts.held.is_empty() {
        engine.bursts.waiting.append(&mut engine.bursts.held);
    }
}

/// Sends the burst of one port. `no`: the port number, perhaps with `QOS_FLAG`; with the flag no burst has this number, so the port's
/// QoS queues are served.
pub(crate) fn send(engine: &mut Engine, no: u32) {
    let Some(frames) = engine.bursts.outputs.get_mut(no as usize).filter(|frames| !frames.is_empty()) else {
        return serve_queues(engine, no);
    };
    let (senders, now) = (engine.view.ports.senders, engine.now);
    // Fields are borrowed where they are used: most bursts need few of them.
    macro_rules! sending {
        ($port:expr) => {
            TxContext {
                port: $port,
                tally: &mut engine.tally,
                drops: &mut engine.drops,
                tx_queues: &mut engine.bursts.tx_queues,
                pool: &mut engine.pool,
                held: &mut engine.bursts.held,
                worker: engine.id,
                senders,
                now,
            }
        };
    }
    match engine.view.ports.get(no) {
        Some(port) => match port.static_queue(engine.bursts.tx_queues.static_tx_qid, senders) {
            Some(queue) => {
                let mut counted = lock(queue);
                let (n, result) = pass_to_queue(&mut counted, frames, &mut engine.pool, &mut engine.tally);
                if u64::from(result.sent) == n {
                    counted.sent.add(n, result.sent_bytes);
                    drop(counted);
                    engine.tally.add(Event::Sent, n);
                } else {
                    sending!(port).count_burst(counted, frames, n, &result);
                }
            }
            None => sending!(port).burst(frames),
        },
        None => {
            drop_unsent(&mut engine.tally, &mut engine.drops, frames, DropReason::InvalidPort, (no, now));
        }
    }
    engine.pool.free_all(frames);
}

#[inline(always)]
fn lock(queue: &Mutex<CountedQueue>) -> MutexGuard<'_, CountedQueue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes frames to a tx queue. Returns the number of frames (after merging segments) and the device's result.
#[inline(always)]
fn pass_to_queue(
    counted: &mut CountedQueue,
    frames: &mut FrameBatch,
    pool: &mut FramePool,
    tally: &mut Tally,
) -> (u64, TxResult) {
    tally.add(Event::OutputBursts, 1);
    if frames.len() > 1 && counted.queue.accepts_large() {
        // Frames that were merged into others are counted here as sent, whatever the device does with the merged frames.
        let merged = merge(frames, pool);
        tally.add(Event::Sent, merged as u64);
    }
    // The buffers must be returned before a receiver can see the frames (`packet::held_buffers`).
    if held_buffers::holds_any() && !counted.queue.releases_held_buffers() {
        held_buffers::release();
    }
    (frames.len() as u64, counted.queue.tx(frames))
}

/// Counts frames that a port cannot send at all, and records each as a recent drop.
#[cold]
fn drop_unsent(
    tally: &mut Tally,
    drops: &mut DropLog,
    frames: &[Frame],
    reason: DropReason,
    (port, now): (u32, Millis),
) {
    tally.count_drops(reason, frames.len() as u64);
    drops.ports.count(DropPort::Out(port), reason, frames.len() as u64);
    frames.iter().for_each(|f| drops.log_unsent(f.bytes(), reason, port, now));
}

/// Sends the frames of a port that select a QoS queue, and the frames in its shaper that may leave now.
#[cold]
fn serve_queues(engine: &mut Engine, no: u32) {
    if no & QOS_FLAG == 0 {
        return;
    }
    let no = no & !QOS_FLAG;
    let mut queued = engine.bursts.queued.remove(&no).unwrap_or_default();
    let QueuedFrames { frames, queues } = &mut queued;
    let Engine {
        view: View { ports, .. },
        bursts: Bursts { tx_queues, held, .. },
        tally,
        drops,
        pool,
        id,
        now,
        ..
    } = engine;
    match ports.get(no).filter(|port| !port.txqs.is_empty()) {
        Some(port) => {
            let (worker, senders) = (*id, ports.senders);
            let mut sending =
                TxContext { port, tally, drops, tx_queues, pool, held, worker, senders, now: *now };
            let queue = sending.own_queue();
            sending.send_by_qos_queue(queue, frames, queues);
        }
        None => drop_unsent(tally, drops, frames, DropReason::InvalidPort, (no, *now)),
    }
    pool.free_all(frames);
}

/// Adds a frame that selects a QoS queue to the burst of a port that has queues.
pub(crate) fn send_queued(engine: &mut Engine, port: u32, queue: u32, frame: Frame) {
    let queued = engine.bursts.queued.entry(port).or_default();
    queued.frames.push(frame);
    queued.queues.push(queue);
    let is_full = queued.frames.len() >= TX_BURST;
    engine.bursts.mark_waiting(port | QOS_FLAG);
    if is_full {
        serve_queues(engine, port | QOS_FLAG);
    }
}

/// Returns whether this worker must serve a port with QoS: frames wait for their burst, or a shaper holds them.
#[inline]
pub(crate) fn holds(engine: &Engine) -> bool {
    !(engine.bursts.waiting.is_empty() && engine.bursts.held.is_empty())
        && engine.bursts.waiting.iter().chain(&engine.bursts.held).any(|port| port & QOS_FLAG != 0)
}

/// The parts of the engine that are needed to send to one port.
struct TxContext<'a> {
    port: &'a Port,
    tally: &'a mut Tally,
    drops: &'a mut DropLog,
    tx_queues: &'a mut OwnQueues,
    pool: &'a mut FramePool,
    /// Ports that must be served again in the next iteration.
    held: &'a mut Vec<u32>,
    worker: WorkerId,
    senders: usize,
    now: Millis,
}

impl TxContext<'_> {
    /// Sends a burst of a port whose tx queue does not depend on the worker alone, but on each packet's hash or on
    /// the other workers (XPS).
    #[inline(never)]
    fn burst(mut self, frames: &mut FrameBatch) {
        let queues = self.port.txqs.len();
        if queues == 0 {
            let place = (self.port.no.0, self.now);
            return drop_unsent(self.tally, self.drops, frames, DropReason::TxFailed, place);
        }
        match self.port.tx_mode(self.senders) {
            TxMode::Hash => self.by_hash(frames),
            TxMode::Static | TxMode::Xps => {
                let queue = self.own_queue();
                self.by_queue(queue, frames);
            }
        }
    }

    /// Returns the tx queue of this worker.
    fn own_queue(&mut self) -> usize {
        let queues = self.port.txqs.len();
        let Port { no, users, .. } = self.port;
        match self.port.tx_mode(self.senders) {
            TxMode::Xps => self.tx_queues.taken.queue(no.0, users, queues, self.worker, self.now),
            TxMode::Static | TxMode::Hash => self.tx_queues.static_tx_qid % queues,
        }
    }

    /// Sends each frame by the queue that its hash selects.
    #[inline(never)]
    fn by_hash(&mut self, frames: &mut FrameBatch) {
        let queues = self.port.txqs.len();
        let mut parts = std::mem::take(&mut self.tx_queues.parts);
        if parts.len() < queues {
            parts.resize_with(queues, Vec::new);
        }
        for frame in frames.drain(..) {
            parts[steering::by_hash(frame.bytes(), queues)].push(frame);
        }
        for (queue, part) in parts.iter_mut().enumerate().filter(|(_, part)| !part.is_empty()) {
            self.by_queue(queue, part);
            self.pool.free_all(part);
        }
        self.tx_queues.parts = parts;
    }

    fn by_queue(&mut self, queue: usize, frames: &mut FrameBatch) {
        let mut counted = lock(&self.port.txqs[queue]);
        let (n, result) = pass_to_queue(&mut counted, frames, self.pool, self.tally);
        self.count_burst(counted, frames, n, &result);
    }

    /// Counts a burst of which the device may have sent only a part, or whose frames a policer or shaper has
    /// accepted.
    #[inline(never)]
    fn count_burst(
        &mut self,
        mut counted: MutexGuard<'_, CountedQueue>,
        frames: &mut FrameBatch,
        n: u64,
        result: &TxResult,
    ) {
        let CountedQueue { queue: txq, sent } = &mut *counted;
        if u64::from(result.sent) < n {
            if let Some(qos) = txq.take_qos() {
                sent.add(qos.sent.into(), qos.sent_bytes);
                drop(counted);
                return self.count_qos(&qos, frames);
            }
            record_unsent(self.drops, (self.port.no.0, &**txq), frames, result, self.now);
        }
        sent.add(u64::from(result.sent).min(n), result.sent_bytes);
        drop(counted);
        self.count(n, result);
    }

    fn count(&mut self, n: u64, result: &TxResult) {
        let TxContext { port, tally, drops, .. } = self;
        let sent = u64::from(result.sent).min(n);
        let too_long = u64::from(result.too_long).min(n - sent);
        let failed = n - sent - too_long;
        tally.add(Event::Sent, sent);
        tally.count_drops(DropReason::TxTooLong, too_long);
        tally.count_drops(DropReason::TxFailed, failed);
        if failed + too_long != 0 {
            count_unsent(drops, port, too_long, failed);
        }
    }
}

/// Counts frames that the device refused, as drops of their port.
#[cold]
fn count_unsent(drops: &mut DropLog, port: &Port, too_long: u64, failed: u64) {
    for (reason, n) in [(DropReason::TxTooLong, too_long), (DropReason::TxFailed, failed)] {
        if n != 0 {
            drops.ports.count(DropPort::Out(port.no.0), reason, n);
        }
    }
    port.counters.tx_dropped.fetch_add(failed + too_long, Ordering::Relaxed);
}

impl TxContext<'_> {
    /// Sends frames that each select a QoS queue. Without frames it only serves the shaper.
    fn send_by_qos_queue(&mut self, queue: usize, frames: &mut FrameBatch, queues: &[u32]) {
        let n = frames.len() as u64;
        let mut counted = lock(&self.port.txqs[queue]);
        let CountedQueue { queue: txq, sent } = &mut *counted;
        // As in `pass_to_queue`: before a receiver can see the frames.
        held_buffers::release();
        let result = txq.tx_queued(frames, queues);
        if let Some(qos) = txq.take_qos() {
            sent.add(qos.sent.into(), qos.sent_bytes);
            drop(counted);
            return self.count_qos(&qos, frames);
        }
        if u64::from(result.sent) < n {
            record_unsent(self.drops, (self.port.no.0, &**txq), frames, &result, self.now);
        }
        sent.add(u64::from(result.sent).min(n), result.sent_bytes);
        drop(counted);
        self.tally.add(Event::OutputBursts, 1);
        self.count(n, &result);
    }

    /// Counts frames that a policer or shaper has accepted or dropped. The queue itself has counted what it sent.
    #[cold]
    fn count_qos(&mut self, result: &QosResult, frames: &[Frame]) {
        let TxContext { port, tally, drops, held, now, .. } = self;
        let no = port.no.0;
        tally.add(Event::Sent, result.sent.into());
        for (reason, n) in [
            (DropReason::TxQos, result.qos_dropped),
            (DropReason::TxTooLong, result.too_long),
            (DropReason::TxFailed, result.dropped),
        ] {
            tally.count_drops(reason, n.into());
            drops.ports.count(DropPort::Out(no), reason, n.into());
        }
        // The refused frames are at the end.
        let refused = result.qos_dropped as usize;
        let (device, refused) = frames.split_at(frames.len().saturating_sub(refused));
        refused.last().into_iter().for_each(|f| drops.log_unsent(f.bytes(), DropReason::TxQos, no, *now));
        if result.dropped > 0
            && let Some(frame) = device.last()
        {
            drops.log_unsent(frame.bytes(), DropReason::TxFailed, no, *now);
        }
        let lost = u64::from(result.qos_dropped) + u64::from(result.too_long) + u64::from(result.dropped);
        port.counters.tx_dropped.fetch_add(lost, Ordering::Relaxed);
        port.counters.tx_qos.fetch_add(result.qos_dropped.into(), Ordering::Relaxed);
        if result.holds {
            add_once(held, no | QOS_FLAG);
        }
    }
}

/// Records the longest of the frames that exceeded the MTU, and one of the frames that the device refused. `frames`:
/// the frames that the device did not accept, including those that are too long.
#[cold]
fn record_unsent(
    drops: &mut DropLog,
    (port, txq): (u32, &dyn TxQueue),
    frames: &[Frame],
    result: &TxResult,
    now: Millis,
) {
    let longest = |f: &&Frame| f.longest_segment();
    let too_long = frames.iter().max_by_key(longest).filter(|_| result.too_long > 0);
    if let Some(frame) = too_long {
        drops.log_unsent(frame.bytes(), DropReason::TxTooLong, port, now);
    }
    if result.dropped > 0 {
        let other = |f: &&Frame| too_long.is_none_or(|long| !std::ptr::eq(*f, long));
        let last = || frames.iter().rfind(other).map(Frame::bytes);
        drops.log_unsent(txq.refused().or_else(last).unwrap_or_default(), DropReason::TxFailed, port, now);
    }
}
