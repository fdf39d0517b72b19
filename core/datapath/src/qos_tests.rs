//! Policers, QoS queues and shapers, tested through the complete path.

use crate::port::*;
use crate::tests::{Setup, Wire, all, out, tcp};
use crate::{EgressClock, EgressSpec, PolicerSpec};
use dpif::*;
use flow::Flow;
use flow::compose::compose;
use qos::{ClassSpec, ShaperSpec, SingleRateSpec, TwoRateSpec, TwoRateTree};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use units::{Cycles, Millis, Nanos, PortNo};

const TO: PortNo = PortNo(2);

fn packet(len: usize) -> Vec<u8> {
    let header = compose(&tcp(1, 80), b"").len();
    compose(&tcp(1, 80), &vec![7; len - header])
}

/// Sends ten packets of 100 bytes per millisecond for a second; returns how many pass in each millisecond.
fn second(setup: &mut Setup) -> Vec<usize> {
    let bytes = packet(100);
    let turn = |ms: u64| {
        (0..10).for_each(|_| setup.rx[0].put(&bytes));
        setup.worker.poll(Millis(1000 + ms), Cycles(ms));
        setup.tx[1].take().len()
    };
    (0..1000).map(turn).collect()
}

/// An action that sets the QoS queue.
fn queue(number: u32) -> DpAction {
    DpAction::Set(SetField::Priority(Masked { value: number, mask: u32::MAX }))
}

/// Start of the clock, late enough for buckets to be full.
const START: u64 = 1_000_000_000_000;

/// A clock that the test advances.
fn clock() -> (Arc<AtomicU64>, EgressClock) {
    let now = Arc::new(AtomicU64::new(START));
    let read = Arc::clone(&now);
    (now, Arc::new(move || Nanos(read.load(Ordering::Relaxed))))
}

/// Records the QoS queues of packets.
#[derive(Clone, Default)]
struct Named(Arc<Mutex<Vec<(u32, usize)>>>);

impl TxQueue for Named {
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        self.tx_queued(frames, &[])
    }

    fn tx_queued(&mut self, frames: &mut FrameBatch, queues: &[u32]) -> TxResult {
        let queue = |i| queues.get(i).copied().unwrap_or(0);
        self.0.lock().unwrap().extend(frames.iter().enumerate().map(|(i, f)| (queue(i), f.len())));
        Sink.tx(frames)
    }
}

#[test]
fn a_policed_port_brings_its_rate_and_no_more() {
    let mut setup = Setup::new(vec![all(vec![out(2)])]);
    let before: usize = second(&mut setup).iter().sum();
    assert_eq!(before, 10_000);
    // 86 bytes of each packet are counted: 3 packets per millisecond, and a burst of 100.
    let spec =
        PolicerSpec { kbits: 3 * 86 * 8, kbits_burst: 100 * 86 * 8 / 1000 + 1, ..PolicerSpec::default() };
    assert!(setup.datapath.set_policer(PortNo(1), spec, Millis(1000)));
    assert!(!setup.datapath.set_policer(PortNo(1), spec, Millis(1000)));
    let passed: usize = second(&mut setup).iter().sum();
    assert!((3050..=3150).contains(&passed), "{passed}");
    let stats = setup.datapath.port_stats(PortNo(1)).unwrap();
    assert_eq!((stats.rx_packets, stats.rx_policed), (20_000, 10_000 - passed as u64));
    assert_eq!(setup.datapath.tally().dropped(DropReason::RxPoliced), 10_000 - passed as u64);
    assert_eq!(setup.balance(), 0);
    assert!(setup.datapath.set_policer(PortNo(1), PolicerSpec::default(), Millis(1000)));
    assert_eq!(second(&mut setup).iter().sum::<usize>(), 10_000);
}

#[test]
fn packets_are_policed_and_short_frames_are_none() {
    let mut setup = Setup::new(vec![all(vec![out(2)])]);
    let spec = PolicerSpec { packets: 1000, packets_burst: 5, ..PolicerSpec::default() };
    setup.datapath.set_policer(PortNo(1), spec, Millis(1000));
    setup.rx[0].put(&[1; 10]);
    let passed: usize = second(&mut setup).iter().sum();
    assert!((1003..=1005).contains(&passed), "{passed}");
    let tally = setup.datapath.tally();
    assert_eq!(tally.dropped(DropReason::RxInvalidPacket), 1);
    assert_eq!(tally.dropped(DropReason::RxPoliced), 10_000 - passed as u64);
    assert_eq!(setup.balance(), 0);
}

#[test]
fn an_egress_policer_drops_and_counts() {
    let mut setup = Setup::new(vec![all(vec![out(2)])]);
    let (now, clock) = clock();
    let spec = EgressSpec::SingleRate(SingleRateSpec { cir: 8600, cbs: 860 });
    setup.datapath.set_egress(TO, Some(spec.clone()), &clock).unwrap();
    assert_eq!(setup.datapath.egress(TO).unwrap().spec(), Some(spec));
    let burst = |setup: &mut Setup| {
        (0..30).for_each(|_| setup.rx[0].put(&packet(100)));
        setup.run();
        setup.tx[1].take().len()
    };
    assert_eq!(burst(&mut setup), 10);
    now.store(START + 50_000_000, Ordering::Relaxed);
    assert_eq!(burst(&mut setup), 5);
    let stats = setup.datapath.port_stats(TO).unwrap();
    assert_eq!((stats.tx_packets, stats.tx_dropped, stats.tx_qos_dropped), (15, 45, 45));
    assert_eq!(setup.datapath.tally().dropped(DropReason::TxQos), 45);
    let none = EgressSpec::SingleRate(SingleRateSpec { cir: 0, cbs: 1 });
    assert!(setup.datapath.set_egress(TO, Some(none), &clock).is_err());
    setup.datapath.set_egress(TO, None, &clock).unwrap();
    assert_eq!(burst(&mut setup), 30);
    assert_eq!(setup.balance(), 0);
}

#[test]
fn packets_go_through_the_meter_of_the_queue_that_they_name() {
    let actions = vec![queue(1), out(2), queue(0), out(2), queue(9), out(2)];
    let mut setup = Setup::new(vec![all(actions)]);
    let (_, clock) = clock();
    let rate = |cbs| TwoRateSpec { cir: 1, cbs, ..TwoRateSpec::default() };
    let queues = [(0, rate(5 * 86)), (1, rate(3 * 86))].into();
    let tree = TwoRateTree { port: rate(100 * 86), queues };
    setup.datapath.set_egress(TO, Some(EgressSpec::TwoRate(tree)), &clock).unwrap();
    (0..10).for_each(|_| setup.rx[0].put(&packet(100)));
    setup.run();
    // Queue 9 does not exist, so its packets take tokens of queue 0.
    assert_eq!(setup.tx[1].take().len(), 3 + 5);
    let egress = setup.datapath.egress(TO).unwrap();
    let counts = [0, 1, 9].map(|queue| egress.counts(queue).map(|c| (c.packets, c.dropped)));
    assert_eq!(counts, [Some((5, 15)), Some((3, 7)), None]);
    assert_eq!(setup.balance(), 0);
}

#[test]
fn a_device_with_queues_is_told_them_and_another_is_not() {
    for has_queues in [false, true] {
        let mut setup = Setup::new(vec![all(vec![out(2), queue(7), out(2)])]);
        let device = Named::default();
        setup.datapath.set_tx_queues(TO, vec![Box::new(device.clone())]).unwrap();
        setup.datapath.set_device_queues(TO, has_queues);
        (0..40).for_each(|_| setup.rx[0].put(&packet(100)));
        setup.run();
        let seen = device.0.lock().unwrap().clone();
        let named = seen.iter().filter(|(queue, _)| *queue == 7).count();
        assert_eq!((seen.len(), named), (80, if has_queues { 40 } else { 0 }));
        assert_eq!(setup.balance(), 0);
    }
}

#[test]
fn packets_of_programs_that_differ_select_their_queues() {
    const KINDS: u32 = 6;
    // By source address: a list of actions, and the QoS queues of its packets at the port that has queues.
    let lists = |kind| match kind {
        0 => (vec![queue(3), out(2)], vec![3]),
        1 => (vec![out(2), queue(1), out(3), DpAction::PopVlan, out(2), queue(0), out(2)], vec![0, 1, 0]),
        2 => (vec![out(2)], vec![0]),
        3 => (vec![queue(4), out(2), DpAction::Ct(Box::default()), queue(5), out(2), out(3)], vec![4, 5]),
        4 => (vec![queue(6), DpAction::Clone(vec![out(2), out(3)]), out(2)], vec![6, 6]),
        // The queue stays with a packet that is looked up again.
        _ => (vec![queue(2), DpAction::Recirc(1)], vec![2, 9]),
    };
    let mask = Flow { recirc_id: u32::MAX, nw_src: u32::MAX, ..Flow::ZERO };
    let rule = |kind| (Flow { nw_src: kind, ..Flow::ZERO }, mask, lists(kind).0);
    let again =
        (Flow { recirc_id: 1, nw_src: 5, ..Flow::ZERO }, mask, vec![out(2), queue(9), out(2), out(3)]);
    let mut setup = Setup::new((0..KINDS).map(rule).chain([again]).collect());
    let device = Named::default();
    setup.datapath.set_tx_queues(TO, vec![Box::new(device.clone())]).unwrap();
    setup.datapath.set_device_queues(TO, true);
    let header = compose(&tcp(1, 80), b"").len();
    // Batches of one kind, and mixed ones; the length of a packet tells its kind.
    for n in 0..40 {
        for i in 0..32 {
            let kind = if n < 20 { n % KINDS } else { (i * n / 7) % KINDS };
            setup.rx[0].put(&compose(&tcp(kind, 80), &vec![7; 100 + kind as usize]));
        }
        setup.run();
        let mut seen = std::mem::take(&mut *device.0.lock().unwrap());
        let mut want = Vec::new();
        for i in 0..32 {
            let kind = if n < 20 { n % KINDS } else { (i * n / 7) % KINDS };
            let len = header + 100 + kind as usize;
            want.extend(lists(kind).1.into_iter().map(|queue| (queue, len)));
        }
        seen.sort_unstable();
        want.sort_unstable();
        assert_eq!(seen, want, "{n}");
    }
    assert_eq!(setup.balance(), 0);
}

fn shaper(rate: u64, classes: &[(u32, u64, u64)]) -> Option<EgressSpec> {
    let class =
        |&(number, min, max): &(u32, u64, u64)| (number, ClassSpec { min, max, ..ClassSpec::default() });
    Some(EgressSpec::Shaper(ShaperSpec { rate, mtu: 1500, classes: classes.iter().map(class).collect() }))
}

/// Advances the time until the shaper holds nothing.
fn until_sent(setup: &mut Setup, now: &AtomicU64) {
    while setup.worker.poll(Millis(setup.now), Cycles(0)) {
        now.fetch_add(10_000_000, Ordering::Relaxed);
    }
}

#[test]
fn a_shaper_holds_packets_and_the_worker_comes_back_for_them() {
    let mut setup = Setup::new(vec![all(vec![out(2)])]);
    let (now, clock) = clock();
    // 100 packets of 1000 bytes per second beyond the burst of 1600 bytes.
    setup.datapath.set_egress(TO, shaper(100_000, &[]), &clock).unwrap();
    (0..50).for_each(|_| setup.rx[0].put(&packet(1000)));
    assert!(setup.worker.poll(Millis(1000), Cycles(0)));
    let mut sent = setup.tx[1].take().len();
    assert_eq!((sent, setup.balance()), (2, 48));
    for ms in 1..=500 {
        now.store(START + ms * 1_000_000, Ordering::Relaxed);
        let busy = setup.worker.poll(Millis(1000 + ms), Cycles(ms));
        sent += setup.tx[1].take().len();
        // The worker does not sleep while packets are held.
        assert_eq!(busy, sent < 50, "{ms}: {sent}");
        let expected = (ms as usize / 10 + 2).min(50);
        assert!(sent.abs_diff(expected) <= 1, "{sent} of {expected} by {ms} ms");
    }
    assert_eq!((sent, setup.balance()), (50, 0));
    assert_eq!(
        setup.datapath.egress(TO).unwrap().counts(0).map(|c| (c.packets, c.bytes)),
        Some((50, 50_000))
    );
    assert_eq!(setup.datapath.port_stats(TO).unwrap().tx_packets, 50);
}

#[test]
fn packets_of_a_queue_keep_their_order() {
    let mut setup = Setup::new(vec![all(vec![queue(3), out(2)])]);
    let (now, clock) = clock();
    setup.datapath.set_egress(TO, shaper(1_000_000, &[(3, 10, 1_000_000)]), &clock).unwrap();
    let sent: Vec<Vec<u8>> = (0..200u32).map(|i| compose(&tcp(i, 80), &[1; 200])).collect();
    let mut got = Vec::new();
    for (i, packet) in sent.iter().enumerate() {
        setup.rx[0].put(packet);
        now.store(START + i as u64 * 100_000, Ordering::Relaxed);
        setup.worker.poll(Millis(1000), Cycles(0));
        got.extend(setup.tx[1].take());
    }
    until_sent(&mut setup, &now);
    got.extend(setup.tx[1].take());
    assert!(got == sent, "{} of {} packets", got.len(), sent.len());
}

#[test]
fn what_is_held_is_counted_when_it_goes_with_its_port() {
    for removed in [false, true] {
        let mut setup = Setup::new(vec![all(vec![out(2)])]);
        let (_, clock) = clock();
        setup.datapath.set_egress(TO, shaper(1000, &[]), &clock).unwrap();
        (0..30).for_each(|_| setup.rx[0].put(&packet(1000)));
        setup.worker.poll(Millis(1000), Cycles(0));
        assert_eq!((setup.tx[1].take().len(), setup.balance()), (2, 28));
        match removed {
            true => setup.datapath.del_port(TO).unwrap(),
            false => setup.datapath.set_egress(TO, None, &clock).unwrap(),
        }
        assert_eq!((setup.datapath.tally().dropped(DropReason::TxQos), setup.balance()), (28, 0));
        setup.run();
        setup.send(1, &packet(100));
        assert_eq!(setup.tx[1].take().len(), usize::from(!removed));
        assert_eq!(setup.balance(), 0);
    }
}

#[test]
fn other_tx_queues_get_what_is_held() {
    let mut setup = Setup::new(vec![all(vec![out(2)])]);
    let (now, clock) = clock();
    setup.datapath.set_egress(TO, shaper(1000, &[]), &clock).unwrap();
    (0..5).for_each(|_| setup.rx[0].put(&packet(1000)));
    setup.worker.poll(Millis(1000), Cycles(0));
    let other = Wire::default();
    setup.datapath.set_tx_queues(TO, vec![Box::new(other.clone())]).unwrap();
    until_sent(&mut setup, &now);
    assert_eq!((setup.tx[1].take().len(), other.take().len(), setup.balance()), (2, 3, 0));
}
