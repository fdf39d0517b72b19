//! Capture: packets are offered to captures after their look-up, with their megaflow.
//!
//! A packet is offered once in each pass: here if it hit a megaflow, otherwise where the answer to its upcall takes
//! effect (`translate_inline.rs`, `answers.rs`). A packet that waits behind a parked packet is looked up again, and is offered
//! then.

use super::megaflow_guard::MegaflowGuard;
use crate::batch::NONE;
use crate::capture::{Offered, Side};
use crate::engine::Engine;
use crate::packet::Packet;
use std::sync::Arc;

/// Offers the packets of the batch that hit a megaflow.
pub(super) fn looked_up(guard: &MegaflowGuard<'_>, engine: &mut Engine) {
    // All packets of a batch were received by one port.
    if engine.batch.is_empty() || !engine.view.captures.captures_rx(engine.batch.meta(0).in_port) {
        return;
    }
    let captures = Arc::clone(&engine.view.captures);
    engine.batch.spread_metadata();
    let (queue, batch) = (usize::from(engine.id.0), &engine.batch);
    for (i, frame) in batch.frames.iter().enumerate() {
        let index = batch.found.get(if batch.shares_key { 0 } else { i }).copied().unwrap_or(NONE);
        let Some(megaflow) = guard.get(index).filter(|_| index != NONE) else { continue };
        let (meta, megaflow) = (batch.meta(i), Some(megaflow.payload.ufid));
        let offered = Offered {
            side: Side::Rx,
            port: meta.in_port,
            bytes: frame.bytes(),
            meta,
            megaflow,
            upcall: false,
        };
        captures.offer(queue, &offered);
    }
}

/// Offers a packet that had no megaflow.
#[inline]
pub(super) fn missed(engine: &Engine, packet: &Packet) {
    if !engine.view.captures.is_empty() {
        let Packet { frame, meta, .. } = packet;
        let offered = Offered {
            side: Side::Rx,
            port: meta.in_port,
            bytes: frame.bytes(),
            meta,
            megaflow: None,
            upcall: true,
        };
        engine.view.captures.offer(usize::from(engine.id.0), &offered);
    }
}
