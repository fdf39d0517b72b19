//! A switch is killed at any moment of a burst, and the next switch continues at the ring position in the inflight area.

use super::descriptor::{Addresses, Descriptor};
use super::inflight::{InflightArea, InflightRegion, UsedRecord, WRAP};
use super::layout::Layout;
use super::packed::Packed;
use super::split::Split;
use super::state::{Ring, StartPosition};
use crate::feature;
use crate::memory::tests::file;
use crate::memory::{GuestMemory, RegionLayout};
use packet::frame::FramePool;
use std::sync::Arc;

const USER: u64 = 1 << 40;
const AVAILABLE: u64 = 0x4000;
const USED: u64 = 0x8000;
const BUFFER: u64 = 0x10000;
const SIZE: u16 = 8;

struct Guest {
    memory: Arc<GuestMemory>,
    area: Arc<InflightArea>,
    packed: bool,
}

impl Guest {
    fn new(packed: bool) -> Guest {
        let region = RegionLayout { guest: 0, size: 1 << 20, user: USER, offset: 0 };
        let memory = Arc::new(GuestMemory::map(&[region], &[&file(1 << 20)]).unwrap());
        let wanted = [&[0; 16][..], &1u16.to_ne_bytes(), &SIZE.to_ne_bytes()].concat();
        let area = Arc::new(InflightArea::create(&wanted, packed).unwrap().0);
        Guest { memory, area, packed }
    }

    fn region(&self) -> InflightRegion {
        self.area.region(0, SIZE, self.packed).unwrap()
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        assert_eq!(self.memory.part(at, bytes.len() as u32, &mut 0).unwrap().write(bytes), bytes.len());
    }

    fn word(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.memory.part(at, 8, &mut 0).unwrap().read(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Writes descriptor `n` of a packed ring, available for this wrap counter.
    fn offer(&self, n: u16, wrap: bool, flags: u16) {
        let flags = flags | if wrap { 1 << 7 } else { 1 << 15 };
        let rest = 72 | u64::from(n + 100) << 32 | u64::from(flags) << 48;
        self.write(16 * u64::from(n), &[BUFFER, rest].map(u64::to_le_bytes).concat());
    }

    /// Starts a ring as the next switch does. The wrong `base` has no effect.
    fn ring<L: Layout<Space = Arc<GuestMemory>>>(&self) -> Ring<L> {
        let at = Addresses { descriptors: USER, available: USER + AVAILABLE, used: USER + USED };
        let start = StartPosition { base: Some(3), region: Some(self.region()) };
        Ring::new(&self.memory, at, SIZE, feature::VERSION_1, start, None).unwrap().unwrap()
    }

    fn starts<L: Layout<Space = Arc<GuestMemory>>>(&self) -> bool {
        let at = Addresses { descriptors: USER, available: USER + AVAILABLE, used: USER + USED };
        let start = StartPosition { base: None, region: Some(self.region()) };
        Ring::<L>::new(&self.memory, at, SIZE, feature::VERSION_1, start, None).is_ok()
    }
}

/// Descriptors that are marked as used one after another: the ring continues with the first one that is still available,
/// for both wrap counters, also if the guest has made the first ones available again.
#[test]
fn single_descriptors_are_given_back_once() {
    for begin in [0, 1, 5, 7, 8, 12, 15] {
        for n in 1..=SIZE {
            for done in 0..=n {
                for again in 0..=done {
                    let guest = Guest::new(true);
                    let wrap = |k: u16| ((begin + k) / SIZE).is_multiple_of(2);
                    let at = |k: u16| (begin + k) % SIZE;
                    (0..n).for_each(|k| guest.offer(at(k), wrap(k), 0));
                    let position = at(0) | if wrap(0) { WRAP } else { 0 };
                    let places = UsedRecord { before: position, after: position, together: 0 };
                    guest.region().set_used_record(places);
                    guest.region().initialize();
                    let ring = guest.ring::<Packed>();
                    assert_eq!(ring.next, position);
                    ring.layout.begin_used(position, n, false);
                    for k in 0..done {
                        ring.layout.put_used(ring.layout.after(position, k), at(k) + 100, 0);
                    }
                    drop(ring);
                    (0..again).for_each(|k| guest.offer(at(k), !wrap(k), 0));
                    let ring = guest.ring::<Packed>();
                    assert_eq!(ring.next, ring.layout.after(position, done), "{begin} {n} {done} {again}");
                }
            }
        }
    }
}

/// A packet in several buffers, whose descriptors are marked as used from the last to the first: the guest gets all of them,
/// or none; if none, the descriptors are as the guest made them available.
#[test]
fn buffers_of_one_packet_are_given_back_together() {
    for begin in [0, 1, 5, 7, 8, 12, 15] {
        for n in 2..=SIZE {
            for done in 0..=n {
                let guest = Guest::new(true);
                let wrap = |k: u16| ((begin + k) / SIZE).is_multiple_of(2);
                let at = |k: u16| (begin + k) % SIZE;
                (0..n).for_each(|k| guest.offer(at(k), wrap(k), Descriptor::WRITE));
                let offered: Vec<_> = (0..SIZE).map(|k| guest.word(16 * u64::from(k) + 8)).collect();
                let position = at(0) | if wrap(0) { WRAP } else { 0 };
                guest.region().set_used_record(UsedRecord { before: position, after: position, together: 0 });
                guest.region().initialize();
                let ring = guest.ring::<Packed>();
                ring.layout.begin_used(position, n, true);
                for k in (n - done..n).rev() {
                    ring.layout.put_used(ring.layout.after(position, k), 1, 50);
                }
                drop(ring);
                let ring = guest.ring::<Packed>();
                if done == n {
                    assert_eq!(ring.next, ring.layout.after(position, n));
                } else {
                    let now: Vec<_> = (0..SIZE).map(|k| guest.word(16 * u64::from(k) + 8)).collect();
                    assert_eq!((ring.next, now), (position, offered), "{begin} {n} {done}");
                }
            }
        }
    }
}

/// Packets of two bursts that become visible with the first buffer: the guest gets all of them, or none; if none, the
/// descriptors are as the guest made them available.
#[test]
fn hidden_packets_are_shown_together() {
    for begin in [0, 1, 5, 7, 8, 12, 15] {
        for n in 2..=SIZE {
            for (burst, done) in (1..n).flat_map(|burst| (0..=n).map(move |done| (burst, done))) {
                let guest = Guest::new(true);
                let wrap = |k: u16| ((begin + k) / SIZE).is_multiple_of(2);
                let at = |k: u16| (begin + k) % SIZE;
                (0..n).for_each(|k| guest.offer(at(k), wrap(k), Descriptor::WRITE));
                let words = || (0..SIZE).map(|k| guest.word(16 * u64::from(k) + 8)).collect::<Vec<_>>();
                let offered = words();
                let position = at(0) | if wrap(0) { WRAP } else { 0 };
                guest.region().set_used_record(UsedRecord { before: position, after: position, together: 0 });
                guest.region().initialize();
                let ring = guest.ring::<Packed>();
                let after = |k| ring.layout.after(position, k);
                // The switch is killed after `done` buffers. The first buffer is marked as used last.
                for k in 1..=done {
                    if k == 1 {
                        ring.layout.begin_deferred(position, position, burst);
                    }
                    if k == burst {
                        ring.layout.begin_deferred(position, after(burst), n - burst);
                    }
                    ring.layout.put_used(after(k % n), at(k % n) + 100, 50);
                }
                let next = guest.ring::<Packed>().next;
                if done == n {
                    assert_eq!(next, after(n), "{begin} {n} {burst}");
                } else {
                    assert_eq!((next, words()), (position, offered), "{begin} {n} {burst} {done}");
                }
            }
        }
    }
}

/// A split ring continues where its used ring ends. Descriptors that another back-end left in flight are received first, in their order.
#[test]
fn a_split_ring_continues_after_another_back_end() {
    let guest = Guest::new(false);
    // Entries 0 to 5 contain descriptors 0 to 5. The other back-end marked 1, 3 and 4 as used, in this order.
    for n in 0..6u16 {
        let at = BUFFER + 0x100 * u64::from(n);
        guest.write(16 * u64::from(n), &[at, 12 + 60].map(u64::to_le_bytes).concat());
        guest.write(at + 12, &[n as u8; 60]);
        guest.write(AVAILABLE + 4 + 2 * u64::from(n), &n.to_le_bytes());
    }
    guest.write(AVAILABLE + 2, &6u16.to_le_bytes());
    guest.write(USED + 2, &3u16.to_le_bytes());
    let region = guest.region();
    region.set_used_index(3);
    region.initialize();
    for (n, counter) in [(0u16, 9u64), (2, 4), (5, 7)] {
        region.mark(n, counter);
    }
    let mut ring = guest.ring::<Split>();
    let (mut pool, mut out) = (FramePool::new(8), Vec::new());
    assert_eq!(ring.receive(8, &mut pool, &mut out, None).packets, 3);
    assert_eq!(out.iter().map(|frame| frame.bytes()[0]).collect::<Vec<_>>(), [2, 5, 0]);
    assert_eq!(guest.word(USED) >> 16 & 0xffff, 6);
    assert_eq!(guest.ring::<Split>().next, 6);
    // More descriptors are in flight than the guest has made available.
    region.mark(1, 1);
    assert!(!guest.starts::<Split>());
}

/// With any content of the inflight area, the ring starts within its bounds or is refused.
#[test]
fn invalid_inflight_areas() {
    let mut started = [0; 2];
    for seed in 0..3000 {
        let mut dice = fastrand::Rng::with_seed(seed);
        let guest = Guest::new(dice.bool());
        let region = guest.region();
        let ends = [0, 1, 7, 8, 9, 0x7fff, 0x8000, 0x8007, 0x8008, 0xffff];
        let mut any = || dice.choice(ends).unwrap();
        if guest.packed {
            region.set_used_record(UsedRecord { before: any(), after: any(), together: any() });
        } else {
            region.set_used_index(any());
            region.set_last(any(), any());
            guest.write(USED + 2, &any().to_le_bytes());
            guest.write(AVAILABLE + 2, &any().to_le_bytes());
        }
        match (any() == 7, guest.packed) {
            (true, true) => region.mark_packed(any()),
            (true, false) => region.mark(any(), 3),
            _ => {}
        }
        region.initialize();
        (0..SIZE).for_each(|n| guest.offer(n, dice.bool(), dice.u16(..)));
        let ok = if guest.packed { guest.starts::<Packed>() } else { guest.starts::<Split>() };
        started[usize::from(ok)] += 1;
        if ok && guest.packed {
            assert!(guest.ring::<Packed>().next & !WRAP < SIZE);
        }
    }
    assert!(started[0] > 100 && started[1] > 100, "{started:?}");
}
