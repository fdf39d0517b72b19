//! Transmit: frames collected per port are handed to the device in bursts.
//!
//! The order in which a worker's packets of one flow are put here is the order in which the device gets them.

use crate::engine::Engine;
use crate::port::FrameBatch;
use crate::ports::Port;
use crate::steering::{self, TxMode};
use crate::tally::Event;
use dpif::DropReason;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use units::Cycles;

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
    let mut frames = std::mem::take(&mut engine.outputs[no as usize]);
    if !frames.is_empty() {
        match engine.ports.get(no).cloned() {
            Some(port) => burst(engine, &port, &mut frames),
            None => engine.tally.drop(DropReason::InvalidPort, frames.len() as u64),
        }
        engine.pool.free_all(&mut frames);
    }
    engine.outputs[no as usize] = frames;
}

fn burst(engine: &mut Engine, port: &Port, frames: &mut FrameBatch) {
    let queues = port.txqs.len();
    if queues == 0 {
        engine.tally.drop(DropReason::TxFailed, frames.len() as u64);
        return;
    }
    engine.tally.add(Event::OutputBatches, 1);
    match port.tx_mode(engine.ports.senders) {
        TxMode::Static => by_queue(engine, port, engine.tx_queue % queues, frames),
        TxMode::Xps => {
            let queue = engine.taken.queue(port.no.0, &port.users, queues, engine.id, engine.now);
            by_queue(engine, port, queue, frames);
        }
        TxMode::Hash => by_hash(engine, port, frames),
    }
}

/// Each frame goes by the queue that its hash says.
fn by_hash(engine: &mut Engine, port: &Port, frames: &mut FrameBatch) {
    let queues = port.txqs.len();
    let mut parts = std::mem::take(&mut engine.parts);
    if parts.len() < queues {
        parts.resize_with(queues, Vec::new);
    }
    for frame in frames.drain(..) {
        parts[steering::by_hash(frame.bytes(), queues)].push(frame);
    }
    for (queue, part) in parts.iter_mut().enumerate().filter(|(_, part)| !part.is_empty()) {
        by_queue(engine, port, queue, part);
        engine.pool.free_all(part);
    }
    engine.parts = parts;
}

fn by_queue(engine: &mut Engine, port: &Port, queue: usize, frames: &mut FrameBatch) {
    let n = frames.len() as u64;
    let queue = &port.txqs[queue];
    let result = queue.lock().unwrap_or_else(PoisonError::into_inner).tx(frames);
    let sent = u64::from(result.sent).min(n);
    let too_long = u64::from(result.too_long).min(n - sent);
    let failed = n - sent - too_long;
    engine.tally.add(Event::Sent, sent);
    engine.tally.drop(DropReason::TxTooLong, too_long);
    engine.tally.drop(DropReason::TxFailed, failed);
    port.counters.tx.add(sent, result.sent_bytes);
    if failed + too_long != 0 {
        port.counters.tx_dropped.fetch_add(failed + too_long, Ordering::Relaxed);
    }
}
