//! Floods of fragments: memory is bounded, and honest datagrams are completed.

use super::{PacketBytes, TestDatagram, datagram, put, small};
use crate::*;

/// The default maximum number of waiting fragments.
const FRAGMENTS_MAX: u32 = 1000;

/// A flood: port, source and identification of fragment `n`.
type Flood = fn(u32) -> (u32, u8, u32);

/// How many of 20 honest datagrams are completed if `between` fragments of a flood follow each of their three
/// fragments.
fn honest(flood: Flood, between: u32, port: u32) -> usize {
    let all = small();
    let (mut n, mut completed) = (0, 0);
    let template = datagram(false, 0, 1200);
    let mut burst = |all: &Reassembly<PacketBytes>, fragments: u32| {
        for _ in 0..fragments {
            let (port, src, id) = flood(n);
            let whole =
                TestDatagram { src, id, dst: (n >> 16) as u8, payload: template.payload.clone(), ..template };
            put(all, 0x0800, whole.part(800, 1200, true), port, 0);
            assert!(all.fragments() <= FRAGMENTS_MAX, "{}", all.fragments());
            n += 1;
        }
    };
    burst(&all, 2 * FRAGMENTS_MAX);
    for id in 0..20 {
        let whole = TestDatagram { src: 250, dst: 251, ..datagram(false, id, 4000) };
        for (start, end) in [(0, 1480), (1480, 2960), (2960, 4000)] {
            let l3 = whole.part(start, end, end < 4000);
            completed += usize::from(matches!(put(&all, 0x0800, l3, port, 0), AddResult::Complete(_)));
            burst(&all, between);
        }
    }
    all.audit();
    completed
}

#[test]
fn one_source_does_not_fill_the_table() {
    let one: Flood = |n| (1, 1, n);
    assert_eq!([honest(one, 5, 1), honest(one, 900, 1), honest(one, 1500, 2)], [20; 3]);
}

#[test]
fn one_port_does_not_fill_the_table() {
    let spoofed: Flood = |n| (1, (n % 200) as u8, n);
    assert_eq!(honest(spoofed, 1500, 2), 20);
}

#[test]
fn spoofed_sources_at_the_same_port_go_by_age() {
    let spoofed: Flood = |n| (1, (n % 200) as u8, n);
    // The three fragments arrive within fewer fragments of the flood than can wait.
    assert_eq!(honest(spoofed, 300, 1), 20);
}

#[test]
fn one_datagram_has_a_bounded_number_of_fragments() {
    let all = small();
    let whole = datagram(false, 1, 8000);
    let waits = (0..1000).filter(|_| {
        let result = put(&all, 0x0800, whole.part(8000, 8000, false), 1, 0);
        matches!(result, AddResult::Stored)
    });
    assert_eq!((waits.count(), all.fragments()), (256, 256));
}

#[test]
fn long_fragments_count_by_their_memory() {
    let all = small();
    for id in 0..1000 {
        put(&all, 0x0800, datagram(false, id, 60_000).part(0, 58_000, true), 1, 0);
    }
    let most = u64::from(FRAGMENTS_MAX) * BYTES_PER_FRAGMENT;
    assert_eq!(u64::from(all.fragments()), most / (58_000 + 20));
    all.audit();
}

#[test]
fn a_limit_that_shrinks_holds_at_once() {
    let all = small();
    for id in 0..100 {
        put(&all, 0x0800, datagram(false, id, 1600).part(0, 800, true), 1, 0);
    }
    assert!(!all.set_max_fragments(5001) && all.set_max_fragments(10));
    put(&all, 0x0800, datagram(false, 100, 1600).part(0, 800, true), 1, 0);
    assert_eq!((all.fragments(), all.status().max_fragments), (10, 10));
    all.set_max_fragments(0);
    let result = put(&all, 0x0800, datagram(false, 101, 1600).part(0, 800, true), 1, 0);
    assert!(matches!(result, AddResult::Refused(_)));
}

#[test]
fn fragments_of_a_port_that_is_gone_are_forgotten() {
    let all = small();
    for id in 0..20 {
        put(&all, 0x0800, datagram(false, id, 1600).part(0, 800, true), id % 4, 0);
    }
    assert_eq!((all.forget_port(1).len(), all.forget_port(1).len(), all.fragments()), (5, 0, 15));
    all.audit();
}
