//! Compares packets that are tracked in their batch with the same packets tracked one by one.

use crate::batch::Batch;
use crate::packet::Meta;
use crate::port::FramePool;
use crate::tests::{Rule, Setup, out, tcp};
use crate::tracked::{CT_EXT_WORDS, write_line};
use classifier::megaflow::Depth;
use classifier::megaflow::convert::CT_LABEL_AT;
use conntrack::Metadata;
use dpif::{Ct, CtNat, DpAction, EthKey, Ipv4Key, Masked, SetField};
use flow::compose::compose;
use flow::flow::ct_state::{ESTABLISHED, INVALID, REPLY_DIR, TRACKED};
use flow::{Flow, Mac, VLAN_CFI, Vlan};
use proptest::prelude::*;
use std::collections::BTreeSet;
use units::Millis;

const ZONE: u16 = 7;
const LABEL: u64 = 9;

fn ct(ct: Ct) -> DpAction {
    DpAction::Ct(Box::new(ct))
}

const PUSH: DpAction = DpAction::PushVlan { tpid: 0x8100, tci: 0x1006 };

fn set_dst() -> DpAction {
    let key = |dst| EthKey { src: Mac::default(), dst };
    DpAction::Set(SetField::Eth(Masked::new(key(Mac([6; 6])), key(Mac([255; 6])))))
}

fn set_nw_dst() -> DpAction {
    let key = |dst| Ipv4Key { dst, ..Ipv4Key::default() };
    DpAction::Set(SetField::Ipv4(Masked::new(key(103), key(u32::MAX))))
}

fn nat(snat: Option<bool>) -> Ct {
    let address = std::net::IpAddr::from([0, 0, 0, 200]);
    let addresses = snat.map(|_| (address, address));
    let nat = Some(CtNat { snat, addresses, ..CtNat::default() });
    let label = snat.map(|_| ([0, LABEL + 1], [0, u64::MAX]));
    Ct { zone: ZONE, commit: snat.is_some(), nat, label, ..Ct::default() }
}

/// Rules for first passes, by ingress port, protocol and the lowest bits of the source port.
fn first(kind: (u16, u8), port: u32, low: u16) -> Rule {
    let again = |first: Ct| vec![ct(first), DpAction::Recirc(1)];
    let commit = Ct { zone: ZONE, commit: true, ..Ct::default() };
    let actions = match (port, low) {
        (1, 0) => again(Ct { mark: Some((5, u32::MAX)), ..commit }),
        (1, 1) => again(nat(Some(true))),
        (1, 2) if kind.0 == 0x0800 => {
            [vec![set_dst(), set_nw_dst()], again(Ct { zone: ZONE, ..Ct::default() })].concat()
        }
        (1, 2) => [vec![set_dst()], again(Ct { zone: ZONE, ..Ct::default() })].concat(),
        (1, _) => vec![ct(commit), out(2)],
        (_, 0) if kind.1 == 17 => [
            vec![ct(Ct { zone: 9, commit: true, ..Ct::default() }), DpAction::CtClear],
            again(nat(Some(false))),
        ]
        .concat(),
        (_, 0) => again(nat(Some(false))),
        (_, 1) if kind.1 == 17 => [vec![ct(nat(None)), set_dst()], again(nat(None))].concat(),
        (_, 1) => [vec![PUSH], again(nat(None))].concat(),
        (_, 2) => [
            vec![out(4), ct(nat(None)), ct(Ct { zone: 9, ..Ct::default() }), out(4), set_dst(), PUSH],
            again(nat(None)),
        ]
        .concat(),
        (_, _) if kind.1 == 6 => [vec![DpAction::CtClear], again(nat(None))].concat(),
        _ => again(nat(None)),
    };
    let key = Flow { in_port: port, dl_type: kind.0, nw_proto: kind.1, tp_src: low, ..Flow::ZERO };
    let mask = Flow { in_port: u32::MAX, recirc_id: u32::MAX, dl_type: u16::MAX, ..Flow::ZERO };
    (key, Flow { nw_proto: u8::MAX, tp_src: 3, ..mask }, actions)
}

/// Rules for second passes, by the result of tracking in the first zone. Most of them track the packets in another zone.
fn second(port: u32, state: u8, mark: u32) -> Rule {
    let other = |commit| Ct { zone: 8, commit, label: Some(([0, LABEL], [0, u64::MAX])), ..Ct::default() };
    let actions = match state {
        state if state & INVALID != 0 => vec![out(4)],
        state if state & ESTABLISHED != 0 && port == 1 && mark == 5 => {
            vec![set_dst(), set_nw_dst(), ct(other(true)), DpAction::Recirc(2)]
        }
        state if state & ESTABLISHED != 0 && port == 1 => {
            vec![set_dst(), ct(other(true)), DpAction::Recirc(2)]
        }
        state if state & ESTABLISHED != 0 && mark == 5 => {
            vec![DpAction::CtClear, ct(other(true)), DpAction::CtClear, DpAction::Recirc(2)]
        }
        state if state & ESTABLISHED != 0 => vec![ct(other(true)), DpAction::Recirc(2)],
        state if state & REPLY_DIR != 0 => {
            vec![
                DpAction::CtClear,
                set_dst(),
                ct(other(true)),
                ct(Ct { zone: 9, ..Ct::default() }),
                out(4),
                out(3),
            ]
        }
        _ if port == 2 => vec![DpAction::CtClear, DpAction::Recirc(2)],
        _ => vec![ct(other(true)), out(3)],
    };
    let key =
        Flow { in_port: port, recirc_id: 1, ct_state: state, ct_zone: ZONE, ct_mark: mark, ..Flow::ZERO };
    let mask = Flow { in_port: u32::MAX, recirc_id: u32::MAX, ct_zone: u16::MAX, ..Flow::ZERO };
    (key, Flow { ct_state: INVALID | ESTABLISHED | REPLY_DIR, ct_mark: u32::MAX, ..mask }, actions)
}

/// Rules for third passes, by whether packets are tracked, by label, by the source port of the connection's first
/// packet, and by addresses.
fn third(ct_state: u8, label: u64, port: u16, dst: u32) -> Rule {
    let key =
        Flow { recirc_id: 2, ct_state, ct_label: [0, label], ct_tp_src: port, nw_dst: dst, ..Flow::ZERO };
    let mask = Flow { recirc_id: u32::MAX, ct_state: TRACKED, ct_label: [0, u64::MAX], ..Flow::ZERO };
    let way = (u32::from(port) + 2 * dst + u32::from(ct_state == 0)) % 4;
    (key, Flow { ct_tp_src: 1, nw_dst: 1, ..mask }, vec![out(1 + way)])
}

fn rules() -> Vec<Rule> {
    let kinds = [(0x0800, 1), (0x0800, 6), (0x0800, 17), (0x86dd, 6), (0x86dd, 17), (0x86dd, 58)];
    let mut rules = Vec::new();
    for port in [1, 2] {
        for low in 0..4 {
            rules.extend(kinds.map(|kind| first(kind, port, low)));
        }
        for bits in 0..8u8 {
            let bit = |n: u8, state: u8| if bits >> n & 1 == 1 { state } else { 0 };
            let state = bit(0, INVALID) | bit(1, ESTABLISHED) | bit(2, REPLY_DIR);
            rules.extend([0, 5].map(|mark| second(port, state, mark)));
        }
    }
    for (state, label) in [(TRACKED, LABEL), (0, 0)] {
        rules.extend([(0, 0), (0, 1), (1, 0), (1, 1)].map(|(port, dst)| third(state, label, port, dst)));
    }
    rules
}

/// The same rules with programs that cannot track packets in their batch.
fn one_by_one() -> Vec<Rule> {
    let mut rules = rules();
    for (_, _, actions) in &mut rules {
        // The maximum length is longer than every packet, so no packet is truncated.
        actions.insert(0, DpAction::Trunc(u32::from(u16::MAX)));
    }
    rules
}

/// A packet: protocol, hosts, ports, TCP flags, and a number that selects a peculiarity.
type Draw = (u8, [u8; 2], [u8; 2], u8, u8);

fn frame_of(&(kind, [src, dst], [a, b], flags, odd): &Draw) -> Vec<u8> {
    let flags = [0x02, 0x12, 0x10, 0x18, 0x11, 0x04][usize::from(flags % 6)];
    let (v6, proto) = (kind % 4 == 3, [17, 6, 1, 17][usize::from(kind % 4)]);
    let (tp_src, tp_dst) = if proto == 1 { (8 * u16::from(a % 2), 0) } else { (a.into(), b.into()) };
    let tcp_flags = if proto == 6 { flags } else { 0 };
    let mut flow = Flow { nw_proto: proto, tp_src, tp_dst, tcp_flags, ..tcp(src.into(), 0) };
    flow.nw_dst = dst.into();
    if v6 {
        (flow.dl_type, flow.nw_src, flow.nw_dst) = (0x86dd, 0, 0);
        (flow.ipv6_src[15], flow.ipv6_dst[15]) = (src, dst);
    }
    if odd == 1 {
        flow.vlans = [Vlan { tpid: 0x8100, tci: VLAN_CFI | 5 }, Vlan::default()];
    }
    let mut frame = compose(&flow, &vec![src; usize::from(dst) * 7]);
    if odd == 2 {
        let last = frame.len() - 1;
        frame[last] ^= 1;
    }
    frame
}

/// The protocol and both endpoints, in the same order for both directions.
fn connection_of(&(kind, [src, dst], [a, b], ..): &Draw) -> (u8, [(u8, u8); 2]) {
    let (kind, [a, b]) = (kind % 4, if kind % 4 == 2 { [0; 2] } else { [a, b] });
    let (one, other) = ((src, a), (dst, b));
    (kind, [one.min(other), one.max(other)])
}

/// The connection that the packet belongs to when its destination address was set.
fn connection_of_set(&(kind, [src, _], [a, b], ..): &Draw) -> (u8, [(u8, u8); 2]) {
    connection_of(&(kind, [src, 103], [a, b], 0, 0))
}

/// Number of times that each round is sent. The first time, most packets have no megaflow yet.
const REPEATED: usize = 4;

/// Returns the packets that leave by each port, in any order, and the connections afterwards.
fn run(setup: &mut Setup, rounds: &[Vec<(bool, Draw)>]) -> (Vec<Vec<Vec<u8>>>, Vec<String>) {
    let mut sent = vec![Vec::new(); 4];
    for round in rounds.iter().flat_map(|round| [round; REPEATED]) {
        // The programs of a batch may be executed in another order than one by one. So a round has at most one packet of
        // each connection.
        let mut seen = BTreeSet::new();
        let alone = |(_, draw): &&(bool, Draw)| {
            seen.insert(connection_of(draw)) & seen.insert(connection_of_set(draw))
        };
        for (second, draw) in round.iter().filter(alone) {
            setup.rx[usize::from(*second)].put(&frame_of(draw));
        }
        setup.run();
        sent.iter_mut().zip(&setup.tx).for_each(|(all, wire)| all.extend(wire.take()));
    }
    sent.iter_mut().for_each(|all| all.sort());
    let connections = setup.datapath.conntrack().dump(None, Millis(setup.now));
    let text = |e: &conntrack::ConnectionSnapshot| {
        format!("{:?} {:?} {:?} {:?}", e.original, e.reply, e.mark, e.label)
    };
    (sent, connections.iter().map(text).collect())
}

/// A packet whose key was not cleared would still be sent correctly, only more slowly, because a packet without a
/// megaflow is looked up again by its metadata. So the keys are compared.
#[test]
fn clearing_changes_the_keys_of_chosen_packets() {
    let mut batch = Batch { depth: Depth::Wide, words: CT_EXT_WORDS, ..Batch::default() };
    batch.widen();
    let mut pool = FramePool::new(8);
    batch.frames.extend((0..3).filter_map(|_| pool.frame_of(&[0; 60])));
    let mut keys_after = |packets| {
        for (i, metadata) in batch.tracked.metadata_of(3).0.iter_mut().enumerate() {
            *metadata = Metadata { state: TRACKED, zone: 7, label: [0, 9], ..Metadata::default() };
            write_line(&mut batch.lines[i], metadata);
        }
        batch.fill_connections();
        batch.clear_tracking(packets);
        let mut metas = [(); 3].map(|()| Meta::default());
        metas.iter_mut().enumerate().for_each(|(i, meta)| batch.tracked.copy_to(i, meta));
        let line = |i: usize| batch.lines[i][5] != 0;
        let label = |i: usize| batch.exts[CT_LABEL_AT + 1][i] != 0;
        (metas.map(|meta| meta.ct_state != 0), [0, 1, 2].map(line), [0, 1, 2].map(label))
    };
    let second = [false, true, false];
    assert_eq!(keys_after(0b101), (second, second, second));
    assert_eq!(keys_after(u64::MAX), ([false; 3], [false; 3], [false; 3]));
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 3000, ..ProptestConfig::with_cases(60) })]
    #[test]
    fn a_batch_becomes_what_its_packets_become(
        validate: bool,
        rounds in prop::collection::vec(
            prop::collection::vec((any::<bool>(), (0..8u8, [1..4u8, 1..4u8], [1..6u8, 1..6u8], any::<u8>(), 0..12u8)), 1..90),
            1..5,
        )
    ) {
        let [mut setup, mut other] = [rules(), one_by_one()].map(Setup::new);
        // The autovalidator takes second passes out of their batch.
        setup.datapath.set_validate(validate);
        prop_assert_eq!(run(&mut setup, &rounds), run(&mut other, &rounds));
        prop_assert_eq!((setup.datapath.lookup_differences(), setup.balance(), other.balance()), (0, 0, 0));
    }
}
