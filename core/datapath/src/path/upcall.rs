//! Upcall: the control half translates packets without a megaflow. Handler threads do this while the packets
//! are parked (`park`); without handler threads the worker does it, one packet after the other (`inline`).

use super::megaflows::Megaflows;
use super::{inline, park};
use crate::batch::Miss;
use crate::engine::Engine;
use crate::shared::Shared;
use crate::tally::Event;
use units::Millis;

/// Handles every packet for which no stage has found a megaflow.
#[inline]
pub(crate) fn stage(shared: &Shared, guard: &Megaflows<'_>, engine: &mut Engine, now: Millis) {
    if !engine.batch.missed.is_empty() {
        handle(shared, guard, engine, now);
    }
}

#[inline(never)]
fn handle(shared: &Shared, guard: &Megaflows<'_>, engine: &mut Engine, now: Millis) {
    let start = (engine.clocks.counter)();
    let mut missed = std::mem::take(&mut engine.batch.missed);
    if let Some(parking) = &mut engine.parking {
        parking.budget.missed(missed.len() as u64);
    }
    let one = if engine.is_served() { park::miss } else { inline::translate };
    for Miss { packet, answered } in missed.drain(..) {
        one(shared, guard, engine, packet, answered, now);
    }
    engine.batch.missed = missed;
    let took = (engine.clocks.counter)() - start;
    engine.tally.add(Event::UpcallCycles, took.0);
}
