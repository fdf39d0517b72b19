//! Queues are moved under load: no packet is lost or reordered, and no thread waits.

use super::*;
use crate::answers::LIMIT;
use crate::handle::worker_of;
use datapath::Datapath;
use datapath::port::{FrameBatch, FramePool, RxQueue, RxResult, TxQueue, TxResult};
use datapath::{Config, Event};
use dpif::{DpAction, NoOwner};
use flow::Flow;
use flow::compose::compose;
use netdev::device::RxHandle;
use pmd::balance::Settings;
use pmd::{Policy, Topology};
use runtime::Clock;
use std::collections::BTreeMap;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use units::{CoreId, Millis, PortNo, QueueId};

const QUEUES: usize = 3;
/// The fields of all packets, except the source address.
const FLOW: Flow = Flow { dl_type: 0x0800, nw_proto: 17, ..Flow::ZERO };
/// Offset of the IPv4 source address, which contains the number of the packet.
const ADDRESS: usize = 14 + 12;

/// A poll-mode device that returns numbered packets without end.
struct Source {
    queue: usize,
    next: u32,
    packet: Vec<u8>,
    made: Arc<[AtomicU64; QUEUES]>,
}

impl RxQueue for Source {
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, _: usize) -> RxResult {
        for _ in 0..4 {
            let number = (self.queue as u32) << 28 | self.next;
            self.next += 1;
            self.packet[ADDRESS..ADDRESS + 4].copy_from_slice(&number.to_be_bytes());
            out.extend(pool.frame_of(&self.packet));
        }
        self.made[self.queue].store(u64::from(self.next), Ordering::Relaxed);
        RxResult::default()
    }
}

/// The number of packets received from each queue, and the number of those out of order.
#[derive(Default)]
struct Arrived {
    next: [AtomicU64; QUEUES],
    wrong: AtomicU64,
}

struct Sink(Arc<Arrived>);

impl TxQueue for Sink {
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        for frame in frames.iter() {
            let bytes = frame.bytes()[ADDRESS..ADDRESS + 4].try_into().unwrap();
            let number = u32::from_be_bytes(bytes);
            let queue = (number >> 28) as usize;
            // Two workers may send packets of different queues at the same time, never of the same queue.
            let due = self.0.next[queue].fetch_add(1, Ordering::Relaxed);
            if due != u64::from(number & 0x0fff_ffff) {
                self.0.wrong.fetch_add(1, Ordering::Relaxed);
            }
        }
        TxResult { sent: frames.len() as u32, ..TxResult::default() }
    }
}

/// Two PMD threads, a source with some rx queues, and a sink with a tx queue for each worker.
struct Setup {
    datapath: Arc<Datapath>,
    workers: Workers,
    made: Arc<[AtomicU64; QUEUES]>,
    arrived: Arc<Arrived>,
}

const IN: PortNo = PortNo(1);
const OUT: PortNo = PortNo(2);

fn set_up(queues: usize) -> Setup {
    let datapath = Datapath::new(&Config::default());
    let arrived = Arc::new(Arrived::default());
    let sink = || Box::new(Sink(Arc::clone(&arrived))) as Box<dyn TxQueue>;
    datapath.add_port(IN, vec![sink()]).unwrap();
    datapath.add_port(OUT, vec![sink(), sink(), sink()]).unwrap();
    let key = Flow { in_port: IN.0, ..FLOW };
    let mask = Flow { in_port: u32::MAX, ..Flow::ZERO };
    datapath.flow_put(&key, &mask, Arc::new([DpAction::Output(OUT)]), Arc::new(NoOwner)).unwrap();
    let topology = Arc::new(Topology::parse("0,0").unwrap());
    let mut workers = Workers::new_threaded(&datapath, &topology, &Clock::new()).unwrap();
    workers.configure(&PmdSettings { mask: Some("3".to_owned()), ..PmdSettings::default() });
    let made: Arc<[AtomicU64; QUEUES]> = Arc::default();
    let mut setup = Setup { datapath, workers, made, arrived };
    setup.add(IN, queues);
    setup
}

impl Setup {
    /// Adds a port with this number of queues.
    fn add(&mut self, no: PortNo, queues: usize) {
        let source = |queue| {
            let packet = compose(&FLOW, &[]);
            let queue = Box::new(Source { queue, next: 0, packet, made: Arc::clone(&self.made) });
            RxHandle { queue, poll_fd: None }
        };
        let port_scheduling =
            PortScheduling { name: "in".to_owned(), is_pmd: true, ..PortScheduling::default() };
        self.workers.add(no, port_scheduling, (0..queues).map(source).collect());
        self.workers.reconfigure(&self.datapath);
    }

    /// The queues of port `IN` that this core polls.
    fn of_core(&self, core: u32) -> Vec<u16> {
        let rxqs = self.workers.rxqs(worker_of(CoreId(core)));
        rxqs.filter(|q| q.no == IN).map(|q| q.queue.0).collect()
    }

    /// Waits until every queue has been polled again.
    fn wait_for_packets(&self, queues: usize) {
        let counts = || (0..queues).map(|q| self.made[q].load(Ordering::Relaxed)).collect::<Vec<_>>();
        let (before, start) = (counts(), Instant::now());
        while counts().iter().zip(&before).any(|(now, before)| now == before) {
            assert!(start.elapsed() < Duration::from_secs(20), "a queue is polled no more");
            std::thread::yield_now();
        }
    }

    /// Removes the source. All packets that it returned must have arrived at the sink.
    fn finish(mut self, queues: usize) {
        self.workers.remove(IN);
        self.workers.wait_for_release().unwrap();
        for q in 0..queues {
            let (made, arrived) = (&self.made[q], &self.arrived.next[q]);
            assert_eq!(made.load(Ordering::Relaxed), arrived.load(Ordering::Relaxed), "queue {q}");
        }
        assert_eq!(self.arrived.wrong.load(Ordering::Relaxed), 0);
        drop(self.workers);
        let tally = self.datapath.tally();
        assert_eq!(tally.balance(), 0);
        assert_eq!((tally.get(Event::Received), tally.dropped_total()), (tally.get(Event::Sent), 0));
    }
}

#[test]
fn ten_thousand_queues_change_hands_in_order() {
    let mut setup = set_up(QUEUES);
    let workers = [worker_of(CoreId(0)), worker_of(CoreId(1))];
    for i in 0..10_000usize {
        let queue = QueueId((i % QUEUES) as u16);
        setup.workers.move_queue((IN, queue), workers[i / QUEUES % 2], true);
        if i % 100 == 0 {
            setup.wait_for_packets(QUEUES);
        }
    }
    setup.wait_for_packets(QUEUES);
    setup.finish(QUEUES);
}

#[test]
fn poll_threads_come_and_go_with_the_mask() {
    let mut setup = set_up(2);
    for mask in ["1", "3", "2", "1", "3"] {
        setup.workers.configure(&PmdSettings { mask: Some(mask.to_owned()), ..PmdSettings::default() });
        setup.workers.reconfigure(&setup.datapath);
        let cores: u32 =
            setup.workers.infos().iter().filter(|p| p.id != KERNEL_WORKER).map(|p| 1 << p.core.0).sum();
        assert_eq!(format!("{cores:x}"), mask);
        setup.wait_for_packets(2);
    }
    setup.finish(2);
}

#[test]
fn new_tx_queues_and_old_ones_dropped() {
    let mut setup = set_up(1);
    setup.wait_for_packets(1);
    let old = Arc::strong_count(&setup.arrived);
    let sink = Box::new(Sink(Arc::clone(&setup.arrived)));
    setup.datapath.set_tx_queues(OUT, vec![sink]).unwrap();
    setup.workers.wait_for_release().unwrap();
    // Three tx queues were dropped and one was created.
    assert_eq!(Arc::strong_count(&setup.arrived), old - 2);
    setup.wait_for_packets(1);
    setup.finish(1);
}

#[test]
fn a_core_that_was_busy_for_a_minute_gives_queues_away() {
    let mut setup = set_up(QUEUES);
    let busy = worker_of(CoreId(1));
    for queue in 0..QUEUES as u16 {
        setup.workers.move_queue((IN, QueueId(queue)), busy, true);
    }
    let settings = PmdSettings { mask: Some("3".to_owned()), ..PmdSettings::default() };
    let policy = Some(Policy::Variance);
    let balance = Settings { on: true, load: 50, policy, ..Settings::default() };
    let mut now = Millis(0);
    let mut minute = |setup: &mut Setup| {
        for _ in 0..12 {
            // Every interval has some iterations.
            setup.wait_for_packets(QUEUES);
            now = now + Millis::from_secs(5);
            setup.workers.tick(&setup.datapath, now);
            setup.workers.reconfigure(&setup.datapath);
        }
        QUEUES - setup.workers.rxqs(busy).count()
    };
    assert_eq!((minute(&mut setup), minute(&mut setup)), (0, 0));
    setup.workers.configure(&PmdSettings { balance, ..settings });
    assert_eq!(minute(&mut setup), 0);
    assert!((0..30).any(|_| minute(&mut setup) > 0));
    setup.wait_for_packets(QUEUES);
    setup.finish(QUEUES);
}

#[test]
fn a_core_that_has_too_much_to_do_is_relieved_within_seconds() {
    let mut setup = set_up(QUEUES);
    let busy = worker_of(CoreId(1));
    for queue in 0..QUEUES as u16 {
        setup.workers.move_queue((IN, QueueId(queue)), busy, true);
    }
    let balance = Settings { on: true, predictive_load_threshold: 50, ..Settings::default() };
    setup.workers.configure(&PmdSettings { mask: Some("3".to_owned()), balance, ..PmdSettings::default() });
    assert_eq!(setup.workers.policy(), Policy::Predictive);
    let second = |setup: &mut Setup, n: u64| {
        setup.wait_for_packets(QUEUES);
        setup.workers.tick(&setup.datapath, Millis::from_secs(n));
        setup.workers.rxqs(busy).count()
    };
    // The first call only starts counting.
    assert_eq!(second(&mut setup, 1), QUEUES);
    assert!((2..60).any(|n| second(&mut setup, n) < QUEUES));
    assert!(setup.workers.moves_made() >= 1 && !setup.workers.is_due());
    setup.wait_for_packets(QUEUES);
    setup.finish(QUEUES);
}

#[test]
fn with_a_forecast_a_change_moves_as_few_queues_as_possible() {
    let mut setup = set_up(2);
    let settings = PmdSettings { mask: Some("3".to_owned()), ..PmdSettings::default() };
    let balance = Settings { on: true, predictive_load_threshold: 100, ..Settings::default() };
    setup.workers.configure(&PmdSettings { balance, ..settings.clone() });
    setup.workers.move_queue((IN, QueueId(0)), worker_of(CoreId(1)), true);
    setup.workers.move_queue((IN, QueueId(1)), worker_of(CoreId(1)), true);
    // A port without rx queues is added.
    let idle = PortScheduling { name: "idle".to_owned(), is_pmd: true, ..PortScheduling::default() };
    setup.workers.add(PortNo(3), idle, vec![]);
    setup.workers.reconfigure(&setup.datapath);
    assert_eq!(setup.of_core(1), [0, 1]);
    // The number of the source's queues changes. The existing queues return to their cores.
    setup.workers.withdraw_queues(IN).unwrap();
    setup.made.iter().for_each(|made| made.store(0, Ordering::Relaxed));
    setup.arrived.next.iter().for_each(|next| next.store(0, Ordering::Relaxed));
    setup.add(IN, 3);
    assert_eq!((setup.of_core(0), setup.of_core(1)), (vec![2], vec![0, 1]));
    // An explicit rebalance assigns all queues by the configured algorithm.
    setup.workers.request_reassignment();
    setup.workers.reconfigure(&setup.datapath);
    assert_eq!(setup.of_core(0).len() + setup.of_core(1).len(), 3);
    assert_ne!(setup.of_core(1), [0, 1]);
    setup.wait_for_packets(3);
    setup.finish(3);
}

const TRAP: PortNo = PortNo(3);

/// A device that blocks the worker that polls it, until the device is released.
#[derive(Clone, Default)]
struct Trap {
    polled: Arc<AtomicBool>,
    open: Arc<AtomicBool>,
}

impl RxQueue for Trap {
    fn rx(&mut self, _: &mut FramePool, _: &mut FrameBatch, _: usize) -> RxResult {
        self.polled.store(true, Ordering::Relaxed);
        while !self.open.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        RxResult::default()
    }
}

impl Trap {
    /// Sets a trap for the worker of the second core.
    fn set(setup: &mut Setup) -> Trap {
        let trap = Trap::default();
        setup.workers.move_queue((IN, QueueId(0)), worker_of(CoreId(0)), true);
        let port_scheduling =
            PortScheduling { name: "trap".to_owned(), is_pmd: true, ..PortScheduling::default() };
        setup.workers.add(
            TRAP,
            port_scheduling,
            vec![RxHandle { queue: Box::new(trap.clone()), poll_fd: None }],
        );
        setup.workers.pin(TRAP, BTreeMap::from([(QueueId(0), CoreId(1))]));
        setup.workers.reconfigure(&setup.datapath);
        let start = Instant::now();
        while !trap.polled.load(Ordering::Relaxed) {
            assert!(start.elapsed() < Duration::from_secs(20), "it is not polled");
            std::thread::yield_now();
        }
        trap
    }
}

#[test]
fn a_blocked_worker_does_not_delay_others() {
    let mut setup = set_up(1);
    let trap = Trap::set(&mut setup);
    let timeout = WorkerTimeout::of(CoreId(1));
    let start = Instant::now();
    assert_eq!(setup.workers.withdraw_queues(TRAP), Err(timeout.clone()));
    // The main thread waits for the blocked worker only once.
    for _ in 0..100 {
        assert_eq!(setup.workers.withdraw_queues(TRAP), Err(timeout.clone()));
        assert_eq!(setup.workers.wait_for_release(), Err(timeout.clone()));
    }
    assert!(start.elapsed() < 3 * LIMIT, "{:?}", start.elapsed());
    // The other worker continues.
    setup.wait_for_packets(1);
    assert!(Arc::strong_count(&trap.open) > 1, "its queue is still there");
    trap.open.store(true, Ordering::Relaxed);
    let start = Instant::now();
    while setup.workers.withdraw_queues(TRAP).is_err() || setup.workers.wait_for_release().is_err() {
        assert!(start.elapsed() < Duration::from_secs(20), "it is back and not heard");
    }
    assert_eq!(Arc::strong_count(&trap.open), 1, "its queue is gone");
    setup.workers.remove(TRAP);
    setup.finish(1);
}

#[test]
fn the_switch_ends_without_a_blocked_worker() {
    let mut setup = set_up(1);
    let trap = Trap::set(&mut setup);
    let start = Instant::now();
    drop(setup.workers);
    assert!(start.elapsed() < 5 * LIMIT, "{:?}", start.elapsed());
    trap.open.store(true, Ordering::Relaxed);
}

/// A kernel device: its descriptor is readable while packets wait. `endless`: its one packet waits again after each poll.
struct Kernel {
    socket: UnixDatagram,
    endless: bool,
    packet: Vec<u8>,
    polls: Arc<AtomicU64>,
    received: Arc<AtomicU64>,
}

impl RxQueue for Kernel {
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, _: usize) -> RxResult {
        self.polls.fetch_add(1, Ordering::Relaxed);
        if self.endless || self.socket.recv(&mut [0]).is_ok() {
            out.extend(pool.frame_of(&self.packet));
            self.received.fetch_add(1, Ordering::Relaxed);
        }
        RxResult::default()
    }
}

#[test]
fn idle_kernel_ports_are_polled_rarely_and_lose_nothing() {
    const PORTS: usize = 40;
    let mut setup = set_up(0);
    let (mut ends, mut counts) = (Vec::new(), Vec::new());
    for port in 0..PORTS {
        let (near, far) = UnixDatagram::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let poll_fd = Some(Arc::new(near.try_clone().unwrap().into()));
        let (polls, received) = <(Arc<AtomicU64>, Arc<AtomicU64>)>::default();
        let packet = compose(&FLOW, &[]);
        let (polls_of_it, received_of_it) = (Arc::clone(&polls), Arc::clone(&received));
        let queue =
            Kernel { socket: near, endless: port == 0, packet, polls: polls_of_it, received: received_of_it };
        let port_scheduling = PortScheduling { name: format!("k{port}"), ..PortScheduling::default() };
        let number = PortNo(10 + port as u32);
        setup.workers.add(number, port_scheduling, vec![RxHandle { queue: Box::new(queue), poll_fd }]);
        ends.push(far);
        counts.push((polls, received));
    }
    setup.workers.reconfigure(&setup.datapath);
    let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let start = Instant::now();
    let wait = |ready: &dyn Fn() -> bool| {
        while !ready() {
            assert!(start.elapsed() < Duration::from_secs(20), "it takes too long");
            std::thread::yield_now();
        }
    };
    // All devices are idle; then one is busy without end.
    wait(&|| counts.iter().all(|(polls, _)| value(polls) > 0));
    ends[0].send(&[1]).unwrap();
    let busy_before = value(&counts[0].0);
    let idle_before: u64 = counts[1..].iter().map(|(polls, _)| value(polls)).sum();
    wait(&|| value(&counts[0].0) > busy_before + 6400);
    let busy = value(&counts[0].0) - busy_before;
    let idle: u64 = counts[1..].iter().map(|(polls, _)| value(polls)).sum::<u64>() - idle_before;
    assert!(idle / (PORTS as u64 - 1) < busy / 32, "{idle} polls of idle ports in {busy} iterations");
    // The packets of the other devices are still received.
    for round in 1..=50 {
        for end in &ends[1..] {
            end.send(&[1]).unwrap();
        }
        wait(&|| counts[1..].iter().all(|(_, received)| value(received) == round));
    }
    drop(setup.workers);
}
