//! `system` ports on real veth pairs.

mod common;

use common::{can_make_devices, frame_of, ip, open, receive, veth};
use netdev::rtnl::{LinkEvent, LinkMonitor};
use packet::frame::FramePool;
use std::time::{Duration, Instant};

#[test]
fn frames_cross_and_do_not_come_back() {
    if !can_make_devices() {
        return;
    }
    let (a, b, _veth) = veth("x");
    let (mut a, mut b) = (open(&a, "system"), open(&b, ""));
    let mut pool = FramePool::new(64);
    let mut rx_a = a.take_rx_queues().pop().unwrap();
    let mut rx_b = b.take_rx_queues().pop().unwrap();
    assert!(b.take_rx_queues().is_empty());
    let mut batch = Vec::new();
    for i in 0..40 {
        batch.push(frame_of(&mut pool, &[], 46 + i));
    }
    let expected: Vec<Vec<u8>> = batch.iter().map(|f| f.bytes().to_vec()).collect();
    let result = a.tx_queue().tx(&mut batch);
    assert_eq!((result.sent, result.dropped, result.too_long), (40, 0, 0));
    assert_eq!(result.sent_bytes, expected.iter().map(|f| f.len() as u64).sum::<u64>());
    let got: Vec<Vec<u8>> =
        receive(&mut *rx_b.queue, &mut pool, 40).iter().map(|f| f.bytes().to_vec()).collect();
    assert_eq!(got, expected);
    assert!(receive_none(&mut *rx_a.queue, &mut pool), "own frames came back");
    let stats = b.stats().unwrap();
    assert!(stats.rx_packets >= Some(40));
    assert_eq!(stats.rx_dropped, Some(0));
}

fn receive_none(queue: &mut dyn packet::queue::RxQueue, pool: &mut FramePool) -> bool {
    std::thread::sleep(Duration::from_millis(20));
    let mut batch = Vec::new();
    queue.rx(pool, &mut batch, 32);
    batch.iter().all(|f| f.bytes().get(6..12) != Some(&[2, 0, 0, 0, 0, 2]))
}

#[test]
fn tags_that_the_kernel_takes_out_are_put_back() {
    if !can_make_devices() {
        return;
    }
    let (a, b, _veth) = veth("v");
    let (a, mut b) = (open(&a, "system"), open(&b, "system"));
    let mut pool = FramePool::new(64);
    let mut rx = b.take_rx_queues().pop().unwrap();
    let single = frame_of(&mut pool, &[0x81, 0, 0x60, 5], 60);
    let double = frame_of(&mut pool, &[0x88, 0xa8, 0, 9, 0x81, 0, 0, 7], 60);
    let priority = frame_of(&mut pool, &[0x81, 0, 0xe0, 0], 60);
    let mut batch = vec![single, double, priority];
    let expected: Vec<Vec<u8>> = batch.iter().map(|f| f.bytes().to_vec()).collect();
    assert_eq!(a.tx_queue().tx(&mut batch).sent, 3);
    let got: Vec<Vec<u8>> =
        receive(&mut *rx.queue, &mut pool, 3).iter().map(|f| f.bytes().to_vec()).collect();
    assert_eq!(got, expected);
}

#[test]
fn too_long_is_counted_and_the_rest_goes_out() {
    if !can_make_devices() {
        return;
    }
    let (a, b, _veth) = veth("l");
    let (mut a, mut b) = (open(&a, "system"), open(&b, "system"));
    let mut pool = FramePool::new(64);
    let mut rx = b.take_rx_queues().pop().unwrap();
    let mut batch =
        vec![frame_of(&mut pool, &[], 60), frame_of(&mut pool, &[], 3000), frame_of(&mut pool, &[], 61)];
    let result = a.tx_queue().tx(&mut batch);
    assert_eq!((result.sent, result.too_long, result.dropped), (2, 1, 0));
    assert_eq!(receive(&mut *rx.queue, &mut pool, 2).len(), 2);
    assert!(a.stats().unwrap().tx_dropped >= Some(1));
}

#[test]
fn facts_and_settings_are_the_kernels() {
    if !can_make_devices() {
        return;
    }
    let (name, peer, _veth) = veth("f");
    let mut a = open(&name, "system");
    let before = a.facts().unwrap();
    assert!(before.admin_up && before.link_up && before.ifindex.is_some());
    assert_eq!(before.status.get("driver_name").map(String::as_str), Some("veth"));
    assert_eq!(before.modes.speed_mbps, Some(10_000));
    a.set_mtu(1400).unwrap();
    a.set_mac([2, 9, 9, 9, 9, 9]).unwrap();
    let after = a.facts().unwrap();
    assert_eq!((after.mtu, after.mac), (1400, [2, 9, 9, 9, 9, 9]));
    assert!(a.set_mtu(10).is_err());
    ip(&format!("link set {peer} down"));
    let down = a.facts().unwrap();
    assert!(down.admin_up && !down.link_up && down.link_resets > before.link_resets);
    a.set_admin(false).unwrap();
    assert!(!a.facts().unwrap().admin_up);
    let options = [("key".to_owned(), "value".to_owned())].into();
    let refused = a.set_options(&options).unwrap_err().to_string();
    assert_eq!(refused, format!("{name}: arguments provided to device that is not configurable"));
    ip(&format!("link del {name}"));
    assert_eq!(a.facts().unwrap_err().errno(), 19);
    let mut batch = vec![frame_of(&mut FramePool::new(1), &[], 60)];
    assert_eq!(a.tx_queue().tx(&mut batch).dropped, 1);
}

#[test]
fn changes_are_told() {
    if !can_make_devices() {
        return;
    }
    let mut monitor = LinkMonitor::open().unwrap();
    let (name, _peer, veth) = veth("m");
    ip(&format!("link set {name} mtu 1300"));
    let mut seen = Vec::new();
    let mut wait = |wanted: &dyn Fn(&LinkEvent) -> bool| {
        let end = Instant::now() + Duration::from_secs(2);
        while !seen.iter().any(wanted) && Instant::now() < end {
            monitor.take(16, &mut seen);
            std::thread::sleep(Duration::from_millis(1));
        }
        seen.iter().any(wanted)
    };
    assert!(wait(&|e| matches!(e, LinkEvent::Changed(l) if l.name == name && l.mtu == 1300 && l.up)));
    drop(veth);
    assert!(wait(&|e| matches!(e, LinkEvent::Removed { name: n, .. } if *n == name)));
}
