//! Tests of the index.

use super::*;
use std::collections::BTreeSet;

/// Hashes of two shards; many of these hashes have equal bits in the entries.
fn hash_of(n: u64) -> u64 {
    let mixed = cpu::siphash([1, 2], &[n]);
    mixed & !(0x3fe << 54) & if n.is_multiple_of(3) { u64::MAX << 40 } else { u64::MAX }
}

#[test]
fn entries_are_found_while_the_index_grows_and_no_others() {
    let (index, mut state) = (Index::default(), [ShardIndex::default(), ShardIndex::default()]);
    let mut there = BTreeSet::new();
    for step in 0..20_000u64 {
        let n = cpu::siphash([3, 4], &[step]) % 4000;
        let hash = hash_of(n);
        let shard = &mut state[shard_of(hash)];
        if there.remove(&n) {
            index.remove(shard, hash, n as u32);
        } else {
            assert!(index.insert(shard, hash, n as u32));
            there.insert(n);
        }
        let probe = step % 4000;
        assert_eq!(
            index.has(hash_of(probe), probe as u32),
            there.contains(&probe),
            "{probe} after {step} steps"
        );
        assert!(!there.contains(&probe) || !index.is_absent(hash_of(probe)));
        assert!(index.prefetch(hash_of(probe)).is_some());
    }
    assert!(there.len() > 1000 && index.size(0) > 100);
    let entries = state.iter().map(|s| s.entries as usize).sum::<usize>();
    assert_eq!(entries, there.len());
    // Also entries in overflow buckets are found at the first attempt, unless another entry equals them.
    assert_ne!(overflow(&index)[0], 0);
    for n in there {
        let hash = hash_of(n);
        let guess = index.prefetch(hash).and_then(|bucket| index.guess(bucket, hash));
        assert!(guess.is_some_and(|other| hash_of(other.into()) ^ hash < 1 << RECORD_BITS), "{n}: {guess:?}");
    }
}

#[test]
fn a_reader_misses_nothing_while_buckets_are_split() {
    let index = Index::default();
    std::thread::scope(|scope| {
        let mut state = [ShardIndex::default(), ShardIndex::default()];
        assert!(index.insert(&mut state[shard_of(hash_of(1))], hash_of(1), 1));
        let reader = scope.spawn(|| (0..200_000).all(|_| index.has(hash_of(1), 1)));
        for n in 2..30_000 {
            assert!(index.insert(&mut state[shard_of(hash_of(n))], hash_of(n), n as u32));
        }
        assert!(reader.join().expect("the reader ends"));
    });
}

/// The number of overflow buckets in all chains, and the smallest number that could hold their entries.
fn overflow(index: &Index) -> [usize; 2] {
    let chains = (0..SHARDS).flat_map(|shard| (0..index.size(shard)).map(move |at| (shard, at)));
    let counted = chains.map(|(shard, at)| {
        let chain = || index.chain(index.bucket(shard, at));
        let entries = chain().flat_map(|b| &b.entries).filter(|e| e.load(Ordering::Relaxed) != 0).count();
        [chain().count() - 1, entries.div_ceil(ENTRIES).max(1) - 1]
    });
    counted.fold([0; 2], |[a, b], [c, d]| [a + c, b + d])
}

/// Entries are added and removed all the time: no chain is longer than its entries need, and overflow buckets are reused by all shards.
#[test]
fn overflow_buckets_are_used_again() {
    let (index, mut states) = (Index::default(), Vec::new());
    states.resize_with(SHARDS, ShardIndex::default);
    let hash = |n: u64| cpu::siphash([5, 6], &[n]);
    const THERE: u64 = 60_000;
    let mut used = Vec::new();
    for n in 0..10 * THERE {
        assert!(index.insert(&mut states[shard_of(hash(n))], hash(n), n as u32));
        if let Some(old) = n.checked_sub(THERE) {
            index.remove(&mut states[shard_of(hash(old))], hash(old), old as u32);
        }
        if n % THERE == THERE - 1 {
            let [are, need] = overflow(&index);
            assert!(are == need && need > 100, "{are} {need}");
            used.push(index.overflow_numbers.used());
        }
    }
    assert!((9 * THERE..10 * THERE).all(|n| index.has(hash(n), n as u32)));
    assert!((8 * THERE..9 * THERE).all(|n| !index.has(hash(n), n as u32)));
    // Shards keep some free overflow buckets. Without reuse, each round would add as many again.
    let [first, .., last] = used[..] else { unreachable!() };
    assert!(last <= first + first / 2, "{used:?}");
}

/// While a writer moves entries out of overflow buckets and other chains reuse these buckets, readers find every entry that stays in the
/// index.
#[test]
fn readers_miss_nothing_while_chains_become_shorter() {
    let (index, stop) = (Index::default(), std::sync::atomic::AtomicBool::new(false));
    std::thread::scope(|scope| {
        let mut states = [ShardIndex::default(), ShardIndex::default()];
        // All hashes have the same low bits: one chain in each of two shards, as long as no bucket is split.
        let hash = |n: u64| (n % 2) << 54;
        (0..4).for_each(|n| assert!(index.insert(&mut states[n as usize % 2], hash(n), n as u32)));
        let (index, stopped) = (&index, &stop);
        let reader = scope.spawn(move || {
            let all = || (0..4).all(|n| index.has(hash(n), n as u32));
            let mut rounds = 0;
            while !stopped.load(Ordering::Relaxed) || rounds == 0 {
                assert!(all(), "after {rounds} rounds");
                rounds += 1;
            }
        });
        for round in 0..20_000u64 {
            let shard = round as usize % 2;
            let some = 4..4 + 2 * (round % 20);
            // Other entries are added first and then removed, so that the entries that stay move to an overflow bucket and back.
            for n in some.clone().filter(|n| *n as usize % 2 == shard) {
                assert!(index.insert(&mut states[shard], hash(n), n as u32));
            }
            let (stays, hash) = (shard as u64, hash(shard as u64));
            assert!(index.insert(&mut states[shard], hash, stays as u32));
            index.remove(&mut states[shard], hash, stays as u32);
            for n in some.filter(|n| *n as usize % 2 == shard) {
                index.remove(&mut states[shard], hash, n as u32);
            }
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().expect("the reader ends");
    });
}
