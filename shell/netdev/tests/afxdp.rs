//! `afxdp` ports on real veth pairs.

mod common;

use common::{Cleanup, can_make_devices, frame_of, ip, open, receive, unique, veth};
use netdev::device::Netdev;
use netdev::open::{DummyLevel, Netdevs};
use packet::frame::{Frame, FramePool};
use packet::offload::{Offload, PartialChecksum};
use packet::queue::RxQueue;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::process::Command;

fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn open_with(name: &str, pairs: &[(&str, &str)]) -> Result<Box<dyn Netdev>, String> {
    let opened = Netdevs::new(DummyLevel::Off).open(name, "afxdp", &options(pairs));
    opened.map(|(device, _)| device).map_err(|e| e.to_string())
}

fn bytes_of(frames: &[Frame]) -> Vec<Vec<u8>> {
    frames.iter().map(|f| f.bytes().to_vec()).collect()
}

fn first_queue(device: &mut dyn Netdev) -> Box<dyn RxQueue> {
    device.take_rx_queues().remove(0).queue
}

fn program_on(name: &str) -> bool {
    let output = Command::new("ip").args(["link", "show", name]).output().expect("ip starts");
    String::from_utf8_lossy(&output.stdout).contains("xdp")
}

#[test]
fn frames_cross_in_each_mode() {
    if !can_make_devices() {
        return;
    }
    for (wanted, mode) in [("best-effort", "native"), ("native", "native"), ("generic", "generic")] {
        let (a, b, _veth) = veth("x");
        let mut a = open_with(&a, &[("xdp-mode", wanted)]).unwrap();
        let mut b = open_with(&b, &[("xdp-mode", wanted)]).unwrap();
        assert_eq!(a.facts().unwrap().status.get("xdp-mode").map(String::as_str), Some(mode));
        assert_eq!(a.options(), options(&[("n_rxq", "1"), ("xdp-mode", wanted)]));
        let mut pool = FramePool::new(64);
        let (mut rx_a, mut rx_b) = (first_queue(&mut *a), first_queue(&mut *b));
        let (mut tx_a, mut tx_b) = (a.tx_queue(), b.tx_queue());
        // More than the rings hold.
        for round in 0..100 {
            for (tx, rx) in [(&mut tx_a, &mut rx_b), (&mut tx_b, &mut rx_a)] {
                let mut batch: Vec<Frame> =
                    (0..64).map(|i| frame_of(&mut pool, &[], 46 + i * 20 + round)).collect();
                let expected = bytes_of(&batch);
                let result = tx.tx(&mut batch);
                assert_eq!((result.sent, result.dropped, result.too_long), (64, 0, 0), "{wanted} {round}");
                assert_eq!(result.sent_bytes, expected.iter().map(|f| f.len() as u64).sum::<u64>());
                let got = receive(&mut **rx, &mut pool, 64);
                assert!(bytes_of(&got) == expected, "{wanted} {round}: {} of 64", got.len());
                got.into_iter().chain(batch).for_each(|f| pool.free(f));
            }
        }
        let stats = b.stats().unwrap();
        assert!(stats.rx_packets >= Some(6400) && stats.tx_packets >= Some(6400), "{stats:?}");
        assert_eq!((stats.rx_dropped, stats.tx_dropped), (Some(0), Some(0)));
        let custom: Vec<_> = stats.custom.iter().map(|(k, v)| (k.as_str(), *v)).collect();
        let expected =
            ["xsk_queue_0_rx_dropped", "xsk_queue_0_rx_invalid_descs", "xsk_queue_0_tx_invalid_descs"];
        assert_eq!(custom, expected.map(|name| (name, 0)));
    }
}

#[test]
fn the_device_is_as_before_when_the_port_is_gone() {
    if !can_make_devices() {
        return;
    }
    let (name, peer, _veth) = veth("g");
    let mut a = open(&name, "afxdp");
    assert!(a.is_pmd() && program_on(&name));
    assert_eq!(
        open_with(&name, &[]).err().unwrap(),
        format!("{name}: AF_XDP sockets could not be opened (Device or resource busy)")
    );
    let (mut rx, mut tx) = (first_queue(&mut *a), a.tx_queue());
    assert!(a.take_rx_queues().is_empty());
    drop(a);
    assert!(!program_on(&name));
    // Queues that a worker still holds receive and send nothing.
    let mut pool = FramePool::new(4);
    let mut batch = vec![frame_of(&mut pool, &[], 60)];
    assert_eq!(tx.tx(&mut batch).dropped, 1);
    let peer = open(&peer, "system");
    assert_eq!(peer.tx_queue().tx(&mut batch).sent, 1);
    assert!(receive(&mut *rx, &mut pool, 1).is_empty());
    drop((rx, tx));
    assert!(!open(&name, "afxdp-nonpmd").is_pmd());
    let output = Command::new("ip").args(["-d", "link", "show", &name]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("promiscuity 0"));
}

#[test]
fn a_restart_changes_the_mode_and_waits_for_the_queues() {
    if !can_make_devices() {
        return;
    }
    let (name, peer, _veth) = veth("r");
    let (mut a, b) = (open(&name, "afxdp"), open(&peer, "system"));
    let mut pool = FramePool::new(4);
    let held = a.take_rx_queues();
    assert!(!a.set_options(&options(&[("xdp-mode", "generic")])).unwrap() && a.needs_restart());
    let refused = a.restart().unwrap_err().to_string();
    assert!(refused.ends_with("(Device or resource busy)"), "{refused}");
    assert!(a.take_rx_queues().is_empty() && a.n_rxq() == 0 && a.needs_restart() && !program_on(&name));
    assert_eq!(a.tx_queue().tx(&mut vec![frame_of(&mut pool, &[], 60)]).dropped, 1);
    drop(held);
    a.restart().unwrap();
    assert!(!a.needs_restart());
    assert_eq!(a.facts().unwrap().status.get("xdp-mode").map(String::as_str), Some("generic"));
    let mut rx = first_queue(&mut *a);
    let mut batch = vec![frame_of(&mut pool, &[], 60)];
    assert_eq!(b.tx_queue().tx(&mut batch).sent, 1);
    assert_eq!(bytes_of(&receive(&mut *rx, &mut pool, 1)), bytes_of(&batch));
    let why = a.set_options(&options(&[("xdp-mode", "fast")])).unwrap_err();
    assert_eq!(why.to_string(), format!("{name}: could not set configuration (Invalid argument)"));
    assert_eq!(why.detail(), Some(&*format!("{name}: Incorrect xdp-mode (fast).")));
    assert!(!a.needs_restart());
}

#[test]
fn a_checksum_left_undone_is_finished_or_noted() {
    if !can_make_devices() {
        return;
    }
    let (name, peer, _veth) = veth("c");
    let (a, mut b) = (open(&name, "afxdp"), open(&peer, "system"));
    let mut pool = FramePool::new(8);
    let (mut tx, mut rx) = (a.tx_queue(), first_queue(&mut *b));
    // UDP, whose field holds the sum of the pseudo header: 10.0.0.1 and 10.0.0.2, protocol 17, length 12.
    let ip = [0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let udp = [0, 1, 0, 2, 0, 12, 0x14, 0x20, 1, 2, 3, 4];
    let packet = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], &ip, &udp].concat();
    for (start, offset, sent) in [(34, 6, 1), (34, 11, 0), (u16::MAX, u16::MAX, 0)] {
        let mut frame = pool.frame_of(&packet).unwrap();
        frame.set_offload(Offload { csum: Some(PartialChecksum { start, offset }), gso: None });
        let result = tx.tx(&mut vec![frame]);
        assert_eq!((result.sent, result.dropped), (sent, 1 - sent), "{start} {offset}");
    }
    let got = receive(&mut *rx, &mut pool, 1);
    assert_eq!(got.len(), 1);
    match got[0].offload().csum {
        Some(note) => {
            assert_eq!(note, PartialChecksum { start: 34, offset: 6 });
            assert_eq!(got[0].bytes(), packet);
        }
        // The rest of the packet sums up to 0x0415.
        None => assert_eq!(got[0].bytes()[40..42], (!(0x1420_u16 + 0x0415)).to_be_bytes()),
    }
}

#[test]
fn a_device_with_two_queues_has_two_sockets() {
    if !can_make_devices() {
        return;
    }
    let (a, b) = (unique("qa"), unique("qb"));
    ip(&format!(
        "link add {a} numrxqueues 2 numtxqueues 2 type veth peer name {b} numrxqueues 2 numtxqueues 2"
    ));
    let _cleanup = Cleanup(format!("link del {a}"));
    let mut device = open_with(&a, &[("n_rxq", "2")]).unwrap();
    assert_eq!((device.n_rxq(), device.n_txq(), device.take_rx_queues().len()), (2, 2, 2));
    assert_eq!(device.stats().unwrap().custom.len(), 6);
    let too_many = open_with(&b, &[("n_rxq", "5")]).err().unwrap();
    // The kernel refuses the third queue. A later mode may fail because a socket is not freed yet, so the reason is not compared.
    assert!(too_many.starts_with(&format!("{b}: AF_XDP sockets could not be opened (")), "{too_many}");
    assert!(!program_on(&b));
}

#[test]
fn a_copy_of_the_link_keeps_no_program() {
    if !can_make_devices() {
        return;
    }
    let (name, peer, _veth) = veth("k");
    let device = open_with(&name, &[("xdp-mode", "native")]).unwrap();
    let copies = copies_of_bpf_links();
    assert!(!copies.is_empty());
    drop(device);
    assert!(!program_on(&name));
    open_with(&name, &[("xdp-mode", "generic")]).unwrap();
    drop((peer, copies));
}

/// Copies of file descriptors, as a child process of another thread has them between `fork` and `exec`.
fn copies_of_bpf_links() -> Vec<OwnedFd> {
    let me = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten().filter(|entry| {
        std::fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().contains("bpf_link"))
    });
    let numbers = links.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|fd| pidfd_getfd(&me, fd, PidfdGetfdFlags::empty()).ok()).collect()
}

#[test]
fn too_long_is_counted_and_a_device_may_go() {
    if !can_make_devices() {
        return;
    }
    let (name, peer, _veth) = veth("l");
    let (mut a, mut b) = (open(&name, "afxdp"), open(&peer, "afxdp"));
    let mut pool = FramePool::new(64);
    let (mut rx, mut tx) = (first_queue(&mut *b), a.tx_queue());
    let mut batch =
        vec![frame_of(&mut pool, &[], 60), frame_of(&mut pool, &[], 3000), frame_of(&mut pool, &[], 61)];
    let result = tx.tx(&mut batch);
    assert_eq!((result.sent, result.too_long, result.dropped), (2, 1, 0));
    assert_eq!(receive(&mut *rx, &mut pool, 2).len(), 2);
    assert!(a.stats().unwrap().tx_dropped >= Some(1));
    assert!(a.set_mtu(3695).is_err());
    a.set_mtu(1400).unwrap();
    assert_eq!(tx.tx(&mut vec![frame_of(&mut pool, &[], 1450)]).too_long, 1);
    ip(&format!("link set {name} down"));
    assert_eq!(tx.tx(&mut vec![frame_of(&mut pool, &[], 60)]).dropped, 1);
    ip(&format!("link del {name}"));
    assert_eq!(a.facts().unwrap_err().errno(), 19);
    for _ in 0..100 {
        let mut batch = (0..64).map(|_| frame_of(&mut pool, &[], 60)).collect();
        assert_eq!(tx.tx(&mut batch).dropped, 64);
    }
    assert!(receive(&mut *rx, &mut pool, 1).is_empty());
    assert!(a.set_options(&options(&[("xdp-mode", "generic")])).is_ok());
    assert!(a.restart().is_err());
}
