//! Classify: what the cache did not know is looked up in the port's subtables, and remembered.

use super::Megaflows;
use crate::engine::Engine;
use crate::tally::Event;
use classifier::megaflow::Context;
use flowcache::FlowCache;

/// Clears the bits of the packets it finds; `found` of the others stays [`NONE`](crate::batch::NONE).
pub(crate) fn stage(context: &Context, guard: &Megaflows<'_>, engine: &mut Engine, pending: &mut u64) {
    let Engine { batch, cache, tally, .. } = engine;
    let n = batch.keys();
    let asked = *pending;
    let keys = (&batch.lines[..n], &batch.exts[..], batch.depth);
    let visits = context.lookup_batch(guard, keys, pending, &mut batch.found);
    let hits = asked & !*pending;
    let packets = if batch.alike { batch.len() as u64 } else { 1 };
    tally.add(Event::MegaflowHit, u64::from(hits.count_ones()) * packets);
    tally.add(Event::MasksVisited, visits * packets);
    if !context.is_single() {
        for i in (0..n).filter(|i| hits >> i & 1 == 1) {
            cache.insert(batch.hashes[i], batch.found[i]);
        }
    }
}
