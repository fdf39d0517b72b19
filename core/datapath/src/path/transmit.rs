//! Transmit: frames collected per port are handed to the device in bursts.
//!
//! The order in which a worker's packets of one flow are put here is the order in which the device gets them.

use crate::engine::Engine;
use crate::last_drop::DropLog;
use crate::port::{Frame, FrameBatch, FramePool, TxQueue, TxResult};
use crate::ports::Port;
use crate::steering::{self, Taken, TxMode};
use crate::tally::{Event, Tally};
use dpif::DropReason;
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

/// Sends what waits for every port.
fn flush(engine: &mut Engine) {
    while let Some(port) = engine.waiting.pop() {
        send(engine, port);
    }
}

/// Sends what waits for one port.
pub(crate) fn send(engine: &mut Engine, no: u32) {
    let Engine { outputs, ports, tally, drops, taken, parts, pool, tx_queue, id, now, .. } = engine;
    let Some(frames) = outputs.get_mut(no as usize).filter(|frames| !frames.is_empty()) else { return };
    match ports.get(no) {
        Some(port) => {
            let (worker, first, senders) = (*id, *tx_queue, ports.senders);
            Sending { port, tally, drops, taken, parts, pool, worker, first, senders, now: *now }
                .burst(frames);
        }
        None => {
            tally.drop(DropReason::InvalidPort, frames.len() as u64);
            frames.iter().for_each(|f| drops.unsent(f.bytes(), DropReason::InvalidPort, no, *now));
        }
    }
    pool.free_all(frames);
}

/// What of the engine it takes to send by one port.
struct Sending<'a> {
    port: &'a Port,
    tally: &'a mut Tally,
    drops: &'a mut DropLog,
    taken: &'a mut Taken,
    parts: &'a mut Vec<FrameBatch>,
    pool: &'a mut FramePool,
    worker: WorkerId,
    /// The worker's own tx queue, where there are as many.
    first: usize,
    senders: usize,
    now: Millis,
}

impl Sending<'_> {
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
            TxMode::Static => self.by_queue(self.first % queues, frames),
            TxMode::Xps => {
                let Port { no, users, .. } = self.port;
                let queue = self.taken.queue(no.0, users, queues, self.worker, self.now);
                self.by_queue(queue, frames);
            }
            TxMode::Hash => self.by_hash(frames),
        }
    }

    /// Each frame goes by the queue that its hash says.
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

    fn by_queue(&mut self, queue: usize, frames: &mut FrameBatch) {
        let Sending { port, tally, .. } = self;
        let n = frames.len() as u64;
        let mut txq = port.txqs[queue].lock().unwrap_or_else(PoisonError::into_inner);
        let result = txq.tx(frames);
        if u64::from(result.sent) < n {
            remember(self.drops, (port.no.0, &**txq), frames, &result, self.now);
        }
        drop(txq);
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
