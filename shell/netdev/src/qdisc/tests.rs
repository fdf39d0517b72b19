//! Compares messages with those that tc(8) sends, and parses replies of the kernel.

use super::*;
use proptest::prelude::*;

const PSCHED: &str = "000003e8 00000040 000f4240 3b9aca00\n";

fn psched() -> Psched {
    Psched::parse(PSCHED).unwrap()
}

/// The attributes behind `struct tcmsg`.
fn attributes(message: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let body = Messages(message).next().unwrap().body;
    Attributes(&body[message::TCMSG..]).map(|(kind, value)| (kind, value.to_vec())).collect()
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(4).filter_map(u32_of).collect()
}

#[test]
fn disciplines_are_asked_for_as_tc_does() {
    let options = |qdisc: &Qdisc| {
        let message = new_qdisc(7, qdisc, psched());
        assert_eq!(words(&message[16..36]), [0, 7, HANDLE, ROOT, 0]);
        let found = attributes(&message);
        let kind = String::from_utf8(found[0].1.clone()).unwrap();
        assert_eq!((found[0].0, found[1].0, found.len()), (1, 2, 2));
        (kind, found[1].1.clone())
    };
    let nested = |bytes: &[u8]| Attributes(bytes).map(|(k, v)| (k, words(v))).collect::<Vec<_>>();

    // tc qdisc add dev d root handle 1: htb default 1
    let (kind, bytes) = options(&Qdisc::Htb(HtbClass::default()));
    assert_eq!((kind.as_str(), nested(&bytes)), ("htb\0", vec![(2, vec![3, 10, 1, 0, 0])]));
    // tc qdisc add dev d root handle 1: hfsc default 1
    assert_eq!(options(&Qdisc::Hfsc(HfscClass::default())), ("hfsc\0".to_owned(), vec![1, 0]));
    // tc qdisc add dev d root handle 1: sfq quantum 1500 perturb 10
    let (kind, bytes) = options(&Qdisc::Sfq { quantum: 1500, perturb: 10 });
    assert_eq!((kind.as_str(), words(&bytes)), ("sfq\0", vec![1500, 10, 0, 0, 0]));
    // tc qdisc add dev d root handle 1: codel target 5ms limit 10240 interval 100ms
    let (kind, bytes) = options(&Qdisc::Codel { target: 5000, limit: 10_240, interval: 100_000 });
    let wanted = vec![(1, vec![5000]), (2, vec![10_240]), (3, vec![100_000])];
    assert_eq!((kind.as_str(), nested(&bytes)), ("codel\0", wanted));
    let fq = Qdisc::FqCodel { target: 1, limit: 2, interval: 3, flows: 4, quantum: 5 };
    let (kind, bytes) = options(&fq);
    let wanted: Vec<_> = [(1, 1), (2, 2), (3, 3), (5, 4), (6, 5)].map(|(k, v)| (k, vec![v])).into();
    assert_eq!((kind.as_str(), nested(&bytes)), ("fq_codel\0", wanted));
    // tc qdisc add dev d root handle 1: netem delay 1ms 100us limit 1000 loss 50%
    let (kind, bytes) = options(&Qdisc::Netem { latency: 1000, limit: 1000, loss: 50, jitter: 100 });
    assert_eq!((kind.as_str(), words(&bytes)), ("netem\0", vec![15_625, 1000, u32::MAX / 2, 0, 0, 1562]));
}

#[test]
fn classes_of_htb_have_bursts_in_ticks_and_wide_rates() {
    let class = HtbClass { min: 250_000, max: 375_000, burst: 375_000, priority: 3, mtu: 1500 };
    let message = new_class(7, (priority(0), INNER), &Class::Htb(class), psched());
    assert_eq!(words(&message[16..36]), [0, 7, HANDLE | 1, INNER, 0]);
    let options = attributes(&message).remove(1).1;
    let found: Vec<_> = Attributes(&options).collect();
    assert_eq!(
        found.iter().map(|(kind, value)| (*kind, value.len())).collect::<Vec<_>>(),
        [(1, 44), (4, 1024), (3, 1024)]
    );
    let parms = words(found[0].1);
    assert_eq!((parms[2], parms[5]), (250_000, 375_000));
    // At the rates `min` and `max`, a burst of 375,000 bytes takes 1.5 s and 1 s.
    assert_eq!(parms[6..], [23_437_500, 15_625_000, 0, 0, 3]);
    assert_eq!(found[0].1[0], 3);
    let wide = HtbClass { min: 5_000_000_000, max: 6_250_000_000, mtu: 1500, ..HtbClass::default() };
    let message = new_class(7, (INNER, HANDLE), &Class::Htb(wide), psched());
    let options = attributes(&message).remove(1).1;
    let found: Vec<_> = Attributes(&options).collect();
    assert_eq!(found[0], (6, &5_000_000_000u64.to_ne_bytes()[..]));
    assert_eq!(found[1], (7, &6_250_000_000u64.to_ne_bytes()[..]));
    assert_eq!(words(found[2].1)[2], u32::MAX);
}

#[test]
fn classes_of_hfsc_are_two_curves() {
    let class = Class::Hfsc(HfscClass { min: 1000, max: 2000 });
    let options = attributes(&new_class(7, (priority(4), INNER), &class, psched())).remove(1).1;
    let found: Vec<_> = Attributes(&options).map(|(kind, value)| (kind, words(value))).collect();
    assert_eq!(found, [(1, vec![0, 0, 1000]), (2, vec![0, 0, 1000]), (3, vec![0, 0, 2000])]);
}

#[test]
fn queues_are_numbered_within_the_root() {
    assert_eq!((priority(0), priority(9), priority(u32::MAX)), (0x1_0001, 0x1_000a, 0x1_f000));
}

#[test]
fn counters_of_a_class_are_found() {
    let mut stats = Vec::new();
    let mut basic = 1234u64.to_ne_bytes().to_vec();
    basic.extend(9u32.to_ne_bytes());
    rtnl::put_attribute(&mut stats, 1, &basic);
    rtnl::put_attribute(&mut stats, 3, &[0, 0, 5, 0, 0].map(u32::to_ne_bytes).concat());
    let mut body = vec![0; message::TCMSG];
    rtnl::put_attribute(&mut body, TCA_STATS2, &stats);
    assert_eq!(parse_counts(&body), Some(Counts { packets: 9, bytes: 1234, dropped: 5 }));
}

proptest! {
    #[test]
    fn any_answer_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "[0-9a-f ]{0,40}") {
        let _ = parse_counts(&bytes);
        if let Some(psched) = Psched::parse(&text) {
            psched.burst(1, u64::MAX / 2, 1500);
        }
    }
}
