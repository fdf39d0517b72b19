//! Mirrors.

use super::*;
use crate::{MirrorOutput, MirrorTally};
use flow::VLAN_CFI;

fn mirror(from: &[u32], to: &[u32], out: MirrorOutput) -> Mirror {
    let ids = |list: &[u32]| list.iter().copied().map(BundleId).collect();
    Mirror {
        src_ports: ids(from),
        dst_ports: ids(to),
        vlans: None,
        filter: None,
        out,
        snaplen: 0,
        tally: Arc::new(MirrorTally::default()),
    }
}

fn switch_with(mirrors: Vec<Mirror>, actions: Vec<Action>) -> Snapshot {
    let mut br = TestBridge::with_ports(BR0, 4, 0);
    br.flow(0, 1, &[], actions);
    br.mirrors = mirrors;
    switch(&mut [br])
}

#[test]
fn an_arrival_is_copied_before_and_a_departure_after() {
    let port3 = MirrorOutput::Port(BundleId(3));
    let s = switch_with(vec![mirror(&[1], &[], port3)], vec![out(2)]);
    assert_eq!(outputs(&run(&s, &tcp(1))), [3, 2]);
    let s = switch_with(vec![mirror(&[], &[2], port3)], vec![out(2)]);
    assert_eq!(outputs(&run(&s, &tcp(1))), [2, 3]);
    assert_eq!(outputs(&run(&s, &tcp(4))), [2, 3]);
}

#[test]
fn each_place_gets_one_copy_of_each_form_of_the_packet() {
    let port3 = MirrorOutput::Port(BundleId(3));
    let both = || vec![mirror(&[1], &[2], port3), mirror(&[1], &[2], port3)];
    assert_eq!(outputs(&run(&switch_with(both(), vec![out(2)]), &tcp(1))), [3, 2]);
    let changed = vec![Action::SetEthDst(mac(9)), out(2)];
    let output = run(&switch_with(both(), changed), &tcp(1));
    assert_eq!(outputs(&output), [3, 2, 3]);
    assert_eq!(output.stats_targets.iter().filter(|c| matches!(c, StatsTarget::Mirror(_))).count(), 2);
}

#[test]
fn a_mirrors_port_serves_nothing_else() {
    let s = switch_with(vec![mirror(&[], &[], MirrorOutput::Port(BundleId(3)))], vec![normal()]);
    assert_eq!(outputs(&run(&s, &tcp(1))), [2, 4]);
    assert!(outputs(&run(&s, &tcp(3))).is_empty());
}

#[test]
fn a_copy_for_a_vlan_goes_to_all_its_ports() {
    let mut br = TestBridge::new(BR0);
    for n in 1..=4 {
        let vlan = if n == 3 {
            VlanConfig { mode: ::bridge::VlanMode::Access, tag: 12, ..VlanConfig::default() }
        } else {
            VlanConfig::trunk()
        };
        br.port(n, Attachment::Datapath(PortNo(u32::from(n))), vlan);
    }
    br.flow(0, 1, &[], vec![out(2)]);
    br.mirrors = vec![mirror(&[1], &[], MirrorOutput::Vlan(12))];
    let output = run(&switch(&mut [br]), &tcp(1));
    // Trunk ports send the copy with its tag, the access port without.
    assert_eq!(output.actions.iter().filter(|a| matches!(a, DpAction::Output(_))).count(), 5);
    assert!(output.actions.iter().any(|a| matches!(a, DpAction::PushVlan { .. })));
}

#[test]
fn vlan_and_filter_decide_and_are_looked_at() {
    let mut m = mirror(&[1], &[], MirrorOutput::Port(BundleId(3)));
    m.vlans = Some([11].into_iter().collect());
    let mut wanted = (Flow::ZERO, Flow::ZERO);
    FieldId::IpProto.set(&mut wanted.0, 6);
    FieldId::IpProto.unwildcard(&mut wanted.1);
    m.filter = Some(Arc::new(wanted));
    let s = switch_with(vec![m], vec![out(2)]);
    let mut tagged = tcp(1);
    FieldId::DlVlan.set(&mut tagged, 12);
    let other = run(&s, &tagged);
    assert_eq!((outputs(&other), other.mask.nw_proto), (vec![2], 0));
    assert_eq!(other.mask.vlans[0].tci, VLAN_CFI | 0xfff);
    FieldId::DlVlan.set(&mut tagged, 11);
    let copied = run(&s, &tagged);
    assert_eq!((outputs(&copied), copied.mask.nw_proto), (vec![3, 2], 0xff));
    let udp = run(&s, &Flow { nw_proto: 17, ..tagged });
    assert_eq!((outputs(&udp), udp.mask.nw_proto), (vec![2], 0xff));
}

#[test]
fn a_copy_is_cut_where_asked() {
    let mut m = mirror(&[1], &[], MirrorOutput::Port(BundleId(3)));
    m.snaplen = 100;
    let output = run(&switch_with(vec![m], vec![out(2)]), &tcp(1));
    let cut = [DpAction::Trunc(100), DpAction::Output(PortNo(3)), DpAction::Output(PortNo(2))];
    assert_eq!(output.actions, cut);
}
