//! Cache: hash every key, prefetch every bucket, then every megaflow that it names, then look every packet up.
//!
//! A hit is verified against its megaflow, at the depth the packet was parsed to.

use super::Megaflows;
use crate::engine::Engine;
use crate::tally::Event;
use classifier::megaflow::key::FLOW_BITS;
use classifier::megaflow::{Depth, EXT_WORDS, Ext};
use flowcache::FlowCache;

const NO_EXT: Ext = [0; EXT_WORDS];

/// Clears the bits of the packets it finds.
pub(crate) fn stage(guard: &Megaflows<'_>, engine: &mut Engine, seed: u32, pending: &mut u64) {
    let Engine { batch, cache, tally, .. } = engine;
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
    let mut hits = 0;
    let asked = *pending;
    for i in (0..n).filter(|i| asked >> i & 1 == 1) {
        let (line, depth) = (&batch.lines[i], batch.depth);
        let ext = if depth == Depth::Wide { &batch.exts[i] } else { &NO_EXT };
        let verify = |index| guard.get(index).is_some_and(|m| m.matches(line, ext, depth));
        if let Some(index) = cache.lookup(batch.hashes[i], verify) {
            batch.found[i] = index;
            *pending &= !(1 << i);
            hits += 1;
        }
    }
    tally.add(Event::CacheHit, hits);
}

/// Adds the addresses, labels and tunnel of a wide key: what tells flows, not packets, apart.
fn hash_ext(hash: u32, ext: &Ext) -> u32 {
    let words = ext[..5].iter().chain(&ext[9..10]).chain(&ext[20..26]);
    words.fold(hash, |h, &w| cpu::mix32(h ^ w as u32, (w >> 32) as u32))
}
