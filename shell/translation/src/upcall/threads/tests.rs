//! Real handler threads, and a worker that the test polls.

use super::{Handlers, Plan, allowed_cores};
use datapath::park::Limits;
use datapath::port::{FrameBatch, FramePool, RxQueue, RxResult, TxQueue, TxResult};
use datapath::{Config, Datapath, Event, Worker};
use dpif::{DpAction, DropReason, NoOwner, Translation, Upcall, UpcallHandler, Userspace};
use flow::Flow;
use flow::compose::compose;
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use units::{Cycles, Millis, PortNo, QueueId, WorkerId};

/// A cycle counter; nanoseconds serve as cycles.
fn count() -> Cycles {
    Cycles(runtime::cpu_time::monotonic())
}

fn cores(list: &[u32]) -> BTreeSet<u32> {
    list.iter().copied().collect()
}

#[test]
fn one_thread_per_core_at_most() {
    let all = cores(&[0, 1, 2, 3, 4, 5, 6, 7]);
    let n = |asked, polled: &[u32]| Plan::new(asked, &all, &cores(polled)).threads;
    assert_eq!((n(None, &[]), n(None, &[1, 2, 3, 4, 5]), n(None, &[0, 1, 2, 3, 4, 5, 6, 7])), (5, 3, 0));
    assert_eq!((n(Some(2), &[1]), n(Some(0), &[]), n(Some(99), &[0])), (2, 1, 99));
    assert_eq!(n(Some(4), &[0, 1, 2, 3, 4, 5, 6, 7]), 0);
    assert_eq!(Plan::new(None, &cores(&[0, 1]), &cores(&[1])), Plan { threads: 1, cores: cores(&[0]) });
    assert_eq!(Plan::new(None, &cores(&[0]), &cores(&[])).threads, 1);
}

#[test]
fn threads_start_and_end_without_losing_upcalls() {
    let datapath = Datapath::new(&datapath::Config::default());
    let mut handlers = Handlers::default();
    let all = allowed_cores();
    for threads in [1, 3, 0, 2] {
        handlers.set(&datapath, &Plan { threads, cores: all.clone() });
        assert_eq!(handlers.threads.len(), threads);
    }
    drop(handlers);
    assert_eq!(Arc::strong_count(&datapath), 1);
}

/// A port that receives queued packets and counts the packets that are sent to it.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<VecDeque<Vec<u8>>>>, Arc<AtomicU64>);

impl RxQueue for Wire {
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, max: usize) -> RxResult {
        let mut queue = self.0.lock().unwrap();
        while out.len() < max
            && let Some(bytes) = queue.pop_front()
        {
            out.extend(pool.frame_of(&bytes));
        }
        RxResult { more: !queue.is_empty(), ..RxResult::default() }
    }
}

impl TxQueue for Wire {
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        self.1.fetch_add(frames.len() as u64, Ordering::Relaxed);
        TxResult { sent: frames.len() as u32, ..TxResult::default() }
    }
}

/// A slow handler: after a delay, a megaflow for each source that outputs to port 2.
#[derive(Default)]
struct SlowHandler {
    delay: Duration,
    served: AtomicU64,
    /// Number of upcalls that had been served before a packet of port 3 was served; 0: no such packet was served yet.
    served_before_port_3: AtomicU64,
}

impl UpcallHandler for SlowHandler {
    fn miss(&self, upcall: Upcall<'_>) -> Translation {
        std::thread::sleep(self.delay);
        let before = self.served.fetch_add(1, Ordering::Relaxed);
        if upcall.flow.in_port == 3 {
            self.served_before_port_3.store(before, Ordering::Relaxed);
        }
        Translation {
            actions: Arc::new([DpAction::Output(PortNo(2))]),
            mask: Box::new(Flow { nw_src: u32::MAX, ..Flow::ZERO }),
            slow_path: None,
            install: true,
            version: 0,
            owner: Arc::new(NoOwner),
            dependency_set: 0,
            error: None,
        }
    }

    fn userspace(&self, _: &[u8], _: &Flow, _: &Userspace) {}

    fn is_current(&self, _: u64) -> bool {
        true
    }
}

fn packet(src: u32) -> Vec<u8> {
    compose(&Flow { dl_type: 0x0800, nw_proto: 17, nw_ttl: 64, nw_src: src, ..Flow::ZERO }, b"")
}

fn parking(datapath: &Arc<Datapath>) -> Worker {
    let mut worker = datapath.worker(WorkerId(0), 0);
    worker.park_misses(Limits::default(), Arc::new(|| {}), count);
    worker
}

/// Removes a port while its upcalls are in progress, repeatedly.
#[test]
fn removing_a_port_drops_its_parked_packets() {
    let datapath = Datapath::new(&Config::default());
    datapath
        .set_handler(Arc::new(SlowHandler { delay: Duration::from_micros(50), ..SlowHandler::default() }));
    let mut handlers = Handlers::default();
    handlers.set(&datapath, &Plan { threads: 2, cores: allowed_cores() });
    let (rx, tx) = (Wire::default(), Wire::default());
    datapath.add_port(PortNo(2), vec![Box::new(tx.clone())]).unwrap();
    let mut worker = parking(&datapath);
    for round in 0..1000u32 {
        let now = Millis(u64::from(round));
        datapath.add_port(PortNo(1), vec![]).unwrap();
        worker.add_rxq(PortNo(1), QueueId(0), Box::new(rx.clone()));
        rx.0.lock().unwrap().extend((0..8).map(|i| packet(round * 4 + i % 4)));
        for _ in 0..round % 4 + 1 {
            worker.poll_and_publish(now, count);
        }
        if round % 3 == 0 {
            worker.translate_parked(PortNo(1), now);
        }
        assert!(worker.remove_rxq(PortNo(1), QueueId(0)).is_some());
        worker.go_idle();
        datapath.del_port(PortNo(1)).unwrap();
        let tally = datapath.tally();
        assert_eq!((tally.balance(), tally.parked()), (0, 0));
        if round % 100 == 0 {
            datapath.flow_flush(now);
        }
        if round % 250 == 0 {
            let threads = round as usize / 250 % 3;
            handlers.set(&datapath, &Plan { threads, cores: allowed_cores() });
        }
    }
    let tally = datapath.tally();
    assert_eq!(tally.get(Event::Received), 8000);
    assert_eq!(tx.1.load(Ordering::Relaxed) + tally.dropped(DropReason::PortRemoved), 8000);
}

/// A storm of new flows at one port, served slowly, hardly delays established flows of that port and new flows of
/// another. Only numbers of packets and translations are asserted; speed depends on the machine.
#[test]
fn a_storm_does_not_delay_other_ports() {
    let datapath = Datapath::new(&Config::default());
    let slow = Arc::new(SlowHandler { delay: Duration::from_millis(1), ..SlowHandler::default() });
    datapath.set_handler(slow.clone());
    let mut handlers = Handlers::default();
    handlers.set(&datapath, &Plan { threads: 1, cores: allowed_cores() });
    let (storm, calm, tx) = (Wire::default(), Wire::default(), Wire::default());
    let mut worker = parking(&datapath);
    for (no, wire) in [(1, &storm), (2, &tx), (3, &calm)] {
        datapath.add_port(PortNo(no), vec![Box::new(wire.clone())]).unwrap();
        worker.add_rxq(PortNo(no), QueueId(0), Box::new(wire.clone()));
    }
    let start = Instant::now();
    let turn = |worker: &mut Worker| {
        worker.poll_and_publish(Millis(start.elapsed().as_millis() as u64), count);
    };
    let sent = || tx.1.load(Ordering::Relaxed);
    let served = || slow.served.load(Ordering::Relaxed);
    let served_before_calm = || slow.served_before_port_3.load(Ordering::Relaxed);
    storm.0.lock().unwrap().push_back(packet(0));
    while sent() < 1 {
        turn(&mut worker);
    }
    let (mut src, mut others, mut asked) = (0, 0, None);
    while src <= 3000 || served_before_calm() == 0 {
        assert!(start.elapsed() < Duration::from_secs(30), "the calm port waits for the storm");
        for _ in 0..16 {
            src += 1;
            storm.0.lock().unwrap().extend([packet(src), packet(0)]);
        }
        if asked.is_none() && src > 1000 {
            calm.0.lock().unwrap().push_back(packet(u32::MAX));
            asked = Some(served());
        }
        turn(&mut worker);
        others += 16;
        assert!(sent() > others, "an established packet was kept");
    }
    assert!(u64::from(src) > 4 * served(), "{src} new flows came while {} were translated", served());
    let waited = served_before_calm() - asked.unwrap();
    assert!(waited < 64, "{waited} flows of the storm went first");
    assert_eq!(datapath.tally().balance(), 0);
}
