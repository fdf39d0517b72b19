//! Classify: looks packets up in the subtables of their port.

use super::megaflow_guard::MegaflowGuard;
use crate::batch::{BATCH, Batch, store_found};
use crate::tally::{Event, Tally};
use classifier::megaflow::{PortMegaflows, Rests};

/// Looks up the packets whose bits in `pending` are set, and clears the bits of the packets that it finds. `found`
/// of the other packets is not changed: the caller sets it to [`NONE`](crate::batch::NONE)
/// ([`Batch::set_missing`]).
///
/// `learn` is called with a subtable, the packets found in this subtable, and their megaflows.
#[inline(always)]
pub(crate) fn stage(
    port_megaflows: &PortMegaflows,
    guard: &MegaflowGuard<'_>,
    (batch, tally): (&mut Batch, &mut Tally),
    pending: &mut u64,
    mut learn: impl FnMut(u16, u64, &[u32; BATCH]),
) {
    let n = batch.keys();
    let asked = *pending;
    let Batch { lines, exts, options, words, found, .. } = batch;
    let keys = (&lines[..n], Rests { exts, options, filled: *words }, batch.depth);
    let visits = port_megaflows.lookup_batch(guard, keys, pending, |subtable, hits, megaflows| {
        store_found(found, n, hits, megaflows);
        learn(subtable.number(), hits, megaflows);
    });
    let hits = asked & !*pending;
    let packets = if batch.shares_key { batch.len() as u64 } else { 1 };
    tally.add(Event::MegaflowHit, u64::from(hits.count_ones()) * packets);
    tally.add(Event::MasksVisited, visits * packets);
}
