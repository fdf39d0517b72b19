//! Cache: hashes every key, prefetches every bucket, then every megaflow that the buckets name, and then looks every
//! packet up. Packets without a cache entry are [classified](super::classify), and the results are inserted.
//!
//! The hash covers only the bits that the port's megaflows match, so a million flows that match twenty megaflows may
//! need no more than twenty cache entries.
//!
//! A hit is verified against its megaflow, at the depth to which the packet was parsed. The cache kind is
//! matched once per batch, not per packet.

use super::classify;
use super::megaflow_guard::MegaflowGuard;
use crate::batch::{BATCH, Batch, NONE};
use crate::engine::Engine;
use crate::engine::caches::Caches;
use crate::tally::{Event, Tally};
use classifier::megaflow::key::{FLOW_BITS, KeyMask, OPTION_WORDS};
use classifier::megaflow::{
    Depth, EXT_WORDS, PortMegaflows, Rest, Rests, TUNNEL_WORDS, bits, matching_candidates,
};
use cpu::Secret;
use flowcache::{Entry, FlowCache, NewEntry, each_cache};
use std::sync::LazyLock;

/// Clears the bits of the packets for which a megaflow is found. Returns a bit for each packet that the cache
/// answered or that was found before this stage.
#[inline(always)]
pub(crate) fn stage(
    port_megaflows: &PortMegaflows,
    guard: &MegaflowGuard<'_>,
    engine: &mut Engine,
    secret: &Secret,
    pending: &mut u64,
) -> u64 {
    let Engine { batch, caches: Caches { cache, .. }, tally, .. } = &mut *engine;
    each_cache!(cache, cache => look_up(cache, port_megaflows, guard, (batch, tally), secret, pending));
    let cached = !*pending;
    if *pending != 0 {
        fill_cache(port_megaflows, guard, engine, pending);
    }
    cached
}

/// Classifies the remaining packets and inserts the results into the cache.
#[inline(never)]
fn fill_cache(
    port_megaflows: &PortMegaflows,
    guard: &MegaflowGuard<'_>,
    engine: &mut Engine,
    pending: &mut u64,
) {
    let Engine { batch, caches: Caches { cache, .. }, tally, .. } = engine;
    let (port, hashes) = (batch.meta(0).in_port, batch.hashes);
    each_cache!(cache, cache => {
        classify::stage(port_megaflows, guard, (batch, tally), pending, |subtable, hits, megaflows| {
            let new_entry = |i| NewEntry { hash: hashes[i], megaflow: megaflows[i], subtable, port };
            bits(hits).for_each(|i| cache.insert(new_entry(i)));
        })
    });
}

/// Looks all packets up in the cache only.
#[inline(always)]
fn look_up<C: FlowCache>(
    cache: &mut C,
    port_megaflows: &PortMegaflows,
    guard: &MegaflowGuard<'_>,
    (batch, tally): (&mut Batch, &mut Tally),
    secret: &Secret,
    pending: &mut u64,
) {
    let n = batch.keys();
    hash(batch, C::BY_MASKS.then(|| port_megaflows.union()), secret);
    let far = !cache.fits_cpu_caches();
    if far {
        batch.hashes[..n].iter().for_each(|&hash| cache.prefetch(hash));
    }
    let (asked, front) = (*pending, cache.front_hits());
    let recent = batch.key_bits() & !asked;
    let index_of_recent = batch.found[recent.trailing_zeros() as usize % BATCH];
    // A candidate that is not confirmed is overwritten by a later stage or by `Batch::set_missing`.
    for (&hash, found) in batch.hashes[..n].iter().zip(&mut batch.found) {
        *found = cache.candidate(hash).unwrap_or(NONE);
    }
    if far {
        batch.found[..n].iter().for_each(|&index| guard.prefetch(index));
    }
    if C::CANDIDATE_IS_HIT {
        let keys = (&batch.lines[..n.min(BATCH)], batch.rests(), batch.depth);
        *pending &= !matching_candidates(guard, &batch.found, keys);
    }
    // All packets that the stage `recent` has found have the same megaflow.
    bits(recent).for_each(|i| batch.found[i % BATCH] = index_of_recent);
    if *pending != 0 {
        search(cache, port_megaflows, guard, batch, pending);
    }
    let hits = (asked & !*pending).count_ones();
    cache.account(batch.meta(0).in_port, asked.count_ones(), hits);
    tally.add(Event::CacheHit, hits.into());
    tally.add(Event::FrontHit, cache.front_hits() - front);
}

/// Looks the remaining packets up one by one, in all entries of their buckets.
#[inline(never)]
fn search<C: FlowCache>(
    cache: &mut C,
    port_megaflows: &PortMegaflows,
    guard: &MegaflowGuard<'_>,
    batch: &mut Batch,
    pending: &mut u64,
) {
    let (asked, depth) = (*pending, batch.depth);
    for i in (0..batch.keys()).filter(|i| asked >> i & 1 == 1) {
        let line = &batch.lines[i];
        let rest = if depth == Depth::Wide { batch.rests().of(i) } else { Rest::NONE };
        let resolve = |entry| match entry {
            Entry::Megaflow(x) => guard.get(x).is_some_and(|m| m.matches(line, rest, depth)).then_some(x),
            Entry::Subtable(number) => port_megaflows.lookup_in(number, guard, (line, rest, depth)),
        };
        if let Some(index) = cache.lookup(batch.hashes[i], resolve) {
            batch.found[i] = index;
            *pending &= !(1 << i);
        }
    }
}

/// Hashes the bits of `mask` in every key; without a mask, the bits that distinguish flows.
#[inline(always)]
fn hash(batch: &mut Batch, mask: Option<&KeyMask>, secret: &Secret) {
    let (n, is_wide) = (batch.keys(), batch.depth == Depth::Wide);
    let mask = mask.unwrap_or_else(|| if is_wide { &FLOW_WIDE } else { &FLOW_NARROW });
    let Batch { lines, exts, options, hashes, words, .. } = batch;
    // For packets that were parsed to a lower depth only the line is filled.
    let rests = if is_wide { Rests { exts, options, filled: *words } } else { Rests::NONE };
    mask.hash_all(&lines[..n], rests, secret, hashes);
}

/// The bits that distinguish flows in keys that consist of a line only.
static FLOW_NARROW: LazyLock<KeyMask> = LazyLock::new(|| KeyMask { line: FLOW_BITS, ext: Box::default() });

/// The bits that distinguish flows in wide keys: the line, and also IPv6 addresses, labels, the tunnel and its
/// options.
static FLOW_WIDE: LazyLock<KeyMask> = LazyLock::new(|| {
    let mut ext = [0; EXT_WORDS];
    [0..5, 9..10].into_iter().flatten().chain(bits(TUNNEL_WORDS)).for_each(|i| ext[i] = u64::MAX);
    let options = Some(&[u64::MAX; OPTION_WORDS]);
    KeyMask::new(FLOW_BITS, &ext, options)
});
