//! Bonds whose link a hash of the connection selects: by recirculation, and in the datapath.

use super::*;
use ::bond::lacp::Negotiation;
use ::bond::{Bond, LinkFacts, Mode, Settings};
use dpif::{HashAlg, LbOutput};

/// Port 1, and a bond of ports 2 and 3 whose partner uses LACP.
fn switch_of(lb_output: bool) -> (Snapshot, Bond) {
    let settings = Settings { mode: Mode::BalanceTcp, basis: 7, lb_output, ..Settings::default() };
    let mut bond = Bond::new(settings, Mac::default(), Millis(0));
    for port in [2, 3] {
        let facts =
            LinkFacts { name: format!("p{port}"), carrier: true, may_enable: true, ..LinkFacts::default() };
        bond.set_link(OfPort(port), facts);
    }
    bond.run(Negotiation::Negotiated, Millis(0));
    let mut br = TestBridge::with_ports(BR0, 3, 0);
    br.flow(0, 1, &[], vec![normal()]);
    br.bundles.retain(|b| b.id != BundleId(3));
    br.bundles[1].ports = vec![OfPort(2), OfPort(3)];
    br.bundles[1].bond = Some(Arc::new(bond.view()));
    (switch(&mut [br]), bond)
}

#[test]
fn a_packet_comes_back_with_its_hash() {
    let (s, bond) = switch_of(false);
    let recirc = SharedRecirc::default();
    let first = translate(&s, &input(&tcp(1), &recirc));
    assert_eq!(first.actions, [DpAction::Hash { alg: HashAlg::L4, basis: 7 }, DpAction::Recirc(1)]);
    assert_eq!((first.mask.tp_dst, first.mask.nw_src), (0, 0));
    for dp_hash in [0x3456_7810, 0x11] {
        let again = Flow { recirc_id: 1, dp_hash, ..tcp(1) };
        let second = translate(&s, &input(&again, &recirc));
        let link = bond.owners()[dp_hash as usize % 256];
        assert_eq!((outputs(&second), second.mask.dp_hash), (vec![u32::from(link.0)], 0xff));
        let [StatsTarget::Bond { tally, bucket }] = &second.stats_targets[..] else {
            panic!("{:?}", second.stats_targets)
        };
        tally.credit(*bucket, 3, 300);
        let rule = bond.rules().into_iter().find(|rule| rule.bucket == dp_hash as u8).unwrap();
        assert_eq!((rule.link, rule.packets, rule.bytes), (link, 3, 300));
    }
}

#[test]
fn the_datapath_sends_without_a_second_look_up() {
    let (s, bond) = switch_of(true);
    let recirc = SharedRecirc::default();
    let o = translate(&s, &input(&tcp(1), &recirc));
    assert_eq!(o.actions, [DpAction::LbOutput(LbOutput { bond_id: 1 })]);
    assert_eq!((o.mask.tp_dst, o.mask.nw_src, o.mask.dp_hash), (0, 0, 0));
    // The megaflow has a reference to the id, so no other bond gets it meanwhile.
    assert_eq!(o.recircs, [1]);
    assert!(bond.rules().is_empty());
}
