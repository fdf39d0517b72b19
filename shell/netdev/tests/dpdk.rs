//! Ports of type `dpdk` on devices that need no hardware, with the real environment in ordinary memory.
//!
//! This is a program without a test harness, because the environment is initialized only once per process, and because it starts
//! the program again to try its start. If the environment cannot be started, the test prints the reason and passes.

use dpdk::eal::{self, EalOptions};
use netdev::device::Netdev;
use netdev::error::NetdevError;
use netdev::open::Netdevs;
use packet::frame::{FrameBatch, FramePool};
use packet::offload::{Offload, PartialChecksum};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let argv: Vec<String> = std::env::args().collect();
    if let Some(code) = dpdk::trial_start::run_if_child(&argv) {
        return code;
    }
    let words = "--no-huge -m 512 --no-shconf --no-pci --no-telemetry";
    let options = EalOptions {
        program: "netdev-test".to_owned(),
        // Small pools, because there is little memory.
        config: BTreeMap::from(
            [("dpdk-extra", words), ("per-port-memory", "true")].map(|(k, v)| (k.to_owned(), v.to_owned())),
        ),
        rundir: std::env::temp_dir(),
        sink: |_, level, line| eprintln!("{level:?}: {line}"),
    };
    if let Err(why) = eal::init(&options) {
        println!("skipped: DPDK does not start here: {why}");
        return ExitCode::SUCCESS;
    }
    let mut netdevs = Netdevs::default();
    refusals(&mut netdevs);
    packets_cross_a_ring(&mut netdevs);
    nothing_is_sent_beyond_the_mtu(&mut netdevs);
    a_restart_waits_for_queues(&mut netdevs);
    cycles(&mut netdevs);
    rates(&mut netdevs);
    println!("test result: ok");
    ExitCode::SUCCESS
}

type Opened = Result<(Box<dyn Netdev>, Option<NetdevError>), NetdevError>;

fn open(netdevs: &mut Netdevs, name: &str, options: &[(&str, &str)]) -> Opened {
    let options = options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    netdevs.open(name, "dpdk", &options)
}

fn started(netdevs: &mut Netdevs, name: &str, devargs: &str) -> Box<dyn Netdev> {
    let (mut port, told) = open(netdevs, name, &[("dpdk-devargs", devargs)]).unwrap();
    assert_eq!(told, None);
    port.set_senders(1);
    assert!(port.needs_restart());
    port.restart().unwrap();
    assert!(!port.needs_restart());
    port
}

fn refusals(netdevs: &mut Netdevs) {
    let error = |opened: Opened| opened.err().map(|e| e.to_string()).unwrap_or_default();
    assert_eq!(
        error(open(netdevs, "p0", &[])),
        "'p0' is missing 'options:dpdk-devargs'. The old 'dpdk<port_id>' names are not supported"
    );
    for devargs in ["net_nothing0", "0000:ff:1f.7", "class=eth,mac=00:11:22:33:44:55", "net_null0,bad\0"] {
        assert_eq!(
            error(open(netdevs, "p0", &[("dpdk-devargs", devargs)])),
            format!("Error attaching device '{devargs}' to DPDK")
        );
    }
    let (port, _) = open(netdevs, "p0", &[("dpdk-devargs", "net_null7")]).unwrap();
    assert_eq!(
        error(open(netdevs, "p1", &[("dpdk-devargs", "net_null7")])),
        "'p1' is trying to use device 'net_null7' which is already in use by 'p0'"
    );
    assert!(dpdk::ethdev::detach("net_null7").unwrap_err().contains("following interfaces: p0. Remove"));
    drop(port);
    assert_eq!(dpdk::ethdev::detach("net_null7").unwrap_err(), "Device 'net_null7' not found in DPDK");
    let odd =
        [("dpdk-devargs", "net_null8"), ("n_rxq_desc", "100"), ("rx-flow-ctrl", "true"), ("colour", "red")];
    let (port, told) = open(netdevs, "p2", &odd).unwrap();
    assert_eq!((port.options()["n_rxq_desc"].as_str(), told), ("2048", None));
    let lsc = [("dpdk-devargs", "net_null9"), ("dpdk-lsc-interrupt", "true")];
    assert_eq!(error(open(netdevs, "p3", &lsc)), "'p3': link status interrupt is not supported.");
}

/// A ring device receives what it sends.
fn packets_cross_a_ring(netdevs: &mut Netdevs) {
    let mut port = started(netdevs, "ring", "net_ring0");
    let mut rx = port.take_rx_queues();
    assert!(port.take_rx_queues().is_empty());
    let mut tx = port.tx_queue();
    let mut pool = FramePool::new(64);
    let mut frames: FrameBatch = (0..40u8).map(|i| pool.frame_of(&[i; 100]).unwrap()).collect();
    let sent = tx.tx(&mut frames);
    assert_eq!((sent.sent, sent.sent_bytes, frames.len()), (40, 4000, 40));
    let mut came = FrameBatch::new();
    assert!(rx[0].queue.rx(&mut pool, &mut came, 32).more);
    assert!(!rx[0].queue.rx(&mut pool, &mut came, 32).more);
    assert!(came.iter().enumerate().all(|(i, f)| f.bytes() == [i as u8; 100]));
    // A frame that was received from a device is sent without a copy, after bytes were added in front and removed at its end.
    let bytes = came[3].bytes().as_ptr();
    came[3].push_front(4).unwrap().copy_from_slice(b"vlan");
    came[3].trim(54);
    let copy = pool.copy_of(&came[3]).unwrap();
    let mut back = vec![came.swap_remove(3), copy];
    assert_eq!((tx.tx(&mut back).sent, back.len()), (2, 0));
    assert_eq!(rx[0].queue.rx(&mut pool, &mut back, 32).dropped, 0);
    assert_eq!(back[0].bytes()[4..].as_ptr(), bytes);
    assert_eq!((back[0].bytes(), back[0].len()), (back[1].bytes(), 54));
    // Frames that are copied keep their order among frames of a device, and are returned to the caller.
    let mut mixed: FrameBatch = (0..3u8).map(|i| pool.frame_of(&[i; 60]).unwrap()).collect();
    mixed.insert(2, back.swap_remove(0));
    back.clear();
    assert_eq!((tx.tx(&mut mixed).sent, mixed.len()), (4, 3));
    rx[0].queue.rx(&mut pool, &mut back, 32);
    assert_eq!(
        back.iter().map(|f| (f.len(), f.bytes()[59.min(f.len() - 1)])).collect::<Vec<_>>(),
        [(60, 0), (60, 1), (54, 3), (60, 2)]
    );
    // A checksum that the sender left to the device is completed.
    let mut partial = pool.frame_of(&[0; 60]).unwrap();
    partial.set_offload(Offload { csum: Some(PartialChecksum { start: 34, offset: 16 }), gso: None });
    tx.tx(&mut vec![partial]);
    back.clear();
    rx[0].queue.rx(&mut pool, &mut back, 32);
    assert_eq!(back[0].bytes()[50..52], [0xff, 0xff]);
    let stats: BTreeMap<_, _> = port.stats().unwrap().pairs().into_iter().collect();
    assert_eq!((stats["rx_packets"], stats["tx_packets"], stats["ovs_tx_failure_drops"]), (47, 47, 0));
    let facts = port.facts().unwrap();
    assert_eq!((facts.mtu, facts.admin_up, facts.link_up), (1500, true, true));
    assert_eq!((facts.status["driver_name"].as_str(), facts.status["n_rxq"].as_str()), ("net_ring", "1"));
}

fn nothing_is_sent_beyond_the_mtu(netdevs: &mut Netdevs) {
    let mut port = started(netdevs, "null", "net_null0");
    let mut pool = FramePool::new(64);
    let mut tx = port.tx_queue();
    let mut frames = vec![pool.frame_of(&[1; 1519]).unwrap(), pool.frame_of(&[1; 1518]).unwrap()];
    let sent = tx.tx(&mut frames);
    assert_eq!((sent.sent, sent.too_long), (1, 1));
    assert!(port.set_mtu(20_000).is_err() && port.set_mtu(10).is_err());
    port.set_mtu(9000).unwrap();
    assert!(port.needs_restart());
    drop(tx);
    port.restart().unwrap();
    let mut tx = port.tx_queue();
    let mut frames = vec![pool.frame_of(&[1; 9018]).unwrap()];
    assert_eq!((tx.tx(&mut frames).sent, port.facts().unwrap().mtu), (1, 9000));
}

fn a_restart_waits_for_queues(netdevs: &mut Netdevs) {
    let mut port = started(netdevs, "null", "net_null0");
    let queues = port.take_rx_queues();
    let many =
        BTreeMap::from([("dpdk-devargs", "net_null0"), ("n_rxq", "3")].map(|(k, v)| (k.into(), v.into())));
    port.set_options(&many).unwrap();
    assert!(port.restart().unwrap_err().to_string().contains("still in use"));
    assert!(port.needs_restart());
    drop(queues);
    port.restart().unwrap();
    assert_eq!((port.n_rxq(), port.take_rx_queues().len()), (3, 3));
    let other = BTreeMap::from([("dpdk-devargs".to_owned(), "net_null1".to_owned())]);
    port.set_options(&other).unwrap();
    port.restart().unwrap();
    assert_eq!(port.options()["dpdk-devargs"], "net_null1");
    assert!(dpdk::ethdev::detach("net_null0").unwrap_err().contains("not found"));
}

fn cycles(netdevs: &mut Netdevs) {
    for i in 0..20 {
        let mut ports = [("a", "net_null0"), ("b", "net_ring1"), ("c", "net_null3,size=1500")]
            .map(|(name, devargs)| started(netdevs, name, devargs));
        let mut rx = ports[i % 2].take_rx_queues();
        let mut tx = ports[2].tx_queue();
        let mut pool = FramePool::new(64);
        let mut frames = FrameBatch::new();
        rx[0].queue.rx(&mut pool, &mut frames, 32);
        tx.tx(&mut frames);
    }
}

/// Prints the time per packet from device to device in nanoseconds.
fn rates(netdevs: &mut Netdevs) {
    let mut a = started(netdevs, "a", "net_null0");
    let mut b = started(netdevs, "b", "net_null1");
    let (mut rx, mut tx) = (a.take_rx_queues(), b.tx_queue());
    let (mut pool, mut frames) = (FramePool::new(64), FrameBatch::with_capacity(32));
    let thread = dpdk::thread::Registration::new();
    const BURSTS: u32 = 100_000;
    let start = Instant::now();
    for _ in 0..BURSTS {
        rx[0].queue.rx(&mut pool, &mut frames, 32);
        pool.flush();
        assert_eq!(tx.tx(&mut frames).sent, 32);
    }
    let each = start.elapsed().as_secs_f64() * 1e9 / f64::from(BURSTS * 32);
    println!("net_null to net_null: {each:.1} ns a packet (registered: {})", thread.is_some());
    b.stats().unwrap();
}
