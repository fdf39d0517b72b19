//! Upcall: the control half translates packets without a megaflow. If handler threads exist, they translate while the
//! packets are parked (`park`); otherwise the worker translates them itself, one by one (`translate_inline`).

use super::megaflow_guard::MegaflowGuard;
use super::{park, translate_inline};
use crate::batch::Miss;
use crate::engine::Engine;
use crate::shared::Shared;
use crate::tally::Event;
use units::Millis;

/// Handles every packet for which no stage has found a megaflow.
#[inline]
pub(crate) fn stage(shared: &Shared, guard: &MegaflowGuard<'_>, engine: &mut Engine, now: Millis) {
    if !engine.batch.missed.is_empty() {
        handle(shared, guard, engine, now);
    }
}

#[inline(never)]
fn handle(shared: &Shared, guard: &MegaflowGuard<'_>, engine: &mut Engine, now: Millis) {
    let start = (engine.clocks.counter)();
    let mut missed = std::mem::take(&mut engine.batch.missed);
    if let Some(parking) = &mut engine.parking {
        parking.budget.missed(missed.len() as u64);
    }
    let one = if engine.has_handler_thread() { park::miss } else { translate_inline::translate };
    for Miss { packet, counted_hit } in missed.drain(..) {
        one(shared, guard, engine, packet, counted_hit, now);
    }
    engine.batch.missed = missed;
    let took = (engine.clocks.counter)() - start;
    engine.tally.add(Event::UpcallCycles, took.0);
}
