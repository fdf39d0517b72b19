//! Recent: a cache of one megaflow for each port and pass, in front of the flow cache.
//!
//! Most batches consist of few flows. So all packets of a batch are first compared with the megaflow of the last
//! packet of the previous batch from the same port, in the same pass. A comparison costs less than a look-up. If few
//! packets match, the comparison is skipped for some batches. Its hits are counted as cache hits and as front hits.

use super::megaflow_guard::MegaflowGuard;
use crate::engine::Engine;
use crate::engine::caches::Caches;
use crate::engine::recent::SLOTS;
use crate::tally::Event;

/// Number of batches that skip the comparison after a batch in which less than a quarter of the packets matched.
pub(super) const PAUSE: u8 = 16;

/// Number of slots per port: one for passes with even numbers (the first pass is 0), one for passes with odd numbers.
const PASSES: usize = 2;

/// Returns the slot for packets of this port in this pass.
#[inline(always)]
pub(super) fn slot(in_port: u32, passes: u8) -> usize {
    (in_port as usize * PASSES + usize::from(passes) % PASSES) % SLOTS
}

/// Clears the bits of the packets that match, and returns these bits.
#[inline(always)]
pub(crate) fn stage(guard: &MegaflowGuard<'_>, engine: &mut Engine, pending: &mut u64) -> u64 {
    let Engine { batch, caches: Caches { recent, .. }, tally, .. } = engine;
    let meta = batch.meta(0);
    let recent = &mut recent[slot(meta.in_port, meta.passes)];
    if recent.pause > 0 {
        recent.pause -= 1;
        return 0;
    }
    let keys = batch.keys();
    let Some(megaflow) = guard.get(recent.index) else { return 0 };
    let hits = megaflow.matching(&batch.lines[..keys], batch.rests(), batch.depth) & *pending;
    *pending &= !hits;
    let n = if batch.shares_key && hits != 0 { batch.len() as u64 } else { hits.count_ones().into() };
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

/// Records the megaflow of the batch's last packet for the next batch.
#[inline]
pub(crate) fn record_last(engine: &mut Engine, index: u32) {
    let meta = engine.batch.meta(0);
    record_last_for(engine, (meta.in_port, meta.passes), index);
}

/// Records the megaflow that a packet of this port hit or created in this pass.
#[inline]
pub(crate) fn record_last_for(engine: &mut Engine, (in_port, passes): (u32, u8), index: u32) {
    engine.caches.recent[slot(in_port, passes)].index = index;
}
