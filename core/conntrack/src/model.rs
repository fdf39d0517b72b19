//! Loom models of records: loom tries every interleaving of a few threads, and every value that a relaxed load may return. `scripts/models`
//! builds this file with `--cfg loom`.

use crate::established::update_udp;
use crate::key::{Endpoint, Key};
use crate::protocol::UdpState;
use crate::record::{Phase, Record, RecordContents};
use crate::slab::Slab;
use crate::table::Handle;
use crate::tracker::Connection;
use crate::update::Update;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use std::sync::Arc;
use units::Millis;

/// Time at which the connections of the models expire.
const OVER: Millis = Millis(50);

/// The key of the `n`-th client.
fn key(n: u32) -> Key {
    let end = |n: u32| Endpoint { address: [0, n.into()], port: n };
    Key { zone: 0, v6: false, proto: 17, src: end(n), dst: end(99) }
}

/// Makes a free record the connection of the `n`-th client. Returns its generation.
fn begin(record: &Record, n: u32) -> u32 {
    let contents = RecordContents {
        key: key(n),
        reply: None,
        hashes: [0; 2],
        expires: OVER,
        words: [UdpState::OnePacket as u64, 0, 0],
        policy: 0,
        zone_count_id: 0,
        mark: 0,
        label: [0; 2],
        helper_word: 0,
    };
    let generation = record.reserve(&contents, None);
    record.publish();
    generation
}

/// Removes the connection with this generation, as the connection sweep and evictions do. `false`: another thread removes it.
fn remove(record: &Record, generation: u32) -> bool {
    let mine = record.claim(generation);
    if mine {
        record.free();
    }
    mine
}

/// Checks all interleavings with at most `preemptions` preemptions.
pub(crate) fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Runs a function on another thread with the same record.
fn beside(record: &Arc<Record>, run: impl FnOnce(&Record) + Send + 'static) -> thread::JoinHandle<()> {
    let other = Arc::clone(record);
    thread::spawn(move || run(&other))
}

/// A packet looks up its connection while another thread reuses the record for another connection. The packet finds its own connection or
/// none, and never changes the state of the other connection.
#[test]
fn a_packet_changes_no_other_connection() {
    check(3, || {
        let record = Arc::new(Record::default());
        let first = begin(&record, 1);
        let packet = beside(&record, move |record| {
            let Some((meta, reply)) = record.matches(&key(1), &Slab::default()) else { return };
            // A reserved record may still have its old key. For a moment the key counts as taken, but the packet does not find the record.
            if meta.phase() != Phase::Live {
                return;
            }
            assert_eq!(
                (meta.generation(), reply),
                (first, false),
                "the key of one use, the generation of another"
            );
            let handle = Handle { record: 0, generation: first };
            update_udp(&Connection { handle, record }, false);
        });
        assert!(remove(&record, first));
        let second = begin(&record, 2);
        packet.join().unwrap();
        assert_eq!(record.state(second), Some(UdpState::OnePacket as u64));
    });
}

/// As above, for the fast path, which compares all words of the key at once.
#[test]
fn the_fast_path_finds_no_mixture() {
    check(3, || {
        let record = Arc::new(Record::default());
        let first = begin(&record, 1);
        let packet = beside(&record, move |record| {
            let found = record.match_ipv4(17 << 8, key(1).address_word(), key(1).port_word());
            assert!(found.is_none_or(|f| f.meta.generation() == first && !f.reply), "{found:?}");
        });
        assert!(remove(&record, first));
        begin(&record, 2);
        packet.join().unwrap();
    });
}

/// Neither the fast path nor the general path finds a key with the ports of one connection and the addresses of the next one.
#[test]
fn no_key_is_of_two_connections() {
    let mixed = || {
        let [first, second] = [key(1), key(2)];
        Key { src: Endpoint { port: first.src.port, ..second.src }, ..second }
    };
    check(3, move || {
        let record = Arc::new(Record::default());
        let first = begin(&record, 1);
        let packet = beside(&record, move |record| {
            // A reserved record may match the key, but the packet does not find it.
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
            let found = record.match_ipv4(17 << 8, mixed().address_word(), mixed().port_word());
            assert!(found.is_none(), "{found:?}");
        });
        assert!(remove(&record, first));
        begin(&record, 2);
        packet.join().unwrap();
    });
}

/// A mark is written to the connection for which it was set, or to none if that connection has ended.
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

/// Packets of both directions at the same time: in every order, the connection has packets in both directions afterwards, and the reply
/// counts as a reply.
#[test]
fn no_change_of_state_is_lost() {
    loom::model(|| {
        let record = Arc::new(Record::default());
        let handle = Handle { record: 0, generation: begin(&record, 1) };
        let request = beside(&record, move |record| _ = update_udp(&Connection { handle, record }, false));
        let update = update_udp(&Connection { handle, record: &record }, true);
        request.join().unwrap();
        assert!(matches!(update, Update::Valid(_)), "{update:?}");
        assert_eq!(record.state(handle.generation), Some(UdpState::BothDirections as u64));
    });
}

/// Sweep and eviction remove the same connection at the same time: exactly one of them does, and the next connection of the record is not
/// removed.
#[test]
fn one_thread_removes_a_connection() {
    check(3, || {
        let record = Arc::new(Record::default());
        let first = begin(&record, 1);
        let removed = Arc::new(AtomicU32::new(0));
        let sweeps = Arc::clone(&removed);
        let sweep = beside(&record, move |record| {
            let meta = record.meta();
            // The expiry time may belong to the record's next connection; then the claim must fail.
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
