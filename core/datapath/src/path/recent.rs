//! Recent: most batches are of one flow or of few, so their packets are first compared, all at once, with the megaflow
//! that the batch before ended with.
//!
//! A comparison costs less than a look-up; where it seldom helps, it is left out for a while.

use super::Megaflows;
use crate::engine::Engine;
use crate::tally::Event;
use classifier::megaflow::Context;

/// Batches without the comparison after one that it did not help.
const PAUSE: u8 = 16;

/// What the last packet of a batch of one port was found to be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recent {
    index: u32,
    pause: u8,
}

/// One for a port; those whose numbers are the same in the low bits share it.
pub(crate) type RecentByPort = [Recent; 64];

/// Clears the bits of the packets it finds.
pub(crate) fn stage(context: &Context, guard: &Megaflows<'_>, engine: &mut Engine, pending: &mut u64) {
    let Engine { batch, recent, tally, .. } = engine;
    let recent = &mut recent[batch.meta(0).in_port as usize % 64];
    if recent.pause > 0 {
        recent.pause -= 1;
        return;
    }
    let keys = batch.keys();
    let Some(megaflow) = guard.get(recent.index) else { return };
    let hits = megaflow.matching(&batch.lines[..keys], batch.depth) & *pending;
    *pending &= !hits;
    let n = if batch.alike && hits != 0 { batch.len() as u64 } else { hits.count_ones().into() };
    if *pending == 0 {
        batch.found[..keys].fill(recent.index);
    } else {
        (0..keys).filter(|i| hits >> i & 1 == 1).for_each(|i| batch.found[i] = recent.index);
        if n * 4 < keys as u64 {
            recent.pause = PAUSE;
        }
    }
    if context.is_single() {
        tally.add(Event::MegaflowHit, n);
        tally.add(Event::MasksVisited, n);
    } else {
        tally.add(Event::CacheHit, n);
    }
}

/// Remembers what the batch ended with.
#[inline]
pub(crate) fn remember(engine: &mut Engine, index: u32) {
    engine.recent[engine.batch.meta(0).in_port as usize % 64].index = index;
}
