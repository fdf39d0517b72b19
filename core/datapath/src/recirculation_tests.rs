//! Recirculated packets are looked up by their present fields, whether or not they are parsed again.

use crate::action::hash::hash;
use crate::packet::Meta;
use crate::tests::{Rule, Setup, out, tcp};
use crate::{Config, Datapath, Event, Worker};
use dpif::meter::Band;
use dpif::*;
use flow::compose::compose;
use flow::{Flow, Mac, VLAN_CFI, Vlan};
use proptest::prelude::*;
use std::sync::Arc;
use units::{Cycles, Millis, PortNo, QueueId, WorkerId};

const NEW: Mac = Mac([6; 6]);
const HASH: DpAction = DpAction::Hash { alg: HashAlg::L4, basis: 7 };
const AGAIN: DpAction = DpAction::Recirc(1);

fn set_dst() -> DpAction {
    let key = |dst| EthKey { src: Mac::default(), dst };
    DpAction::Set(SetField::Eth(Masked::new(key(NEW), key(Mac([255; 6])))))
}

/// First passes are matched by source, second passes by destination, tag and hash.
fn rules() -> Vec<Rule> {
    let first = [
        vec![HASH, AGAIN],
        vec![set_dst(), HASH, AGAIN],
        vec![DpAction::PushVlan { tpid: 0x8100, tci: 0x1007 }, HASH, AGAIN],
        vec![DpAction::Clone(vec![HASH, AGAIN]), set_dst(), AGAIN],
    ];
    let first = first.into_iter().enumerate().map(|(i, actions)| {
        let key = Flow { nw_src: i as u32, ..Flow::ZERO };
        (key, Flow { recirc_id: u32::MAX, nw_src: 3, dl_type: 0xffff, ..Flow::ZERO }, actions)
    });
    let again = |key: Flow, mask: Flow, port| {
        let mask = Flow { recirc_id: u32::MAX, ..mask };
        (Flow { recirc_id: 1, ..key }, mask, vec![out(port)])
    };
    let tagged = [Vlan { tpid: 0, tci: VLAN_CFI }, Vlan::default()];
    let second = [
        again(Flow { dl_dst: NEW, ..Flow::ZERO }, Flow { dl_dst: Mac([255; 6]), ..Flow::ZERO }, 3),
        again(Flow { vlans: tagged, ..Flow::ZERO }, Flow { vlans: tagged, ..Flow::ZERO }, 4),
        again(Flow { dp_hash: 1, ..Flow::ZERO }, Flow { dp_hash: 1, tp_dst: 1, ..Flow::ZERO }, 2),
        again(Flow::ZERO, Flow::ZERO, 1),
    ];
    let mut rules: Vec<Rule> = first.collect();
    for (key, _, _) in &mut rules {
        key.dl_type = 0x0800;
    }
    rules.extend(second);
    rules
}

#[test]
fn a_second_pass_sees_what_the_first_has_made() {
    let mut setup = Setup::new(rules());
    setup.datapath.set_validate(true);
    let packets: Vec<Vec<u8>> = (0..200).map(|i| compose(&tcp(i, i as u16 & !1), b"payload")).collect();
    // The first round installs the megaflows; in the others whole batches hit them.
    for _ in 0..3 {
        let mut expected = [0; 4];
        for (i, bytes) in packets.iter().enumerate() {
            let odd = hash(bytes, &Meta::received(1), None, false, 7) & 1 == 1;
            let by_hash = if odd { 2 } else { 1 };
            match i % 4 {
                0 => expected[by_hash - 1] += 1,
                1 => expected[2] += 1,
                2 => expected[3] += 1,
                _ => {
                    expected[by_hash - 1] += 1;
                    expected[2] += 1;
                }
            }
            setup.rx[0].put(bytes);
        }
        setup.run();
        assert_eq!([1, 2, 3, 4].map(|port| setup.tx[port - 1].take().len()), expected);
    }
    assert_eq!((setup.datapath.lookup_differences(), setup.balance()), (0, 0));
}

/// Programs of first passes, by the last byte of the source address.
fn kinds() -> Vec<Vec<DpAction>> {
    let symmetric = DpAction::Hash { alg: HashAlg::SymL4, basis: 3 };
    vec![
        vec![HASH, AGAIN],
        vec![symmetric, DpAction::Recirc(2)],
        vec![DpAction::Recirc(2)],
        vec![out(4)],
        vec![HASH, DpAction::Recirc(3)],
        vec![out(4), HASH, AGAIN],
        vec![set_dst(), HASH, AGAIN],
        vec![DpAction::PushVlan { tpid: 0x8100, tci: 0x1007 }, DpAction::Recirc(2)],
        vec![set_dst(), DpAction::Recirc(4)],
        vec![sample(4), set_dst(), HASH, AGAIN],
        vec![sample(3), sample(2), set_dst(), out(4)],
        vec![sample(3), DpAction::Recirc(2)],
        vec![DpAction::Meter(9), out(3), set_dst(), out(2), DpAction::Recirc(4)],
        vec![sample(4), DpAction::Meter(9), sample(3), DpAction::CtClear, HASH, AGAIN],
        vec![DpAction::Meter(9), sample(3), set_dst(), DpAction::Recirc(4)],
    ]
}

/// Samples every packet.
fn sample(port: u32) -> DpAction {
    DpAction::Sample(Box::new(Sample { probability: u32::MAX, actions: vec![out(port)] }))
}

/// Rules that match `dp_hash`, or recirculate again; one of the programs rewrites.
fn rules_by_kind() -> Vec<Rule> {
    let first = |kind: u8, dl_type, actions| {
        let mask = Flow { recirc_id: u32::MAX, dl_src: Mac([255; 6]), dl_type: 0xffff, ..Flow::ZERO };
        (Flow { dl_src: Mac([2, 0, 0, 0, 0, kind]), dl_type, ..Flow::ZERO }, mask, actions)
    };
    let again = |recirc_id, dp_hash, actions| {
        let (key, mask) = (
            Flow { recirc_id, dp_hash, ..Flow::ZERO },
            Flow { recirc_id: u32::MAX, dp_hash: 1, ..Flow::ZERO },
        );
        (key, mask, actions)
    };
    let second = [
        again(1, 0, vec![out(1)]),
        again(1, 1, vec![out(2)]),
        again(2, 0, vec![out(2)]),
        again(2, 1, vec![set_dst(), out(3)]),
        again(3, 0, vec![AGAIN]),
        again(3, 1, vec![AGAIN]),
        // Matches what the first pass has written.
        (
            Flow { recirc_id: 4, dl_dst: NEW, ..Flow::ZERO },
            Flow { recirc_id: u32::MAX, dl_dst: Mac([255; 6]), ..Flow::ZERO },
            vec![out(4)],
        ),
    ];
    let mut rules = Vec::new();
    for (kind, actions) in kinds().into_iter().enumerate() {
        rules.push(first(kind as u8, 0x0800, actions.clone()));
        rules.push(first(kind as u8, 0x86dd, actions));
    }
    rules.extend(second);
    rules
}

/// Returns the packets that each port sends, in the order of `packets`.
fn expected(packets: &[(usize, Vec<u8>)]) -> [Vec<Vec<u8>>; 4] {
    let mut ports: [Vec<Vec<u8>>; 4] = Default::default();
    for (kind, bytes) in packets {
        let odd = |symmetric, basis| hash(bytes, &Meta::received(1), None, symmetric, basis) & 1 == 1;
        let one_way = if odd(false, 7) { 2 } else { 1 };
        let mut sent = bytes.clone();
        let samples: &[usize] = match kind {
            9 => &[4],
            10 => &[3, 2],
            11 | 12 | 14 => &[3],
            13 => &[4, 3],
            _ => &[],
        };
        samples.iter().for_each(|port| ports[port - 1].push(bytes.clone()));
        match kind {
            6 | 8..=10 | 12 | 14 => sent[..6].copy_from_slice(&NEW.0),
            7 => drop(sent.splice(12..12, [0x81, 0x00, 0x00, 0x07])),
            _ => {}
        }
        let port = match kind {
            0 | 4 | 6 | 9 | 13 => one_way,
            1 if odd(true, 3) => {
                sent[..6].copy_from_slice(&NEW.0);
                3
            }
            1 | 2 | 7 | 11 => 2,
            12 => {
                ports[1].push(sent.clone());
                4
            }
            3 | 8 | 10 | 14 => 4,
            _ => {
                ports[3].push(bytes.clone());
                one_way
            }
        };
        ports[port - 1].push(sent);
    }
    ports
}

/// The packets of one kind and type in their order.
fn of_kind(sent: &[Vec<u8>], kind: u8, dl_type: u8) -> Vec<&Vec<u8>> {
    let type_at = |bytes: &[u8]| if bytes[12] == 0x81 { 16 } else { 12 };
    sent.iter().filter(|bytes| (bytes[11], bytes[type_at(bytes)]) == (kind, dl_type)).collect()
}

fn packet_of_kind(kind: usize, six: bool, number: usize) -> Vec<u8> {
    let dl_src = Mac([2, 0, 0, 0, 0, kind as u8]);
    let four = Flow { dl_src, ..tcp(number as u32, number as u16) };
    let ipv6_src = (number as u128).to_be_bytes();
    let flow = if six { Flow { dl_type: 0x86dd, nw_src: 0, nw_dst: 0, ipv6_src, ..four } } else { four };
    compose(&flow, &number.to_be_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    /// Batches with packets of one to three kinds, and of one Ethernet type or both.
    #[test]
    fn passes_follow_each_other_in_order(
        validate: bool,
        batches in prop::collection::vec((prop::collection::vec(0..15usize, 1..4), 0..3u8, 1..130usize), 1..6),
        seed in any::<u32>(),
    ) {
        let mut setup = Setup::new(rules_by_kind());
        // No packet exceeds this rate.
        let bands = vec![Band { rate: 1_000_000_000, burst: 1_000_000_000, remark: None }];
        setup.datapath.set(9, &MeterSpec { packets: true, bands }, Millis(0));
        // The autovalidator takes second passes out of their batch.
        setup.datapath.set_validate(validate);
        let mut random = seed | 1;
        for (kinds, types, n) in batches {
            let mut packets = Vec::new();
            for number in 0..n {
                random = random.wrapping_mul(0x9e37_79b1).rotate_left(13).wrapping_add(1);
                let kind = kinds[random as usize % kinds.len()];
                let six = types == 1 || types == 2 && random >> 20 & 1 == 1;
                packets.push((kind, packet_of_kind(kind, six, number)));
                setup.rx[0].put(&packets[number].1);
            }
            setup.run();
            for (port, expected) in expected(&packets).iter().enumerate() {
                let sent = setup.tx[port].take();
                prop_assert_eq!(sent.len(), expected.len());
                for (kind, dl_type) in (0..15).flat_map(|kind| [(kind, 0x08), (kind, 0x86)]) {
                    let of_kind = |packets| of_kind(packets, kind, dl_type);
                    prop_assert_eq!(of_kind(&sent), of_kind(expected), "kind {} by {}", kind, port);
                }
            }
        }
        prop_assert_eq!((setup.datapath.lookup_differences(), setup.balance()), (0, 0));
    }
}

struct Rate {
    datapath: Arc<Datapath>,
    worker: Worker,
    rx: crate::tests::Wire,
}

/// Four megaflows that use one meter; their packets are mixed in every batch.
fn metered(band: Band) -> Rate {
    let datapath = Datapath::new(&Config { max_flows: 100, max_masks: 8, seed: 42, advise: None });
    datapath.set(5, &MeterSpec { packets: true, bands: vec![band] }, Millis(0));
    let mut worker = datapath.worker(WorkerId(0), 0);
    let rx = crate::tests::Wire::default();
    worker.add_rxq(PortNo(1), QueueId(0), Box::new(rx.clone()));
    for port in [1, 2] {
        datapath.add_port(PortNo(port), vec![Box::new(crate::port::Sink)]).unwrap();
    }
    for src in 0..4 {
        let mask = Flow { nw_src: u32::MAX, nw_frag: 3, ..Flow::ZERO };
        let actions = vec![DpAction::Meter(5), out(2)];
        let key = Flow { in_port: 1, ..tcp(src, 80) };
        datapath.flow_put(&key, &mask, actions.into(), Arc::new(NoOwner)).unwrap();
    }
    Rate { datapath, worker, rx }
}

#[test]
fn groups_that_share_a_meter_share_its_tokens() {
    let packets: Vec<Vec<u8>> = (0..40).map(|i| compose(&tcp(i % 4, 80), b"payload")).collect();
    // Ten times the rate, less than the rate, and only the burst.
    for (rate, burst, sent) in [(4_000, 10, 0.1), (45_000, 1000, 1.0), (1, 200, 0.005)] {
        let Rate { datapath, mut worker, rx } = metered(Band { rate, burst, remark: None });
        for ms in 1..=1000 {
            packets.iter().for_each(|bytes| rx.put(bytes));
            worker.poll(Millis(ms), Cycles(ms));
        }
        let tally = datapath.tally();
        let (passed, wanted) = (tally.get(Event::Sent) as f64, 40_000.0 * sent);
        assert!((passed - wanted).abs() <= wanted * 0.02, "{rate}: {passed} of {wanted}");
        let counts = datapath.counts(5);
        assert_eq!((counts.total.0, counts.bands[0].0), (40_000, 40_000 - passed as u64));
        assert_eq!(tally.balance(), 0);
    }
}
