//! Sends samples through real sockets.

use crate::*;
use dpif::{Userspace, UserspaceCookie};
use exporter::sflow;
use flow::Flow;
use runtime::Clock;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;
use units::{Millis, PortNo};

fn collector() -> (UdpSocket, String) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let target = socket.local_addr().unwrap().to_string();
    (socket, target)
}

fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut datagram = vec![0; 2000];
    let len = socket.recv(&mut datagram).unwrap();
    datagram.truncate(len);
    datagram
}

fn ipfix(target: &str) -> BridgeSettings {
    let targets = vec![target.to_owned()];
    let ipfix = Ipfix { targets, exporter: exporter::ipfix::Settings::default(), tunnels: true };
    BridgeSettings {
        ipfix: Some(BridgeIpfix { ipfix, sampling: 2, domain: 1, point: 2 }),
        ..BridgeSettings::default()
    }
}

fn packet(bridge: u32) -> SampledPacket {
    let cookie = UserspaceCookie::Ipfix { output_port: PortNo::NONE };
    let flow = Flow { dl_type: 0x0800, nw_proto: 17, ..Flow::ZERO };
    SampledPacket::new(&[0; 60], &flow, &Userspace::sample(cookie, bridge), None).unwrap()
}

#[test]
fn a_thread_sends_what_workers_put() {
    let (socket, target) = collector();
    let exporters = Exporters::new(&Clock::new(), true);
    assert_eq!(
        exporters.configure(7, &ipfix(&target), 1),
        SamplingProbabilities { sflow: 0, ipfix: u32::MAX / 2 }
    );
    for _ in 0..3 {
        exporters.put(packet(7));
        // The exporter's statistics, the templates, and the record of the flow.
        let is_record = |datagram: &[u8]| datagram[16..18] != [0, 2] && datagram[16..18] != [0, 3];
        while !is_record(&receive(&socket)) {}
    }
    // These packets are of a bridge that no longer samples.
    exporters.put(packet(8));
    let stats = exporters.bridge_stats(7).unwrap();
    assert_eq!((stats.packets, stats.ipv4), (3, 3));
    exporters.close();
}

#[test]
fn without_a_thread_the_main_loop_sends() {
    let (socket, target) = collector();
    let clock = Clock::new();
    clock.stop();
    let exporters = Exporters::new(&clock, false);
    let agent = sflow::Settings {
        address: Ipv4Addr::LOCALHOST.into(),
        number: 0,
        sampling: 1,
        polling: 0,
        header: 128,
    };
    let sflow = Some(Sflow { targets: vec![target], agent });
    let settings = BridgeSettings { sflow, ..BridgeSettings::default() };
    assert_eq!(exporters.configure(1, &settings, 1), SamplingProbabilities { sflow: u32::MAX, ipfix: 0 });
    let cookie = UserspaceCookie::Sflow { vlan_tci: 0, output: 3 };
    let sample = SampledPacket::new(&[0xaa; 60], &Flow::ZERO, &Userspace::sample(cookie, 1), None);
    exporters.put(sample.unwrap());
    exporters.run();
    assert_eq!(exporters.tick(), None);
    clock.advance(1000);
    assert!(exporters.deadline().is_some_and(|deadline| deadline <= clock.now()));
    assert_eq!(exporters.tick(), Some(vec![]));
    exporters.flush();
    exporters.run();
    assert!(receive(&socket).windows(60).any(|bytes| bytes == [0xaa; 60]));
    exporters.remove(1);
    assert!(exporters.bridges().is_empty() && exporters.deadline().is_none());
}

#[test]
fn a_full_queue_loses_samples_and_does_not_wait() {
    let exporters = Exporters::new(&Clock::new(), false);
    (0..10_000).for_each(|_| exporters.put(packet(1)));
    exporters.run();
}

#[test]
fn netflow_is_sent_when_a_megaflow_goes() {
    let (socket, target) = collector();
    let exporters = Exporters::new(&Clock::new(), true);
    let netflow = Some(Netflow { targets: vec![target], exporter: exporter::netflow::Settings::default() });
    exporters.configure(1, &BridgeSettings { netflow, ..BridgeSettings::default() }, 1);
    let key = exporter::netflow::Key { in_port: 4, ..Default::default() };
    let delta = exporter::netflow::Delta { packets: 3, bytes: 300, tcp_flags: 0, used: Millis(1) };
    exporters.netflow(1, (key, 5), delta);
    exporters.end_netflow(1, key);
    let datagram = receive(&socket);
    assert_eq!((datagram.len(), &datagram[..4]), (72, &[0, 5, 0, 1][..]));
    exporters.close();
}

#[test]
fn collectors_that_are_not_addresses_disable_an_exporter() {
    let exporters = Exporters::new(&Clock::new(), false);
    for target in ["xyzzy", "127.0.0.1:99999", ":5"] {
        assert_eq!(exporters.configure(1, &ipfix(target), 1), SamplingProbabilities::default());
        assert!(exporters.bridge_stats(1).is_none());
    }
}
