//! Tables, actions, groups, patch ports.

use super::*;
use dpif::{DropReason, EthKey, Ipv4Key, Masked, SetField, UserspaceCookie};
use openflow::group::{Bucket, GroupType, Selection};

fn resubmit(table: u8) -> Action {
    Action::Resubmit { port: None, table: Some(table), with_ct: false }
}

fn set_dst(n: u8) -> DpAction {
    let only = |src: Mac, dst: Mac| EthKey { src, dst };
    DpAction::Set(SetField::Eth(Masked::new(
        only(Mac::default(), mac(n)),
        only(Mac::default(), Mac::BROADCAST),
    )))
}

#[test]
fn a_write_is_emitted_before_the_output_that_sees_it() {
    let mut b = TestBridge::with_ports(BR0, 3, 0);
    b.flow(0, 1, &[], vec![out(2), Action::SetEthDst(mac(9)), out(3)]);
    let o = run(&switch(&mut [b]), &tcp(1));
    let port = |n| DpAction::Output(PortNo(n));
    assert_eq!(o.actions, [port(2), set_dst(9), port(3)]);
    assert_eq!((o.mask.dl_dst, o.mask.dl_src), (Mac::BROADCAST, Mac::default()));
    assert!(o.slow.is_empty() && o.error.is_none());
}

#[test]
fn no_match_is_a_counted_drop() {
    let o = run(&switch(&mut [TestBridge::with_ports(BR0, 2, 0)]), &tcp(1));
    assert_eq!(o.actions, [DpAction::Drop(DropReason::ActionOfPipeline)]);
    assert!(o.stats_targets.iter().any(|c| matches!(c, StatsTarget::Miss { table: 0, .. })));
}

#[test]
fn output_to_the_input_port_needs_in_port() {
    let mut b = TestBridge::with_ports(BR0, 2, 0);
    b.flow(0, 1, &[], vec![out(1), Action::output(OfPort::IN_PORT)]);
    assert_eq!(outputs(&run(&switch(&mut [b]), &tcp(1))), [1]);
}

#[test]
fn flood_leaves_out_the_input_and_no_flood_ports() {
    let mut b = TestBridge::with_ports(BR0, 4, 0);
    b.ports.get_mut(&OfPort(3)).unwrap().flags = PortFlags::NO_FLOOD;
    b.flow(0, 1, &[(FieldId::InPort, 1)], vec![Action::output(OfPort::FLOOD)]);
    b.flow(0, 1, &[(FieldId::InPort, 2)], vec![Action::output(OfPort::ALL)]);
    let s = switch(&mut [b]);
    assert_eq!(outputs(&run(&s, &tcp(1))), [2, 4]);
    assert_eq!(outputs(&run(&s, &tcp(2))), [1, 3, 4]);
}

#[test]
fn resubmit_goes_on_with_the_changed_packet_and_comes_back() {
    let mut b = TestBridge::with_ports(BR0, 3, 0);
    b.flow(0, 1, &[], vec![Action::SetEthDst(mac(9)), resubmit(1), out(3)]);
    b.flow(1, 1, &[(FieldId::EthDst, u128::from(mac(9).to_u64()))], vec![out(2)]);
    let o = run(&switch(&mut [b]), &tcp(1));
    assert_eq!(outputs(&o), [2, 3]);
    assert_eq!(o.stats_targets.iter().filter(|c| matches!(c, StatsTarget::Match { .. })).count(), 2);
}

#[test]
fn loops_end() {
    let mut b = TestBridge::with_ports(BR0, 2, 0);
    b.flow(0, 1, &[], vec![out(2), resubmit(0)]);
    b.flow(1, 1, &[], (0..5000).map(|_| resubmit(2)).collect());
    let s = switch(&mut [b]);
    let o = run(&s, &tcp(1));
    assert_eq!(o.error, Some(Failure::RecursionTooDeep));
    assert_eq!(o.actions, [DpAction::Drop(DropReason::ActionRecursionTooDeep)]);
    let recirc = SharedRecirc::default();
    let flow = tcp(1);
    let many = [resubmit(1)];
    let o = translate(&s, &Input { start: Start::Actions(&many), ..input(&flow, &recirc) });
    assert_eq!(o.error, Some(Failure::TooManyResubmits));
}

/// Translates a packet; returns the error, and how many objects the translation has left in memory.
fn failure(s: &Snapshot, packet: Option<&[u8]>) -> (Option<Failure>, usize) {
    let (flow, recirc) = (tcp(1), SharedRecirc::default());
    let o = translate(s, &Input { packet, ..input(&flow, &recirc) });
    (o.error, o.effects.len() + o.stats_targets.len() + o.recircs.len() + o.log.len())
}

#[test]
fn long_lists_in_loops_end() {
    // 4,096 look-ups of 4,000 actions each would be 16 million actions.
    let longs =
        [set(FieldId::Metadata, 7), Action::WriteActions(vec![out(2)]), Action::output(OfPort::FLOOD)];
    for long in longs {
        let mut b = TestBridge::with_ports(BR0, 200, 0);
        b.flow(0, 1, &[], vec![resubmit(1); 5000]);
        b.flow(1, 1, &[], vec![long; 4000]);
        let (error, kept) = failure(&switch(&mut [b]), None);
        assert_eq!(error, Some(Failure::TooManyResubmits));
        assert!(kept < 10_000, "{kept}");
    }
}

#[test]
fn groups_that_name_groups_end() {
    let mut b = TestBridge::with_ports(BR0, 2, 0);
    let last = 40;
    for id in (1..=last).rev() {
        let action = if id == last { set(FieldId::Metadata, 7) } else { Action::Group(id + 1) };
        let bucket = |id| Bucket { id, actions: vec![action.clone()], ..Bucket::default() };
        let buckets = vec![bucket(0), bucket(1), bucket(2)];
        b.group(&GroupMod { group: id, kind: GroupType::All, buckets, ..GroupMod::default() });
    }
    b.flow(0, 1, &[], vec![Action::Group(1)]);
    let (error, kept) = failure(&switch(&mut [b]), None);
    assert_eq!(error, Some(Failure::TooManyResubmits));
    assert!(kept < 1_000_000, "{kept}");
}

#[test]
fn a_translation_logs_so_many_lines_and_says_that_there_were_more() {
    let mut b = TestBridge::with_ports(BR0, 2, 0);
    b.flow(0, 1, &[], vec![Action::output(OfPort(1)); 4000]);
    let (flow, recirc) = (tcp(1), SharedRecirc::default());
    let o = translate(&switch(&mut [b]), &Input { packet: Some(&[]), ..input(&flow, &recirc) });
    assert_eq!(o.log.len(), 101);
    assert!(o.log[100].text.starts_with("further messages on bridge br0 suppressed"));
}

#[test]
fn a_hashed_label_is_known_by_its_bits() {
    let label = |matched: &[(FieldId, u128)]| {
        let mut b = TestBridge::with_ports(BR0, 3, 0);
        let buckets = vec![Bucket { weight: 1, actions: vec![out(2)], ..Bucket::default() }];
        let fields = vec![(FieldId::Ipv6Label, FieldId::Ipv6Label.ones())];
        let selection = Selection { method: "hash".to_owned(), param: 0, fields };
        b.group(&GroupMod { group: 1, kind: GroupType::Select, buckets, selection, ..GroupMod::default() });
        b.flow(0, 1, matched, vec![Action::Group(1)]);
        let packet = Flow { in_port: 1, dl_type: 0x86dd, ipv6_label: 5, ..Flow::ZERO };
        run(&switch(&mut [b]), &packet).mask.ipv6_label
    };
    assert_eq!(label(&[]), 0xf_ffff);
    assert_eq!(label(&[(FieldId::EthType, 0x86dd), (FieldId::Ipv6Label, 5)]), u32::MAX);
}

#[test]
fn a_written_label_is_known_by_its_bits() {
    let mut b = TestBridge::with_ports(BR0, 3, 0);
    let ip6 = (FieldId::EthType, 0x86dd);
    b.flow(0, 2, &[ip6, (FieldId::Ipv6Label, 0)], vec![out(2)]);
    b.flow(0, 1, &[ip6], vec![set(FieldId::Ipv6Label, 6), out(3)]);
    let packet = |ipv6_label| Flow { in_port: 1, dl_type: 0x86dd, ipv6_label, ..Flow::ZERO };
    let s = switch(&mut [b]);
    assert_eq!(run(&s, &packet(5)).mask.ipv6_label, 0xf_ffff);
    assert_eq!(run(&s, &packet(0)).mask.ipv6_label, u32::MAX, "matched");
}

#[test]
fn the_action_set_runs_last() {
    let mut b = TestBridge::with_ports(BR0, 3, 0);
    b.flow(0, 1, &[], vec![Action::WriteActions(vec![out(3)]), Action::GotoTable(1)]);
    b.flow(1, 2, &[(FieldId::ActsetOutput, 3)], vec![out(2)]);
    b.flow(1, 1, &[], vec![Action::ClearActions]);
    assert_eq!(outputs(&run(&switch(&mut [b]), &tcp(1))), [2, 3]);
}

#[test]
fn a_ttl_that_ends_goes_to_the_controller_and_no_further() {
    let mut b = TestBridge::with_ports(BR0, 2, 0);
    b.flow(0, 1, &[], vec![Action::DecTtl { ids: vec![0], nicira: false }, out(2)]);
    let s = switch(&mut [b]);
    let o = run(&s, &Flow { nw_ttl: 1, ..tcp(1) });
    let [DpAction::Userspace(u)] = o.actions.as_slice() else { panic!("{:?}", o.actions) };
    assert!(matches!(u.cookie, UserspaceCookie::Controller { reason: 2, recirc_id: 1, .. }));
    assert_eq!(o.recircs, [1]);
    let o = run(&s, &tcp(1));
    let (key, mask) = (Ipv4Key { ttl: 63, ..Ipv4Key::default() }, Ipv4Key { ttl: 255, ..Ipv4Key::default() });
    assert_eq!(o.actions[0], DpAction::Set(SetField::Ipv4(Masked::new(key, mask))));
}

#[test]
fn a_table_miss_rule_says_so_to_the_controller() {
    let mut b = TestBridge::with_ports(BR0, 2, 0);
    b.flow(0, 0, &[], vec![Action::output(OfPort::CONTROLLER)]);
    let o = run(&switch(&mut [b]), &tcp(1));
    let [DpAction::Userspace(u)] = o.actions.as_slice() else { panic!("{:?}", o.actions) };
    assert!(matches!(u.cookie, UserspaceCookie::Controller { reason: 6, .. }));
}

#[test]
fn a_patch_port_leads_into_the_next_bridge_and_back() {
    let mut b0 = TestBridge::with_ports(BR0, 2, 0);
    b0.port(9, Attachment::Patch(BR1, OfPort(8)), VlanConfig::trunk());
    b0.flow(0, 1, &[], vec![Action::WriteMetadata { value: 7, mask: 7 }, out(9), out(2)]);
    let mut b1 = TestBridge::with_ports(BR1, 2, 10);
    b1.port(8, Attachment::Patch(BR0, OfPort(9)), VlanConfig::trunk());
    b1.flow(0, 1, &[(FieldId::InPort, 8), (FieldId::Metadata, 0)], vec![Action::SetEthDst(mac(9)), out(1)]);
    let o = run(&switch(&mut [b0, b1]), &tcp(1));
    let port = |n| DpAction::Output(PortNo(n));
    assert_eq!(o.actions, [set_dst(9), port(11), set_dst(2), port(2)]);
    assert!(
        o.stats_targets
            .iter()
            .any(|c| matches!(c, StatsTarget::Patch { tx: (BR0, OfPort(9)), rx: (BR1, OfPort(8)) }))
    );
}

#[test]
fn bridges_that_send_to_each_other_end() {
    let mut b0 = TestBridge::with_ports(BR0, 2, 0);
    b0.port(9, Attachment::Patch(BR1, OfPort(8)), VlanConfig::trunk());
    b0.flow(
        0,
        1,
        &[],
        vec![Action::Clone(vec![Action::OutputTrunc { port: OfPort(2), max_len: 64 }, out(9)]), out(2)],
    );
    let mut b1 = TestBridge::with_ports(BR1, 1, 10);
    b1.port(8, Attachment::Patch(BR0, OfPort(9)), VlanConfig::trunk());
    let bucket = Bucket { id: 0, actions: vec![Action::output(OfPort::IN_PORT)], ..Bucket::default() };
    b1.group(&GroupMod { group: 1, kind: GroupType::Indirect, buckets: vec![bucket], ..GroupMod::default() });
    b1.flow(0, 1, &[], vec![Action::Group(1)]);
    let o = run(&switch(&mut [b0, b1]), &Flow { in_port: 1, ..tcp(1) });
    // The innermost patch port fails; the outputs of the outer bridges stay.
    assert_eq!(o.error, None);
    assert_eq!(outputs(&o), [2]);
}

#[test]
fn groups_work_on_copies() {
    let mut b = TestBridge::with_ports(BR0, 3, 0);
    let bucket = |id, weight, actions| Bucket { id, weight, actions, ..Bucket::default() };
    let buckets = |w| vec![bucket(0, w, vec![Action::SetEthDst(mac(9)), out(2)]), bucket(1, w, vec![out(3)])];
    b.group(&GroupMod { group: 1, kind: GroupType::All, buckets: buckets(0), ..GroupMod::default() });
    b.group(&GroupMod { group: 2, kind: GroupType::Select, buckets: buckets(1), ..GroupMod::default() });
    b.flow(0, 1, &[(FieldId::InPort, 1)], vec![Action::Group(1)]);
    b.flow(0, 1, &[(FieldId::InPort, 2)], vec![Action::Group(2)]);
    let s = switch(&mut [b]);
    let port = |n| DpAction::Output(PortNo(n));
    assert_eq!(run(&s, &tcp(1)).actions, [set_dst(9), port(2), set_dst(2), port(3)]);

    let recirc = SharedRecirc::default();
    let flow = tcp(2);
    let first = translate(&s, &input(&flow, &recirc));
    assert!(matches!(first.actions.as_slice(), [DpAction::Hash { .. }, DpAction::Recirc(1)]));
    let mut seen: Vec<_> = (1..17)
        .map(|dp_hash| {
            let flow = Flow { recirc_id: 1, dp_hash, ..tcp(2) };
            outputs(&translate(&s, &input(&flow, &recirc)))
        })
        .collect();
    seen.sort();
    seen.dedup();
    // Bucket 0 outputs to the in port, so it sends nothing.
    assert_eq!(seen, [vec![], vec![3]]);
}

#[test]
fn learn_asks_for_a_flow() {
    use flow::Subfield;
    use openflow::action::{Learn, LearnSource, LearnSpec, LearnTarget};
    let mut b = TestBridge::with_ports(BR0, 2, 0);
    let (src, dst) = (Subfield::whole(FieldId::EthSrc), Subfield::whole(FieldId::EthDst));
    let spec = |src, dst| LearnSpec { n_bits: 48, src: LearnSource::Field(src), dst };
    let port = Subfield::whole(FieldId::InPort);
    let specs = vec![spec(src, LearnTarget::Match(dst)), spec(port, LearnTarget::Output)];
    b.flow(0, 1, &[], vec![Action::Learn(Box::new(Learn { table: 5, specs, ..Learn::default() }))]);
    let o = run(&switch(&mut [b]), &tcp(1));
    let [PacketEffect::Learn(learned)] = o.effects.as_slice() else { panic!("{:?}", o.effects) };
    assert_eq!(learned.flow_mod.table, 5);
    assert_eq!(learned.flow_mod.actions, [out(1)]);
    assert_eq!(learned.flow_mod.matching.get(FieldId::EthDst).0, u128::from(mac(1).to_u64()));
    assert_eq!(o.mask.dl_src, Mac::BROADCAST);
}

#[test]
fn a_limit_that_is_reached_is_a_result_like_any_other() {
    use openflow::action::Learn;
    let learn = |limit| Learn {
        table: 5,
        limit,
        result_dst: flow::Subfield::new(FieldId::Reg0, 0, 1),
        ..Learn::default()
    };
    let limited = || {
        let mut b = TestBridge::with_ports(BR0, 3, 0);
        b.flow(0, 1, &[], vec![Action::Learn(Box::new(learn(1))), resubmit(1)]);
        b.flow(1, 2, &[(FieldId::Reg0, 1)], vec![out(2)]);
        b.flow(1, 1, &[], vec![out(3)]);
        b
    };
    let again = |s: &Snapshot| {
        let (flow, recirc) = (tcp(1), SharedRecirc::default());
        let o = translate(s, &Input { returns_side_effects: false, ..input(&flow, &recirc) });
        (outputs(&o), o.avoid_caching)
    };
    // The limit is 1 and another flow exists, so nothing is learned until that flow is removed.
    let mut full = limited();
    full.flow(5, 1, &[(FieldId::InPort, 7)], vec![]);
    let full = switch(&mut [full]);
    assert_eq!(outputs(&run(&full, &tcp(1))), [3]);
    assert_eq!(again(&full), (vec![3], false));
    // The next packet must be translated, to learn from it, so no megaflow may be installed.
    assert!(again(&switch(&mut [limited()])).1);
}

#[test]
fn without_collectors_a_sample_is_nothing() {
    let mut b = TestBridge::with_ports(BR0, 2, 0);
    let sample = openflow::action::Sample {
        probability: 1,
        collector_set_id: 1,
        obs_domain: openflow::action::NumberOrField::Number(0),
        obs_point: openflow::action::NumberOrField::Number(0),
        sampling_port: OfPort::NONE,
        direction: openflow::action::SampleDirection::Default,
    };
    b.flow(0, 1, &[], vec![Action::Sample(Box::new(sample)), out(2)]);
    let o = run(&switch(&mut [b]), &tcp(1));
    assert_eq!(outputs(&o), [2]);
}

#[test]
fn popping_the_last_label_brings_the_packet_back() {
    let mut b = TestBridge::with_ports(BR0, 3, 0);
    let decap = vec![Action::PopMpls(0x0800), Action::DecTtl { ids: vec![0], nicira: false }, out(2)];
    b.flow(0, 1, &[(FieldId::EthType, 0x8847)], decap);
    let s = switch(&mut [b]);
    let recirc = SharedRecirc::default();
    let flow = Flow { dl_type: 0x8847, mpls_lse: [0x5140, 0, 0], in_port: 1, ..Flow::ZERO };
    let o = translate(&s, &input(&flow, &recirc));
    assert_eq!(o.actions, [DpAction::PopMpls { ethertype: 0x0800 }, DpAction::Recirc(1)]);
    recirc.0.lock().unwrap().release(1);
    let back = Flow { recirc_id: 1, ..tcp(1) };
    let o = translate(&s, &input(&back, &recirc));
    assert!(matches!(o.actions.as_slice(), [DpAction::Set(SetField::Ipv4(_)), DpAction::Output(PortNo(2))]));
    // A recirculated packet can be translated again as long as its own megaflow exists, even if the megaflow that
    // recirculated it was removed.
    assert_eq!(o.recircs, [1]);
    (0..3).for_each(|_| recirc.0.lock().unwrap().expire());
    assert_eq!(translate(&s, &input(&back, &recirc)).actions, o.actions);
}

#[test]
fn the_length_of_a_packet_is_asked_of_the_datapath() {
    let mut b = TestBridge::with_ports(BR0, 4, 0);
    let bit = flow::Subfield::new(FieldId::Reg0, 0, 1).unwrap();
    b.flow(0, 1, &[], vec![Action::CheckPktLarger { len: 200, dst: bit }, resubmit(1)]);
    b.flow(1, 2, &[(FieldId::Reg0, 1)], vec![out(2), resubmit(2)]);
    b.flow(1, 1, &[], vec![out(3), resubmit(2)]);
    b.flow(2, 1, &[], vec![Action::SetEthDst(mac(9)), out(4)]);
    let mut s = switch(&mut [b]);
    s.capabilities.check_pkt_len = true;
    let port = |n| DpAction::Output(PortNo(n));
    let o = run(&s, &tcp(1));
    let [DpAction::CheckPktLen(check)] = &o.actions[..] else { panic!("{:?}", o.actions) };
    assert_eq!(check.pkt_len, 200);
    assert_eq!(check.greater, [port(2), set_dst(9), port(4)]);
    assert_eq!(check.less_equal, [port(3), set_dst(9), port(4)]);
    assert!(o.slow.is_empty());
    s.capabilities.check_pkt_len = false;
    let o = run(&s, &tcp(1));
    assert_eq!(o.slow, dpif::SlowReason::ACTION);
    assert!(!o.actions.iter().any(|a| matches!(a, DpAction::CheckPktLen(_))));
}

/// An OpenFlow 1.0 action for ports writes 16 bits, also in an ICMP packet, whose type has eight.
#[test]
fn a_type_of_icmp_replaces_all_bits_of_a_port() {
    let mut b = TestBridge::with_ports(BR0, 2, 0);
    b.flow(0, 1, &[], vec![Action::SetL4Src(1001), set(FieldId::Icmpv4Type, 8), out(2)]);
    let icmp = Flow { nw_proto: 1, tp_src: 0, tp_dst: 0, ..tcp(1) };
    let o = run(&switch(&mut [b]), &icmp);
    assert_eq!((o.flow.tp_src, outputs(&o)), (8, vec![2]));
}
