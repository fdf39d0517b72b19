//! A queue that several ports share: each packet is processed as a packet of its port, and is counted there.

use crate::park::Limits;
use crate::port::{FrameBatch, FramePool, RxQueue, RxResult};
use crate::ports::SHARED_RX;
use crate::tests::{Setup, out, tcp};
use flow::Flow;
use flow::compose::compose;
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use units::{Cycles, Millis, PortNo, QueueId};

/// A packet, and the port that received it.
type ReceivedPacket = (u32, Vec<u8>);

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<VecDeque<ReceivedPacket>>>);

impl RxQueue for Shared {
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, max: usize) -> RxResult {
        let mut queue = self.0.lock().unwrap();
        let port = queue.front().map(|(port, _)| *port);
        while out.len() < max
            && let Some((_, bytes)) = queue.pop_front_if(|(of, _)| Some(*of) == port)
        {
            out.extend(pool.frame_of(&bytes));
        }
        RxResult { port: port.and_then(NonZeroU32::new), ..RxResult::default() }
    }
}

/// Rules that send what port 1 receives to 3, and what port 2 receives to 4.
fn setup() -> (Setup, Shared) {
    let from = |port, to| {
        let any = Flow { in_port: u32::MAX, ..Flow::ZERO };
        (Flow { in_port: port, ..Flow::ZERO }, any, vec![out(to)])
    };
    let (mut setup, shared) = (Setup::new(vec![from(1, 3), from(2, 4)]), Shared::default());
    setup.worker.add_rxq(SHARED_RX, QueueId(0), Box::new(shared.clone()));
    (setup, shared)
}

fn put(shared: &Shared, ports: &[u32]) {
    let packet = |port: &u32| (*port, compose(&tcp(1, 80), b"hello"));
    shared.0.lock().unwrap().extend(ports.iter().map(packet));
}

fn received(setup: &Setup, port: u32) -> u64 {
    setup.datapath.port_stats(PortNo(port)).unwrap().rx_packets
}

#[test]
fn packets_of_a_shared_queue_belong_to_their_ports() {
    let (mut setup, shared) = setup();
    put(&shared, &[1, 1, 2, 1, 2]);
    (0..5).for_each(|_| setup.run());
    assert_eq!((setup.tx[2].take().len(), setup.tx[3].take().len()), (3, 2));
    assert_eq!((received(&setup, 1), received(&setup, 2)), (3, 2));
    assert_eq!(setup.balance(), 0);
    // Another port gets the number, and counts from zero. The queue still has the counters of the old port.
    setup.datapath.del_port(PortNo(1)).unwrap();
    setup.datapath.add_port(PortNo(1), Vec::new()).unwrap();
    put(&shared, &[1, 2]);
    (0..3).for_each(|_| setup.run());
    assert_eq!((received(&setup, 1), received(&setup, 2)), (1, 3));
}

/// Before a shared queue is handed over to another worker, the parked packets of all its ports are sent.
#[test]
fn parked_packets_of_all_ports_are_settled() {
    let (mut setup, shared) = setup();
    setup.worker.park_misses(Limits::default(), Arc::new(|| {}), || Cycles(0));
    let _server = setup.datapath.upcall_server();
    put(&shared, &[1, 2, 2]);
    (0..3).for_each(|_| setup.run());
    assert_eq!(setup.datapath.tally().parked(), 3);
    setup.worker.translate_parked(SHARED_RX, Millis(setup.now));
    assert!(setup.worker.remove_rxq(SHARED_RX, QueueId(0)).is_some());
    assert_eq!((setup.tx[2].take().len(), setup.tx[3].take().len()), (1, 2));
    assert_eq!((setup.datapath.tally().parked(), setup.balance()), (0, 0));
}
