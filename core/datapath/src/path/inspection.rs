//! Inspection of a batch after its look-up: samples packets for the shadow check, and offers packets to captures.
//!
//! The shadow check samples packets that hit a megaflow and passes them to the control half, which translates them
//! again and compares the results (`other_config:shadow-check`).
//!
//! The shadow check detects faults of parsing, caches, masks and revalidation under real traffic. A batch that is not
//! inspected costs one subtraction.

use super::capture;
use super::megaflow_guard::MegaflowGuard;
use crate::batch::NONE;
use crate::engine::Engine;
use crate::shared::Shared;

/// Runs before the batch is executed, when the packets are still unchanged.
#[inline]
pub(crate) fn stage(shared: &Shared, guard: &MegaflowGuard<'_>, engine: &mut Engine) {
    if engine.inspection.is_due(engine.batch.len()) {
        inspect(shared, guard, engine);
    }
}

#[cold]
fn inspect(shared: &Shared, guard: &MegaflowGuard<'_>, engine: &mut Engine) {
    capture::looked_up(guard, engine);
    if engine.inspection.is_check_due(engine.batch.len()) {
        check(shared, engine);
    }
}

fn check(shared: &Shared, engine: &mut Engine) {
    engine.batch.spread_metadata();
    let (which, batch) = (engine.random.usize(..engine.batch.len().max(1)), &engine.batch);
    let index = batch.found[if batch.shares_key { 0 } else { which }];
    let (Some(frame), Some(handler)) = (batch.frames.get(which), &*engine.view.handler) else { return };
    if index == NONE {
        return;
    }
    engine.inspection.begin_interval();
    let flow = batch.meta(which).flow_of(frame.bytes());
    if let Some(megaflow) = shared.flows().translated(index) {
        handler.shadow(frame.bytes(), &flow, &megaflow);
    }
}
