//! Packets that go through the path again: they are looked up by what they are then, whether or not they are parsed again.

use crate::action::hash::hash;
use crate::packet::Meta;
use crate::tests::{Bed, Rule, out, tcp};
use crate::{Config, Datapath, Event, Worker};
use dpif::meter::Band;
use dpif::*;
use flow::compose::compose;
use flow::{Flow, Mac, VLAN_CFI, Vlan};
use std::sync::Arc;
use units::{Cycles, Millis, PortNo, QueueId, WorkerId};

const NEW: Mac = Mac([6; 6]);
const HASH: DpAction = DpAction::Hash { alg: HashAlg::L4, basis: 7 };
const AGAIN: DpAction = DpAction::Recirc(1);

fn set_dst() -> DpAction {
    let key = |dst| EthKey { src: Mac::default(), dst };
    DpAction::Set(SetField::Eth(Masked::new(key(NEW), key(Mac([255; 6])))))
}

/// First passes by source; second passes by destination, tag and hash.
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
    let mut bed = Bed::new(rules());
    bed.datapath.set_validate(true);
    let packets: Vec<Vec<u8>> = (0..200).map(|i| compose(&tcp(i, i as u16 & !1), b"payload")).collect();
    // The first round makes the megaflows; the others are whole batches that find them.
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
            bed.rx[0].put(bytes);
        }
        bed.run();
        assert_eq!([1, 2, 3, 4].map(|port| bed.tx[port - 1].take().len()), expected);
    }
    assert_eq!((bed.datapath.lookup_differences(), bed.balance()), (0, 0));
}

struct Rate {
    datapath: Arc<Datapath>,
    worker: Worker,
    rx: crate::tests::Wire,
}

/// Four megaflows, whose packets mix in every batch, behind one meter.
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
    // Ten times the rate, less than the rate, and no more than the burst in all.
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
