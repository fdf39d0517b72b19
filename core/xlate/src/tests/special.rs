//! Packets for the switch itself.

use super::*;
use crate::mirror::MirrorTally;
use crate::{MirrorOutput, PacketEffect};
use ::bridge::bfd::{Filter, Settings, UDP_PORT};
use dpif::{SlowReason, Userspace};
use proptest::prelude::*;

const OURS: u32 = 0x0a00_0001;

fn default() -> Filter {
    Settings::default().filter
}

fn with_address() -> Filter {
    Filter { ip: OURS.into(), ..default() }
}

/// A message from a neighbour.
fn message(in_port: u32) -> Flow {
    Flow { nw_proto: 17, nw_dst: OURS, nw_ttl: 255, tp_dst: UDP_PORT, ..tcp(in_port) }
}

/// Port 1 has a session; packets that enter the tables are sent to port 2.
fn bridge(filter: Filter) -> TestBridge {
    let mut b = TestBridge::with_ports(BR0, 3, 0);
    b.flow(0, 1, &[], vec![out(2)]);
    b.ports.get_mut(&OfPort(1)).unwrap().bfd = Some(filter);
    b
}

fn is_taken(o: &Output) -> bool {
    let handed = o.effects.iter().filter(|e| matches!(e, PacketEffect::Bfd { .. })).count();
    assert_eq!(handed, usize::from(o.slow == SlowReason::BFD));
    handed == 1
}

#[test]
fn no_table_sees_a_message() {
    let s = switch(&mut [bridge(default())]);
    let mut o = run(&s, &message(1));
    assert!(matches!(o.effects[..], [PacketEffect::Bfd { at: (BR0, OfPort(1)), ttl: 255 }]));
    assert_eq!(o.actions, []);
    let ends = vec![DpAction::Userspace(Box::new(Userspace::slow_path(SlowReason::BFD)))];
    assert_eq!((o.megaflow_actions(), o.packet_actions()), (ends.clone(), ends));
    for other in [
        message(3),
        tcp(1),
        Flow { tp_dst: UDP_PORT + 1, ..message(1) },
        Flow { nw_frag: flow::flow::frag::ANY | flow::flow::frag::LATER, tp_dst: 0, ..message(1) },
        Flow { dl_type: 0x86dd, ..message(1) },
    ] {
        let o = run(&s, &other);
        assert!(!is_taken(&o) && outputs(&o) == [2], "{other:?}");
    }
}

#[test]
fn a_session_takes_what_is_addressed_to_it() {
    let flow = message(1);
    for (filter, other) in [
        (with_address(), Flow { nw_dst: OURS + 1, ..flow }),
        (Filter { eth_dst: Some(flow.dl_dst), ..default() }, Flow { dl_dst: mac(99), ..flow }),
        (Filter { check_tnl_key: true, ..default() }, {
            let mut keyed = flow;
            keyed.tunnel.tun_id = 1;
            keyed
        }),
    ] {
        let s = switch(&mut [bridge(filter)]);
        assert!(is_taken(&run(&s, &flow)));
        assert!(!is_taken(&run(&s, &other)), "{filter:?}");
    }
}

#[test]
fn a_patch_port_takes_messages_into_its_bridge() {
    let mut far = TestBridge::new(BR1);
    far.flow(0, 1, &[], vec![out(7)]);
    far.port(5, Attachment::Patch(BR0, OfPort(4)), VlanConfig::trunk());
    far.port(7, Attachment::Datapath(PortNo(7)), VlanConfig::trunk());
    far.ports.get_mut(&OfPort(5)).unwrap().bfd = Some(default());
    let mut near = TestBridge::with_ports(BR0, 2, 0);
    near.port(4, Attachment::Patch(BR1, OfPort(5)), VlanConfig::trunk());
    near.flow(0, 1, &[], vec![Action::DecTtl { ids: vec![0], nicira: false }, out(4), out(2)]);
    let mut o = run(&switch(&mut [near, far]), &message(1));
    // The TTL shows whether the sender is farther away than the next hop.
    assert!(o.effects.iter().any(|e| matches!(e, PacketEffect::Bfd { at: (BR1, OfPort(5)), ttl: 254 })));
    assert_eq!(outputs(&o), [2]);
    assert!(matches!(o.packet_actions()[..], [.., DpAction::Userspace(_)]));
}

#[test]
fn mirrors_see_messages() {
    let mut b = bridge(default());
    let from = [BundleId(1)].into_iter().collect();
    b.mirrors = vec![Mirror {
        src_ports: from,
        dst_ports: Default::default(),
        vlans: None,
        filter: None,
        out: MirrorOutput::Port(BundleId(3)),
        snaplen: 0,
        tally: Arc::new(MirrorTally::default()),
    }];
    let o = run(&switch(&mut [b]), &message(1));
    assert!(is_taken(&o) && outputs(&o) == [3]);
}

#[test]
fn without_a_packet_nothing_is_handed_over() {
    let s = switch(&mut [bridge(default())]);
    let recirc = SharedRecirc::default();
    let flow = message(1);
    let o = translate(&s, &Input { returns_side_effects: false, ..input(&flow, &recirc) });
    assert!(o.effects.is_empty() && o.slow == SlowReason::BFD);
    assert!(trace(&s, &flow).contains(" 0. priority 1"));
}

fn any_filter() -> impl Strategy<Value = Filter> {
    (any::<[bool; 3]>()).prop_map(|[eth, ip, check_tnl_key]| Filter {
        eth_dst: eth.then_some(mac(1)),
        check_tnl_key,
        ..if ip { with_address() } else { default() }
    })
}

/// Fields that filters consult, with values near those of the filters.
fn any_packet() -> impl Strategy<Value = Flow> {
    let fields = (1..=2u8, 0..=1u32, 0..=1u16, 0..=1u64, prop_oneof![Just(6u8), Just(17)]);
    (fields, prop_oneof![Just(0x0800u16), Just(0x86dd)]).prop_map(|((eth, ip, port, key, proto), dl_type)| {
        let mut flow = Flow {
            dl_dst: mac(eth),
            nw_dst: OURS + ip,
            tp_dst: UDP_PORT + port,
            nw_proto: proto,
            dl_type,
            ..message(1)
        };
        flow.tunnel.ip_dst = 1;
        flow.tunnel.tun_id = key;
        flow
    })
}

proptest! {
    /// A session never accepts a packet that matches a megaflow of other traffic.
    #[test]
    fn a_megaflow_is_of_one_kind(filter in any_filter(), one in any_packet(), other in any_packet()) {
        let s = switch(&mut [bridge(filter)]);
        let (a, b) = (run(&s, &one), run(&s, &other));
        if one.equal_under(&other, &a.megaflow_mask()) {
            prop_assert_eq!(is_taken(&a), is_taken(&b));
        }
    }
}

#[test]
fn lldp_ends_at_a_port_that_has_it_enabled() {
    let mut b = bridge(default());
    b.ports.get_mut(&OfPort(3)).unwrap().lldp = true;
    let s = switch(&mut [b]);
    let message =
        |in_port| Flow { dl_type: 0x88cc, dl_dst: Mac([1, 0x80, 0xc2, 0, 0, 0x0e]), ..tcp(in_port) };
    let o = run(&s, &message(3));
    assert!(matches!(o.effects[..], [PacketEffect::Lldp { at: (BR0, OfPort(3)) }]));
    assert_eq!((o.slow, outputs(&o)), (SlowReason::LLDP, vec![]));
    for other in [message(1), tcp(3)] {
        let o = run(&s, &other);
        assert_eq!((o.slow, outputs(&o)), (SlowReason::empty(), vec![2]), "{other:?}");
    }
}
