//! The invariant of megaflows: packets that are equal under the mask have equal translations.

use super::*;
use ::bridge::MacObservation;
use classifier::of::ClassifierRule;
use flow::{Subfield, VLAN_CFI, Vlan};
use openflow::action::{HashFields, Multipath, MultipathAlgorithm};
use openflow::flow_mod::FlowCommand;
use openflow::group::{Bucket, GroupCommand, GroupType};
use proptest::prelude::*;
use proptest::sample::select;

fn field_value() -> impl Strategy<Value = (FieldId, u128)> {
    select(vec![
        (FieldId::InPort, 1),
        (FieldId::EthDst, u128::from(mac(2).to_u64())),
        (FieldId::EthSrc, u128::from(mac(1).to_u64())),
        (FieldId::VlanTci, 0),
        (FieldId::DlVlan, 2),
        (FieldId::EthType, 0x0800),
        (FieldId::IpProto, 6),
        (FieldId::Ipv4Dst, 0x0a00_0002),
        (FieldId::IpTtl, 64),
        (FieldId::TcpDst, 80),
        (FieldId::Reg0, 1),
        (FieldId::Metadata, 3),
    ])
}

fn action() -> impl Strategy<Value = Action> {
    let reg0 = Subfield::whole(FieldId::Reg0);
    let low = |f| Subfield::new(f, 0, 16).unwrap();
    select(vec![
        out(1),
        out(2),
        out(3),
        normal(),
        Action::output(OfPort::IN_PORT),
        Action::output(OfPort::FLOOD),
        out(9),
        Action::Resubmit { port: None, table: Some(1), with_ct: false },
        Action::Resubmit { port: Some(OfPort(2)), table: Some(2), with_ct: false },
        Action::SetEthDst(mac(3)),
        Action::SetIpv4Dst(std::net::Ipv4Addr::new(10, 0, 0, 2)),
        Action::SetL4Dst(80),
        Action::SetVlanVid { vid: 2, push: true },
        Action::SetVlanPcp { pcp: 3, push: false },
        Action::StripVlan { pop: true },
        Action::PushVlan(0x8100),
        Action::PushMpls(0x8847),
        Action::DecTtl { ids: vec![0], nicira: false },
        Action::SetIpDscp(0x20),
        Action::RegLoad { dst: reg0, value: 1 },
        Action::RegMove { src: low(FieldId::TcpDst), dst: low(FieldId::Reg0) },
        Action::RegMove { src: low(FieldId::Ipv4Src), dst: low(FieldId::Metadata) },
        Action::OutputReg { src: reg0, max_len: 0 },
        Action::StackPush(low(FieldId::Ipv4Dst)),
        Action::StackPop(low(FieldId::Reg0)),
        Action::WriteActions(vec![out(2)]),
        Action::Group(1),
        Action::Group(2),
        Action::Clone(vec![Action::SetEthSrc(mac(7)), out(3)]),
        Action::Multipath(Box::new(Multipath {
            fields: HashFields::SymmetricL4,
            basis: 1,
            algorithm: MultipathAlgorithm::Hrw,
            max_link: 3,
            arg: 0,
            dst: reg0,
        })),
        Action::Exit,
    ])
}

type Rule = (u8, u16, Vec<(FieldId, u128)>, Vec<Action>);

fn rule() -> impl Strategy<Value = Rule> {
    (
        0u8..3,
        0u16..4,
        proptest::collection::vec(field_value(), 0..3),
        proptest::collection::vec(action(), 0..5),
    )
}

/// In OpenFlow a match on a field also requires matches on its prerequisites.
fn with_prereqs(fields: &[(FieldId, u128)]) -> Vec<(FieldId, u128)> {
    let has = |list: &[FieldId]| fields.iter().any(|(f, _)| list.contains(f));
    let mut all = fields.to_vec();
    if has(&[FieldId::IpProto, FieldId::Ipv4Dst, FieldId::IpTtl, FieldId::TcpDst]) {
        all.push((FieldId::EthType, 0x0800));
    }
    if has(&[FieldId::TcpDst]) {
        all.push((FieldId::IpProto, 6));
    }
    all
}

fn packet() -> impl Strategy<Value = Flow> {
    (1u32..4, 0u8..4, 0u8..4, 0u16..4, 0u8..4, 1u8..4, 1u32..4, 1u32..4, select(vec![80u16, 81]), 63u8..66)
        .prop_map(|(port, src, dst, vid, kind, tos, a, b, tp, ttl)| {
            let mut f = tcp(port);
            (f.dl_src, f.dl_dst) = (mac(src), mac(dst));
            if vid != 0 {
                f.vlans[0] = Vlan { tpid: 0x8100, tci: VLAN_CFI | vid };
            }
            (f.nw_src, f.nw_dst) = (0x0a00_0000 + a, 0x0a00_0000 + b);
            (f.tp_dst, f.nw_tos) = (tp, tos << 2);
            f.nw_ttl = if ttl == 65 { 1 } else { ttl };
            match kind {
                0 => f.nw_proto = 17,
                1 => {
                    f.dl_type = 0x0806;
                    (f.nw_proto, f.nw_ttl, f.nw_tos, f.tp_src, f.tp_dst) = (1, 0, 0, 0, 0);
                }
                _ => {}
            }
            f
        })
}

/// The bits of `a` inside the mask, and the bits of `b` outside.
fn blend(a: &Flow, b: &Flow, mask: &Flow) -> Flow {
    let mut out = *b;
    for ((o, a), m) in out.words_mut().iter_mut().zip(a.words()).zip(mask.words()) {
        *o = *o & !m | a & m;
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn equal_under_the_mask_means_equal_actions(
        rules in proptest::collection::vec(rule(), 1..8),
        a in packet(),
        b in packet(),
    ) {
        let s = switch(&mut bridges(&rules));
        let first = run(&s, &a);
        let mask = first.megaflow_mask();
        let alike = blend(&a, &b, &mask);
        let second = run(&s, &alike);
        prop_assert_eq!(&first.actions, &second.actions, "{:?} {:?}", a, alike);
        prop_assert_eq!(first.error, second.error);
        prop_assert!(second.megaflow_mask() == mask, "masks of a class differ");
    }
}

/// Two bridges, the second behind port 9 of the first, with these rules and stations.
fn bridges(rules: &[Rule]) -> [TestBridge; 2] {
    let mut bridge = TestBridge::with_ports(BR0, 3, 0);
    bridge.port(9, Attachment::Patch(BR1, OfPort(8)), VlanConfig::trunk());
    for group in 1..3 {
        bridge.group(&GroupMod { group, kind: GroupType::All, ..GroupMod::default() });
    }
    for (table, priority, fields, actions) in rules {
        bridge.flow(*table, *priority, &with_prereqs(fields), actions.clone());
    }
    let mut other = TestBridge::with_ports(BR1, 2, 10);
    other.port(8, Attachment::Patch(BR0, OfPort(9)), VlanConfig::trunk());
    other.flow(0, 1, &[], vec![normal()]);
    [bridge, other]
}

/// One change of the first bridge.
#[derive(Clone, Debug)]
enum BridgeChange {
    Add(Rule),
    Delete(usize),
    Modify(usize, Vec<Action>),
    Station(u8, u32),
    Group(GroupMod),
}

/// Group 1, or group 2, which watches the first.
fn group() -> impl Strategy<Value = GroupMod> {
    let bucket =
        (1u16..4, 0u16..2, any::<bool>()).prop_map(|(port, weight, watches)| (port, weight, watches));
    let kind = select(vec![GroupType::All, GroupType::Select, GroupType::FastFailover]);
    (1u32..3, kind, proptest::collection::vec(bucket, 0..3)).prop_map(|(group, kind, buckets)| {
        let one = |(id, (port, weight, watches)): (usize, (u16, u16, bool))| {
            let failover = kind == GroupType::FastFailover;
            let watched = failover && watches && group == 2;
            Bucket {
                id: id as u32,
                weight: if kind == GroupType::Select { weight } else { 0 },
                watch_port: if failover && !watched { OfPort(port) } else { OfPort::NONE },
                watch_group: if watched { 1 } else { Bucket::default().watch_group },
                actions: vec![out(port)],
            }
        };
        let buckets = buckets.into_iter().enumerate().map(one).collect();
        GroupMod { command: GroupCommand::AddOrModify, group, kind, buckets, ..GroupMod::default() }
    })
}

fn bridge_change() -> impl Strategy<Value = BridgeChange> {
    prop_oneof![
        4 => rule().prop_map(BridgeChange::Add),
        2 => any::<usize>().prop_map(BridgeChange::Delete),
        2 => (any::<usize>(), proptest::collection::vec(action(), 0..5))
            .prop_map(|(i, a)| BridgeChange::Modify(i, a)),
        1 => (0u8..4, 1u32..4).prop_map(|(station, port)| BridgeChange::Station(station, port)),
        2 => group().prop_map(BridgeChange::Group),
    ]
}

/// Makes the change and returns what changed.
fn apply(change: &BridgeChange, bridge: &mut TestBridge, rules: &[Rule]) -> Vec<DependencyChange> {
    let request = |command, (table, priority, fields, actions): &Rule| {
        let mut matching = Match::CATCHALL;
        with_prereqs(fields).iter().for_each(|(field, value)| matching.set(*field, *value));
        let (table, priority, actions) = (*table, *priority, actions.clone());
        FlowMod { command, table, priority, matching, actions, ..FlowMod::default() }
    };
    let fm = match change {
        BridgeChange::Add(rule) => request(FlowCommand::Add, rule),
        BridgeChange::Delete(i) => request(FlowCommand::DeleteStrict, &rules[i % rules.len()]),
        BridgeChange::Modify(i, actions) => {
            let mut rule = rules[i % rules.len()].clone();
            rule.3.clone_from(actions);
            request(FlowCommand::ModifyStrict, &rule)
        }
        BridgeChange::Group(gm) => {
            bridge.group(gm);
            return vec![DependencyChange::Group { bridge: BR0, group: gm.group }];
        }
        BridgeChange::Station(station, port) => {
            let observation = MacObservation {
                mac: mac(*station),
                vlan: 0,
                port: BundleId(*port),
                grat_arp: false,
                bond: false,
            };
            bridge.macs.update(&observation, Millis(0));
            return vec![DependencyChange::Station { bridge: BR0, mac: observation.mac }];
        }
    };
    let effects = bridge.ofproto.handle_flow_mod(&fm, Millis(0)).unwrap();
    let change = |c: &ofproto::FlowChange| {
        let rule = c.rule();
        DependencyChange::Rule { bridge: BR0, table: rule.table, matching: rule.matching().clone() }
    };
    effects.flows.iter().map(change).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    /// Revalidation by dependencies: if no change affects a megaflow, a translation with the changed tables must give each of
    /// its packets the same actions.
    #[test]
    fn unaffected_megaflows_stay_correct(
        rules in proptest::collection::vec(rule(), 1..8),
        a in packet(),
        others in proptest::collection::vec(packet(), 8),
        groups in proptest::collection::vec(group(), 0..3),
        bridge_changes in proptest::collection::vec(bridge_change(), 1..3),
    ) {
        let mut bridges = bridges(&rules);
        groups.iter().for_each(|gm| bridges[0].group(gm));
        let first = run(&switch(&mut bridges), &a);
        let mask = first.megaflow_mask();
        let changes: Vec<DependencyChange> =
            bridge_changes.iter().flat_map(|c| apply(c, &mut bridges[0], &rules)).collect();
        let meets = |m: &Match| m.flow.masked(&mask) == a.masked(&m.mask).masked(&mask);
        if changes.iter().any(|c| first.dependencies.affected_by(c).iter().any(meets)) {
            return Ok(());
        }
        let changed = switch(&mut bridges);
        for packet in others.iter().map(|b| blend(&a, b, &mask)).chain([a]) {
            let now = run(&changed, &packet);
            prop_assert_eq!(&first.actions, &now.actions, "{:?} {:?}", bridge_changes, packet);
            prop_assert_eq!(first.error, now.error);
        }
    }
}
