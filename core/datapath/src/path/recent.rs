//! Recent: most batches contain one flow or few. So their packets are first compared, all at once, with the
//! megaflow that the previous batch of the port ended with. This is a cache of one entry in front of all
//! others, and its hits are counted as such.
//!
//! A comparison costs less than a look-up. If it rarely helps, it is skipped for a while.

use super::megaflows::Megaflows;
use crate::engine::Engine;
use crate::tally::Event;

/// Number of batches without the comparison after one in which it did not help.
const PAUSE: u8 = 16;

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

/// Records the megaflow of the batch's last packet.
#[inline]
pub(crate) fn remember(engine: &mut Engine, index: u32) {
    remember_for(engine, engine.batch.meta(0).in_port, index);
}

/// Records the megaflow that a packet of this port created or found.
#[inline]
pub(crate) fn remember_for(engine: &mut Engine, in_port: u32, index: u32) {
    engine.recent[in_port as usize % 64].index = index;
}
