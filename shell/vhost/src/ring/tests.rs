//! Rings of both formats with a driver that implements the specification as simply as possible. Both formats must give the same results
//! for the same packets and buffers, and each packet must arrive as it was sent.

use super::RingError;
use super::descriptor::{Addresses, Descriptor};
use super::fill::Item;
use super::layout::Layout;
use super::packed::Packed;
use super::split::Split;
use super::state::{EventfdsAndLog, Log, Ring, StartPosition};
use super::tail_leases::TailLeases;
use crate::dirty::DirtyLog;
use crate::feature;
use crate::memory::tests::file;
use crate::memory::{GuestMemory, RegionLayout as Region};
use packet::frame::FramePool;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use std::sync::Arc;

mod held;

const USER: u64 = 1 << 40;
const MEMORY: u64 = 4 << 20;
const AVAILABLE: u64 = 0x4000;
const USED: u64 = 0x8000;
const TABLES: u64 = 0x10000;
const BUFFERS: u64 = 0x40000;
const HEADER: usize = 12;

/// A buffer: its address and length.
type Buffer = (u64, u32);

/// Guest memory as the driver sees it.
struct Memory(Arc<GuestMemory>);

impl Memory {
    fn write(&self, at: u64, bytes: &[u8]) {
        assert_eq!(self.0.part(at, bytes.len() as u32, &mut 0).unwrap().write(bytes), bytes.len());
    }

    fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        assert_eq!(self.0.part(at, len as u32, &mut 0).map_or(0, |part| part.read(&mut bytes)), len);
        bytes
    }

    fn number(&self, at: u64, len: usize) -> u64 {
        self.read(at, len).iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte))
    }
}

/// The driver's side of a ring format.
trait Driver {
    type Format: Layout<Space = Arc<GuestMemory>>;

    fn new(size: u16) -> Self;
    /// Whether the ring has space for a chain of this length.
    fn has_room(&self, descriptors: u16) -> bool;
    /// Makes a chain available with an unused id: in descriptors of the ring, or in an indirect table at this address.
    fn offer(&mut self, memory: &Memory, id: u16, buffers: &[Buffer], write: bool, table: Option<u64>);
    /// Chains that were used since the last call: ids and lengths.
    fn collect(&mut self, memory: &Memory) -> Vec<(u16, u32)>;
}

fn entry(packed: bool, (address, len): Buffer, flags: u16, number: u16) -> Vec<u8> {
    let [low, high] = if packed { [number, flags] } else { [flags, number] };
    [&address.to_le_bytes()[..], &len.to_le_bytes(), &low.to_le_bytes(), &high.to_le_bytes()].concat()
}

fn table_of(packed: bool, buffers: &[Buffer], write: u16) -> Vec<u8> {
    let last = buffers.len() - 1;
    let next = |n| if n < last && !packed { Descriptor::NEXT } else { 0 };
    (0..buffers.len()).flat_map(|n| entry(packed, buffers[n], write | next(n), n as u16 + 1)).collect()
}

struct SplitDriver {
    size: u16,
    free: VecDeque<u16>,
    heads: BTreeMap<u16, (u16, Vec<u16>)>,
    offered: u16,
    taken: u16,
}

impl Driver for SplitDriver {
    type Format = Split;

    fn new(size: u16) -> SplitDriver {
        SplitDriver { size, free: (0..size).collect(), heads: BTreeMap::new(), offered: 0, taken: 0 }
    }

    fn has_room(&self, descriptors: u16) -> bool {
        self.free.len() >= usize::from(descriptors)
    }

    fn offer(&mut self, memory: &Memory, id: u16, buffers: &[Buffer], write: bool, table: Option<u64>) {
        let write = if write { Descriptor::WRITE } else { 0 };
        let used: Vec<u16> = match table {
            Some(at) => {
                let slot = self.free.pop_front().unwrap();
                let content = table_of(false, buffers, write);
                memory.write(at, &content);
                let whole = entry(false, (at, content.len() as u32), Descriptor::INDIRECT, 0);
                memory.write(16 * u64::from(slot), &whole);
                vec![slot]
            }
            None => {
                let slots: Vec<_> = self.free.drain(..buffers.len()).collect();
                for (n, buffer) in buffers.iter().enumerate() {
                    let (next, flag) = slots.get(n + 1).map_or((0, 0), |next| (*next, Descriptor::NEXT));
                    memory.write(16 * u64::from(slots[n]), &entry(false, *buffer, write | flag, next));
                }
                slots
            }
        };
        memory.write(AVAILABLE + 4 + 2 * u64::from(self.offered % self.size), &used[0].to_le_bytes());
        self.offered = self.offered.wrapping_add(1);
        memory.write(AVAILABLE + 2, &self.offered.to_le_bytes());
        self.heads.insert(used[0], (id, used));
    }

    fn collect(&mut self, memory: &Memory) -> Vec<(u16, u32)> {
        let mut got = Vec::new();
        while memory.number(USED + 2, 2) as u16 != self.taken {
            let at = USED + 4 + 8 * u64::from(self.taken % self.size);
            let (id, slots) = self.heads.remove(&(memory.number(at, 4) as u16)).expect("it was offered");
            self.free.extend(slots);
            got.push((id, memory.number(at + 4, 4) as u32));
            self.taken = self.taken.wrapping_add(1);
        }
        got
    }
}

struct PackedDriver {
    size: u16,
    left: u16,
    slots: BTreeMap<u16, u16>,
    /// Positions of the next available chain and of the next used chain: descriptor and wrap counter.
    offered: (u16, bool),
    taken: (u16, bool),
}

impl PackedDriver {
    fn step(&self, (at, wrap): (u16, bool)) -> (u16, bool) {
        if at + 1 == self.size { (0, !wrap) } else { (at + 1, wrap) }
    }
}

impl Driver for PackedDriver {
    type Format = Packed;

    fn new(size: u16) -> PackedDriver {
        PackedDriver { size, left: size, slots: BTreeMap::new(), offered: (0, true), taken: (0, true) }
    }

    fn has_room(&self, descriptors: u16) -> bool {
        self.left >= descriptors
    }

    fn offer(&mut self, memory: &Memory, id: u16, buffers: &[Buffer], write: bool, table: Option<u64>) {
        let write = if write { Descriptor::WRITE } else { 0 };
        let chain: Vec<(Buffer, u16)> = match table {
            Some(at) => {
                // DPDK's driver sets WRITE also in the indirect table of a packet that it sends, where the flag has no meaning. Here even
                // ids do so.
                let content =
                    table_of(true, buffers, if id.is_multiple_of(2) { Descriptor::WRITE } else { write });
                memory.write(at, &content);
                vec![((at, content.len() as u32), Descriptor::INDIRECT)]
            }
            None => {
                let last = buffers.len() - 1;
                let next = |n| if n < last { Descriptor::NEXT } else { 0 };
                buffers.iter().enumerate().map(|(n, buffer)| (*buffer, write | next(n))).collect()
            }
        };
        let mut written = Vec::new();
        for (n, (buffer, flags)) in chain.iter().enumerate() {
            let (at, wrap) = self.offered;
            let flags = flags | if wrap { 1 << 7 } else { 1 << 15 };
            // Only the last descriptor contains the buffer id.
            let id = if n + 1 == chain.len() { id } else { 0xdead };
            written.push((16 * u64::from(at), entry(true, *buffer, flags, id)));
            self.offered = self.step(self.offered);
        }
        written.iter().rev().for_each(|(at, bytes)| memory.write(*at, bytes));
        self.left -= chain.len() as u16;
        self.slots.insert(id, chain.len() as u16);
    }

    fn collect(&mut self, memory: &Memory) -> Vec<(u16, u32)> {
        let mut got = Vec::new();
        while self.left < self.size {
            let (at, wrap) = self.taken;
            let [len, id, flags] =
                [(8, 4), (12, 2), (14, 2)].map(|(n, len)| memory.number(16 * u64::from(at) + n, len));
            if (flags >> 7 & 1 == 1, flags >> 15 & 1 == 1) != (wrap, wrap) {
                break;
            }
            assert_eq!(flags & 2 != 0, len > 0, "the flag says whether something was written");
            let slots = self.slots.remove(&(id as u16)).expect("it was offered");
            (0..slots).for_each(|_| self.taken = self.step(self.taken));
            self.left += slots;
            got.push((id as u16, len as u32));
        }
        got
    }
}

/// A ring with its driver.
struct Guest<D: Driver> {
    memory: Memory,
    driver: D,
    ring: Ring<D::Format>,
    /// Chains that are available: id and buffers.
    offered: VecDeque<(u16, Vec<Buffer>)>,
    free: VecDeque<u16>,
}

fn addresses() -> Addresses {
    Addresses { descriptors: USER, available: USER + AVAILABLE, used: USER + USED }
}

impl<D: Driver> Guest<D> {
    fn new(size: u16, features: u64) -> Guest<D> {
        let fd = file(MEMORY);
        let region = Region { guest: 0, size: MEMORY, user: USER, offset: 0 };
        let memory = Arc::new(GuestMemory::map(&[region], &[&fd]).unwrap());
        let ring =
            Ring::new(&memory, addresses(), size, features, StartPosition::default(), None).unwrap().unwrap();
        let free = (0..size).collect();
        Guest { memory: Memory(memory), driver: D::new(size), ring, offered: VecDeque::new(), free }
    }

    /// Makes a chain with buffers of these lengths available if the ring has space; returns its buffers.
    fn offer(&mut self, lens: &[u32], write: bool, indirect: bool) -> Option<Vec<Buffer>> {
        // No chain is longer than the ring, not even in an indirect table.
        let longest = usize::from(self.ring.layout.size());
        if lens.len() > longest || !self.driver.has_room(if indirect { 1 } else { lens.len() as u16 }) {
            return None;
        }
        let id = self.free.pop_front()?;
        let mut at = BUFFERS + u64::from(id) * 0x4000;
        let position = |len: &u32| {
            at += 0x1000;
            (at - 0x1000, *len)
        };
        let buffers: Vec<_> = lens.iter().map(position).collect();
        let table = indirect.then_some(TABLES + 0x100 * u64::from(id));
        self.driver.offer(&self.memory, id, &buffers, write, table);
        self.offered.push_back((id, buffers.clone()));
        Some(buffers)
    }

    /// Used chains, in the order in which they were made available.
    fn collect(&mut self) -> Vec<(Vec<Buffer>, u32)> {
        let mut all = Vec::new();
        for (id, len) in self.driver.collect(&self.memory) {
            let (oldest, buffers) = self.offered.pop_front().expect("it was offered");
            assert_eq!(oldest, id, "buffers go back in order");
            self.free.push_back(id);
            all.push((buffers, len));
        }
        all
    }

    fn write(&self, buffers: &[Buffer], mut bytes: &[u8]) {
        for (at, len) in buffers {
            let (now, rest) = bytes.split_at((*len as usize).min(bytes.len()));
            self.memory.write(*at, now);
            bytes = rest;
        }
    }

    fn read(&self, buffers: &[Buffer], len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            buffers.iter().flat_map(|(at, len)| self.memory.read(*at, *len as usize)).collect();
        bytes.truncate(len);
        bytes
    }
}

fn bytes(dice: &mut fastrand::Rng, len: usize) -> Vec<u8> {
    std::iter::repeat_with(|| dice.u8(..)).take(len).collect()
}

/// Cuts `len` into up to four lengths of at least one byte, each at most a page.
fn cut(dice: &mut fastrand::Rng, len: usize) -> Vec<u32> {
    let (mut lens, mut left) = (Vec::new(), len);
    for _ in 0..dice.usize(..4) {
        if left > 1 {
            let n = dice.usize(1..left.min(1024));
            lens.push(n as u32);
            left -= n;
        }
    }
    lens.push(left as u32);
    lens
}

/// Sends packets from the guest, in chains of any form. Returns how many packets arrived in each turn.
fn sends<D: Driver>(seed: u64, size: u16) -> Vec<usize> {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut guest = Guest::<D>::new(size, feature::VERSION_1 | feature::INDIRECT);
    let (mut pool, mut out, mut sent) = (FramePool::new(64), Vec::new(), VecDeque::new());
    let mut counts = Vec::new();
    for _ in 0..30 {
        for _ in 0..dice.u16(0..=size.min(40)) {
            let len = dice.choice([14usize, 60, 128, 300, 1500]).unwrap();
            let packet = bytes(&mut dice, len);
            let many = dice.u8(..3) == 0;
            let lens = if many { cut(&mut dice, HEADER + len) } else { vec![(HEADER + len) as u32] };
            if let Some(buffers) = guest.offer(&lens, false, dice.bool()) {
                guest.write(&buffers, &[&[0; HEADER][..], &packet].concat());
                sent.push_back(packet);
            }
        }
        let got = guest.ring.receive(dice.usize(..40), &mut pool, &mut out, None);
        assert_eq!((got.refused, guest.ring.invalid), (0, None));
        guest.ring.publish_rest();
        assert!(out.iter().all(|frame| Some(frame.bytes()) == sent.pop_front().as_deref()), "seed {seed}");
        assert!(guest.collect().iter().all(|(_, len)| *len == 0));
        assert_eq!(guest.offered.len(), sent.len(), "seed {seed}: what was taken was given back");
        counts.push(out.len());
        pool.free_all(&mut out);
        assert_eq!(guest.ring.layout.available(guest.ring.next) == Ok(0), guest.offered.is_empty());
    }
    assert!(guest.ring.receive(0, &mut pool, &mut out, None).packets == 0);
    counts
}

/// Sends packets to the guest, into chains of any form. Returns how many packets arrived in each turn.
fn receives<D: Driver>(seed: u64, size: u16) -> Vec<usize> {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mergeable = dice.bool();
    let features = feature::VERSION_1 | feature::INDIRECT | if mergeable { feature::MRG_RXBUF } else { 0 };
    let mut guest = Guest::<D>::new(size, features);
    let mut counts = Vec::new();
    for _ in 0..30 {
        for _ in 0..dice.u16(0..=size.min(40)) {
            let len = dice.choice([64, 100, 700, 2000]).unwrap();
            let lens = if dice.u8(..3) == 0 { cut(&mut dice, len) } else { vec![len as u32] };
            guest.offer(&lens, true, dice.bool());
        }
        let packets: Vec<_> = (0..dice.usize(..40))
            .map(|_| {
                let len = dice.choice([14, 60, 88, 600, 1900, 4000]).unwrap();
                bytes(&mut dice, len)
            })
            .collect();
        let items: Vec<_> = packets.iter().map(|packet| Item::new(packet)).collect();
        let mut sent = Vec::new();
        let filled = guest.ring.fill(&items, |bytes, _| sent.push(bytes.to_vec()));
        assert_eq!((guest.ring.invalid, sent.len() + filled.too_long), (None, filled.handled));
        let mut back = guest.collect().into_iter();
        for packet in &sent {
            let (buffers, len) = back.next().expect("a buffer for each packet");
            let mut got = guest.read(&buffers, len as usize);
            let (header, buffers) = (got[..HEADER].to_vec(), u16::from_le_bytes([got[10], got[11]]));
            assert_eq!(header[..10], [0; 10]);
            for (more, len) in back.by_ref().take(usize::from(buffers) - 1) {
                got.extend(guest.read(&more, len as usize));
            }
            assert!(got[HEADER..] == packet[..], "seed {seed}");
        }
        assert_eq!(back.next(), None, "no buffer was given back for nothing");
        counts.push(sent.len());
    }
    counts
}

#[test]
fn both_formats_do_the_same() {
    for seed in 0..16 {
        let size = 1 << (seed % 8);
        assert_eq!(sends::<SplitDriver>(seed, size), sends::<PackedDriver>(seed, size), "seed {seed}");
        assert_eq!(receives::<SplitDriver>(seed, size), receives::<PackedDriver>(seed, size), "seed {seed}");
        // Packed rings of any size.
        let odd = 1 + fastrand::Rng::with_seed(seed).u16(..200);
        assert!(sends::<PackedDriver>(seed, odd).iter().sum::<usize>() > 0);
        receives::<PackedDriver>(seed, odd);
    }
}

/// Compares the decision to interrupt the guest with a check of each used descriptor, one by one.
#[test]
fn a_guest_is_interrupted_at_the_descriptor_that_it_names() {
    let features = feature::VERSION_1 | feature::INDIRECT | feature::EVENT_IDX;
    let (mut seen, mut pool, mut out) = ([0; 2], FramePool::new(64), Vec::new());
    for seed in 0..12 {
        let mut dice = fastrand::Rng::with_seed(seed);
        let size = dice.u16(64..100);
        let mut guest = Guest::<PackedDriver>::new(size, features);
        let call = Some(Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap()));
        guest.ring.eventfds_and_log = EventfdsAndLog { call, ..EventfdsAndLog::default() };
        for turn in 0..60 {
            for _ in 0..dice.u16(1..20) {
                guest.offer(&[80], false, false);
            }
            let (at, wrap) = (dice.u16(..size), dice.bool());
            let mode = dice.choice([0, 1, 2, 2, 2, 2]).unwrap();
            let position = at | u16::from(wrap) << 15;
            guest.memory.write(AVAILABLE, &[position.to_le_bytes(), [mode, 0]].concat());
            let before = guest.driver.taken;
            let interrupts = guest.ring.receive(32, &mut pool, &mut out, None).interrupts;
            pool.free_all(&mut out);
            guest.collect();
            let (mut now, mut passed) = (before, false);
            while now != guest.driver.taken {
                passed |= now == (at, wrap);
                now = guest.driver.step(now);
            }
            let wanted = mode == 0 || mode == 2 && (passed || turn == 0);
            assert_eq!(interrupts == 1, wanted, "seed {seed}, turn {turn}");
            seen[usize::from(wanted)] += 1;
        }
        guest.ring.request_kicks(true);
        let position = guest.ring.next;
        assert_eq!(guest.memory.number(USED, 4), u64::from(position) | 2 << 16);
        guest.ring.request_kicks(false);
        assert_eq!(guest.memory.number(USED, 4), 1 << 16);
    }
    assert!(seen[0] > 50 && seen[1] > 50, "{seen:?}");
}

/// A new `Ring` continues at the position that it is given or that an old `Ring` has; an invalid position is refused.
#[test]
fn a_packed_ring_continues_where_it_was() {
    let mut guest = Guest::<PackedDriver>::new(7, feature::VERSION_1);
    let (mut pool, mut out) = (FramePool::new(64), Vec::new());
    for n in 0..100usize {
        let buffers = guest.offer(&[HEADER as u32 + 60], false, false).unwrap();
        guest.write(&buffers, &[&[0; HEADER][..], &[n as u8; 60]].concat());
        assert_eq!(guest.ring.receive(8, &mut pool, &mut out, None).packets, 1);
        assert_eq!(out.pop().unwrap().bytes(), [n as u8; 60]);
        assert_eq!(guest.collect().len(), 1);
        let round = (n + 1) / 7;
        assert_eq!(guest.ring.next, ((n + 1) % 7) as u16 | u16::from(round % 2 == 0) << 15);
        let ring = |base, old| {
            let start = StartPosition { base, region: None };
            Ring::<Packed>::new(&guest.memory.0, addresses(), 7, feature::VERSION_1, start, old).unwrap()
        };
        let next = match n % 2 {
            0 => ring(Some(guest.ring.next), None),
            _ => ring(None, Some(&guest.ring)),
        };
        assert!(ring(Some(7), None).is_none() && ring(Some(0x8007), None).is_none());
        guest.ring = next.unwrap();
    }
}

/// Chains of empty buffers: an empty buffer counts as a part, so `PARTS_MAX` also limits descriptors without bytes.
fn empty_buffers<D: Driver>() {
    const EMPTY: u16 = 200;
    for indirect in [false, true] {
        let features = feature::VERSION_1 | feature::MRG_RXBUF | feature::INDIRECT;
        let chain = [0; EMPTY as usize];
        let mut guest = Guest::<D>::new(1024, features);
        // A packet of the guest may have a few empty buffers.
        let buffers = guest.offer(&[0, HEADER as u32, 0, 60], false, indirect).unwrap();
        guest.write(&buffers, &[&[0; HEADER][..], &[7; 60]].concat());
        let (mut pool, mut out) = (FramePool::new(4), Vec::new());
        assert_eq!(guest.ring.receive(8, &mut pool, &mut out, None).packets, 1);
        assert_eq!(out.pop().unwrap().bytes(), [7; 60]);
        guest.collect();
        // Two of these chains have more descriptors than a packet may have, and no bytes.
        (0..3).for_each(|_| drop(guest.offer(&chain, true, false)));
        let filled = guest.ring.fill(&[Item::new(&[1; 60])], |_, _| panic!("nothing was sent"));
        assert_eq!((filled.handled, guest.ring.invalid), (0, Some(RingError::Chain)));
    }
}

#[test]
fn empty_buffers_count() {
    empty_buffers::<SplitDriver>();
    empty_buffers::<PackedDriver>();
}

/// While the guest is migrated, only pages that were written are marked, however long the guest's buffers are.
fn log_of_long_buffers<D: Driver>() {
    let fd = file(4096);
    let payload = [4096u64, 0].map(u64::to_ne_bytes).concat();
    let dirty = Arc::new(DirtyLog::map(&payload, &fd).unwrap());
    let mut guest = Guest::<D>::new(8, feature::VERSION_1 | feature::MRG_RXBUF | feature::LOG_ALL);
    guest.ring.eventfds_and_log =
        EventfdsAndLog { log: Some(Log { dirty, used: None }), ..EventfdsAndLog::default() };
    let long = guest.offer(&[3 << 20], true, false).unwrap();
    let filled = guest.ring.fill(&[Item::new(&[5; 4500])], |_, _| {});
    assert_eq!((filled.handled, guest.ring.invalid), (1, None));
    assert_eq!(guest.read(&long, 4512)[HEADER..], [5; 4500]);
    let mut log = Vec::new();
    std::fs::File::from(fd).read_to_end(&mut log).unwrap();
    let first = (long[0].0 / 4096) as usize;
    let marked: Vec<_> = (0..8 * log.len()).filter(|n| log[n / 8] & (1 << (n % 8)) != 0).collect();
    assert!(marked.ends_with(&[first, first + 1]), "{marked:?}");
    // A packed ring marks its descriptors, too.
    assert!(marked.len() <= 4, "{marked:?}");
}

#[test]
fn only_written_pages_are_logged() {
    log_of_long_buffers::<SplitDriver>();
    log_of_long_buffers::<PackedDriver>();
}

/// While a guest polls, the last used buffers are published with the next packets, or after some bursts without packets.
#[test]
fn the_last_buffers_wait_while_the_guest_polls() {
    const NO_INTERRUPT: u8 = 1;
    let polling = [(0, NO_INTERRUPT, true), (0, 0, false), (feature::EVENT_IDX, NO_INTERRUPT, false)];
    for (seed, (features, flags, waits)) in polling.into_iter().enumerate() {
        for (size, last) in [(128u16, 32), (16, 4)] {
            let last = if waits { last } else { 0 };
            let mut guest = Guest::<SplitDriver>::new(size, feature::VERSION_1 | features);
            let call = Some(Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap()));
            guest.ring.eventfds_and_log = EventfdsAndLog { call, ..EventfdsAndLog::default() };
            guest.memory.write(AVAILABLE, &[flags]);
            let (mut pool, mut out, mut leases) = (FramePool::new(64), Vec::new(), TailLeases::new());
            let bursts = [5, 6, 2, 8, 1].into_iter().cycle().zip([false, true].into_iter().cycle());
            for (turn, (n, with_tails)) in bursts.take(20).enumerate() {
                for _ in 0..n {
                    let buffers = guest.offer(&[HEADER as u32 + 700], false, false).unwrap();
                    guest.write(&buffers, &[0; HEADER + 700]);
                }
                let got = guest.ring.receive(32, &mut pool, &mut out, with_tails.then_some(&mut leases));
                assert_eq!((got.packets, got.needs_return), (n, with_tails), "case {seed}");
                if with_tails {
                    assert_eq!(
                        (guest.collect().len(), guest.ring.publish_rest()),
                        (0, 0),
                        "frames refer to the buffers"
                    );
                }
                pool.free_all(&mut out);
                leases.clear();
                guest.ring.publish_deferred();
                // In the first turn the ring does not know yet that the guest polls.
                let waiting = if turn == 0 { 0 } else { guest.offered.len().min(last) };
                guest.collect();
                assert_eq!(guest.offered.len(), waiting, "case {seed}");
            }
            for _ in 0..63 {
                guest.ring.receive(32, &mut pool, &mut out, None);
                assert_eq!(guest.collect().len(), 0, "case {seed}");
            }
            guest.ring.receive(32, &mut pool, &mut out, None);
            assert_eq!(guest.collect().len(), last, "case {seed}");
        }
    }
}
