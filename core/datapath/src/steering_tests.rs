//! Selection of tx queues, tested through the complete path.

use crate::tests::{Setup, Wire, all, out, tcp};
use flow::compose::compose;
use std::collections::BTreeSet;
use units::{Cycles, Millis, PortNo, QueueId, WorkerId};

fn packet(src: u32) -> Vec<u8> {
    compose(&tcp(src, 80), b"x")
}

/// All packets go to port 2, which has two queues.
fn setup(senders: usize) -> (Setup, [Wire; 2]) {
    let setup = Setup::new(vec![all(vec![out(2)])]);
    let queues = [Wire::default(), Wire::default()];
    let boxed = queues.iter().map(|q| Box::new(q.clone()) as _).collect();
    setup.datapath.set_tx_queues(PortNo(2), boxed).unwrap();
    setup.datapath.set_senders(senders);
    (setup, queues)
}

fn mode(setup: &Setup) -> (&'static str, Vec<Vec<u16>>) {
    let found = setup.datapath.tx_queues(PortNo(2), Millis(setup.now)).unwrap();
    let users = found.users.iter().map(|list| list.iter().map(|w| w.0).collect()).collect();
    (found.mode.name(), users)
}

#[test]
fn workers_share_queues_where_there_are_too_few() {
    let (mut setup, queues) = setup(3);
    let mut other = setup.datapath.worker(WorkerId(1), 1);
    let wire = Wire::default();
    other.add_rxq(PortNo(3), QueueId(1), Box::new(wire.clone()));
    wire.put(&packet(1));
    assert!(other.poll(Millis(setup.now), Cycles(0)));
    setup.send(1, &packet(2));
    assert_eq!(mode(&setup), ("xps", vec![vec![1], vec![0]]));
    assert_eq!(queues.each_ref().map(|q| q.take().len()), [1, 1]);
    setup.now += 1000;
    setup.send(1, &packet(2));
    assert_eq!(mode(&setup), ("xps", vec![vec![0], vec![]]));
    setup.datapath.set_senders(2);
    assert_eq!(mode(&setup).0, "static");
}

#[test]
fn a_hash_spreads_packets_and_keeps_a_flow_together() {
    let (mut setup, queues) = setup(1);
    assert!(setup.datapath.set_tx_hash(PortNo(2), true) && !setup.datapath.set_tx_hash(PortNo(2), true));
    assert_eq!(mode(&setup).0, "hash");
    for i in 0..128 {
        setup.rx[0].put(&packet(i % 64));
    }
    setup.run();
    let sent = queues.each_ref().map(Wire::take);
    assert_eq!(sent.iter().map(Vec::len).sum::<usize>(), 128);
    let flows = sent.map(|packets| packets.into_iter().collect::<BTreeSet<_>>());
    assert!(flows.iter().all(|f| f.len() > 16) && flows[0].is_disjoint(&flows[1]));
    assert_eq!(setup.datapath.tally().balance(), 0);
    assert!(!setup.datapath.set_tx_hash(PortNo(9), true));
}
