//! `afxdp` ports that share a pool of receive buffers, on real veth pairs.

mod common;

use common::{can_make_devices, frame_of, soon, unique, veth};
use netdev::device::{Netdev, RxHandle};
use netdev::open::{DummyLevel, Netdevs};
use netdev::rx_buffers::{QueueUse, RxPoolSettings};
use netdev::shared_rx::{SharedRx, SharedRxConfig};
use packet::frame::{Frame, FramePool};
use packet::queue::{RxQueue, TxQueue};
use rxpool::{Alpha, Mode};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use units::PortNo;

/// Pools belong to the process. A test that expects a certain number of free buffers uses a unique `pool_queues`, and so has its own
/// pool.
const SPP: RxPoolSettings = RxPoolSettings {
    mode: Mode::Spp,
    alpha: Alpha::ONE,
    by_drain: false,
    reserve: 128,
    pool_size: 2048,
    pool_queues: 4,
};

fn open(name: &str, buffers: &RxPoolSettings) -> (Box<dyn Netdev>, Option<String>) {
    let mut netdevs = Netdevs::new(DummyLevel::Off);
    let (device, refused) = netdevs.open_with(name, "afxdp", &BTreeMap::new(), buffers).unwrap();
    (device, refused.map(|e| e.to_string()))
}

fn queue(device: &mut dyn Netdev) -> Box<dyn RxQueue> {
    device.take_rx_queues().remove(0).queue
}

fn usage(device: &dyn Netdev) -> QueueUse {
    device.rx_buffer_usage().remove(0)
}

/// Receives in full bursts until `n` frames of this test have arrived, for at most two seconds.
fn receive(queue: &mut dyn RxQueue, pool: &mut FramePool, n: usize) -> Vec<Frame> {
    let (mut all, end) = (Vec::new(), Instant::now() + Duration::from_secs(2));
    while all.len() < n && Instant::now() < end {
        queue.rx(pool, &mut all, 64);
        all.retain(|f| f.bytes().get(6..12) == Some(&[2, 0, 0, 0, 0, 2]));
    }
    all
}

/// Sends `n` frames, and receives all that arrive.
fn pass(tx: &mut dyn TxQueue, rx: &mut dyn RxQueue, pool: &mut FramePool, n: usize) -> Vec<Frame> {
    let mut batch: Vec<Frame> = (0..n).map(|i| frame_of(pool, &[], 60 + i % 1400)).collect();
    let sent = tx.tx(&mut batch);
    assert_eq!(sent.sent as usize, n, "{sent:?}");
    pool.free_all(&mut batch);
    receive(rx, pool, n)
}

/// The buffers of frames count for the port that received them until the frames are dropped, also while they are sent.
#[test]
fn a_frame_is_charged_to_its_source() {
    if !can_make_devices() {
        return;
    }
    let (a, b, _veth) = veth("rp");
    let (c, d, _other) = veth("rq");
    let ((mut b, none), (mut c, _)) = (open(&b, &SPP), open(&c, &SPP));
    assert_eq!(none, None);
    let (mut a, _) = open(&a, &RxPoolSettings::default());
    let (mut d, _) = open(&d, &RxPoolSettings::default());
    let mut pool = FramePool::new(64);
    let (mut rx, mut far, mut tx, mut out) = (queue(&mut *b), queue(&mut *d), a.tx_queue(), c.tx_queue());
    let (_rx_c, _rx_a) = (queue(&mut *c), queue(&mut *a));
    assert_eq!((usage(&*b).posted, usage(&*b).held), (128, 128));
    assert_eq!(usage(&*b).pool, usage(&*c).pool);
    let held = pass(&mut *tx, &mut *rx, &mut pool, 40);
    assert!(held.iter().all(|f| f.source().is_some() && f.headroom() >= 128));
    // Held frames count, and the port still posts the low watermark.
    assert_eq!((usage(&*b).posted, usage(&*b).held), (128, 168));
    let expected: Vec<_> = held.iter().map(|f| f.bytes().to_vec()).collect();
    let mut held = held;
    let sent = out.tx(&mut held);
    assert_eq!((sent.sent, held.len()), (40, 0));
    // The frames were passed on in their buffers, so the sender needs no other buffers.
    assert_eq!((usage(&*c).sending, usage(&*c).held), (0, 128));
    let got = receive(&mut *far, &mut pool, 40);
    assert!(got.iter().map(|f| f.bytes().to_vec()).eq(expected));
    got.into_iter().for_each(|f| pool.free(f));
    // A call without frames frees what was sent.
    out.tx(&mut Vec::new());
    assert_eq!(usage(&*b).held, 128);
    // A frame in other memory uses a buffer of the sender until the kernel has sent it.
    let mut foreign = vec![frame_of(&mut pool, &[], 100)];
    assert_eq!((out.tx(&mut foreign).sent, foreign.len()), (1, 1));
    assert_eq!(receive(&mut *far, &mut pool, 1).len(), 1);
    out.tx(&mut Vec::new());
    assert_eq!(usage(&*c).sending, 0);
}

/// A queue that receives full bursts posts its allowance; packets of the first burst that found no buffer are counted.
#[test]
fn a_busy_queue_grows_and_the_first_burst_is_counted() {
    if !can_make_devices() {
        return;
    }
    let (a, b, _veth) = veth("rg");
    let (a, _) = open(&a, &RxPoolSettings::default());
    let (mut b, _) = open(&b, &RxPoolSettings { pool_queues: 5, ..SPP });
    let mut pool = FramePool::new(64);
    let (mut rx, mut tx) = (queue(&mut *b), a.tx_queue());
    let flood = |tx: &mut dyn TxQueue, pool: &mut FramePool, batches: usize| {
        for _ in 0..batches {
            let mut batch: Vec<Frame> = (0..64).map(|_| frame_of(pool, &[], 60)).collect();
            tx.tx(&mut batch);
        }
    };
    flood(&mut *tx, &mut pool, 16);
    // The low watermark arrived, and the rest of 1024 was lost.
    let lost = || usage(&*b).lost;
    assert!(soon(|| lost() == 1024 - 128), "{:?}", usage(&*b));
    let first = receive(&mut *rx, &mut pool, 128);
    assert_eq!(first.len(), 128);
    drop(first);
    let mut left = Vec::new();
    rx.rx(&mut pool, &mut left, 64);
    let now = usage(&*b);
    assert!(now.busy && now.first_burst_lost == 1024 - 128 && now.became_busy == 1, "{now:?}");
    // Of 2048 buffers, the queue has reserved 128 to receive and 32 to send. It may post these 128 and half of the other 1888.
    assert_eq!((now.posted, now.allowance), (128 + 944, 128 + 944));
    flood(&mut *tx, &mut pool, 20);
    assert!(soon(|| usage(&*b).lost == now.lost + 1280 - 1072), "{:?}", usage(&*b));
    drop(receive(&mut *rx, &mut pool, 1072));
    // The queue becomes idle. Buffers that are posted beyond the low watermark stay posted until packets use them.
    let mut none = Vec::new();
    for _ in 0..1100 {
        rx.rx(&mut pool, &mut none, 64);
    }
    assert!(none.is_empty() && !usage(&*b).busy);
}

/// Buffers that are posted for an idle queue are released to the pool when other queues need them.
#[test]
fn an_idle_queue_gives_back_what_others_need() {
    if !can_make_devices() {
        return;
    }
    // With this factor a queue may use four fifths of the free buffers.
    let greedy = RxPoolSettings { alpha: Alpha::new(4.0), pool_queues: 6, ..SPP };
    let (a, b, _veth) = veth("ri");
    let (c, d, _other) = veth("rj");
    let ((a, _), (c, _)) = (open(&a, &RxPoolSettings::default()), open(&c, &RxPoolSettings::default()));
    let ((mut b, _), (mut d, _)) = (open(&b, &greedy), open(&d, &greedy));
    let mut pool = FramePool::new(64);
    let (mut rx_b, mut rx_d) = (queue(&mut *b), queue(&mut *d));
    // More packets than the low watermark, so that the number of lost packets shows when all have arrived.
    let mut fill = |tx: &mut dyn TxQueue, rx: &mut dyn RxQueue, device: &dyn Netdev| {
        for _ in 0..4 {
            let mut batch: Vec<Frame> = (0..64).map(|_| frame_of(&mut pool, &[], 60)).collect();
            tx.tx(&mut batch);
        }
        assert!(soon(|| usage(device).lost == 128), "{:?}", usage(device));
        drop(receive(rx, &mut pool, 128));
    };
    fill(&mut *a.tx_queue(), &mut *rx_b, &*b);
    fill(&mut *c.tx_queue(), &mut *rx_d, &*d);
    let (most, rest) = (usage(&*b), usage(&*d));
    assert!(most.busy && most.posted > 3 * rest.posted && rest.posted > 128, "{most:?} {rest:?}");
    // Busy queues keep their buffers.
    assert!(!b.needs_restart());
    let mut idle_pool = FramePool::new(64);
    for _ in 0..1100 {
        rx_b.rx(&mut idle_pool, &mut Vec::new(), 64);
    }
    assert!(!usage(&*b).busy && !b.needs_restart(), "it has just become idle");
    assert!(soon(|| b.needs_restart()));
    assert!(!d.needs_restart());
    drop(rx_b);
    b.restart().unwrap();
    assert!(!b.needs_restart() && usage(&*b).posted == 128);
    assert!(soon(|| usage(&*d).allowance > 2 * rest.allowance), "{rest:?} {:?}", usage(&*d));
}

/// Ports are opened, change their mode and are closed, while packets are in flight: no buffer is lost.
#[test]
fn modes_change_and_nothing_leaks() {
    if !can_make_devices() {
        return;
    }
    let shape = RxPoolSettings { pool_size: 1024, reserve: 64, ..SPP };
    let (a, b, _veth) = veth("rm");
    let (mut a, _) = open(&a, &RxPoolSettings::default());
    let mut pool = FramePool::new(64);
    let (mut tx, _rx_a) = (a.tx_queue(), queue(&mut *a));
    let (mut b, _) = open(&b, &shape);
    let (keeper, other, _pair) = veth("rk");
    let (keeper, _) = open(&keeper, &shape);
    let _ = other;
    let mut kept = Vec::new();
    for round in 0..6 {
        let mut rx = queue(&mut *b);
        kept.extend(pass(&mut *tx, &mut *rx, &mut pool, 20).pop());
        let mode = if round % 2 == 0 { Mode::None } else { Mode::Spp };
        b.set_rx_buffers(&RxPoolSettings { mode, ..shape }).unwrap();
        assert!(b.needs_restart());
        drop(rx);
        b.restart().unwrap();
        assert_eq!(b.rx_buffer_usage().is_empty(), mode == Mode::None);
    }
    drop(b);
    let pooled = kept.iter().filter(|f| f.source().is_some()).count();
    assert_eq!((pooled, kept.len()), (3, 6));
    // The frames that are kept still count, for slots that are closed; all other buffers are free.
    let held = || usage(&*keeper).of_pool;
    assert!(soon(|| held() == (1024, 128 + 3)), "{:?}", held());
    drop(kept);
    assert_eq!(held(), (1024, 128));
}

/// If a pool has no free slots, further queues get another pool. A mode that is not possible is refused with a reason.
#[test]
fn pools_have_slots_and_modes_have_limits() {
    if !can_make_devices() {
        return;
    }
    let shape = RxPoolSettings { pool_size: 512, pool_queues: 1, reserve: 64, ..SPP };
    let (a, b, _veth) = veth("rl");
    let ((first, _), (second, _)) = (open(&a, &shape), open(&b, &shape));
    assert_ne!(usage(&*first).pool, usage(&*second).pool);
    drop((first, second));
    let basic = RxPoolSettings { mode: Mode::Basic, ..SPP };
    let (device, why) = open(&a, &basic);
    assert!(why.unwrap().starts_with(&format!("{a}: rx-pool=basic is not possible: AF_XDP")));
    assert!(device.rx_buffer_usage().is_empty() && device.n_rxq() == 1);
    let mut netdevs = Netdevs::new(DummyLevel::Off);
    let tap = unique("rt");
    let (_tap, why) = netdevs.open_with(&tap, "tap", &BTreeMap::new(), &basic).unwrap();
    assert!(why.unwrap().to_string().contains("a tap device has a queue of its own"));
}

/// A datapath's shared queues, with the devices as ports 1, 2 and so on.
fn shared_by(devices: &mut [Box<dyn Netdev>], config: SharedRxConfig) -> SharedRx {
    let mut shared = SharedRx::default();
    shared.configure(config);
    for (i, device) in devices.iter_mut().enumerate() {
        assert!(device.take_rx_queues().is_empty() && device.rx_buffer_usage().is_empty());
        shared.join(PortNo(i as u32 + 1), device.shared_member().unwrap());
    }
    shared
}

/// Receives from all queues until `n` packets of this test have arrived. Returns their number by port and queue.
fn sorted(queues: &mut [RxHandle], n: usize) -> BTreeMap<u32, Vec<usize>> {
    let (mut pool, mut by_port) = (FramePool::new(64), BTreeMap::<u32, Vec<usize>>::new());
    soon(|| {
        for (at, handle) in queues.iter_mut().enumerate() {
            let mut burst = Vec::new();
            while let Some(port) = handle.queue.rx(&mut pool, &mut burst, 64).port {
                let ours = burst.drain(..).filter(|f| f.bytes().get(6..12) == Some(&[2, 0, 0, 0, 0, 2]));
                by_port.entry(port.get()).or_default().extend(ours.map(|_| at));
            }
        }
        by_port.values().map(Vec::len).sum::<usize>() >= n
    });
    by_port
}

/// UDP frames over IPv4, one for each of `n` flows.
fn flows(pool: &mut FramePool, n: u16) -> Vec<Frame> {
    let mut ip = [0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2].to_vec();
    ip.extend([0; 26]);
    let flow = |i: u16| {
        let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        bytes.extend(&ip);
        bytes[34..36].copy_from_slice(&(1000 + i).to_be_bytes());
        bytes[36..38].copy_from_slice(&7u16.to_be_bytes());
        pool.frame_of(&bytes).unwrap()
    };
    (0..n).map(flow).collect()
}

const BASIC: RxPoolSettings = RxPoolSettings { mode: Mode::Basic, ..SPP };

/// Shared queues receive for two devices and report each packet's device. By flow, the packets of one device are distributed over the
/// queues; by port, they are not. A device that leaves receives nothing more; a device that stays continues to send by the shared socket.
#[test]
fn kernel_devices_share_queues() {
    if !can_make_devices() {
        return;
    }
    let (a, b, _veth) = veth("rba");
    let (c, d, _other) = veth("rbb");
    let mut netdevs = Netdevs::new(DummyLevel::Off);
    let mut system = |name: &str, buffers: &RxPoolSettings| {
        let (device, why) = netdevs.open_with(name, "system", &BTreeMap::new(), buffers).unwrap();
        assert!(why.is_none(), "{why:?}");
        device
    };
    let mut members = [system(&b, &BASIC), system(&d, &BASIC)];
    let (a, mut c) = (system(&a, &RxPoolSettings::default()), system(&c, &RxPoolSettings::default()));
    let mut pool = FramePool::new(0);
    for (queues, by_port) in [(1, false), (4, false), (4, true)] {
        let mut shared = shared_by(&mut members, SharedRxConfig { queues, by_port, pmd: false });
        let mut handles = shared.apply_changes().unwrap();
        assert_eq!(
            (handles.len(), shared.apply_changes().is_none(), shared.fault()),
            (usize::from(queues), true, None)
        );
        for (tx, n) in [(&a, 64), (&c, 32)] {
            assert_eq!(u32::from(n), tx.tx_queue().tx(&mut flows(&mut pool, n)).sent);
        }
        let got = sorted(&mut handles, 96);
        assert_eq!((got[&1].len(), got[&2].len()), (64, 32), "{queues} {by_port}");
        let used = |port: u32| got[&port].iter().collect::<std::collections::BTreeSet<_>>().len();
        let divided = queues > 1 && !by_port;
        assert_eq!((used(1) > 1, used(2) > 1), (divided, divided), "{got:?}");
        let usage = shared.usage();
        assert!(usage.iter().map(|u| u.packets).sum::<u64>() >= 96 && usage.iter().all(|u| u.waiting == 0));
        // The first device leaves; the filter changes, and the queues stay.
        shared.leave(PortNo(1));
        assert!(shared.apply_changes().is_none());
        for (tx, n) in [(&a, 5), (&c, 10)] {
            assert_eq!(u32::from(n), tx.tx_queue().tx(&mut flows(&mut pool, n)).sent);
        }
        assert_eq!(
            sorted(&mut handles, 10).into_iter().map(|(p, q)| (p, q.len())).collect::<Vec<_>>(),
            [(2, 10)]
        );
        shared.leave(PortNo(2));
        assert_eq!(shared.apply_changes().map(|queues| queues.len()), Some(0));
    }
    let [b, mut d] = members;
    let mut rx_c = queue(&mut *c);
    assert_eq!(
        (d.tx_queue().tx(&mut flows(&mut pool, 3)).sent, receive(&mut *rx_c, &mut pool, 3).len()),
        (3, 3)
    );
    drop((b, a));
    assert!(d.set_rx_buffers(&RxPoolSettings::default()).unwrap() && d.shared_member().is_none());
}

/// The limit of a socket grows when bursts fill it, and packets that were lost before are counted.
#[test]
fn the_limit_of_a_socket_is_adjusted() {
    if !can_make_devices() {
        return;
    }
    let (a, b, _veth) = veth("rs");
    let mut netdevs = Netdevs::new(DummyLevel::Off);
    let (a, _) = netdevs.open_with(&a, "system", &BTreeMap::new(), &RxPoolSettings::default()).unwrap();
    let (mut b, _) = netdevs.open_with(&b, "system", &BTreeMap::new(), &SPP).unwrap();
    let mut pool = FramePool::new(64);
    let (mut rx, mut tx) = (queue(&mut *b), a.tx_queue());
    for _ in 0..32 {
        let mut batch: Vec<Frame> = (0..64).map(|_| frame_of(&mut pool, &[], 1400)).collect();
        tx.tx(&mut batch);
    }
    let mut got = Vec::new();
    assert!(soon(|| {
        rx.rx(&mut pool, &mut got, 64);
        usage(&*b).busy
    }));
    let now = usage(&*b);
    assert!(now.lost > 0 && now.first_burst_lost == now.lost && now.held > 128, "{now:?}");
    while rx.rx(&mut pool, &mut got, 64).more {}
    for _ in 0..1100 {
        rx.rx(&mut pool, &mut got, 64);
    }
    assert_eq!((usage(&*b).busy, usage(&*b).held), (false, 128));
}

/// A tap port stops reading when its frames use up its allowance, and continues when they are freed.
#[test]
fn frames_of_a_tap_are_charged() {
    if !can_make_devices() {
        return;
    }
    let name = unique("rt");
    let small = RxPoolSettings { pool_size: 512, pool_queues: 2, reserve: 32, ..SPP };
    let mut netdevs = Netdevs::new(DummyLevel::Off);
    let (mut tap, why) = netdevs.open_with(&name, "tap", &BTreeMap::new(), &small).unwrap();
    assert!(why.is_none());
    tap.set_admin(true).unwrap();
    let (mut host, _) =
        netdevs.open_with(&name, "system", &BTreeMap::new(), &RxPoolSettings::default()).unwrap();
    let (mut rx, mut tx, _rx) = (queue(&mut *tap), host.tx_queue(), queue(&mut *host));
    let mut pool = FramePool::new(0);
    for _ in 0..8 {
        let mut batch: Vec<Frame> = (0..64).map(|_| frame_of(&mut pool, &[], 60)).collect();
        tx.tx(&mut batch);
    }
    // The reserve, and half of the 480 other buffers.
    let mut held = Vec::new();
    assert!(soon(|| {
        rx.rx(&mut pool, &mut held, 64);
        usage(&*tap).held >= 32 + 240
    }));
    assert_eq!((rx.rx(&mut pool, &mut held, 64).more, held.len()), (true, 272));
    pool.free_all(&mut held);
    pool.flush();
    assert_eq!(usage(&*tap).held, 0);
    assert!(soon(|| {
        rx.rx(&mut pool, &mut held, 64);
        held.len() >= 200
    }));
}
