//! Implements a guest's side of the socket and of the rings in the same process: sessions that follow the specification, and random
//! sessions.

use super::requests::{FEATURES, PROTOCOL_FEATURES};
use super::session::Session;
use super::*;
use crate::feature;
use crate::memory::tests::file;
use crate::memory::{GuestMemory, RegionLayout};
use crate::rules::request::*;
use crate::server::Session as _;
use packet::frame::{Frame, FramePool};
use packet::offload::{Gso, GsoKind, Offload, PartialChecksum};
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicUsize;

mod iommu;

const MEMORY: u64 = 1 << 20;
const GUEST: u64 = 0x4000_0000;
const USER: u64 = 0x7f00_0000_0000;
const SIZE: u16 = 8;
const BUFFERS: u64 = 0x20000;
const NEED_REPLY: u32 = 8;

/// A guest with its connection.
struct Front {
    device: Arc<Device>,
    peer: UnixStream,
    session: Session,
    file: OwnedFd,
    memory: GuestMemory,
    events: Vec<OwnedFd>,
}

fn word(n: u32) -> [u8; 4] {
    n.to_ne_bytes()
}

fn pair(a: u32, b: u32) -> Vec<u8> {
    [a, b].map(u32::to_ne_bytes).concat()
}

fn long(n: u64) -> Vec<u8> {
    n.to_ne_bytes().to_vec()
}

fn table(regions: &[[u64; 4]]) -> Vec<u8> {
    let mut out = pair(regions.len() as u32, 0);
    regions.iter().flatten().for_each(|n| out.extend(n.to_ne_bytes()));
    out
}

fn whole() -> [u64; 4] {
    [GUEST, MEMORY, USER, 0]
}

fn address(ring: u32) -> Vec<u8> {
    let base = USER + u64::from(ring) * 0x4000;
    [pair(ring, 0), long(base), long(base + 0x2000), long(base + 0x1000), long(0)].concat()
}

impl Front {
    fn new(device: &Arc<Device>) -> Front {
        let (peer, ours) = UnixStream::pair().unwrap();
        peer.set_nonblocking(true).unwrap();
        let session = Session::new(device, ours.into(), &Arc::<AtomicUsize>::default());
        let file = file(MEMORY);
        let layout = RegionLayout { guest: GUEST, size: MEMORY, user: USER, offset: 0 };
        let memory = GuestMemory::map(&[layout], &[&file]).unwrap();
        let event = || eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let events = (0..8).map(|_| event()).collect();
        Front { device: Arc::clone(device), peer, session, file, memory, events }
    }

    /// Sends a message and lets the session handle it. Returns the payload of the reply, if there is one.
    fn say(&mut self, request: u32, flags: u32, payload: &[u8], fds: &[BorrowedFd<'_>]) -> Option<Vec<u8>> {
        let bytes = [&word(request)[..], &word(1 | flags), &word(payload.len() as u32), payload].concat();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
        }
        // The session may have ended.
        let _ = sendmsg(&self.peer, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL);
        self.session.run();
        self.reply()
    }

    fn reply(&mut self) -> Option<Vec<u8>> {
        let mut bytes = [0; 256];
        let n = self.peer.read(&mut bytes).ok().filter(|n| *n > 0)?;
        Some(bytes.get(12..n)?.to_vec())
    }

    fn reported(&mut self, request: u32, payload: &[u8], fds: &[BorrowedFd<'_>]) -> Option<bool> {
        self.say(request, NEED_REPLY, payload, fds).map(|reply| reply == [0; 8])
    }

    /// The messages of a handshake for two rings: request, payload, and the file descriptor that is sent: of the memory or of an event.
    fn steps(features: u64) -> Vec<(u32, Vec<u8>, Option<usize>)> {
        let mut steps = vec![
            (GET_FEATURES, vec![], None),
            (GET_PROTOCOL_FEATURES, vec![], None),
            (SET_PROTOCOL_FEATURES, long(PROTOCOL_FEATURES & !feature::protocol::STATUS), None),
            (SET_OWNER, vec![], None),
            (SET_FEATURES, long(features), None),
            (SET_MEM_TABLE, table(&[whole()]), Some(usize::MAX)),
        ];
        for ring in 0..2u32 {
            steps.push((SET_VRING_CALL, long(u64::from(ring)), Some(ring as usize)));
            steps.push((SET_VRING_NUM, pair(ring, u32::from(SIZE)), None));
            steps.push((SET_VRING_BASE, pair(ring, 0), None));
            steps.push((SET_VRING_ADDR, address(ring), None));
            steps.push((SET_VRING_KICK, long(u64::from(ring)), Some(ring as usize + 2)));
            steps.push((SET_VRING_ENABLE, pair(ring, 1), None));
        }
        steps
    }

    fn step(
        &mut self,
        (request, payload, fd): &(u32, Vec<u8>, Option<usize>),
        flags: u32,
    ) -> Option<Vec<u8>> {
        let copy = match fd {
            None => None,
            Some(usize::MAX) => Some(self.file.try_clone().unwrap()),
            Some(n) => Some(self.events[*n].try_clone().unwrap()),
        };
        let fds: Vec<_> = copy.iter().map(|fd| fd.as_fd()).collect();
        self.say(*request, flags, payload, &fds)
    }

    fn handshake(&mut self, features: u64) {
        for step in Front::steps(features | feature::PROTOCOL_FEATURES) {
            let reply = self.step(&step, NEED_REPLY);
            let own = matches!(step.0, GET_FEATURES | GET_PROTOCOL_FEATURES);
            assert!(own || reply == Some(vec![0; 8]), "{step:?}: {reply:?}");
        }
        assert!(self.device.connected_guest().is_some());
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        assert_eq!(
            self.memory.part(GUEST + at, bytes.len() as u32, &mut 0).unwrap().write(bytes),
            bytes.len()
        );
    }

    fn read<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        assert_eq!(self.memory.part(GUEST + at, N as u32, &mut 0).unwrap().read(&mut bytes), N);
        bytes
    }

    /// Makes a descriptor available as entry `index`.
    fn offer(&self, ring: u64, index: u16, len: u32, flags: u16) -> u64 {
        let (base, slot) = (ring * 0x4000, u64::from(index % SIZE));
        let buffer = BUFFERS + (ring * u64::from(SIZE) + slot) * 0x1000;
        let rest = u64::from(len) | u64::from(flags) << 32;
        self.write(base + 16 * slot, &[GUEST + buffer, rest].map(u64::to_le_bytes).concat());
        self.write(base + 0x1004 + 2 * slot, &(slot as u16).to_le_bytes());
        self.write(base + 0x1002, &(index + 1).to_le_bytes());
        buffer
    }

    fn used(&self, ring: u64) -> u16 {
        u16::from_le_bytes(self.read(ring * 0x4000 + 0x2002))
    }

    /// The packet that the switch sent in used entry `seen`; advances `seen` to the entry after the packet.
    fn received(&self, seen: &mut u16) -> Vec<u8> {
        let (mut got, mut left) = (Vec::new(), 1);
        while left > 0 {
            let entry: [u8; 8] = self.read(0x2004 + 8 * u64::from(*seen % SIZE));
            let [head, len] = [0, 4].map(|at| u64::from(entry[at]) + 256 * u64::from(entry[at + 1]));
            let at = BUFFERS + head * 0x1000;
            if got.is_empty() {
                let header: [u8; 12] = self.read(at);
                assert_eq!(header[..10], [0; 10]);
                left = header[10];
            }
            got.extend((0..len).map(|n| self.read::<1>(at + n)[0]));
            (*seen, left) = (*seen + 1, left - 1);
        }
        got.split_off(12)
    }

    /// Makes a packet in two buffers available as entry `index`; the second buffer begins at byte `split` of the packet. Returns the addresses
    /// of both.
    fn send_split(&self, index: u16, packet: &[u8], split: usize) -> [u64; 2] {
        let first = 2 * (u64::from(index) % 4);
        let at = [0, 1].map(|n| BUFFERS + (u64::from(SIZE) + first + n) * 0x1000);
        let parts = [[&[0; 12], &packet[..split]].concat(), packet[split..].to_vec()];
        for (n, (at, part)) in at.iter().zip(&parts).enumerate() {
            self.write(*at, part);
            let next = if n == 0 { 1 << 32 | (first + 1) << 48 } else { 0 };
            let descriptor = [GUEST + at, part.len() as u64 | next].map(u64::to_le_bytes);
            self.write(0x4000 + 16 * (first + n as u64), &descriptor.concat());
        }
        self.write(0x5004 + 2 * u64::from(index % SIZE), &(first as u16).to_le_bytes());
        self.write(0x5002, &(index + 1).to_le_bytes());
        at
    }
}

fn device() -> Arc<Device> {
    Arc::new(Device::new(&Arc::new(PortState::new("/tmp/guest", crate::Notify::default())), false))
}

#[test]
fn a_guest_sends_and_receives() {
    let device = device();
    let mut front = Front::new(&device);
    front.handshake(feature::VERSION_1 | feature::MRG_RXBUF);
    let (mut pool, mut out) = (FramePool::new(8), Vec::new());
    let (mut source, mut sender) =
        (from_guest::FromGuest::new(&device, 0), to_guest::ToGuest::new(&device, 0));
    for n in 0..20u16 {
        let at = front.offer(1, n, 12 + 60, 0);
        front.write(at, &[0; 12]);
        front.write(at + 12, &[n as u8; 60]);
        assert_eq!(source.waiting(), 1);
        let got = source.receive(32, &mut pool, &mut out);
        assert_eq!((got.packets, got.refused, got.interrupts, front.used(1)), (1, 0, 1, n + 1));
        assert_eq!(out.pop().unwrap().bytes(), [n as u8; 60]);

        let at = front.offer(0, n, 2048, 2);
        let packet = [100 + n as u8; 70];
        let mut packets = to_guest::Packets::default();
        let mut sending = sender.begin(&mut packets, 0).unwrap();
        assert!(sending.push(&packet) && sending.push(&packet));
        let mut sent = 0;
        assert_eq!(sending.flush(|bytes, _| sent += bytes.len()), 1, "there is one buffer");
        drop(sending);
        assert_eq!((sent, front.used(0), front.read::<71>(at + 11)[0]), (70, n + 1, 0));
        assert_eq!(front.read::<12>(at)[10], 1, "one buffer");
        assert_eq!(front.read::<70>(at + 12), packet);
    }
    assert_eq!(front.say(GET_VRING_BASE, 0, &pair(1, 0), &[]), Some(pair(1, 20)));
    assert!(device.connected_guest().is_none() && !device.port.guest_sends(0));
    assert!(source.receive(32, &mut pool, &mut out) == crate::Received::default());
}

/// Front-ends may send eventfds of rings before features are negotiated. That does not enable the ring.
#[test]
fn a_ring_starts_when_it_is_enabled() {
    let device = device();
    let mut front = Front::new(&device);
    let mut steps = Front::steps(feature::VERSION_1 | feature::PROTOCOL_FEATURES);
    steps.sort_by_key(|(request, ..)| match *request {
        SET_VRING_CALL => 0,
        SET_VRING_ENABLE => 2,
        _ => 1,
    });
    for step in &steps {
        assert_eq!(
            device.port.guest_sends(0) || device.port.pair_of_sender(0) == Some(0),
            step == &steps[steps.len() - 1]
        );
        front.step(step, 0);
    }
    assert!(device.port.guest_sends(0) && device.connected_guest().is_some());
    // Without protocol features, rings are enabled.
    let (device, mut steps) = (self::device(), Front::steps(feature::VERSION_1));
    steps.retain(|(request, ..)| {
        !matches!(*request, GET_PROTOCOL_FEATURES | SET_PROTOCOL_FEATURES | SET_VRING_ENABLE)
    });
    let mut front = Front::new(&device);
    steps.iter().for_each(|step| drop(front.step(step, 0)));
    assert!(device.port.guest_sends(0) && device.connected_guest().is_some());
}

#[test]
fn a_packet_is_spread_over_buffers_if_the_guest_agreed() {
    let device = device();
    let packet: Vec<u8> = (0..300).map(|n| n as u8).collect();
    for mergeable in [true, false] {
        let mut front = Front::new(&device);
        front.handshake(feature::VERSION_1 | if mergeable { feature::MRG_RXBUF } else { 0 });
        let at: Vec<_> = (0..4).map(|n| front.offer(0, n, 128, 2)).collect();
        let mut sender = to_guest::ToGuest::new(&device, 0);
        let mut packets = to_guest::Packets::default();
        let mut sending = sender.begin(&mut packets, 3).unwrap();
        assert!(sending.push(&packet) && sending.push(&packet[..20]));
        assert_eq!(sending.flush(|_, _| {}), usize::from(!mergeable));
        drop(sending);
        if mergeable {
            assert_eq!((front.used(0), front.read::<12>(at[0])[10]), (4, 3));
            let parts =
                [&front.read::<116>(at[0] + 12)[..], &front.read::<128>(at[1]), &front.read::<56>(at[2])];
            assert_eq!(parts.concat(), packet);
            assert_eq!(front.read::<8>(0x2004 + 16), [2, 0, 0, 0, 56, 0, 0, 0]);
        } else {
            assert_eq!(
                (front.used(0), front.read::<20>(at[0] + 12)),
                (1, *packet[..20].first_chunk().unwrap())
            );
        }
        front.session.close();
        front.session.run();
        assert!(front.session.is_over());
    }
}

/// Changes a frame without its tail as a worker may do, and `bytes` in the same way.
fn change(
    dice: &mut fastrand::Rng,
    pool: &mut FramePool,
    frame: &mut packet::frame::Frame,
    bytes: &mut Vec<u8>,
) {
    match dice.u8(..9) {
        0 => frame.complete(),
        1 => {
            let len = dice.usize(14..2000);
            frame.trim(len);
            bytes.truncate(len);
        }
        2 => {
            frame.push_front(4).unwrap().fill(7);
            bytes.splice(..0, [7; 4]);
        }
        3 => {
            let len = dice.usize(..40);
            frame.pull_front(len).unwrap();
            bytes.drain(..len);
        }
        4 => *frame = pool.copy_of(frame).unwrap(),
        5 => {
            let len = bytes.len();
            frame.push_back(3.min(frame.tailroom())).into_iter().for_each(|more| more.fill(9));
            bytes.resize(frame.len(), 9);
            assert!(bytes.len() >= len);
        }
        _ => {}
    }
}

/// Two guests that receive long packets in several buffers, and their devices.
fn two_guests() -> ([Arc<Device>; 2], [Front; 2]) {
    let devices = [device(), device()];
    let mut fronts = devices.each_ref().map(Front::new);
    fronts.iter_mut().for_each(|front| front.handshake(feature::VERSION_1 | feature::MRG_RXBUF));
    (devices, fronts)
}

/// Packets of many lengths, in one or two buffers, from one guest to another: each arrives as it was sent, and the sender's
/// buffers are returned when the last frame was sent or freed.
#[test]
fn tails_stay_with_their_sender_until_they_are_sent() {
    let mut bursts_with_tails = 0;
    for seed in 0..300 {
        let mut dice = fastrand::Rng::with_seed(seed);
        let (devices, [from, to]) = two_guests();
        let mut source = from_guest::FromGuest::new(&devices[0], 0);
        let mut sender = to_guest::ToGuest::new(&devices[1], 0);
        let (mut pool, mut index, mut offered, mut seen) = (FramePool::new(8), 0, 0, 0);
        for _ in 0..10 {
            (seen..seen + SIZE).skip(usize::from(offered - seen)).for_each(|n| {
                to.offer(0, n, dice.choice([700, 4096]).unwrap(), 2);
            });
            offered = seen + SIZE;
            let shown = index;
            let mut packets: Vec<_> = (0..dice.usize(1..=2))
                .map(|_| {
                    let len = dice.choice([60, 129, 300, 511, 512, 700, 1496, 1984, 1985, 2600]).unwrap();
                    let packet: Vec<u8> = std::iter::repeat_with(|| dice.u8(..)).take(len).collect();
                    from.send_split(
                        index,
                        &packet,
                        dice.choice([len, len, 0, 100, 128, 200]).unwrap().min(len),
                    );
                    index += 1;
                    packet
                })
                .collect();
            let mut frames = Vec::new();
            let got = source.receive_with_leases(32, &mut pool, &mut frames);
            assert_eq!((got.packets, frames.len()), (packets.len(), packets.len()));
            let with_tails = frames.iter().any(|frame| !frame.is_complete());
            assert_eq!(
                (got.needs_return, from.used(1)),
                (with_tails, if with_tails { shown } else { index })
            );
            assert_eq!(devices[0].is_idle(), !with_tails);
            bursts_with_tails += usize::from(with_tails);
            if with_tails {
                assert_eq!(
                    source.receive_with_leases(32, &mut pool, &mut Vec::new()),
                    crate::Received::default()
                );
            }
            frames
                .iter_mut()
                .zip(&mut packets)
                .for_each(|(frame, bytes)| change(&mut dice, &mut pool, frame, bytes));
            let mut count = to_guest::Packets::default();
            let mut sending = sender.begin(&mut count, 0).unwrap();
            assert_eq!(sending.send_frames(&frames, |_, _| {}), 0);
            drop(sending);
            pool.free_all(&mut frames);
            // The buffers can be returned while the device is paused: a message may wait for that.
            devices[0].pause();
            assert_eq!(source.return_buffers(), Some(u64::from(with_tails)));
            devices[0].resume();
            assert_eq!((from.used(1), devices[0].is_idle()), (index, true));
            packets.iter().for_each(|packet| assert_eq!(to.received(&mut seen), packet[..], "seed {seed}"));
        }
    }
    assert!(bursts_with_tails > 1000, "{bursts_with_tails}");
}

/// A guest that changes a packet after the switch has received it changes only the tail.
#[test]
fn what_was_parsed_is_what_is_sent() {
    let (devices, [mut from, to]) = two_guests();
    let mut source = from_guest::FromGuest::new(&devices[0], 0);
    let (mut pool, mut frames) = (FramePool::new(8), Vec::new());
    let at = from.send_split(0, &[1; 1496], 1496)[0];
    to.offer(0, 0, 4096, 2);
    assert!(source.receive_with_leases(32, &mut pool, &mut frames).needs_return);
    from.write(at, &[2; 12 + 1496]);
    let mut sender = to_guest::ToGuest::new(&devices[1], 0);
    let mut packets = to_guest::Packets::default();
    assert_eq!(
        sender.begin(&mut packets, 0).unwrap().send_frames(&frames, |head, len| {
            assert_eq!((head, len), (&[1; 128][..], 1496));
        }),
        0
    );
    assert_eq!(to.received(&mut 0), [[1; 128].as_slice(), &[2; 1368]].concat());
    // A guest disconnects, and a queue is dropped, while a frame has a lease.
    from.session.close();
    from.session.run();
    assert!(!from.session.is_over());
    drop(source);
    from.session.run();
    assert!(from.session.is_over());
    assert_eq!(frames[0].bytes()[128..], [2; 1368]);
}

/// Sends frames at once; returns how many were not sent.
fn unsent(sender: &mut to_guest::ToGuest, frames: &[&[u8]]) -> usize {
    let mut packets = to_guest::Packets::default();
    let mut sending = sender.begin(&mut packets, 0).unwrap();
    assert!(frames.iter().all(|bytes| sending.push(bytes)));
    sending.flush(|_, _| {})
}

/// If fewer buffers are known from the last read of the index than a packet needs, the index is read again.
#[test]
fn a_long_packet_takes_buffers_that_were_offered_after_the_index_was_read() {
    let device = device();
    let mut front = Front::new(&device);
    front.handshake(feature::VERSION_1 | feature::MRG_RXBUF);
    let mut sender = to_guest::ToGuest::new(&device, 0);
    let (short, long, mut offered) = ([1; 20], [2; 600], 0);
    let mut offer = |to: u16| {
        (offered..to).for_each(|n| _ = front.offer(0, n, 128, 2));
        offered = to;
    };
    for round in 0..20 {
        offer(6 * round + 4);
        assert_eq!(unsent(&mut sender, &[&short]), 0);
        // Three buffers are left and known. The packet needs five, so it must not use these three.
        assert_eq!((unsent(&mut sender, &[&long]), front.used(0)), (1, 6 * round + 1));
        offer(6 * round + 8);
        assert_eq!((unsent(&mut sender, &[&long]), front.used(0)), (0, 6 * round + 6), "round {round}");
    }
    // Now three are known again, and the guest lowers its index by two, which no driver does.
    assert_eq!(unsent(&mut sender, &[&short, &short]), 0);
    offer(126);
    assert_eq!((unsent(&mut sender, &[&short]), front.used(0)), (0, 123));
    front.write(0x1002, &124u16.to_le_bytes());
    assert_eq!((unsent(&mut sender, &[&short, &short, &long]), front.used(0)), (1, 125));
}

/// Packets and buffers of many lengths: all packets arrive unchanged and in order.
#[test]
fn packets_of_any_length_arrive_in_buffers_of_any_length() {
    let device = device();
    for seed in 0..200 {
        let mut dice = fastrand::Rng::with_seed(seed);
        let mergeable = dice.bool();
        let mut front = Front::new(&device);
        front.handshake(feature::VERSION_1 | if mergeable { feature::MRG_RXBUF } else { 0 });
        let mut sender = to_guest::ToGuest::new(&device, 0);
        let (mut pool, mut offered, mut seen) = (FramePool::new(8), 0u16, 0u16);
        for _ in 0..20 {
            let free = SIZE - (offered - seen);
            for _ in 0..dice.u16(0..=free) {
                let at = front.offer(0, offered, dice.choice([64, 100, 300, 4096]).unwrap(), 2);
                // The header of an earlier packet, or other bytes.
                front.write(at, &if dice.bool() { [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0] } else { [7; 12] });
                offered += 1;
            }
            let mut frame = || {
                let len = dice.choice([14, 31, 32, 33, 60, 128, 129, 290]).unwrap();
                pool.frame_of(&std::iter::repeat_with(|| dice.u8(..)).take(len).collect::<Vec<_>>())
            };
            let frames: Vec<_> = (0..6).map(|_| frame().unwrap()).collect();
            let mut sent = Vec::new();
            let mut packets = to_guest::Packets::default();
            let mut sending = sender.begin(&mut packets, 3).unwrap();
            let unsent = sending.send_frames(&frames, |bytes, _| sent.push(bytes.to_vec()));
            drop(sending);
            assert_eq!(sent.len() + unsent, frames.len());
            let mut frames = frames.iter();
            for packet in &sent {
                assert!(frames.any(|frame| frame.bytes() == packet), "the order is kept");
                assert_eq!(front.received(&mut seen), packet[..], "seed {seed}");
            }
            assert_eq!(front.used(0), seen, "seed {seed}");
        }
        front.session.close();
        front.session.run();
    }
}

/// A packet with 1,000 bytes of payload, its virtio header for segments of 400 bytes, and the same header parsed.
fn large(kind: GsoKind) -> (Vec<u8>, [u8; 12], Offload) {
    let (start, offset, headers) = match (kind.is_v6(), kind.is_tcp()) {
        (false, true) => (34u8, 16u8, 54u8),
        (true, true) => (54, 16, 74),
        (false, false) => (34, 6, 42),
        (true, false) => (54, 6, 62),
    };
    let mut packet = vec![0u8; usize::from(headers) + 1000];
    let len = packet.len() as u16 - u16::from(start);
    let protocol = if kind.is_tcp() { 6 } else { 17 };
    if kind.is_v6() {
        packet[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        packet[18..20].copy_from_slice(&len.to_be_bytes());
        packet[20] = protocol;
    } else {
        packet[12..15].copy_from_slice(&[8, 0, 0x45]);
        packet[16..18].copy_from_slice(&(20 + len).to_be_bytes());
        packet[23] = protocol;
    }
    if kind.is_tcp() {
        packet[usize::from(start) + 12] = 0x50;
    } else {
        packet[usize::from(start) + 4..][..2].copy_from_slice(&len.to_be_bytes());
    }
    let gso_type = [1, 4, 5, 5][kind as usize];
    let csum = Some(PartialChecksum { start: start.into(), offset: offset.into() });
    let offload = Offload { csum, gso: Some(Gso { kind, size: 400, ecn: false }) };
    (packet, [1, gso_type, headers, 0, 144, 1, start, 0, offset, 0, 0, 0], offload)
}

/// The features for this kind in both directions.
fn features_for(kind: GsoKind) -> u64 {
    feature::CSUM
        | feature::GUEST_CSUM
        | match kind {
            GsoKind::Tcp4 => feature::HOST_TSO4 | feature::GUEST_TSO4,
            GsoKind::Tcp6 => feature::HOST_TSO6 | feature::GUEST_TSO6,
            GsoKind::Udp4 => feature::HOST_USO | feature::GUEST_USO4,
            GsoKind::Udp6 => feature::HOST_USO | feature::GUEST_USO6,
        }
}

/// The guest sends a packet with this virtio header; returns what the switch has received.
fn receive(front: &mut Front, header: &[u8; 12], packet: &[u8]) -> (crate::Received, Vec<Frame>) {
    let at = front.offer(1, 0, 12 + packet.len() as u32, 0);
    front.write(at, &[&header[..], packet].concat());
    let (mut pool, mut out) = (FramePool::new(8), Vec::new());
    let got = from_guest::FromGuest::new(&front.device, 0).receive(32, &mut pool, &mut out);
    (got, out)
}

#[test]
fn offloads_travel_both_ways() {
    let device = device();
    // Each kind needs its own features and those of checksums (virtio 1.3, 5.1.3.1).
    let sums = feature::CSUM | feature::GUEST_CSUM;
    let cases = GsoKind::ALL.into_iter().flat_map(|kind| {
        let features = features_for(kind);
        let others = GsoKind::ALL.into_iter().filter(|other| other.is_tcp() != kind.is_tcp());
        let others = others.map(features_for).fold(0, |all, features| all | features);
        [(features, true), (features & !sums, false), (sums, false), (others, false)].map(|case| (kind, case))
    });
    for (kind, (features, agreed)) in cases {
        let (packet, header, open) = large(kind);
        let mut front = Front::new(&device);
        front.handshake(feature::VERSION_1 | features);
        let (got, out) = receive(&mut front, &header, &packet);
        let mut pool = FramePool::new(8);
        assert_eq!((got.packets, got.refused, out.len()), (1, usize::from(!agreed), usize::from(agreed)));
        assert!(out.iter().all(|frame| frame.offload() == open && frame.bytes() == packet));
        let at = front.offer(0, 0, 4096, 2);
        let frame = pool.frame_of(&packet).unwrap();
        let mut sender = to_guest::ToGuest::new(&device, 0);
        let mut packets = to_guest::Packets::default();
        let mut sending = sender.begin(&mut packets, 0).unwrap();
        let supported = sending.supports(&packet, packet.len(), &open);
        assert_eq!((supported, sending.push_with_offload(&frame, &open)), (agreed, agreed));
        assert_eq!(sending.flush(|_, _| {}), 0);
        drop(sending);
        let mut sent = header;
        sent[10] = 1;
        assert_eq!(front.read::<12>(at), if agreed { sent } else { [0; 12] });
        front.session.close();
        front.session.run();
    }
}

/// Packets of a guest whose virtio headers request segmentation that their headers do not allow.
#[test]
fn lies_about_segmentation_are_refused() {
    let device = device();
    let all = GsoKind::ALL.map(features_for).into_iter().fold(0, |all, features| all | features);
    let (tcp, tcp_header, _) = large(GsoKind::Tcp4);
    let (udp, udp_header, open) = large(GsoKind::Udp4);
    let (udp6, udp6_header, open6) = large(GsoKind::Udp6);
    let with = |bytes: &[u8; 12], changes: &[(usize, u8)]| {
        let mut bytes = *bytes;
        changes.iter().for_each(|(at, byte)| bytes[*at] = *byte);
        bytes
    };
    let mut fragment = udp.clone();
    fragment[20] = 0x20;
    let mut tagged = udp.clone();
    (0..5).for_each(|_| drop(tagged.splice(12..12, [0x81, 0, 0, 5])));
    let mut in_tunnel = udp.clone();
    in_tunnel.splice(42..42, [0; 42]);
    let many = [&udp[..42], &[7; 129 * 8]].concat();
    let refused: [(&[u8], [u8; 12]); 13] = [
        (&tcp, with(&tcp_header, &[(1, 5)])),
        (&udp, with(&udp_header, &[(1, 1)])),
        // Another offset of the checksum; another start.
        (&udp, with(&udp_header, &[(8, 16)])),
        (&udp, with(&udp_header, &[(6, 30)])),
        // No segment size; UDP fragmentation; congestion notification, which UDP has not.
        (&udp, with(&udp_header, &[(4, 0), (5, 0)])),
        (&udp, with(&udp_header, &[(1, 3)])),
        (&udp, with(&udp_header, &[(1, 0x85)])),
        (&fragment, udp_header),
        (&tagged, with(&udp_header, &[(6, 54)])),
        (&in_tunnel, with(&udp_header, &[(6, 76)])),
        // 129 segments; a UDP header that is cut off, and one that is missing.
        (&many, with(&udp_header, &[(4, 8), (5, 0)])),
        (&udp[..41], udp_header),
        (&udp6[..54], udp6_header),
    ];
    let mut options = udp.clone();
    options[14] = 0x46;
    options.splice(34..34, [1, 1, 1, 0]);
    let mut extension = udp6.clone();
    extension[20] = 60;
    extension.splice(54..54, [17, 0, 1, 4, 0, 0, 0, 0]);
    let moved = |offload: Offload, by| {
        let mut offload = offload;
        offload.shift(by);
        offload
    };
    let accepted: [(&[u8], [u8; 12], Offload); 5] = [
        (&many[..42 + 128 * 8], with(&udp_header, &[(4, 8), (5, 0)]), sized(open, 8)),
        // The payload is not longer than a segment: nothing has to be segmented.
        (&udp, with(&udp_header, &[(4, 232), (5, 3)]), Offload { gso: None, ..open }),
        (&udp, with(&udp_header, &[(4, 255), (5, 255)]), Offload { gso: None, ..open }),
        (&options, with(&udp_header, &[(6, 38)]), moved(open, 4)),
        (&extension, with(&udp6_header, &[(6, 62)]), moved(open6, 8)),
    ];
    let accepted = accepted.map(|(packet, header, offload)| (packet, header, Some(offload)));
    let cases = refused.map(|(packet, header)| (packet, header, None)).into_iter().chain(accepted);
    for (at, (packet, header, offload)) in cases.enumerate() {
        let mut front = Front::new(&device);
        front.handshake(feature::VERSION_1 | all);
        let (got, out) = receive(&mut front, &header, packet);
        assert_eq!((got.packets, got.refused), (1, usize::from(offload.is_none())), "case {at}");
        assert_eq!(out.first().map(Frame::offload), offload, "case {at}");
        // The connection goes on: a driver may be wrong about one packet.
        assert!(!front.session.is_over());
        front.session.close();
        front.session.run();
    }
}

/// The same request with another segment size.
fn sized(offload: Offload, size: u16) -> Offload {
    Offload { gso: offload.gso.map(|gso| Gso { size, ..gso }), ..offload }
}

#[test]
fn what_is_written_during_a_migration_is_logged() {
    let device = device();
    let mut front = Front::new(&device);
    let features = feature::VERSION_1 | feature::MRG_RXBUF | feature::PROTOCOL_FEATURES;
    front.handshake(features);
    // One bit for each page of 2 GB.
    let log = file(1 << 16);
    let place = [long(1 << 16), long(0)].concat();
    assert_eq!(front.say(SET_LOG_BASE, 0, &place, &[log.as_fd()]), Some(vec![]));
    let marked = || {
        let mut bytes = vec![0; 1 << 16];
        rustix::io::pread(&log, &mut bytes, 0).unwrap();
        (0..bytes.len()).filter(|n| bytes[*n] != 0).map(|n| (n, bytes[n])).collect::<Vec<_>>()
    };
    let mut used = address(0);
    used[4] = 1;
    used[32..].copy_from_slice(&long(GUEST + 0x2000));
    assert_eq!(front.reported(SET_VRING_ADDR, &used, &[]), Some(true));
    let mut sender = to_guest::ToGuest::new(&device, 0);
    for (index, flag, expected) in [(0, 0, vec![]), (1, feature::LOG_ALL, vec![(0x8000, 4), (0x8004, 2)])] {
        assert_eq!(front.reported(SET_FEATURES, &long(features | flag), &[]), Some(true));
        front.offer(0, index, 2048, 2);
        let mut packets = to_guest::Packets::default();
        let mut sending = sender.begin(&mut packets, 0).unwrap();
        assert!(sending.push(&[7; 60]));
        assert_eq!((sending.flush(|_, _| {}), front.used(0)), (0, index + 1));
        drop(sending);
        assert_eq!(marked(), expected);
    }
}

#[test]
fn memory_changes_only_when_no_worker_is_inside() {
    let device = device();
    let mut front = Front::new(&device);
    front.handshake(feature::VERSION_1);
    let access = device.enter(1).unwrap();
    let other = file(MEMORY);
    assert_eq!(front.reported(SET_MEM_TABLE, &table(&[whole()]), &[other.as_fd()]), None);
    assert!(device.enter(0).is_none() && front.session.next_check_in(std::time::Instant::now()).is_some());
    let old = front.offer(1, 0, 72, 0);
    assert_eq!(access.available(), Ok(1), "the worker still has the old memory, at {old:#x}");
    drop(access);
    front.session.run();
    assert_eq!(front.reply(), Some(vec![0; 8]));
    assert_eq!(device.enter(1).unwrap().available(), Ok(0));
    // A table without the rings is refused, and the memory stays.
    let elsewhere = [GUEST, MEMORY, 0x1000, 0];
    assert_eq!(front.reported(SET_MEM_TABLE, &table(&[elsewhere]), &[other.as_fd()]), Some(false));
    // Memory that is plugged in and out.
    let slot = |guest| [long(0), [guest, 4096, guest, 0].map(u64::to_ne_bytes).concat()].concat();
    assert_eq!(front.say(GET_MAX_MEM_SLOTS, 0, &[], &[]), Some(long(32)));
    // QEMU sends each region for each queue pair.
    for _ in 0..2 {
        assert_eq!(front.reported(ADD_MEM_REG, &slot(0x1000), &[other.as_fd()]), Some(true));
    }
    assert_eq!(front.reported(ADD_MEM_REG, &slot(0x1000), &[file(MEMORY).as_fd()]), Some(false));
    assert_eq!(front.reported(ADD_MEM_REG, &slot(0x1800), &[other.as_fd()]), Some(false));
    for _ in 0..2 {
        assert_eq!(front.reported(REM_MEM_REG, &slot(0x1000), &[]), Some(true));
    }
    assert_eq!(
        front.reported(REM_MEM_REG, &[long(0), whole().map(u64::to_ne_bytes).concat()].concat(), &[]),
        Some(false)
    );
    assert!(device.enter(1).is_some());
}

#[test]
fn an_invalid_ring_ends_the_connection() {
    let device = device();
    let mut front = Front::new(&device);
    front.handshake(feature::VERSION_1);
    front.write(0x4000 + 0x1002, &100u16.to_le_bytes());
    let (mut pool, mut out) = (FramePool::new(8), Vec::new());
    let mut source = from_guest::FromGuest::new(&device, 0);
    assert_eq!(source.receive(32, &mut pool, &mut out), crate::Received::default());
    front.session.run();
    assert!(front.session.is_over() && device.connected_guest().is_none() && device.port.pairs() == 1);
    // The next guest is served.
    Front::new(&device).handshake(feature::VERSION_1);
}

#[test]
fn a_guest_that_moved_is_announced() {
    let device = device();
    let mut front = Front::new(&device);
    front.handshake(feature::VERSION_1);
    assert_eq!(front.reported(SEND_RARP, &[2, 0, 0, 0, 0, 9, 0, 0], &[]), Some(true));
    let (mut pool, mut out) = (FramePool::new(8), Vec::new());
    let mut source = from_guest::FromGuest::new(&device, 0);
    assert_eq!(source.receive(32, &mut pool, &mut out).packets, 1);
    assert_eq!(out[0].bytes()[6..14], [2, 0, 0, 0, 0, 9, 0x80, 0x35]);
    assert_eq!(source.receive(32, &mut pool, &mut out).packets, 0);
}

/// One step of a session by seed.
fn any_step(
    dice: &mut fastrand::Rng,
    steps: &[(u32, Vec<u8>, Option<usize>)],
) -> (u32, Vec<u8>, Option<usize>) {
    let mut step = dice.choice(steps).unwrap().clone();
    match dice.u8(..9) {
        // Another request with this payload, another payload, another descriptor.
        0 => step.0 = dice.u32(..45),
        1 if !step.1.is_empty() => {
            let at = dice.usize(..step.1.len());
            step.1[at] = dice.choice([0, 1, 2, 7, 8, 0x7f, 0x80, 0xff]).unwrap();
        }
        2 => step.1.truncate(dice.usize(..=step.1.len())),
        3 => step.1 = (0..dice.usize(..80)).map(|_| dice.u8(..)).collect(),
        4 => step.2 = [None, Some(usize::MAX), Some(dice.usize(..8))][dice.usize(..3)],
        5 => step = (GET_VRING_BASE, pair(dice.u32(..3), 0), None),
        6 => step = (SET_VRING_ENABLE, pair(dice.u32(..3), dice.u32(..2)), None),
        7 => {
            // An inflight area, or memory that is none: perhaps the rings themselves.
            let sizes = [dice.choice([0, 1, 2, 3]).unwrap(), dice.choice([0, 8, 16, 0x8000]).unwrap()];
            let place = [dice.choice([0, 320, 640, MEMORY, 1 << 62]).unwrap(), 64 * dice.u64(..0x400)];
            step.1 = place.map(u64::to_ne_bytes).concat();
            step.1.extend(sizes.map(u16::to_ne_bytes).concat());
            (step.0, step.2) =
                if dice.bool() { (GET_INFLIGHT_FD, None) } else { (SET_INFLIGHT_FD, Some(usize::MAX)) };
        }
        _ => {}
    }
    step
}

/// A guest sends any message at any time and writes any data into its rings, while workers access them. Afterwards the port serves
/// the next guest.
#[test]
fn sessions_by_seed() {
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let (first, sessions) = (number("VHOST_SEED").unwrap_or(0), number("VHOST_SESSIONS").unwrap_or(400));
    // Packets both ways, and connections that the switch ended.
    let mut seen = [0usize; 3];
    for seed in first..first + sessions {
        let mut dice = fastrand::Rng::with_seed(seed);
        let device = device();
        let mut front = Front::new(&device);
        let mut features = feature::VERSION_1 | feature::PROTOCOL_FEATURES;
        features |= FEATURES & dice.u64(..);
        let mut steps = Front::steps(features);
        if dice.bool() {
            // Buffers of guests with an inflight area are held.
            let area = [&[0; 16][..], &2u16.to_ne_bytes(), &SIZE.to_ne_bytes()].concat();
            steps.insert(6, (GET_INFLIGHT_FD, area, None));
        }
        let (mut pool, mut out) = (FramePool::new(8), Vec::new());
        let mut source = from_guest::FromGuest::new(&device, 0);
        let mut sender = to_guest::ToGuest::new(&device, 0);
        // The larger `rare`, the rarer are random steps and random bytes in the rings: the rings must often be in use.
        let rare = dice.choice([6, 40, 300]).unwrap();
        let mut next = 0;
        for _ in 0..150 {
            match dice.u8(..10) {
                0..4 => {
                    let step = match dice.u16(..rare) {
                        0 => any_step(&mut dice, &steps),
                        _ => match steps.get(next) {
                            Some(step) => step.clone(),
                            None => continue,
                        },
                    };
                    next += 1;
                    let held = device.enter(dice.usize(..3)).filter(|_| dice.u8(..4) == 0);
                    let need_reply = if dice.bool() { NEED_REPLY } else { 0 };
                    front.step(&step, need_reply);
                    drop(held);
                    front.session.run();
                }
                4 => {
                    let (ring, index) =
                        (dice.u64(..2), front.used(dice.u64(..2)).wrapping_add(dice.u16(..2)));
                    let flags = if dice.u16(..rare) < 6 { dice.u16(..8) } else { [2, 0][ring as usize] };
                    front.offer(ring, index, dice.u32(..3000), flags);
                }
                5 if dice.u16(..rare) < 6 => front.write(dice.u64(..0x8000), &dice.u64(..).to_ne_bytes()),
                6 if dice.bool() => {
                    seen[0] += source.receive(32, &mut pool, &mut out).packets;
                    pool.free_all(&mut out);
                }
                // As in a worker, tails stay in guest memory, and buffers are held, until the packets were sent.
                6 => {
                    seen[0] += source.receive_with_leases(32, &mut pool, &mut out).packets;
                    front.session.run();
                    let mut packets = to_guest::Packets::default();
                    if let Some(mut sending) = sender.begin(&mut packets, 2) {
                        sending.send_frames(&out, |_, _| seen[1] += 1);
                    }
                    pool.free_all(&mut out);
                    assert!(source.return_buffers().is_some(), "seed {seed}");
                }
                7 => {
                    let packet = vec![1; dice.usize(14..4000)];
                    let mut packets = to_guest::Packets::default();
                    if let Some(mut sending) = sender.begin(&mut packets, 2) {
                        sending.push(&packet);
                        sending.flush(|_, _| seen[1] += 1);
                    }
                }
                8 => drop(source.arm(dice.bool())),
                _ => front.session.run(),
            }
            if front.session.is_over() {
                (seen[2], next) = (seen[2] + 1, 0);
                front = Front::new(&device);
            }
        }
        front.session.close();
        front.session.run();
        assert!(front.session.is_over(), "seed {seed}");
        assert!(device.slots.iter().all(|slot| slot.ring.try_lock().unwrap().is_none()), "seed {seed}");
        assert_eq!(
            (device.port.pair_of_sender(0), device.port.guest_sends(0), device.port.pairs()),
            (None, false, 1)
        );
        Front::new(&device).handshake(feature::VERSION_1);
    }
    assert!(seen.iter().all(|n| *n > 0), "{seen:?}");
    println!("packets received and sent, connections that ended: {seen:?}");
}

/// Random bytes in the rings and in the buffers that they name.
#[test]
fn rings_by_seed() {
    for seed in 0..2000 {
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut content = vec![0u8; 1 + crate::fuzz_rings::MEMORY];
        content[0] = dice.u8(..);
        // Plausible descriptors, then a few arbitrary bytes.
        for n in 0..usize::from(crate::fuzz_rings::SIZE) {
            let address = dice.u64(..crate::fuzz_rings::MEMORY as u64 + 100);
            let len = dice.choice([0u32, 12, 16, 32, 60, 72, 1500, 9000]).unwrap();
            let rest = u64::from(len) | dice.u64(..8) << 32 | dice.u64(..17) << 48;
            content[1 + 16 * n..][..16].copy_from_slice(&[address, rest].map(u64::to_le_bytes).concat());
        }
        if content[0] & 0x80 != 0 {
            // Flags of a packed ring that make most descriptors available.
            for n in 0..usize::from(crate::fuzz_rings::SIZE) {
                let at = 1 + 16 * n + 14;
                let wrap = if dice.u8(..8) == 0 { 0x8000 } else { 0x80 };
                content[at..at + 2].copy_from_slice(&(dice.u16(..8) | wrap).to_le_bytes());
            }
        }
        let available = 1 + crate::fuzz_rings::RING[1] as usize;
        content[available + 2] = dice.u8(..18);
        for slot in content[available + 4..][..32].chunks_mut(2) {
            slot[0] = dice.u8(..17);
        }
        for _ in 0..dice.usize(..20) {
            let at = dice.usize(..content.len().min(0xc00));
            content[at] = dice.u8(..);
        }
        crate::fuzz_rings::run(&content);
    }
}
