//! Loom models of the index: readers while a writer moves entries.

use super::*;
use crate::model::check;
use loom::thread;
use std::sync::Arc;

/// A hash of a shard. All these hashes are in one chain until a bucket is split. `moves`: the first split moves entries with this hash.
fn hash(shard: u64, moves: bool) -> u64 {
    shard << 63 | u64::from(moves) << RECORD_BITS
}

/// An index with three entries of shard 0, records 0 to 2: a chain with an overflow bucket.
fn three() -> (Arc<Index>, ShardIndex) {
    let (index, mut state) = (Arc::new(Index::default()), ShardIndex::default());
    (0..3).for_each(|record| assert!(index.insert(&mut state, hash(0, false), record)));
    (index, state)
}

/// An entry of an overflow bucket moves to the position of a removed entry: a reader finds the entry before, during and after the move.
#[test]
fn an_entry_is_found_while_it_moves_to_the_front() {
    check(3, || {
        let (index, mut state) = three();
        let other = Arc::clone(&index);
        let reader = thread::spawn(move || {
            assert!(other.has(hash(0, false), 2));
            assert!(other.has(hash(0, false), 1));
        });
        index.remove(&mut state, hash(0, false), 0);
        reader.join().unwrap();
        assert_eq!(state.free_overflow.len(), 4, "the overflow bucket is unused");
    });
}

/// The overflow bucket is then reused by another shard, whose entries the reader may see.
#[test]
fn an_entry_is_found_while_its_bucket_is_used_again() {
    check(3, || {
        let (index, mut state) = three();
        (3..5).for_each(|record| assert!(index.insert(&mut state, hash(1, false), record)));
        let other = Arc::clone(&index);
        let reader = thread::spawn(move || assert!(other.has(hash(0, false), 2)));
        index.remove(&mut state, hash(0, false), 0);
        assert!(index.insert(&mut state, hash(1, false), 5));
        assert!(index.has(hash(1, false), 5));
        reader.join().unwrap();
        assert_eq!(state.free_overflow.len(), 3, "the bucket is used again");
    });
}

/// A split moves some entries to a new bucket, and others to the front of their chain.
#[test]
fn an_entry_is_found_while_a_bucket_is_split() {
    check(3, || {
        let (index, mut state) = three();
        assert!(index.insert(&mut state, hash(0, true), 3));
        index.remove(&mut state, hash(0, false), 1);
        let other = Arc::clone(&index);
        let reader = thread::spawn(move || {
            assert!(other.has(hash(0, true), 3));
            assert!(other.has(hash(0, false), 2));
        });
        index.split(&mut state, 0, 1);
        reader.join().unwrap();
    });
}

/// An entry is added a second time, in an overflow bucket, and the first copy is removed: a reader finds one of the two copies.
#[test]
fn an_entry_is_found_while_it_is_replaced() {
    check(3, || {
        let (index, mut state) = (Arc::new(Index::default()), ShardIndex::default());
        (0..2).for_each(|record| assert!(index.insert(&mut state, hash(0, false), record)));
        let other = Arc::clone(&index);
        let reader = thread::spawn(move || assert!(other.has(hash(0, false), 1)));
        assert!(index.insert(&mut state, hash(0, false), 1));
        index.remove(&mut state, hash(0, false), 1);
        reader.join().unwrap();
    });
}
