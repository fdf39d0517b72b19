//! Small batches: compared with the same packets in large batches.

use crate::Event;
use crate::path::small_batch::SENT;
use crate::tests::{Rule, Setup, out, tcp};
use dpif::*;
use flow::compose::compose;
use flow::{Flow, Mac, VLAN_CFI, Vlan};
use units::{Millis, PortNo};

fn set_dst(dst: u8) -> DpAction {
    let key = |dst| EthKey { src: Mac::default(), dst };
    DpAction::Set(SetField::Eth(Masked::new(key(Mac([dst; 6])), key(Mac([255; 6])))))
}

/// Megaflows with several masks, some with programs that small batches execute at once.
fn rules() -> Vec<Rule> {
    let push = DpAction::PushVlan { tpid: 0x8100, tci: 0x1007 };
    let ttl = Ipv4Key { ttl: 255, ..Ipv4Key::default() };
    let ttl = DpAction::Set(SetField::Ipv4(Masked::new(Ipv4Key { ttl: 9, ..Ipv4Key::default() }, ttl)));
    let actions = [
        vec![out(2)],
        vec![out(2)],
        vec![set_dst(5), ttl, out(3)],
        vec![out(2), set_dst(6), out(3), push.clone(), out(4)],
        vec![push, out(99)],
        vec![out(99)],
        vec![],
        vec![set_dst(7), DpAction::Recirc(1)],
    ];
    let of = |(i, actions): (usize, Vec<DpAction>)| {
        let mask = Flow { in_port: u32::MAX, recirc_id: u32::MAX, dl_type: 0xffff, nw_frag: 3, ..Flow::ZERO };
        let mask = match i % 3 {
            0 => Flow { nw_src: 7, ..mask },
            1 => Flow { nw_src: 7, tp_dst: 1, ..mask },
            _ => Flow { nw_src: 7, nw_ttl: 255, ..mask },
        };
        (Flow { in_port: 1, nw_src: i as u32, dl_type: 0x0800, nw_ttl: 64, ..Flow::ZERO }, mask, actions)
    };
    let again =
        (Flow { recirc_id: 1, ..Flow::ZERO }, Flow { recirc_id: u32::MAX, ..Flow::ZERO }, vec![out(2)]);
    actions.into_iter().enumerate().map(of).chain([again]).collect()
}

/// A packet of each kind. The first eight go through the programs of [`rules`].
fn packets() -> Vec<Vec<u8>> {
    let mut all: Vec<_> = (0..8).map(|i| compose(&tcp(i, 80), b"payload")).collect();
    all.push(compose(&Flow { nw_proto: 17, tcp_flags: 0, ..tcp(1, 81) }, b"payload"));
    all.push(compose(&Flow { nw_proto: 47, tcp_flags: 0, tp_dst: 0, ..tcp(0, 0) }, b"payload"));
    let tag = Vlan { tpid: 0x8100, tci: VLAN_CFI | 5 };
    all.push(compose(&Flow { vlans: [tag, Vlan::default()], ..tcp(1, 80) }, b"payload"));
    all.push(compose(&Flow { dl_type: 0x0806, nw_proto: 1, ..Flow::ZERO }, b""));
    let mut fragment = all[0].clone();
    fragment[20] |= 0x20;
    let (mut long, mut short) = (all[2].clone(), all[2].clone());
    long[17] += 1;
    short.truncate(33);
    all.extend([fragment, long, short]);
    all
}

/// The packets that a datapath sent by each port, the statistics of its megaflows, and its counters.
type Outcome = (Vec<Vec<Vec<u8>>>, Vec<(String, FlowStats)>, [u64; 3]);

fn outcome(setup: &mut Setup) -> Outcome {
    let mut sent: Vec<_> = setup.tx.iter().map(|wire| wire.take()).collect();
    // Packets of different flows may overtake each other.
    sent.iter_mut().for_each(|frames| frames.sort());
    setup.datapath.maintain(Millis(setup.now));
    let dump = setup.datapath.flow_dump(Millis(setup.now));
    let mut flows: Vec<_> = dump
        .iter()
        .map(|flow| (format!("{:?}", flow.ufid), FlowStats { used: None, ..flow.stats }))
        .collect();
    flows.sort_by(|a, b| a.0.cmp(&b.0));
    let tally = setup.datapath.tally();
    let received = setup.datapath.port_stats(PortNo(1)).unwrap().rx_packets;
    (sent, flows, [tally.get(Event::Sent), tally.dropped_total(), received])
}

#[test]
fn few_packets_are_treated_as_many() {
    let (mut few, mut many) = (Setup::new(rules()), Setup::new(rules()));
    // A worker with the autovalidator processes all batches in the same way.
    many.datapath.set_validate(true);
    let packets = packets();
    let mut random = fastrand::Rng::with_seed(11);
    for round in 0..3000 {
        // Batches of few kinds, so that many contain no packet that needs the general stages.
        let kinds = [1, 2, 5, 6, packets.len()][round / 50 % 5];
        for _ in 0..random.usize(1..=10) {
            let bytes = &packets[random.usize(..kinds)];
            few.rx[0].put(bytes);
            many.rx[0].put(bytes);
        }
        few.run();
        many.run();
        if round % 100 == 0 || kinds == packets.len() {
            assert_eq!(outcome(&mut few), outcome(&mut many), "round {round}");
        }
    }
    assert_eq!((few.balance(), many.balance()), (0, 0));
    assert!(SENT.get() > 300, "{} batches", SENT.get());
}

#[test]
fn what_few_packets_hit_is_counted() {
    let mut setup = Setup::new(rules());
    let packets = packets();
    for _ in 0..20 {
        setup.send(1, &packets[0]);
        setup.send(1, &packets[1]);
    }
    let tally = *setup.worker.tally();
    let events = [Event::CacheHit, Event::MegaflowHit, Event::Missed].map(|event| tally.get(event));
    assert_eq!((events.iter().sum::<u64>(), tally.get(Event::Missed)), (40, 2));
    assert!(SENT.get() > 0 && tally.get(Event::FrontHit) <= tally.get(Event::CacheHit));
}

#[test]
fn packets_matched_by_kind_alone_are_counted() {
    let mask = Flow { in_port: u32::MAX, recirc_id: u32::MAX, dl_type: 0xffff, nw_frag: 3, ..Flow::ZERO };
    let rule = (Flow { in_port: 1, dl_type: 0x0800, ..Flow::ZERO }, mask, vec![out(2)]);
    let mut setup = Setup::new(vec![rule]);
    let bytes = compose(&tcp(1, 80), b"payload");
    let mut counts = Vec::new();
    for _ in 0..3 {
        setup.send(1, &bytes);
        counts.push(setup.worker.tally().get(Event::SimpleHit));
    }
    assert_eq!(counts, [0, 1, 2]);
}
