//! Bonds that distribute connections without recirculation.

use crate::action::hash::hash;
use crate::packet::Meta;
use crate::tests::{Rule, Setup, all, out, tcp};
use dpif::*;
use flow::compose::compose;
use flow::{Flow, Mac};
use proptest::prelude::*;
use units::{Cycles, Millis, PortNo, QueueId, WorkerId};

const BOND: u32 = 5;
const BASIS: u32 = 77;
const LEAVE: DpAction = DpAction::LbOutput(LbOutput { bond_id: BOND });

/// The ports of the buckets: alternately one port, the other, and none.
fn ports() -> [Option<PortNo>; BOND_BUCKETS] {
    std::array::from_fn(|bucket| [Some(PortNo(2)), Some(PortNo(3)), None][bucket % 3])
}

fn bucket(bytes: &[u8]) -> usize {
    hash(bytes, &Meta::received(1), None, false, BASIS) as usize % BOND_BUCKETS
}

/// Rules by the last byte of the source address.
fn rules() -> Vec<Rule> {
    let of_kind = |kind, recirc_id, actions| {
        let key = Flow { dl_src: Mac([2, 0, 0, 0, 0, kind]), recirc_id, ..Flow::ZERO };
        (key, Flow { dl_src: Mac([0, 0, 0, 0, 0, 255]), recirc_id: u32::MAX, ..Flow::ZERO }, actions)
    };
    vec![
        of_kind(0, 0, vec![LEAVE]),
        of_kind(1, 0, vec![LEAVE]),
        of_kind(2, 0, vec![DpAction::PushVlan { tpid: 0x8100, tci: 0x1007 }, LEAVE]),
        of_kind(3, 0, vec![LEAVE, out(4)]),
        of_kind(4, 0, vec![DpAction::LbOutput(LbOutput { bond_id: 6 })]),
        of_kind(5, 0, vec![DpAction::Recirc(1)]),
        of_kind(5, 1, vec![LEAVE]),
        of_kind(6, 0, vec![DpAction::Trunc(60), LEAVE]),
    ]
}

fn packet(kind: u8, six: bool, number: usize) -> Vec<u8> {
    let dl_src = Mac([2, 0, 0, 0, 0, kind]);
    let four = Flow { dl_src, ..tcp(number as u32, number as u16) };
    let ipv6_src = (number as u128).to_be_bytes();
    let flow = if six { Flow { dl_type: 0x86dd, nw_src: 0, nw_dst: 0, ipv6_src, ..four } } else { four };
    compose(&flow, &[7; 40])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    /// Batches with packets of one to three kinds, and of one Ethernet type or both.
    #[test]
    fn each_packet_leaves_by_the_link_of_its_bucket(
        batches in prop::collection::vec((prop::collection::vec(0..7u8, 1..4), 0..3u8, 1..130usize), 1..6),
    ) {
        let mut setup = Setup::new(rules());
        setup.datapath.set_validate(true);
        setup.datapath.bonds().put(BOND, BASIS, &ports());
        let (mut bytes, mut lost, mut unbound) = ([0; BOND_BUCKETS], 0, 0);
        for (kinds, types, n) in batches {
            let mut sent = [0; 3];
            for number in 0..n {
                let kind = kinds[number * 7 / 5 % kinds.len()];
                let packet = packet(kind, types == 1 || types == 2 && number % 3 == 1, number);
                setup.rx[0].put(&packet);
                sent[2] += usize::from(kind == 3);
                if kind == 4 {
                    unbound += 1;
                    continue;
                }
                let (bucket, len) = (bucket(&packet), packet.len() as u64);
                match ports()[bucket] {
                    Some(port) => sent[port.0 as usize - 2] += 1,
                    None => lost += 1,
                }
                bytes[bucket] += match kind {
                    2 => len + 4,
                    6 => 60,
                    _ => len,
                };
            }
            setup.run();
            prop_assert_eq!([2, 3, 4].map(|port| setup.tx[port - 1].take().len()), sent);
        }
        prop_assert_eq!(setup.datapath.bonds().take_bytes(BOND), bytes);
        let drops = setup.datapath.tally();
        prop_assert_eq!(drops.dropped(DropReason::InvalidPort), lost);
        prop_assert_eq!(drops.dropped(DropReason::InvalidBond), unbound);
        prop_assert_eq!((setup.datapath.lookup_differences(), setup.balance()), (0, 0));
    }
}

/// Connections of one megaflow, which matches none of their ports.
fn connections() -> Vec<Vec<u8>> {
    (0..256).map(|i| packet(0, false, i)).collect()
}

#[test]
fn one_look_up_serves_all_connections() {
    let mut setup = Setup::new(vec![all(vec![LEAVE])]);
    setup.datapath.bonds().put(BOND, 0, &[Some(PortNo(2)); BOND_BUCKETS]);
    connections().iter().for_each(|bytes| setup.rx[0].put(bytes));
    setup.run();
    assert_eq!((setup.tx[1].take().len(), setup.datapath.flow_count()), (256, 1));
    let tally = setup.datapath.tally();
    assert_eq!((tally.get(crate::Event::Missed), tally.get(crate::Event::Recirculated)), (1, 0));
}

#[test]
fn a_link_that_went_down_gets_nothing_more() {
    let mut setup = Setup::new(vec![all(vec![LEAVE])]);
    let both = std::array::from_fn(|bucket| Some(PortNo(2 + bucket as u32 % 2)));
    let run = |setup: &mut Setup, ports| {
        setup.datapath.bonds().put(BOND, BASIS, ports);
        connections().iter().for_each(|bytes| setup.rx[0].put(bytes));
        setup.run();
        [setup.tx[1].take().len(), setup.tx[2].take().len()]
    };
    let [second, third] = run(&mut setup, &both);
    assert!(second > 90 && third > 90 && second + third == 256, "{second} {third}");
    assert_eq!(run(&mut setup, &[Some(PortNo(3)); BOND_BUCKETS]), [0, 256]);
    assert_eq!(run(&mut setup, &both), [second, third]);
    assert_eq!(setup.datapath.bonds().all().into_iter().collect::<Vec<_>>(), [(BOND, both)]);
    setup.datapath.bonds().remove(BOND);
    setup.send(1, &connections()[0]);
    assert_eq!(setup.datapath.tally().dropped(DropReason::InvalidBond), 1);
    assert!(setup.datapath.bonds().all().is_empty());
}

#[test]
fn what_each_worker_counts_is_taken_once() {
    let mut setup = Setup::new(vec![all(vec![LEAVE])]);
    setup.datapath.bonds().put(BOND, BASIS, &ports());
    let (bytes, mut expected) = (packet(0, false, 1), [0; BOND_BUCKETS]);
    let mut second = setup.datapath.worker(WorkerId(1), 0);
    second.add_rxq(PortNo(1), QueueId(1), Box::new(setup.rx[0].clone()));
    setup.send(1, &bytes);
    setup.rx[0].put(&bytes);
    second.poll(Millis(2000), Cycles(2000));
    expected[bucket(&bytes)] = 2 * bytes.len() as u64;
    assert_eq!(setup.datapath.bonds().take_bytes(BOND), expected);
    assert_eq!(setup.datapath.bonds().take_bytes(BOND), [0; BOND_BUCKETS]);
    // Bytes that a worker counted before it ended are still reported. A bond that is added again starts at zero.
    setup.rx[0].put(&bytes);
    second.poll(Millis(2001), Cycles(2001));
    drop(second);
    expected[bucket(&bytes)] = bytes.len() as u64;
    assert_eq!(setup.datapath.bonds().take_bytes(BOND), expected);
    setup.send(1, &bytes);
    setup.datapath.bonds().remove(BOND);
    setup.datapath.bonds().put(BOND, BASIS, &ports());
    setup.send(1, &bytes);
    assert_eq!(setup.datapath.bonds().take_bytes(BOND), expected);
}
