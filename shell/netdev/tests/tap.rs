//! `tap` and `internal` ports, whose devices the switch creates.

mod common;

use common::{can_make_devices, frame_of, ip, open, receive, soon, unique};
use netdev::open::{DummyLevel, Netdevs};
use netdev::rtnl;
use packet::frame::FramePool;
use std::collections::BTreeMap;

#[test]
fn a_tap_is_made_set_and_removed() {
    if !can_make_devices() {
        return;
    }
    let name = unique("t");
    let mut tap = open(&name, "internal");
    assert_eq!(tap.kind(), "internal");
    tap.set_mac([2, 1, 1, 1, 1, 1]).unwrap();
    tap.set_mtu(1442).unwrap();
    tap.set_admin(true).unwrap();
    let facts = tap.facts().unwrap();
    assert_eq!((facts.mac, facts.mtu, facts.admin_up), ([2, 1, 1, 1, 1, 1], 1442, true));
    assert_eq!(facts.status.get("driver_name").map(String::as_str), Some("tun"));
    let busy = Netdevs::new(DummyLevel::Off).open(&name, "tap", &BTreeMap::new()).err().unwrap();
    assert_eq!(busy.to_string(), format!("could not open network device {name} (Device or resource busy)"));

    let mut held = tap.take_rx_queues().pop().unwrap();
    let held_tx = tap.tx_queue();
    drop(tap);
    assert_eq!(rtnl::link_by_name(&name).unwrap_err().raw_os_error(), Some(19));
    let mut again = open(&name, "tap");
    assert!(again.facts().is_ok());
    let mut none = Vec::new();
    held.queue.rx(&mut FramePool::new(1), &mut none, 32);
    assert!(none.is_empty());
    drop(held_tx);
    assert!(again.facts().is_ok(), "an old queue took the new device along");
}

#[test]
fn a_persistent_device_of_another_is_adopted() {
    if !can_make_devices() {
        return;
    }
    let name = unique("p");
    ip(&format!("tuntap add dev {name} mode tap"));
    drop(open(&name, "tap"));
    assert!(rtnl::link_by_name(&name).is_err());
}

#[test]
fn a_device_that_is_left_keeps_its_address_for_the_next() {
    if !can_make_devices() {
        return;
    }
    let name = unique("l");
    let mut tap = open(&name, "internal");
    let index = rtnl::link_by_name(&name).unwrap().ifindex;
    tap.keep_device();
    drop(tap);
    assert_eq!(rtnl::link_by_name(&name).unwrap().ifindex, index);
    // The device is busy until a process that another test starts has closed its copy of the file descriptor.
    let mut netdevs = Netdevs::new(DummyLevel::Off);
    assert!(soon(|| netdevs.open(&name, "internal", &BTreeMap::new()).is_ok()), "the next one has it");
    assert!(rtnl::link_by_name(&name).is_err(), "the next one deletes it");
}

#[test]
fn devices_are_deleted_together() {
    if !can_make_devices() {
        return;
    }
    let names: Vec<String> = (0..10).map(|i| unique(&format!("g{i}"))).collect();
    let mut netdevs = Netdevs::new(DummyLevel::Off);
    let mut open = |name: &String| netdevs.open(name, "internal", &BTreeMap::new()).unwrap().0;
    let other = open(&unique("g"));
    let taps: Vec<_> = names.iter().map(&mut open).collect();
    let together = netdevs.delete_together();
    drop(taps);
    ip(&format!("link del {}", names[3]));
    assert!(rtnl::link_by_name(&names[0]).is_ok());
    drop(together);
    assert!(names.iter().all(|name| rtnl::link_by_name(name).is_err()));
    assert!(rtnl::link_by_name(other.name()).is_ok());
}

#[test]
fn a_tap_that_moved_to_a_namespace_lives_on() {
    if !can_make_devices() {
        return;
    }
    let (name, ns) = (unique("o"), unique("ons"));
    ip(&format!("netns add {ns}"));
    let _ns = common::Cleanup(format!("netns del {ns}"));
    let mut tap = open(&name, "internal");
    let mac = tap.facts().unwrap().mac;
    ip(&format!("link set {name} netns {ns} up"));
    assert_eq!(tap.facts().unwrap().mac, mac);
    let mut pool = FramePool::new(4);
    assert_eq!(tap.tx_queue().tx(&mut vec![frame_of(&mut pool, &[], 60)]).sent, 1);
    assert_eq!(tap.stats().unwrap().tx_packets, Some(1));
    ip(&format!("-n {ns} link del {name}"));
    assert_eq!(tap.facts().unwrap_err().errno(), 19);

    let mut tap = open(&name, "internal");
    ip(&format!("link set {name} netns {ns}"));
    tap.facts().unwrap();
    tap.keep_device();
    drop(tap);
    // When the device is deleted, its name is free in that namespace.
    ip(&format!("-n {ns} link add {name} type veth"));
}

#[test]
fn frames_cross_between_host_and_switch() {
    if !can_make_devices() {
        return;
    }
    let name = unique("h");
    let mut tap = open(&name, "tap");
    let mut pool = FramePool::new(64);
    let mut down = vec![frame_of(&mut pool, &[], 60)];
    assert_eq!(tap.tx_queue().tx(&mut down).dropped, 1, "a device that is down takes nothing");
    ip(&format!("link set {name} addrgenmode none"));
    tap.set_admin(true).unwrap();

    // The host's side of the device, as any program would use it.
    let mut host = open(&name, "system");
    let mut host_rx = host.take_rx_queues().pop().unwrap();
    let mut to_host: Vec<_> = (0..40).map(|i| frame_of(&mut pool, &[], 50 + i)).collect();
    let expected: Vec<Vec<u8>> = to_host.iter().map(|f| f.bytes().to_vec()).collect();
    assert_eq!(tap.tx_queue().tx(&mut to_host).sent, 40);
    let got = receive(&mut *host_rx.queue, &mut pool, 40);
    assert_eq!(got.iter().map(|f| f.bytes().to_vec()).collect::<Vec<_>>(), expected);

    let mut rx = tap.take_rx_queues().pop().unwrap();
    let mut from_host: Vec<_> = (0..40).map(|i| frame_of(&mut pool, &[0x81, 0, 0, 3], 50 + i)).collect();
    let expected: Vec<Vec<u8>> = from_host.iter().map(|f| f.bytes().to_vec()).collect();
    assert_eq!(host.tx_queue().tx(&mut from_host).sent, 40);
    let got = receive(&mut *rx.queue, &mut pool, 40);
    assert_eq!(got.iter().map(|f| f.bytes().to_vec()).collect::<Vec<_>>(), expected);
    let stats = tap.stats().unwrap();
    assert!(stats.rx_packets >= Some(40) && stats.tx_packets >= Some(40), "{stats:?}");
}

#[test]
fn a_device_that_comes_up_takes_frames_again() {
    if !can_make_devices() {
        return;
    }
    let name = unique("u");
    let mut tap = open(&name, "internal");
    ip(&format!("link set {name} addrgenmode none"));
    let mut pool = FramePool::new(128);
    let mut queue = tap.tx_queue();
    let mut send = |n: usize| queue.tx(&mut (0..n).map(|_| frame_of(&mut pool, &[], 60)).collect::<Vec<_>>());
    assert_eq!((send(20).dropped, send(20).dropped), (20, 20));
    ip(&format!("link set {name} up"));
    tap.facts().unwrap();
    assert_eq!(send(20).sent, 20, "all frames after the news that it is up");
    ip(&format!("link set {name} down"));
    assert_eq!(send(20).dropped, 20);
    ip(&format!("link set {name} up"));
    std::thread::sleep(std::time::Duration::from_millis(2));
    assert_eq!(send(20).sent, 20, "without news, after a pause");
}
