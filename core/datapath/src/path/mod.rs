//! The path of a batch, in the order of its stages:
//! `receive → extract → recent → cache → classify → group → execute → upcall → transmit`.

pub mod cache;
pub mod classify;
pub(crate) mod conntrack;
pub mod execute;
pub mod extract;
pub(crate) mod frames;
pub mod group;
pub(crate) mod meter;
pub(crate) mod park;
pub mod receive;
pub mod recent;
pub(crate) mod shadow;
pub mod transmit;
pub mod upcall;
mod validate;

use crate::batch::NONE;
use crate::engine::Engine;
use crate::program::Program;
use crate::shared::Shared;
use classifier::megaflow::{ALL_WORDS, Context, Depth, Megaflow};
use sync::Guard;
use units::Millis;

/// What a worker's reader guards while a batch is on its way.
pub type Megaflows<'g> = Guard<'g, Megaflow<Program>>;

/// Takes the engine's batch, whose packets all came in by one port, through the path. `context`: that port's.
pub(crate) fn run(
    shared: &Shared,
    guard: &Megaflows<'_>,
    context: Option<&Context>,
    engine: &mut Engine,
    now: Millis,
) {
    if engine.parking.is_some() {
        park::waiting(shared, guard, engine, now);
    }
    let n = engine.batch.len();
    if n == 0 {
        return;
    }
    let (depth, by_kind) = context.map_or((Depth::Port, true), |c| (c.depth(), c.is_by_kind()));
    if engine.batch.known.take() == Some(depth) {
        (engine.batch.depth, engine.batch.alike) = (depth, false);
    } else {
        // Other caches hash what tells flows apart, whether or not a megaflow looks at it.
        let words = context.map_or(0, |c| if engine.cache.is_by_masks() { c.words() } else { ALL_WORDS });
        cpu::stage(extract::Extract { batch: &mut engine.batch, depth, words, by_kind });
    }
    let mut pending = engine.batch.all();
    // What the batch before this one found is nothing to these packets: a port without megaflows finds none.
    engine.batch.found[..n].fill(NONE);
    let (mut recent, mut cached) = (0, 0);
    if let Some(context) = context {
        recent = recent::stage(guard, engine, &mut pending);
        if pending != 0 {
            if context.is_single() {
                let Engine { batch, tally, .. } = &mut *engine;
                cpu::stage(classify::Classify { context, guard, batch, tally, pending: &mut pending });
            } else {
                cached = cache::stage(context, guard, engine, &shared.cache_secret, &mut pending);
            }
        }
        validate::stage(shared, guard, context, engine);
    }
    if pending != 0 {
        park::hold_back(engine, &shared.tuple_secret, (recent, cached), &mut pending);
    }
    shadow::stage(shared, engine);
    group::stage(guard, engine, pending, now);
    upcall::stage(shared, guard, engine, now);
}
