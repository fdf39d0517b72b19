//! NORMAL with multicast snooping.

use super::*;
use ::bridge::VlanMode;
use ::bridge::snooping::SnoopingChange;
use ::bridge::snooping::message::{Message, Protocol, Record};
use dpif::SlowReason;
use flow::{VLAN_CFI, Vlan};
use proptest::prelude::*;
use proptest::sample::select;
use std::net::{Ipv4Addr, Ipv6Addr};

const GROUP: u32 = 0xef01_0203;
const PORTS: [BundleId; 5] = [BundleId(0), BundleId(1), BundleId(2), BundleId(3), BundleId(4)];

fn of_v4(group: u32) -> Ipv6Addr {
    Ipv4Addr::from_bits(group).to_ipv6_mapped()
}

fn to_group(port: u32, group: u32) -> Flow {
    let dl_dst = Mac::from_u64(0x0100_5e00_0000 | u64::from(group & 0x7f_ffff));
    Flow { dl_dst, nw_dst: group, nw_proto: 17, ..tcp(port) }
}

fn report(group: Ipv6Addr, joins: bool) -> Message {
    Message::Report { protocol: Protocol::IgmpV2, records: vec![Record { group, joins }] }
}

/// A bridge with ports 1 to 4 that floods unregistered multicast.
fn snooping_bridge() -> TestBridge {
    let mut b = TestBridge::with_ports(BR0, 4, 0);
    b.flow(0, 1, &[], vec![normal()]);
    b.snooping = Some((GroupTable::default(), true));
    b
}

fn learn(b: &mut TestBridge, vlan: u16, port: usize, message: &Message) {
    let (table, _) = b.snooping.as_mut().unwrap();
    table.learn(vlan, PORTS[port], message, Millis(0));
}

fn sent(b: &mut TestBridge, flow: &Flow) -> Vec<u32> {
    outputs(&run(&switch(std::slice::from_mut(b)), flow))
}

#[test]
fn members_and_routers_get_the_packets_of_a_group() {
    let mut b = snooping_bridge();
    assert_eq!(sent(&mut b, &to_group(1, GROUP)), [2, 3, 4], "no port joined it");
    learn(&mut b, 0, 3, &report(of_v4(GROUP), true));
    assert_eq!(sent(&mut b, &to_group(1, GROUP)), [3]);
    learn(&mut b, 0, 2, &Message::Query);
    learn(&mut b, 0, 1, &report(of_v4(GROUP), true));
    assert_eq!(sent(&mut b, &to_group(1, GROUP)), [3, 2]);
    assert_eq!(sent(&mut b, &to_group(4, GROUP)), [3, 1, 2]);
    assert_eq!(sent(&mut b, &to_group(1, GROUP + 1)), [2, 3, 4]);
    b.snooping.as_mut().unwrap().1 = false;
    assert_eq!(sent(&mut b, &to_group(1, GROUP + 1)), [2]);
    // Other packets are forwarded by address.
    assert_eq!(sent(&mut b, &tcp(1)), [2, 3, 4]);
    assert_eq!(sent(&mut b, &Flow { dl_dst: Mac::BROADCAST, ..to_group(1, GROUP) }), [2, 3, 4]);
}

#[test]
fn a_port_gets_one_copy() {
    let mut b = snooping_bridge();
    learn(&mut b, 0, 2, &report(of_v4(GROUP), true));
    learn(&mut b, 0, 2, &Message::Query);
    b.snooping.as_mut().unwrap().0.set_port(PORTS[2], true, true);
    assert_eq!(sent(&mut b, &to_group(1, GROUP)), [2]);
}

#[test]
fn link_local_groups_are_always_flooded() {
    let mut b = snooping_bridge();
    b.snooping.as_mut().unwrap().1 = false;
    learn(&mut b, 0, 2, &report(of_v4(0xe000_0005), true));
    assert_eq!(sent(&mut b, &to_group(1, 0xe000_0005)), [2, 3, 4]);
    let mut v6 = Flow { dl_type: 0x86dd, dl_dst: Mac([0x33, 0x33, 0, 0, 0, 1]), nw_dst: 0, ..to_group(1, 0) };
    v6.ipv6_dst = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1).octets();
    assert_eq!(sent(&mut b, &v6), [2, 3, 4]);
    v6.ipv6_dst[15] = 2;
    assert_eq!(sent(&mut b, &v6), [0u32; 0]);
}

#[test]
fn groups_belong_to_their_vlan() {
    let mut b = TestBridge::new(BR0);
    let access = |tag| VlanConfig { mode: VlanMode::Access, tag, ..VlanConfig::trunk() };
    for (port, vlan) in [(1, access(5)), (2, access(5)), (3, access(6)), (4, VlanConfig::trunk())] {
        b.port(port, Attachment::Datapath(PortNo(port.into())), vlan);
    }
    b.flow(0, 1, &[], vec![normal()]);
    b.snooping = Some((GroupTable::default(), false));
    learn(&mut b, 5, 2, &report(of_v4(GROUP), true));
    learn(&mut b, 6, 3, &report(of_v4(GROUP), true));
    for vlan in [5, 6] {
        learn(&mut b, vlan, 4, &Message::Query);
    }
    assert_eq!(sent(&mut b, &to_group(1, GROUP)), [2, 4]);
    assert_eq!(sent(&mut b, &to_group(3, GROUP)), [4]);
    // A flood port gets only packets of the VLANs that it carries.
    b.snooping.as_mut().unwrap().0.set_port(PORTS[3], true, true);
    assert_eq!(sent(&mut b, &to_group(1, GROUP)), [2, 4]);
    let text = trace(&switch(&mut [b]), &to_group(1, GROUP));
    assert!(text.contains("mcast router is on another vlan, dropping"), "{text}");
    assert!(text.contains("mcast flood port is on another vlan, dropping"), "{text}");
}

/// An IGMP report as a frame.
fn frame(kind: u8) -> Vec<u8> {
    let mut igmp = vec![kind, 0, 0, 0];
    igmp.extend(GROUP.to_be_bytes());
    let sum = packet::checksum::checksum(&igmp);
    igmp[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut frame =
        vec![0x01, 0, 0x5e, 1, 2, 3, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 1, 2, 0, 0];
    frame.extend([10, 0, 0, 1]);
    frame.extend(GROUP.to_be_bytes());
    frame.extend(igmp);
    frame
}

fn run_frame(b: &mut TestBridge, port: u32, frame: &[u8]) -> Box<Output> {
    let recirc = SharedRecirc::default();
    let flow = flow::extract::extract_from(frame, port);
    translate(&switch(std::slice::from_mut(b)), &Input { packet: Some(frame), ..input(&flow, &recirc) })
}

#[test]
fn messages_are_learned_and_reports_go_to_routers() {
    let mut b = snooping_bridge();
    let query = run_frame(&mut b, 4, &frame(0x11));
    assert_eq!((outputs(&query), query.slow), (vec![1, 2, 3], SlowReason::ACTION));
    let learned = |o: &Output| {
        o.effects.iter().find_map(|e| match e {
            PacketEffect::Snoop { vlan: 0, port, message, .. } => Some((*port, (**message).clone())),
            _ => None,
        })
    };
    assert_eq!(learned(&query), Some((PORTS[4], Message::Query)));
    learn(&mut b, 0, 4, &Message::Query);
    let joins = run_frame(&mut b, 1, &frame(0x16));
    assert_eq!((outputs(&joins), joins.slow), (vec![4], SlowReason::ACTION));
    assert_eq!(learned(&joins), Some((PORTS[1], report(of_v4(GROUP), true))));
    b.snooping.as_mut().unwrap().0.set_port(PORTS[2], false, true);
    assert_eq!(outputs(&run_frame(&mut b, 1, &frame(0x16))), [4, 2]);
    // Nothing is learned from a port that gets all multicast, or from a message with a wrong checksum.
    b.snooping.as_mut().unwrap().0.set_port(PORTS[1], true, false);
    assert_eq!(learned(&run_frame(&mut b, 1, &frame(0x16))), None);
    let mut wrong = frame(0x16);
    wrong[36] ^= 1;
    let wrong = run_frame(&mut b, 3, &wrong);
    assert_eq!((learned(&wrong), outputs(&wrong)), (None, vec![4, 2]));
    assert!(wrong.log.iter().any(|line| line.text.contains("bad IGMP checksum on port p3 in VLAN 0")));
    // Without snooping, IGMP messages are forwarded like other packets.
    b.snooping = None;
    let plain = run_frame(&mut b, 1, &frame(0x16));
    assert!(plain.slow.is_empty() && learned(&plain).is_none());
}

/// A packet with values from small sets, so that some packets match the same megaflow.
fn packet() -> impl Strategy<Value = Flow> {
    let kinds = select(vec![
        (0x0800u16, 17u8, 0u16),
        (0x0800, 2, 0x16),
        (0x0800, 2, 0x11),
        (0x0800, 2, 0x13),
        (0x86dd, 17, 0),
        (0x86dd, 58, 131),
        (0x86dd, 58, 130),
        (0x86dd, 58, 135),
        (0x0806, 1, 0),
    ]);
    let unicast = mac(3).to_u64();
    let dl_dst = select(vec![0x0100_5e01_0203, 0x3333_0000_0001, 0xffff_ffff_ffff, unicast]);
    (1u32..5, kinds, dl_dst, 0u32..4, 0u16..3).prop_map(
        |(port, (dl_type, nw_proto, tp_src), dl_dst, n, vid)| {
            let mut f = Flow {
                dl_type,
                nw_proto,
                tp_src,
                dl_dst: Mac::from_u64(dl_dst),
                nw_dst: 0,
                nw_src: 0,
                ..tcp(port)
            };
            match dl_type {
                0x86dd => f.ipv6_dst = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, n as u16).octets(),
                _ => f.nw_dst = [0xe000_0001, GROUP, GROUP + 1, GROUP + 2][n as usize],
            }
            if vid != 0 {
                f.vlans[0] = Vlan { tpid: 0x8100, tci: VLAN_CFI | vid };
            }
            f
        },
    )
}

/// A message that a port receives.
fn heard() -> impl Strategy<Value = (u16, usize, Message)> {
    let v4 = (0u32..3).prop_map(|n| of_v4(GROUP + n));
    let v6 = (0u16..4).prop_map(|n| Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, n));
    let reports = (prop_oneof![v4, v6], any::<bool>()).prop_map(|(group, joins)| report(group, joins));
    (0u16..3, 1usize..5, prop_oneof![4 => reports, 1 => Just(Message::Query)])
}

fn bridge_with(heard: &[(u16, usize, Message)], floods: bool, sets_address: bool) -> TestBridge {
    let mut b = snooping_bridge();
    b.snooping.as_mut().unwrap().1 = floods;
    if sets_address {
        let address = Action::SetIpv4Dst(Ipv4Addr::from_bits(GROUP));
        b.flow(0, 2, &[(FieldId::EthType, 0x0800)], vec![address, normal()]);
    }
    heard.iter().for_each(|(vlan, port, message)| learn(&mut b, *vlan, *port, message));
    b.snooping.as_mut().unwrap().0.take_changes();
    b
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn packets_equal_under_the_mask_are_sent_alike(
        heard in prop::collection::vec(heard(), 0..12),
        (floods, sets_address) in any::<(bool, bool)>(),
        a in packet(),
        b in packet(),
    ) {
        let s = switch(&mut [bridge_with(&heard, floods, sets_address)]);
        let first = run(&s, &a);
        let mask = first.megaflow_mask();
        let mut alike = b;
        for ((o, a), m) in alike.words_mut().iter_mut().zip(a.words()).zip(mask.words()) {
            *o = *o & !m | a & m;
        }
        let second = run(&s, &alike);
        prop_assert_eq!(first.megaflow_actions(), second.megaflow_actions(), "{:?} {:?}", a, alike);
        prop_assert!(second.megaflow_mask() == mask, "masks of a class differ");
    }

    /// A megaflow that no change affects is still right.
    #[test]
    fn changes_concern_the_megaflows_of_their_groups(
        heard in prop::collection::vec(heard(), 0..12),
        later in prop::collection::vec(heard(), 1..3),
        (floods, sets_address) in any::<(bool, bool)>(),
        a in packet(),
    ) {
        let mut b = bridge_with(&heard, floods, sets_address);
        let first = run(&switch(std::slice::from_mut(&mut b)), &a);
        later.iter().for_each(|(vlan, port, message)| learn(&mut b, *vlan, *port, message));
        let table = &mut b.snooping.as_mut().unwrap().0;
        let changes = table.take_changes().into_iter().map(|change| match change {
            SnoopingChange::Group(group) => DependencyChange::MulticastGroup { bridge: BR0, group },
            SnoopingChange::Routers => DependencyChange::MulticastRouters { bridge: BR0 },
        });
        let mask = first.megaflow_mask();
        let meets = |m: &Match| m.flow.masked(&mask) == a.masked(&m.mask).masked(&mask);
        let affected = changes.flat_map(|c| first.dependencies.affected_by(&c)).any(|m| meets(&m));
        let now = run(&switch(std::slice::from_mut(&mut b)), &a);
        prop_assert!(affected || first.megaflow_actions() == now.megaflow_actions(), "{:?}", a);
        // A change affects no packet of another group.
        let own = Ipv4Addr::from_bits(GROUP);
        let other = DependencyChange::MulticastGroup { bridge: BR0, group: own.to_ipv6_mapped() };
        if a.nw_dst != GROUP && !sets_address {
            let found = first.dependencies.affected_by(&other);
            prop_assert!(a.dl_type != 0x0800 || !found.iter().any(meets));
        }
    }
}
