//! The path of a batch, in the order of its stages:
//! `receive → extract → cache → classify → upcall → group → execute → transmit`.

pub mod cache;
pub mod classify;
pub mod execute;
pub mod extract;
pub mod group;
pub mod receive;
pub mod transmit;
pub mod upcall;

use crate::batch::NONE;
use crate::datapath::Shared;
use crate::engine::Engine;
use crate::program::Program;
use classifier::megaflow::{Depth, Megaflow};
use sync::Guard;
use units::Millis;

/// What a worker's reader guards while a batch is on its way.
pub type Megaflows<'g> = Guard<'g, Megaflow<Program>>;

/// Takes the engine's batch, whose packets all came in by `in_port`, through the path.
pub(crate) fn run(shared: &Shared, guard: &Megaflows<'_>, engine: &mut Engine, in_port: u32, now: Millis) {
    let context = shared.table.context(in_port);
    let depth = context.as_ref().map_or(Depth::Port, |c| c.depth());
    extract::stage(&mut engine.batch, depth);
    let mut pending = engine.batch.all();
    // What the batch before this one found is nothing to these packets: a port without megaflows finds none.
    let n = engine.batch.len();
    engine.batch.found[..n].fill(NONE);
    if let Some(context) = &context {
        if !context.is_single() {
            cache::stage(guard, engine, shared.seed, &mut pending);
        }
        classify::stage(context, guard, engine, &mut pending);
    }
    group::stage(guard, engine, now);
    upcall::stage(shared, guard, engine, pending, now);
    engine.batch.packets.clear();
}
