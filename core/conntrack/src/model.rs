//! Models of records: the model checker loom tries every interleaving of some threads, and every value that a relaxed
//! load may return. `scripts/models` builds this with `--cfg loom`.

use crate::established::talk_on;
use crate::key::{End, Key};
use crate::protocol::Talk;
use crate::record::{Filling, Phase, Record};
use crate::slab::Slab;
use crate::table::Handle;
use crate::tracker::Connection;
use crate::update::Update;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use std::sync::Arc;
use units::Millis;

/// Time at which the records of the models are over.
const OVER: Millis = Millis(50);

/// The key of the `n`-th client.
fn key(n: u32) -> Key {
    let end = |n: u32| End { address: [0, n.into()], port: n };
    Key { zone: 0, v6: false, proto: 17, src: end(n), dst: end(99) }
}

/// Makes a free record the connection of the `n`-th client; returns its generation.
fn begin(record: &Record, n: u32) -> u32 {
    let filling = Filling {
        key: key(n),
        reply: None,
        hashes: [0; 2],
        expires: OVER,
        words: [Talk::Once as u64, 0, 0],
        policy: 0,
        counted: 0,
        special: 0,
    };
    let generation = record.reserve(&filling, None);
    record.publish();
    generation
}

/// Removes the connection of a generation, as the sweep does, and as a new connection does where the table is full.
/// `false`: another thread removes it.
fn remove(record: &Record, generation: u32) -> bool {
    let mine = record.claim(generation);
    if mine {
        record.free();
    }
    mine
}

/// Checks all interleavings with at most this many preemptions.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// A thread runs beside this one, both with the same record.
fn beside(record: &Arc<Record>, run: impl FnOnce(&Record) + Send + 'static) -> thread::JoinHandle<()> {
    let other = Arc::clone(record);
    thread::spawn(move || run(&other))
}

/// A packet finds its connection or nothing while the record gets another connection, and never changes the state of
/// that one.
#[test]
fn a_packet_changes_no_other_connection() {
    check(3, || {
        let record = Arc::new(Record::default());
        let first = begin(&record, 1);
        let packet = beside(&record, move |record| {
            let Some((meta, reply)) = record.matches(&key(1), &Slab::default()) else { return };
            // A record that is only reserved may still have its old key. It is not found; its keys count as taken for a moment.
            if meta.phase() != Phase::Live {
                return;
            }
            assert_eq!(
                (meta.generation(), reply),
                (first, false),
                "the key of one use, the generation of another"
            );
            let handle = Handle { record: 0, generation: first };
            talk_on(&Connection { handle, record }, false);
        });
        assert!(remove(&record, first));
        let second = begin(&record, 2);
        packet.join().unwrap();
        assert_eq!(record.state(second), Some(Talk::Once as u64));
    });
}

/// The same of the short way, which reads the words of the key at once.
#[test]
fn the_short_way_finds_no_mixture() {
    check(3, || {
        let record = Arc::new(Record::default());
        let first = begin(&record, 1);
        let packet = beside(&record, move |record| {
            let found = record.four(17 << 8, key(1).address_word(), key(1).port_word());
            assert!(found.is_none_or(|f| f.meta.generation() == first && !f.reply), "{found:?}");
        });
        assert!(remove(&record, first));
        begin(&record, 2);
        packet.join().unwrap();
    });
}

/// A key with the ports of one connection and the addresses of the next is never found, in neither way.
#[test]
fn no_key_is_of_two_connections() {
    let mixed = || {
        let [first, second] = [key(1), key(2)];
        Key { src: End { port: first.src.port, ..second.src }, ..second }
    };
    check(3, move || {
        let record = Arc::new(Record::default());
        let first = begin(&record, 1);
        let packet = beside(&record, move |record| {
            // While the record is reserved it may match, but it is not found then.
            let found = record.matches(&mixed(), &Slab::default());
            assert!(found.is_none_or(|(meta, _)| meta.phase() != Phase::Live), "{found:?}");
        });
        assert!(remove(&record, first));
        begin(&record, 2);
        packet.join().unwrap();
    });
    check(3, move || {
        let record = Arc::new(Record::default());
        let first = begin(&record, 1);
        let packet = beside(&record, move |record| {
            let found = record.four(17 << 8, mixed().address_word(), mixed().port_word());
            assert!(found.is_none(), "{found:?}");
        });
        assert!(remove(&record, first));
        begin(&record, 2);
        packet.join().unwrap();
    });
}

/// A mark is that of the connection for which it was meant, or it is lost with that.
#[test]
fn a_late_mark_is_not_for_the_next_connection() {
    check(3, || {
        let record = Arc::new(Record::default());
        let first = begin(&record, 1);
        let marks = beside(&record, move |record| record.set_mark(first, 7));
        assert!(remove(&record, first));
        let second = begin(&record, 2);
        record.set_mark(second, 9);
        marks.join().unwrap();
        assert_eq!((record.mark(), record.policy()), (9, 0));
    });
}

/// Packets of both directions at the same time: the connection is answered whichever comes first, and the reply knows.
#[test]
fn no_change_of_state_is_lost() {
    loom::model(|| {
        let record = Arc::new(Record::default());
        let handle = Handle { record: 0, generation: begin(&record, 1) };
        let request = beside(&record, move |record| _ = talk_on(&Connection { handle, record }, false));
        let update = talk_on(&Connection { handle, record: &record }, true);
        request.join().unwrap();
        assert!(matches!(update, Update::Valid(_)), "{update:?}");
        assert_eq!(record.state(handle.generation), Some(Talk::BothSided as u64));
    });
}

/// The sweep and a new connection in a full table want the same record: one of them gets it, and the connection that
/// the record has next stays.
#[test]
fn one_thread_removes_a_connection() {
    check(3, || {
        let record = Arc::new(Record::default());
        let first = begin(&record, 1);
        let removed = Arc::new(AtomicU32::new(0));
        let sweeps = Arc::clone(&removed);
        let sweep = beside(&record, move |record| {
            let meta = record.meta();
            // What it reads of the time may be of the next connection; then its claim must fail.
            if meta.phase() == Phase::Live && record.expires() <= OVER && remove(record, meta.generation()) {
                sweeps.fetch_add(1 << (8 * meta.generation()), Ordering::Relaxed);
            }
        });
        if remove(&record, first) {
            removed.fetch_add(1 << (8 * first), Ordering::Relaxed);
            begin(&record, 2);
        }
        sweep.join().unwrap();
        let removed = removed.load(Ordering::Relaxed);
        assert_eq!(removed >> (8 * first) & 0xff, 1, "removed by one thread");
        assert!(removed >> (8 * (first + 1)) <= 1);
    });
}
