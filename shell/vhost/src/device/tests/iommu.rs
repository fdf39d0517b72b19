//! Guests with an IOMMU: translations that are missing, arrive and are invalidated, and front-ends that send invalid ones.

use super::*;
use crate::address_space::MISSES_MAX;
use std::collections::BTreeMap;

const READ: u8 = 1;
const WRITE: u8 = 2;
const BOTH: u8 = 3;
const UPDATE: u8 = 2;
const INVALIDATE: u8 = 3;
const PAGE: u64 = 4096;
/// Bytes of a request on the channel: header and payload.
const REQUEST: usize = 12 + 32;

/// A guest with an IOMMU. The I/O virtual addresses of its memory begin at `GUEST`, like the guest-physical ones.
struct Translated {
    front: Front,
    /// The front-end's end of the channel for requests of the switch.
    channel: UnixStream,
}

fn iommu_device() -> Arc<Device> {
    Arc::new(Device::new(&Arc::new(PortState::new("/tmp/guest", crate::Notify::default())), true))
}

fn message(kind: u8, iova: u64, size: u64, user: u64, access: u8) -> Vec<u8> {
    [long(iova), long(size), long(user), vec![access, kind], vec![0; 6]].concat()
}

impl Translated {
    /// A guest whose rings are configured; none of their memory is translated.
    fn new(device: &Arc<Device>, features: u64) -> Translated {
        let (channel, theirs) = UnixStream::pair().unwrap();
        channel.set_nonblocking(true).unwrap();
        let mut front = Front::new(device);
        for mut step in Translated::steps(features) {
            let reply = match step.0 {
                SET_SLAVE_REQ_FD => front.say(step.0, NEED_REPLY, &[], &[theirs.as_fd()]),
                SET_VRING_ADDR => {
                    step.1 = ring_address(step.1[0]);
                    front.step(&step, NEED_REPLY)
                }
                _ => front.step(&step, NEED_REPLY),
            };
            assert!(
                reply.is_some_and(
                    |reply| matches!(step.0, GET_FEATURES | GET_PROTOCOL_FEATURES) || reply == [0; 8]
                ),
                "{step:?}"
            );
        }
        Translated { front, channel }
    }

    fn steps(features: u64) -> Vec<(u32, Vec<u8>, Option<usize>)> {
        let features = features | feature::VERSION_1 | feature::PROTOCOL_FEATURES | feature::ACCESS_PLATFORM;
        let mut steps = Front::steps(features);
        steps[2].1 = long(PROTOCOL_FEATURES & !feature::protocol::STATUS | feature::protocol::BACKEND_REQ);
        steps.insert(3, (SET_SLAVE_REQ_FD, vec![], None));
        steps
    }

    /// A guest whose rings run. Their memory is translated, that of the buffers is not.
    fn running(device: &Arc<Device>, features: u64) -> Translated {
        let mut guest = Translated::new(device, features);
        guest.update(0, 0x8000, BOTH);
        assert!(device.connected_guest().is_some());
        guest.requests();
        guest
    }

    /// The pages that the switch has requested since the last call, with their access.
    fn requests(&mut self) -> Vec<(u64, u8)> {
        let mut requests = Vec::new();
        loop {
            self.front.session.run();
            let mut bytes = [0; 64 * REQUEST];
            let Ok(n) = self.channel.read(&mut bytes) else { return requests };
            for bytes in bytes[..n].chunks(REQUEST) {
                assert_eq!((&bytes[..4], bytes[12 + 25]), (&word(1)[..], 1), "a miss");
                let page = u64::from_ne_bytes(*bytes[12..].first_chunk().unwrap());
                requests.push((page.wrapping_sub(GUEST), bytes[12 + 24]));
            }
            if n == 0 {
                return requests;
            }
        }
    }

    /// Translates `size` bytes at `at` to the same offset of the memory.
    fn update(&mut self, at: u64, size: u64, access: u8) {
        assert_eq!(self.iotlb(message(UPDATE, GUEST + at, size, USER + at, access)), Some(true));
    }

    fn invalidate(&mut self, at: u64, size: u64) {
        assert_eq!(self.iotlb(message(INVALIDATE, GUEST + at, size, 0, 0)), Some(true));
    }

    fn iotlb(&mut self, message: Vec<u8>) -> Option<bool> {
        self.front.reported(IOTLB_MSG, &message, &[])
    }

    /// Offers a packet that the guest sends, of 60 bytes `n`, in entry `n`; returns the address of its buffer.
    fn offer_packet(&self, n: u16) -> u64 {
        let at = self.front.offer(1, n, 72, 0);
        self.front.write(at, &[&[0; 12], &[n as u8; 60][..]].concat());
        at
    }
}

fn ring_address(ring: u8) -> Vec<u8> {
    let base = GUEST + u64::from(ring) * 0x4000;
    [pair(ring.into(), 0), long(base), long(base + 0x2000), long(base + 0x1000), long(0)].concat()
}

/// Receives once; the first byte of each packet.
fn receive(source: &mut from_guest::FromGuest, pool: &mut FramePool) -> Vec<u8> {
    let mut out = Vec::new();
    let got = source.receive_with_leases(32, pool, &mut out);
    assert!(!got.needs_return && out.iter().all(packet::frame::Frame::is_complete), "no tail is leased");
    let first = out.iter().map(|frame| frame.bytes()[0]).collect();
    pool.free_all(&mut out);
    first
}

#[test]
fn a_ring_starts_when_its_memory_is_translated() {
    for packed in [0, feature::RING_PACKED] {
        let device = iommu_device();
        let mut guest = Translated::new(&device, packed);
        let mut wanted = guest.requests();
        wanted.sort_unstable();
        let pages: Vec<u64> = wanted.iter().map(|(page, _)| *page).collect();
        assert_eq!(pages, [0, 0x1000, 0x2000, 0x4000, 0x5000, 0x6000]);
        for (page, access) in wanted {
            assert!(device.connected_guest().is_none());
            guest.update(page, PAGE, access);
        }
        assert!(
            device.connected_guest().is_some()
                && device.port.guest_sends(0)
                && device.port.pair_of_sender(0) == Some(0)
        );
        assert!(guest.requests().is_empty());
        assert!(device.enter(0).is_some() && device.enter(1).is_some());
        // The front-end stops the rings: its translations may become invalid without a message.
        assert!(guest.front.say(GET_VRING_BASE, 0, &pair(1, 0), &[]).is_some());
        assert!(device.connected_guest().is_none());
        for mut step in Translated::steps(packed).split_off(13) {
            if step.0 == SET_VRING_ADDR {
                step.1 = ring_address(1);
            }
            assert_eq!(guest.front.step(&step, NEED_REPLY), Some(vec![0; 8]), "{step:?}");
        }
        assert!(
            device.connected_guest().is_none()
                && guest.requests().contains(&(0x4000, if packed == 0 { READ } else { BOTH }))
        );
    }
}

#[test]
fn packets_wait_in_their_ring_for_translations() {
    let device = iommu_device();
    let mut guest = Translated::running(&device, 0);
    let (mut source, mut pool) = (from_guest::FromGuest::new(&device, 0), FramePool::new(8));
    let buffers = [0, 1, 2, 3].map(|n| guest.offer_packet(n));
    guest.update(buffers[0], 72, READ);
    assert_eq!(receive(&mut source, &mut pool), [0], "the burst ends at the first missing one");
    assert_eq!(guest.requests(), buffers[1..].iter().map(|at| (*at, READ)).collect::<Vec<_>>());
    assert!((0..10).all(|_| receive(&mut source, &mut pool).is_empty()) && guest.requests().is_empty());
    guest.update(buffers[2], PAGE, READ);
    assert_eq!((receive(&mut source, &mut pool), guest.requests()), (vec![], vec![]), "the order is kept");
    guest.update(buffers[1], PAGE, BOTH);
    assert_eq!((receive(&mut source, &mut pool), guest.front.used(1)), (vec![1, 2], 3));
    guest.update(buffers[3], PAGE, READ);
    assert_eq!((receive(&mut source, &mut pool), guest.front.used(1)), (vec![3], 4));
}

/// A packet in two pages that are not adjacent in the front-end's memory.
#[test]
fn a_buffer_may_cross_translations() {
    let device = iommu_device();
    let mut guest = Translated::running(&device, 0);
    let (mut source, mut pool, mut out) =
        (from_guest::FromGuest::new(&device, 0), FramePool::new(8), Vec::new());
    let at = guest.front.offer(1, 0, 12 + 5000, 0);
    let packet: Vec<u8> = (0..5012).map(|n| if n < 12 { 0 } else { n as u8 }).collect();
    guest.front.write(at, &packet[..4096]);
    guest.front.write(0xf0000, &packet[4096..]);
    assert_eq!(source.receive(32, &mut pool, &mut out).packets, 0);
    assert_eq!(guest.requests(), [(at, READ), (at + PAGE, READ)]);
    guest.update(at, PAGE, READ);
    assert_eq!(guest.iotlb(message(UPDATE, GUEST + at + PAGE, PAGE, USER + 0xf0000, READ)), Some(true));
    assert_eq!(source.receive(32, &mut pool, &mut out).packets, 1);
    assert_eq!(out[0].bytes(), &packet[12..]);
}

#[test]
fn packets_for_untranslated_buffers_are_not_sent() {
    let device = iommu_device();
    let mut guest = Translated::running(&device, feature::MRG_RXBUF);
    let mut sender = to_guest::ToGuest::new(&device, 0);
    let buffers = [0, 1, 2].map(|n| guest.front.offer(0, n, 128, 2));
    assert_eq!((unsent(&mut sender, &[&[1; 60]]), guest.front.used(0)), (1, 0));
    // All buffers of the next burst are requested.
    assert_eq!(guest.requests(), buffers.map(|at| (at, WRITE)));
    guest.update(buffers[0], PAGE, WRITE);
    guest.update(buffers[2], PAGE, WRITE);
    assert_eq!((unsent(&mut sender, &[&[2; 60], &[3; 60]]), guest.front.used(0)), (1, 1));
    assert_eq!(guest.front.read::<60>(buffers[0] + 12), [2; 60]);
    // A packet in several buffers, of which one is missing: nothing is written.
    assert_eq!((unsent(&mut sender, &[&[4; 200]]), guest.front.used(0)), (1, 1));
    assert_eq!(guest.front.read::<12>(buffers[2]), [0; 12]);
    guest.update(buffers[1], PAGE, BOTH);
    let mut seen = 1;
    assert_eq!(unsent(&mut sender, &[&[5; 200]]), 0);
    assert_eq!(guest.front.received(&mut seen), [5; 200]);
    // After an invalidation the next buffers are requested before a packet arrives.
    let at = guest.front.offer(0, 3, 128, 2);
    guest.invalidate(BUFFERS, 0x10000);
    assert_eq!(guest.requests(), [(at, WRITE)]);
    guest.update(at, PAGE, WRITE);
    assert_eq!(unsent(&mut sender, &[&[6; 60]]), 0);
}

/// The reply to an invalidation comes when the last burst that may use the old translation has ended, and other bursts go on meanwhile.
#[test]
fn an_invalidation_waits_for_bursts_in_progress() {
    let device = iommu_device();
    let mut guest = Translated::running(&device, 0);
    let (mut source, mut pool) = (from_guest::FromGuest::new(&device, 0), FramePool::new(8));
    let at = guest.offer_packet(0);
    guest.update(at, PAGE, READ);
    let access = device.enter(0).unwrap();
    assert_eq!(guest.iotlb(message(INVALIDATE, GUEST + at, PAGE, 0, 0)), None, "a worker is in ring 0");
    assert!(guest.front.session.next_check_in(std::time::Instant::now()).is_some());
    drop(access);
    guest.front.session.run();
    assert_eq!(guest.front.reply(), Some(vec![0; 8]));
    assert_eq!((receive(&mut source, &mut pool), guest.requests()), (vec![], vec![(at, READ)]));
    // The same address is another page now.
    guest.front.write(0xf0000, &[&[0; 12], &[9; 60][..]].concat());
    assert_eq!(guest.iotlb(message(UPDATE, GUEST + at, PAGE, USER + 0xf0000, READ)), Some(true));
    assert_eq!(receive(&mut source, &mut pool), [9]);
    // An update that replaces a translation is a change like an invalidation.
    let access = device.enter(1).unwrap();
    assert_eq!(guest.iotlb(message(UPDATE, GUEST + at, PAGE, USER + at, READ)), None);
    drop(access);
    guest.front.session.run();
    assert_eq!(guest.front.reply(), Some(vec![0; 8]));
}

#[test]
fn a_ring_whose_own_memory_is_invalidated_continues_at_its_position() {
    for packed in [0, feature::RING_PACKED] {
        let device = iommu_device();
        let mut guest = Translated::running(&device, packed);
        guest.update(BUFFERS, MEMORY - BUFFERS, BOTH);
        let (mut source, mut pool) = (from_guest::FromGuest::new(&device, 0), FramePool::new(8));
        let changes = device.port.changes();
        if packed == 0 {
            guest.offer_packet(0);
            assert_eq!(receive(&mut source, &mut pool), [0]);
        }
        // All translations, as the guest's IOMMU flushes them.
        assert_eq!(guest.iotlb(message(INVALIDATE, 0, 0, 0, 0)), Some(true));
        assert!(device.enter(0).is_none() && device.enter(1).is_none());
        assert!(
            device.port.guest_sends(0)
                && device.connected_guest().is_some()
                && device.port.changes() == changes
        );
        assert!(!guest.requests().is_empty(), "the rings request their memory without a worker");
        guest.update(0, 0x8000, BOTH);
        assert!(device.enter(0).is_some() && device.enter(1).is_some());
        if packed == 0 {
            let at = guest.offer_packet(1);
            assert_eq!((receive(&mut source, &mut pool), guest.requests()), (vec![], vec![(at, READ)]));
            guest.update(at, PAGE, READ);
            assert_eq!((receive(&mut source, &mut pool), guest.front.used(1)), (vec![1], 2));
        }
        // The ring moves: the same addresses are other memory.
        let mut content = [0; 0x4000];
        guest.front.memory.part(GUEST + 0x4000, 0x4000, &mut 0).unwrap().read(&mut content);
        guest.front.write(0xf0000, &content);
        assert_eq!(guest.iotlb(message(UPDATE, GUEST + 0x4000, 0x4000, USER + 0xf0000, BOTH)), Some(true));
        guest.front.write(0x4000, &[0xff; 0x4000]);
        assert!(receive(&mut source, &mut pool).is_empty() && device.invalid().is_none());
        // Memory without the right to write is not the ring's any more.
        guest.update(0, 0x8000, READ);
        assert!(device.enter(0).is_none() && device.enter(1).is_none());
    }
}

/// A worker that sleeps wakes up when the translation for which its ring waits has arrived.
#[test]
fn a_sleeping_worker_is_woken() {
    let readable = |fd: &OwnedFd| {
        let mut fds = [rustix::event::PollFd::new(fd, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&rustix::event::Timespec::default())) == Ok(1)
    };
    let device = iommu_device();
    let mut guest = Translated::running(&device, 0);
    let (mut source, mut pool) = (from_guest::FromGuest::new(&device, 0), FramePool::new(8));
    let at = guest.offer_packet(0);
    assert!(receive(&mut source, &mut pool).is_empty() && source.arm(true));
    let fd = source.kick_fd().unwrap();
    assert!(!readable(&fd));
    guest.update(at, PAGE, READ);
    assert!(readable(&fd));
    source.arm(false);
    assert!(!readable(&fd) && receive(&mut source, &mut pool) == [0]);
    // The worker of a ring that waits for its own memory is woken, too.
    guest.invalidate(0x4000, PAGE);
    source.arm(true);
    source.arm(false);
    source.arm(true);
    assert!(!readable(&fd));
    guest.update(0x4000, PAGE, BOTH);
    assert!(readable(&fd));
}

#[test]
fn invalid_translations_are_refused() {
    let device = iommu_device();
    let mut guest = Translated::running(&device, 0);
    let bad = [
        message(UPDATE, GUEST, 0, USER, BOTH),
        message(UPDATE, u64::MAX, 2, USER, BOTH),
        message(UPDATE, GUEST, u64::MAX, USER, BOTH),
        message(UPDATE, GUEST, MEMORY + 1, USER, BOTH),
        message(UPDATE, GUEST, PAGE, USER - 1, BOTH),
        message(UPDATE, GUEST, PAGE, USER + MEMORY, BOTH),
        message(UPDATE, GUEST, PAGE, u64::MAX, BOTH),
        message(UPDATE, GUEST, PAGE, USER, 0),
        message(UPDATE, GUEST, PAGE, USER, 4),
        message(1, GUEST, PAGE, USER, BOTH),
        message(4, GUEST, PAGE, USER, BOTH),
        message(255, GUEST, PAGE, USER, BOTH),
        vec![0; 25],
    ];
    for message in bad {
        assert_eq!(guest.iotlb(message.clone()), Some(false), "{message:?}");
    }
    assert!(device.connected_guest().is_some() && device.enter(0).is_some() && device.enter(1).is_some());
    // Invalidations of any range are valid.
    for (iova, size) in [(u64::MAX, u64::MAX), (1, u64::MAX), (7, 9)] {
        assert_eq!(guest.iotlb(message(INVALIDATE, iova, size, 0, 0)), Some(true));
    }
    // A channel must be a socket.
    let event = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    assert_eq!(guest.front.reported(SET_SLAVE_REQ_FD, &[], &[event.as_fd()]), Some(false));
    assert_eq!(guest.front.reported(SET_SLAVE_REQ_FD, &[], &[]), Some(false));
    // Guests are not offered an IOMMU unless the setting allows it.
    let mut front = Front::new(&super::device());
    for (request, payload) in [
        (SET_FEATURES, long(feature::ACCESS_PLATFORM)),
        (SET_PROTOCOL_FEATURES, long(feature::protocol::BACKEND_REQ)),
        (IOTLB_MSG, message(UPDATE, GUEST, PAGE, USER, BOTH)),
    ] {
        assert_eq!(front.reported(request, &payload, &[]), Some(false));
    }
}

/// A buffer that the guest's IOMMU does not permit the switch to write, and a ring that is not contiguous.
#[test]
fn a_guest_that_contradicts_its_iommu_loses_its_connection() {
    let device = iommu_device();
    let mut guest = Translated::running(&device, 0);
    let at = guest.front.offer(0, 0, 2048, 2);
    guest.update(at, PAGE, READ);
    let mut sender = to_guest::ToGuest::new(&device, 0);
    assert_eq!((unsent(&mut sender, &[&[1; 60]]), guest.requests()), (1, vec![(at, WRITE)]));
    guest.update(at, PAGE, READ);
    guest.front.session.run();
    assert!(guest.front.session.is_over() && guest.front.read::<72>(at) == [0; 72]);
    let mut guest = Translated::new(&device, 0);
    guest.update(0, 0x2800, BOTH);
    assert_eq!(guest.iotlb(message(UPDATE, GUEST + 0x2800, 0x1000, USER, BOTH)), Some(true));
    guest.front.say(
        SET_VRING_ADDR,
        NEED_REPLY,
        &[pair(0, 0), long(GUEST), long(GUEST + 0x27fc), long(GUEST + 0x1000), long(0)].concat(),
        &[],
    );
    guest.front.session.run();
    assert!(guest.front.session.is_over());
    Translated::running(&device, 0);
}

/// A guest whose buffers are never translated, and a front-end that does not read the requests.
#[test]
fn endless_misses_cost_a_bounded_number_of_messages() {
    let device = iommu_device();
    let mut guest = Translated::running(&device, feature::INDIRECT);
    let (mut source, mut pool) = (from_guest::FromGuest::new(&device, 0), FramePool::new(8));
    let mut sender = to_guest::ToGuest::new(&device, 0);
    for n in 0..SIZE {
        guest.front.offer(0, n, u32::MAX, 2);
        // Every third one is an indirect table.
        let (len, flags) = if n % 3 == 2 { (64, 4) } else { (u32::MAX, 0) };
        guest.front.offer(1, n, len, flags);
    }
    for _ in 0..1000 {
        assert!(receive(&mut source, &mut pool).is_empty() && unsent(&mut sender, &[&[0; 60]]) == 1);
        guest.front.session.run();
    }
    let first = guest.requests().len();
    assert!((1..=2 * MISSES_MAX).contains(&first), "{first}");
    for _ in 0..1000 {
        assert!(receive(&mut source, &mut pool).is_empty() && unsent(&mut sender, &[&[0; 60]]) == 1);
    }
    assert_eq!(guest.requests(), []);
    // After each change of the IOTLB the rings request their missing pages again. The front-end does not read these requests.
    for n in 0..5000 {
        guest.update(0xff000, PAGE, [READ, BOTH][n % 2]);
        guest.front.write(BUFFERS, &[0]);
        assert!(receive(&mut source, &mut pool).is_empty() && unsent(&mut sender, &[&[0; 60]]) == 1);
        guest.front.session.run();
    }
    assert!(!guest.front.session.is_over() && device.connected_guest().is_some());
    drop(guest.channel);
    guest.front.session.run();
    assert!(!guest.front.session.is_over());
}

#[test]
fn pages_are_logged_by_their_physical_addresses() {
    let device = iommu_device();
    let mut guest = Translated::running(&device, feature::MRG_RXBUF);
    let log = file(1 << 16);
    let place = [long(1 << 16), long(0)].concat();
    assert_eq!(guest.front.say(SET_LOG_BASE, 0, &place, &[log.as_fd()]), Some(vec![]));
    let mut used = ring_address(0);
    used[4] = 1;
    used[32..].copy_from_slice(&long(GUEST + 0x2000));
    assert_eq!(guest.front.reported(SET_VRING_ADDR, &used, &[]), Some(true));
    let features =
        feature::VERSION_1 | feature::PROTOCOL_FEATURES | feature::ACCESS_PLATFORM | feature::MRG_RXBUF;
    assert_eq!(guest.front.reported(SET_FEATURES, &long(features | feature::LOG_ALL), &[]), Some(true));
    let at = guest.front.offer(0, 0, 2048, 2);
    assert_eq!(guest.iotlb(message(UPDATE, GUEST + at, PAGE, USER + 0x80000, WRITE)), Some(true));
    assert_eq!(unsent(&mut to_guest::ToGuest::new(&device, 0), &[&[7; 60]]), 0);
    assert_eq!(guest.front.read::<60>(0x80000 + 12), [7; 60]);
    let mut bytes = vec![0; 1 << 16];
    rustix::io::pread(&log, &mut bytes, 0).unwrap();
    let marked: Vec<_> = (0..bytes.len()).filter(|n| bytes[*n] != 0).map(|n| (n, bytes[n])).collect();
    // The used ring is page 2 of the memory, the buffer is page 0x80.
    assert_eq!(marked, [(0x8000, 4), (0x8010, 1)]);
}

/// Random translations, invalidations and packets: every packet is read from and written to the memory that its address was last
/// translated to, and no other memory changes.
#[test]
fn memory_is_accessed_only_by_valid_translations() {
    let mut seen = [0usize; 3];
    for seed in 0..60 {
        let mut dice = fastrand::Rng::with_seed(seed);
        let device = iommu_device();
        let mut guest = Translated::running(&device, feature::MRG_RXBUF);
        let (mut source, mut pool) = (from_guest::FromGuest::new(&device, 0), FramePool::new(8));
        let mut sender = to_guest::ToGuest::new(&device, 0);
        // For each page of a buffer: the page of memory and the access.
        let mut pages = BTreeMap::<u64, (u64, u8)>::new();
        // Memory of the buffers: pages 0x80 to 0xbf, filled with their numbers.
        let fill = |guest: &Translated| {
            (0x80..0xc0u64)
                .for_each(|n| guest.front.write(n * PAGE, &[&[0; 12], &[n as u8; 4084][..]].concat()));
        };
        fill(&guest);
        let (mut offered, mut posted) = (0u16, 0u16);
        for _ in 0..300 {
            let page = (BUFFERS / PAGE) + dice.u64(..2 * u64::from(SIZE));
            match dice.u8(..8) {
                0..3 => {
                    let (to, access) = (0x80 + dice.u64(..0x40), BOTH);
                    let done =
                        guest.iotlb(message(UPDATE, GUEST + page * PAGE, PAGE, USER + to * PAGE, access));
                    assert_eq!(done, Some(true));
                    pages.insert(page, (to, access));
                }
                3 => {
                    let size = dice.u64(1..4);
                    guest.invalidate(page * PAGE, size * PAGE);
                    (page..page + size).for_each(|page| _ = pages.remove(&page));
                }
                4 if offered - guest.front.used(1) < SIZE => {
                    guest.front.offer(1, offered, 72, 0);
                    offered += 1;
                }
                5 if posted - guest.front.used(0) < SIZE => {
                    guest.front.offer(0, posted, 2048, 2);
                    posted += 1;
                }
                6 => {
                    let from = guest.front.used(1);
                    let got = receive(&mut source, &mut pool);
                    let buffer = |n: u16| BUFFERS / PAGE + u64::from(SIZE) + u64::from((from + n) % SIZE);
                    for (n, byte) in got.iter().enumerate() {
                        assert_eq!(
                            pages.get(&buffer(n as u16)).map(|(to, _)| *to as u8),
                            Some(*byte),
                            "seed {seed}"
                        );
                    }
                    if got.len() < usize::from(offered - from) {
                        assert!(!pages.contains_key(&buffer(got.len() as u16)), "seed {seed}");
                        seen[2] += 1;
                    }
                    seen[0] += got.len();
                }
                _ => {
                    let slot = BUFFERS / PAGE + u64::from(guest.front.used(0) % SIZE);
                    let to = pages.get(&slot).filter(|_| posted != guest.front.used(0)).map(|(to, _)| *to);
                    assert_eq!(unsent(&mut sender, &[&[1; 500]]), usize::from(to.is_none()), "seed {seed}");
                    for n in 0x80..0xc0u64 {
                        let expected = if Some(n) == to { [1; 500] } else { [n as u8; 500] };
                        assert_eq!(guest.front.read::<500>(n * PAGE + 12), expected, "seed {seed}");
                    }
                    fill(&guest);
                    seen[1] += usize::from(to.is_some());
                }
            }
            guest.requests();
        }
        assert!(!guest.front.session.is_over());
    }
    assert!(seen.iter().all(|n| *n > 100), "{seen:?}");
}
