//! Slow path: a megaflow may pass each of its packets to the control half (`userspace(slow_path(…))`). The worker
//! translates these packets one by one after the batch, within its upcall budget if handlers exist.

use super::translate_inline::{drop_untranslated, execute_packet};
use crate::engine::Engine;
use crate::packet::Packet;
use crate::program::Program;
use crate::tally::Event;
use dpif::{DropReason, Translation, Upcall};
use units::Millis;

/// Translates and executes the queued packets of the slow path. Their megaflow has already counted them.
pub(crate) fn translate_all(engine: &mut Engine, now: Millis) {
    if engine.deferred.slow.is_empty() {
        return;
    }
    let start = (engine.clocks.counter)();
    let mut packets = std::mem::take(&mut engine.deferred.slow);
    for packet in packets.drain(..) {
        translate(engine, packet, now);
    }
    // Translating these packets has queued no others, because a packet takes the slow path only once.
    debug_assert!(engine.deferred.slow.is_empty());
    engine.deferred.slow = packets;
    let took = (engine.clocks.counter)() - start;
    engine.tally.add(Event::UpcallCycles, took.0);
}

fn translate(engine: &mut Engine, packet: Packet, now: Millis) {
    let (start, has_handler_thread) = ((engine.clocks.counter)(), engine.has_handler_thread());
    if has_handler_thread && engine.parking.as_ref().is_some_and(|parking| !parking.budget.is_left()) {
        return drop_untranslated(engine, packet, DropReason::UpcallBacklog);
    }
    let flow = packet.flow();
    let upcall = Upcall { packet: packet.frame.bytes(), flow: &flow, now, worker: engine.id };
    let translation = match &*engine.view.handler {
        Some(handler) => handler.slow_path(upcall),
        None => Translation::failed(DropReason::UpcallError),
    };
    match translation.error {
        Some(reason) => drop_untranslated(engine, packet, reason),
        None => {
            engine.deferred.in_slow_path = true;
            execute_packet(engine, &Program::compile(&translation.actions), packet);
            engine.deferred.in_slow_path = false;
        }
    }
    let took = (engine.clocks.counter)() - start;
    if let Some(parking) = engine.parking.as_mut().filter(|_| has_handler_thread) {
        parking.budget.spend(took.0);
    }
}
