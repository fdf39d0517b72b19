//! Recent: most batches are of one flow or of few, so their packets are first compared, all at once, with the megaflow
//! that the batch before ended with: the smallest of caches, in front of all others, and counted so.
//!
//! A comparison costs less than a look-up; where it seldom helps, it is left out for a while.

use super::Megaflows;
use crate::engine::Engine;
use crate::tally::Event;

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

/// Clears the bits of the packets it finds, and returns them.
pub(crate) fn stage(guard: &Megaflows<'_>, engine: &mut Engine, pending: &mut u64) -> u64 {
    let Engine { batch, recent, tally, .. } = engine;
    let recent = &mut recent[batch.meta(0).in_port as usize % 64];
    if recent.pause > 0 {
        recent.pause -= 1;
        return 0;
    }
    let keys = batch.keys();
    let Some(megaflow) = guard.get(recent.index) else { return 0 };
    let hits = megaflow.matching(&batch.lines[..keys], batch.rests(), batch.depth) & *pending;
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
    tally.add(Event::CacheHit, n);
    tally.add(Event::FrontHit, n);
    hits
}

/// Remembers what the batch ended with.
#[inline]
pub(crate) fn remember(engine: &mut Engine, index: u32) {
    remember_for(engine, engine.batch.meta(0).in_port, index);
}

/// Remembers what a packet of this port made or found.
#[inline]
pub(crate) fn remember_for(engine: &mut Engine, in_port: u32, index: u32) {
    engine.recent[in_port as usize % 64].index = index;
}
