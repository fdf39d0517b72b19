//! `dummy` ports: from command to queue, from queue to file and stream.

mod common;

use common::frame_of;
use netdev::device::Netdev;
use netdev::dummy::InjectError;
use netdev::open::{DummyLevel, Netdevs};
use packet::frame::FramePool;
use packet::offload::{Gso, GsoKind, Offload, PartialChecksum};
use std::collections::BTreeMap;

fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn dummy(kind: &str, pairs: &[(&str, &str)]) -> Box<dyn Netdev> {
    dummy_of(&mut Netdevs::new(DummyLevel::On), kind, pairs)
}

fn dummy_of(netdevs: &mut Netdevs, kind: &str, pairs: &[(&str, &str)]) -> Box<dyn Netdev> {
    let (device, refused) = netdevs.open("p1", kind, &options(pairs)).unwrap();
    assert!(refused.is_none());
    device
}

#[test]
fn injected_frames_are_received_in_order_and_counted() {
    let mut port = dummy("dummy", &[]);
    let handle = port.dummy().unwrap().clone();
    let mut rx = port.take_rx_queues().pop().unwrap();
    for i in 0..150 {
        handle.inject(&[i; 64], 0).unwrap();
    }
    assert_eq!(handle.inject(&[0; 64], 1), Err(InjectError::BadQueue));
    assert_eq!(handle.waiting(), 100, "the queue is bounded");
    let mut pool = FramePool::new(8);
    let mut batch = Vec::new();
    while rx.queue.rx(&mut pool, &mut batch, 32).more {}
    assert_eq!(batch.len(), 100);
    assert_eq!(batch[99].bytes(), [99; 64]);
    let pairs: BTreeMap<String, u64> = port.stats().unwrap().pairs().into_iter().collect();
    assert_eq!(pairs["rx_packets"], 100);
    assert_eq!(pairs["rx_bytes"], 6400);
    assert_eq!(pairs["rx_custom_packets_1"], 100);
    assert_eq!(pairs["rx_q0_packets"], 100);
    assert!(!pairs.contains_key("rx_dropped"));
}

#[test]
fn sent_frames_go_to_the_file_and_work_left_undone_is_done() {
    let path = std::env::temp_dir().join(format!("dummy-pcap-{}", std::process::id()));
    let mut netdevs = Netdevs::new(DummyLevel::On);
    let mut port = dummy_of(&mut netdevs, "dummy", &[("tx_pcap", path.to_str().unwrap())]);
    let mut pool = FramePool::new(8);
    let mut large = pool.frame_of(&tcp_packet(4000)).unwrap();
    large.set_offload(Offload {
        csum: Some(PartialChecksum { start: 34, offset: 16 }),
        gso: Some(Gso { kind: GsoKind::Tcp4, size: 1400, ecn: false }),
    });
    let mut batch = vec![frame_of(&mut pool, &[], 50), large, frame_of(&mut pool, &[], 3000)];
    let result = port.tx_queue().tx(&mut batch);
    assert_eq!((result.sent, result.too_long, result.dropped), (2, 1, 0));
    assert_eq!(port.stats().unwrap().tx_packets, Some(4));
    let file = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(file.len(), 24 + 4 * 16 + 64 + 3 * 54 + 4000);
    assert_eq!(file[..4], 0xa1b2_c3d4u32.to_ne_bytes());
    assert_eq!(file[40..46], [2, 0, 0, 0, 0, 1]);
    // The file was deleted, so the capture opens a new one, with one header.
    netdevs.renew_captures();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 24);
    port.tx_queue().tx(&mut vec![frame_of(&mut pool, &[], 50)]);
    netdevs.renew_captures();
    assert!(std::fs::metadata(&path).unwrap().len() > 24);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_dummy_with_a_segment_size_receives_and_sends_long_pieces() {
    let mut port = dummy("dummy", &[("ol_tso_segsz", "500")]);
    let mut rx = port.take_rx_queues().pop().unwrap();
    let handle = port.dummy().unwrap().clone();
    for payload in [1400, 500] {
        handle.inject(&tcp_packet(payload), 0).unwrap();
    }
    let (mut pool, mut batch) = (FramePool::new(8), Vec::new());
    rx.queue.rx(&mut pool, &mut batch, 32);
    let gso = batch[0].offload().gso;
    assert_eq!(gso, Some(Gso { kind: GsoKind::Tcp4, size: 500, ecn: false }));
    assert!(!batch[1].has_offload_state() && batch[1].bytes() == tcp_packet(500));
    assert!(port.facts().unwrap().tx_offloads.segmentation);
    for pieces in [1, 3] {
        let before = port.stats().unwrap().tx_packets;
        port.tx_queue().tx(&mut batch[..1].iter().map(|f| pool.copy_of(f).unwrap()).collect());
        assert_eq!(port.stats().unwrap().tx_packets, before.map(|n| n + pieces));
        port.set_options(&options(&[])).unwrap();
    }
}

/// If a packet has changed since the device reported its checksum as right, the checksum is computed again when the packet is sent. A
/// device that only offers to compute it sends the received checksum.
#[test]
fn a_dummy_computes_or_leaves_checksums_that_were_stated_to_be_right() {
    let sum = |frame: &[u8], at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let right = packet::checksum::checksum(&tcp_packet(100)[14..34]);
    let send = |rx: &[(&str, &str)], tx: &[(&str, &str)], change: bool| {
        let (mut port, to) = (dummy("dummy", rx), dummy("dummy", tx));
        let mut wrong = tcp_packet(100);
        wrong[24] = 0x12;
        port.dummy().unwrap().inject(&wrong, 0).unwrap();
        let (mut pool, mut batch) = (FramePool::new(8), Vec::new());
        port.take_rx_queues().pop().unwrap().queue.rx(&mut pool, &mut batch, 32);
        if change {
            // The switch updates a checksum by the difference of the data: 64 to 63.
            batch[0].bytes_mut()[22] = 63;
            batch[0].bytes_mut()[24] = 0x13;
        }
        to.tx_queue().tx(&mut batch);
        sum(batch[0].bytes(), 24)
    };
    let good = [("ol_ip_rx_csum_set_good", "true")];
    let partial = [("ol_ip_rx_csum_set_partial", "true")];
    let left = [("ol_ip_tx_csum", "true"), ("ol_ip_tx_csum_disabled", "true")];
    assert_eq!(send(&[], &[], true), 0x1300);
    assert_eq!(send(&good, &[], false), 0x1200);
    assert_eq!(send(&good, &[], true), right + 0x100);
    assert_eq!(send(&good, &left[..1], true), right + 0x100);
    assert_eq!(send(&good, &left, true), 0x1200);
    assert_eq!(send(&partial, &[], false), right);
    let set = dummy("dummy", &left).options();
    assert_eq!(set.keys().collect::<Vec<_>>(), ["ol_ip_tx_csum", "ol_ip_tx_csum_disabled"]);
}

fn tcp_packet(payload: usize) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    f.extend((40 + payload as u16).to_be_bytes());
    f.extend([0, 7, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    f.extend([0, 80, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    f.resize(54 + payload, 0);
    f
}

#[test]
fn queues_of_dummy_pmd_are_replaced_on_demand() {
    let mut port = dummy("dummy-pmd", &[("n_rxq", "3"), ("numa_id", "1")]);
    assert_eq!((port.n_rxq(), port.n_txq(), port.numa_id().0, port.is_pmd()), (3, 1, 1, true));
    let mut old = port.take_rx_queues();
    assert_eq!(old.len(), 3);
    let handle = port.dummy().unwrap().clone();
    handle.inject(&[1; 64], 2).unwrap();
    let same = options(&[("n_rxq", "3"), ("numa_id", "1")]);
    assert!(!port.set_options(&same).unwrap());
    assert!(port.set_options(&options(&[("n_rxq", "2")])).unwrap());
    let mut batch = Vec::new();
    old[2].queue.rx(&mut FramePool::new(1), &mut batch, 32);
    assert!(batch.is_empty());
    assert_eq!(port.take_rx_queues().len(), 2);
    assert_eq!(port.options()["n_rxq"], "2");
}

#[test]
fn settings_are_remembered() {
    let mut port = dummy("dummy", &[("ifindex", "77")]);
    let before = port.change_seq();
    port.set_mac([2; 6]).unwrap();
    port.set_mtu(9000).unwrap();
    assert!(port.set_mtu(67).is_err());
    port.dummy().unwrap().set_admin(false);
    let facts = port.facts().unwrap();
    assert_eq!((facts.mac, facts.mtu, facts.admin_up, facts.link_up), ([2; 6], 9000, false, true));
    assert_eq!(facts.ifindex, Some(77));
    assert_eq!(port.change_seq(), before + 3);
}
