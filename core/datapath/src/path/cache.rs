//! Cache: hash every key, prefetch every bucket, then every megaflow that it names, then look every packet up; what the
//! cache does not know is [classified](super::classify), and remembered.
//!
//! A hit is verified against its megaflow, at the depth the packet was parsed to. Which cache it is, is asked once.

use super::{Megaflows, classify};
use crate::batch::Batch;
use crate::engine::Engine;
use crate::tally::{Event, Tally};
use classifier::megaflow::key::FLOW_BITS;
use classifier::megaflow::{Context, Depth, EXT_WORDS, Ext};
use flowcache::{Entry, FlowCache, Learned, each_cache};

const NO_EXT: Ext = [0; EXT_WORDS];

/// Clears the bits of the packets that it finds a megaflow for; a bit for each that the cache found, or that needed no
/// look-up.
pub(crate) fn stage(
    context: &Context,
    guard: &Megaflows<'_>,
    engine: &mut Engine,
    seed: u32,
    pending: &mut u64,
) -> u64 {
    let Engine { batch, cache, tally, .. } = engine;
    each_cache!(cache, cache => {
        look_up(cache, context, guard, (batch, tally), seed, pending);
        let cached = !*pending;
        if *pending != 0 {
            let port = batch.meta(0).in_port;
            let hashes = batch.hashes;
            classify::stage(context, guard, (batch, tally), pending, |i, megaflow, subtable| {
                cache.insert(Learned { hash: hashes[i], megaflow, subtable, port });
            });
        }
        cached
    })
}

fn look_up<C: FlowCache>(
    cache: &mut C,
    context: &Context,
    guard: &Megaflows<'_>,
    (batch, tally): (&mut Batch, &mut Tally),
    seed: u32,
    pending: &mut u64,
) {
    let n = batch.keys();
    cpu::hash_lines(&batch.lines[..n], &FLOW_BITS, seed, &mut batch.hashes);
    if batch.depth == Depth::Wide {
        for (hash, ext) in batch.hashes[..n].iter_mut().zip(&batch.exts) {
            *hash = hash_ext(*hash, ext);
        }
    }
    for &hash in &batch.hashes[..n] {
        cache.prefetch(hash);
    }
    for &hash in &batch.hashes[..n] {
        if let Some(index) = cache.candidate(hash) {
            guard.prefetch(index);
        }
    }
    let (mut hits, front) = (0, cache.front_hits());
    let asked = *pending;
    for i in (0..n).filter(|i| asked >> i & 1 == 1) {
        let (line, depth) = (&batch.lines[i], batch.depth);
        let ext = if depth == Depth::Wide { &batch.exts[i] } else { &NO_EXT };
        let resolve = |entry| match entry {
            Entry::Megaflow(x) => guard.get(x).is_some_and(|m| m.matches(line, ext, depth)).then_some(x),
            Entry::Subtable(number) => context.lookup_in(number, guard, (line, ext, depth)),
        };
        if let Some(index) = cache.lookup(batch.hashes[i], resolve) {
            batch.found[i] = index;
            *pending &= !(1 << i);
            hits += 1;
        }
    }
    cache.account(batch.meta(0).in_port, asked.count_ones(), hits);
    tally.add(Event::CacheHit, hits.into());
    tally.add(Event::FrontHit, cache.front_hits() - front);
}

/// Adds the addresses, labels and tunnel of a wide key: what tells flows, not packets, apart.
fn hash_ext(hash: u32, ext: &Ext) -> u32 {
    let words = ext[..5].iter().chain(&ext[9..10]).chain(&ext[20..26]);
    words.fold(hash, |h, &w| cpu::mix32(h ^ w as u32, (w >> 32) as u32))
}
