//! Transmit: frames collected per port are handed to the device in bursts.
//!
//! The order in which a worker's packets of one flow are put here is the order in which the device gets them.

use crate::engine::Engine;
use crate::last_drop::DropLog;
use crate::port::{Frame, FrameBatch, FramePool, QosResult, TxQueue, TxResult};
use crate::ports::Port;
use crate::steering::{self, Taken, TxMode};
use crate::tally::{Event, Tally};
use dpif::DropReason;
use packet::merge::merge;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use units::{Cycles, Millis, WorkerId};

/// A burst is sent when it has grown to this.
pub(crate) const TX_BURST: usize = 32;

/// How long bursts that have not grown to [`TX_BURST`] wait for more (`tx-flush-interval`).
#[derive(Default)]
pub(crate) struct Hold {
    /// Cycles; 0: to the end of the turn.
    pub(crate) cycles: u64,
    since: Option<Cycles>,
}

impl Hold {
    /// Whether what waits has waited long enough at the end of a turn; `None`: it may wait no longer.
    #[inline]
    fn is_over(&mut self, at: Option<Cycles>) -> bool {
        let over = match at {
            Some(at) if self.cycles != 0 => (at - *self.since.get_or_insert(at)).0 >= self.cycles,
            _ => true,
        };
        if over {
            self.since = None;
        }
        over
    }
}

/// The end of a turn at an instant: sends what has waited long enough.
#[inline]
pub(crate) fn end_turn(engine: &mut Engine, at: Option<Cycles>) {
    if !engine.waiting.is_empty() && engine.hold.is_over(at) {
        flush(engine);
    }
}

/// Sends what waits for every port. A port whose shaper holds frames waits for the next turn then.
fn flush(engine: &mut Engine) {
    while let Some(port) = engine.waiting.pop() {
        send(engine, port);
    }
    if !engine.held.is_empty() {
        engine.waiting.append(&mut engine.held);
    }
}

/// Sends what waits for one port.
pub(crate) fn send(engine: &mut Engine, no: u32) {
    let Engine { outputs, ports, tally, drops, taken, parts, pool, tx_queue, id, now, .. } = engine;
    let Some(frames) = outputs.get_mut(no as usize).filter(|frames| !frames.is_empty()) else {
        return serve_queues(engine, no);
    };
    match ports.get(no) {
        Some(port) => {
            let (worker, first, senders) = (*id, *tx_queue, ports.senders);
            let held = &mut engine.held;
            Sending { port, tally, drops, taken, parts, pool, held, worker, first, senders, now: *now }
                .burst(frames);
        }
        None => {
            tally.drop(DropReason::InvalidPort, frames.len() as u64);
            frames.iter().for_each(|f| drops.unsent(f.bytes(), DropReason::InvalidPort, no, *now));
        }
    }
    pool.free_all(frames);
}

/// Stands in the list of waiting ports for the QoS queues of a port: frames that name one, and those that its shaper holds.
pub(crate) const QUEUES_OF: u32 = 1 << 31;

/// Sends the frames of a port that name a QoS queue, and what its shaper holds and may send now.
#[cold]
fn serve_queues(engine: &mut Engine, no: u32) {
    if no & QUEUES_OF == 0 {
        return;
    }
    let no = no & !QUEUES_OF;
    let mut queued = engine.queued.remove(&no).unwrap_or_default();
    let Queued { frames, queues } = &mut queued;
    let Engine { ports, tally, drops, taken, parts, pool, tx_queue, id, now, held, .. } = engine;
    match ports.get(no).filter(|port| !port.txqs.is_empty()) {
        Some(port) => {
            let (worker, first, senders) = (*id, *tx_queue, ports.senders);
            let mut sending =
                Sending { port, tally, drops, taken, parts, pool, held, worker, first, senders, now: *now };
            let queue = sending.own_queue();
            sending.by_class(queue, frames, queues);
        }
        None => {
            tally.drop(DropReason::InvalidPort, frames.len() as u64);
            frames.iter().for_each(|f| drops.unsent(f.bytes(), DropReason::InvalidPort, no, *now));
        }
    }
    pool.free_all(frames);
}

/// Puts a frame that names a QoS queue in a port's burst.
pub(crate) fn send_queued(engine: &mut Engine, port: u32, queue: u32, frame: Frame) {
    if !engine.ports.get(port).is_some_and(|port| port.has_queues()) {
        return engine.send(port, frame);
    }
    let queued = engine.queued.entry(port).or_default();
    queued.frames.push(frame);
    queued.queues.push(queue);
    let is_full = queued.frames.len() >= TX_BURST;
    wait(&mut engine.waiting, port | QUEUES_OF);
    if is_full {
        serve_queues(engine, port | QUEUES_OF);
    }
}

/// A shaper holds frames that this worker has to come back for.
pub(crate) fn holds(engine: &Engine) -> bool {
    engine.waiting.iter().chain(&engine.held).any(|port| port & QUEUES_OF != 0)
}

fn wait(waiting: &mut Vec<u32>, port: u32) {
    if !waiting.contains(&port) {
        waiting.push(port);
    }
}

/// Frames of a port that name QoS queues, and which.
#[derive(Default)]
pub(crate) struct Queued {
    frames: FrameBatch,
    queues: Vec<u32>,
}

/// What of the engine it takes to send by one port.
struct Sending<'a> {
    port: &'a Port,
    tally: &'a mut Tally,
    drops: &'a mut DropLog,
    taken: &'a mut Taken,
    parts: &'a mut Vec<FrameBatch>,
    pool: &'a mut FramePool,
    /// Ports that are to be looked at again in the next turn.
    held: &'a mut Vec<u32>,
    worker: WorkerId,
    /// The worker's own tx queue, where there are as many.
    first: usize,
    senders: usize,
    now: Millis,
}

impl Sending<'_> {
    #[inline(always)]
    fn burst(mut self, frames: &mut FrameBatch) {
        let queues = self.port.txqs.len();
        if queues == 0 {
            self.tally.drop(DropReason::TxFailed, frames.len() as u64);
            let no = self.port.no.0;
            frames.iter().for_each(|f| self.drops.unsent(f.bytes(), DropReason::TxFailed, no, self.now));
            return;
        }
        self.tally.add(Event::OutputBatches, 1);
        match self.port.tx_mode(self.senders) {
            TxMode::Hash => self.by_hash(frames),
            TxMode::Static | TxMode::Xps => {
                let queue = self.own_queue();
                self.by_queue(queue, frames);
            }
        }
    }

    /// The tx queue of this worker.
    #[inline(always)]
    fn own_queue(&mut self) -> usize {
        let queues = self.port.txqs.len();
        let Port { no, users, .. } = self.port;
        match self.port.tx_mode(self.senders) {
            TxMode::Xps => self.taken.queue(no.0, users, queues, self.worker, self.now),
            // There are as many queues as senders most often, and a division takes longer than to look.
            TxMode::Static | TxMode::Hash if self.first < queues => self.first,
            TxMode::Static | TxMode::Hash => self.first % queues,
        }
    }

    /// Each frame goes by the queue that its hash says.
    #[inline(never)]
    fn by_hash(&mut self, frames: &mut FrameBatch) {
        let queues = self.port.txqs.len();
        let mut parts = std::mem::take(self.parts);
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
        *self.parts = parts;
    }

    #[inline(always)]
    fn by_queue(&mut self, queue: usize, frames: &mut FrameBatch) {
        let mut txq = self.port.txqs[queue].lock().unwrap_or_else(PoisonError::into_inner);
        if txq.takes_large() {
            let merged = merge(frames, self.pool);
            self.tally.add(Event::Sent, merged as u64);
        }
        let n = frames.len() as u64;
        let result = txq.tx(frames);
        if u64::from(result.sent) < n {
            if let Some(qos) = txq.take_qos() {
                drop(txq);
                return self.shaped(&qos, frames);
            }
            remember(self.drops, (self.port.no.0, &**txq), frames, &result, self.now);
        }
        drop(txq);
        self.count(n, &result);
    }

    #[inline(always)]
    fn count(&mut self, n: u64, result: &TxResult) {
        let Sending { port, tally, .. } = self;
        let sent = u64::from(result.sent).min(n);
        let too_long = u64::from(result.too_long).min(n - sent);
        let failed = n - sent - too_long;
        tally.add(Event::Sent, sent);
        tally.drop(DropReason::TxTooLong, too_long);
        tally.drop(DropReason::TxFailed, failed);
        port.counters.tx.add(sent, result.sent_bytes);
        if failed + too_long != 0 {
            port.counters.tx_dropped.fetch_add(failed + too_long, Ordering::Relaxed);
        }
    }
}

impl Sending<'_> {
    /// Sends frames of which each names a QoS queue; none, if a shaper is only to send what it holds.
    fn by_class(&mut self, queue: usize, frames: &mut FrameBatch, queues: &[u32]) {
        let n = frames.len() as u64;
        let mut txq = self.port.txqs[queue].lock().unwrap_or_else(PoisonError::into_inner);
        let result = txq.tx_queued(frames, queues);
        if let Some(qos) = txq.take_qos() {
            drop(txq);
            return self.shaped(&qos, frames);
        }
        if u64::from(result.sent) < n {
            remember(self.drops, (self.port.no.0, &**txq), frames, &result, self.now);
        }
        drop(txq);
        self.tally.add(Event::OutputBatches, 1);
        self.count(n, &result);
    }

    /// The frames went through a policer or a shaper.
    #[cold]
    fn shaped(&mut self, result: &QosResult, frames: &[Frame]) {
        let Sending { port, tally, drops, held, now, .. } = self;
        let no = port.no.0;
        tally.add(Event::Sent, result.sent.into());
        for (reason, n) in [
            (DropReason::TxQos, result.refused),
            (DropReason::TxTooLong, result.too_long),
            (DropReason::TxFailed, result.dropped),
        ] {
            tally.drop(reason, n.into());
        }
        let refused = result.refused as usize;
        let (device, refused) = frames.split_at(frames.len().saturating_sub(refused));
        refused.last().into_iter().for_each(|f| drops.unsent(f.bytes(), DropReason::TxQos, no, *now));
        if result.dropped > 0
            && let Some(frame) = device.last()
        {
            drops.unsent(frame.bytes(), DropReason::TxFailed, no, *now);
        }
        port.counters.tx.add(result.sent.into(), result.sent_bytes);
        let lost = u64::from(result.refused) + u64::from(result.too_long) + u64::from(result.dropped);
        port.counters.tx_dropped.fetch_add(lost, Ordering::Relaxed);
        port.counters.tx_qos.fetch_add(result.refused.into(), Ordering::Relaxed);
        if result.holds {
            wait(held, no | QUEUES_OF);
        }
    }
}

/// Remembers a frame of those that were longer than the MTU, and one of those that the device refused. `frames` is what the
/// device left: those that are too long are among them, as no device keeps what it does not send.
#[cold]
fn remember(
    drops: &mut DropLog,
    (port, txq): (u32, &dyn TxQueue),
    frames: &[Frame],
    result: &TxResult,
    now: Millis,
) {
    let longest = |f: &&Frame| f.offload().longest(f.bytes());
    let too_long = frames.iter().max_by_key(longest).filter(|_| result.too_long > 0);
    if let Some(frame) = too_long {
        drops.unsent(frame.bytes(), DropReason::TxTooLong, port, now);
    }
    if result.dropped > 0 {
        let other = |f: &&Frame| too_long.is_none_or(|long| !std::ptr::eq(*f, long));
        let last = || frames.iter().rfind(other).map(Frame::bytes);
        drops.unsent(txq.refused().or_else(last).unwrap_or_default(), DropReason::TxFailed, port, now);
    }
}
