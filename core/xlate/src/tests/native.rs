//! Native tunnels. Bridge br0 has the guest's port 1 and a VXLAN tunnel port 2; br1 has the network's port 11, and port 12
//! with the host's address.

use super::*;
use dpif::{DropReason, SetField};
use router::{NewRoute, Prefix, TABLE_LOCAL, TABLE_MAIN};
use std::collections::HashMap;
use std::net::IpAddr;

const VXLAN: u32 = 4789;
const REMOTE: &str = "1.1.2.92";

/// A neighbour table with one next hop or none.
struct Hop(Option<Mac>);

impl Neighbours for Hop {
    fn mac_of(&self, bridge: &str, ip: IpAddr) -> Option<Mac> {
        self.0.filter(|_| bridge == "br1" && ip.to_string() == REMOTE)
    }

    fn hold_capacity(&self, _bridge: &str, _ip: IpAddr) -> HoldCapacity {
        HoldCapacity::Free
    }
}

fn host(hop: Option<Mac>) -> Snapshot {
    host_with(hop, vec![out(2)])
}

/// A snapshot with both bridges. `actions`: the actions for the guest's packets.
fn host_with(hop: Option<Mac>, actions: Vec<Action>) -> Snapshot {
    let mut above = TestBridge::with_ports(BR0, 2, 0);
    let options = [("remote_ip", REMOTE), ("key", "7")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    let (config, _) = ::bridge::TunnelConfig::parse("vxlan", "p2", &BTreeMap::from(options)).unwrap();
    let port = above.ports.get_mut(&OfPort(2)).unwrap();
    (port.tunnel, port.attachment) = (Some(Arc::new(config)), Attachment::Datapath(PortNo(VXLAN)));
    let config = Arc::clone(port.tunnel.as_ref().unwrap());
    above.flow(0, 1, &[(FieldId::InPort, 1)], actions);
    above.flow(0, 1, &[(FieldId::InPort, 2)], vec![out(1)]);
    let mut below = TestBridge::with_ports(BR1, 2, 10);
    below.flow(0, 1, &[(FieldId::InPort, 1)], vec![out(2)]);
    below.flow(0, 1, &[(FieldId::InPort, 2)], vec![out(1)]);
    let mut s = switch(&mut [above, below]);
    s.ingress.remove(&PortNo(VXLAN));
    s.tunnels.push(TunnelPort { number: PortNo(VXLAN), at: (BR0, OfPort(2)), config });
    let address: IpAddr = "1.1.2.88".parse().unwrap();
    let router = &mut s.underlay.router;
    router.addresses.set("p2", vec![Prefix::of_interface(address, 24)]);
    let to = |prefix| NewRoute {
        prefix,
        mark: 0,
        dev: "p2",
        gateway: None,
        source: Some(address),
        user: false,
        metric: 0,
    };
    router.add(TABLE_LOCAL, &to(Prefix::host(address))).unwrap();
    router.add(TABLE_MAIN, &to(Prefix::new(address, 24))).unwrap();
    let port = HostPort { at: (BR1, OfPort(2)), mac: mac(0x88) };
    s.underlay.ports = HashMap::from([("p2".to_owned(), port)]);
    let listener =
        Listener { number: PortNo(VXLAN), name: "vxlan_sys_4789".to_owned(), proto: 17, tp_dst: 4789 };
    s.underlay.endpoints = TunnelEndpoints::new(vec![listener], &s.underlay.ports, &s.underlay.router);
    s.underlay.neighbours = Arc::new(Hop(hop));
    s
}

#[test]
fn a_packet_gets_its_header_and_leaves_by_the_bridge_of_the_route() {
    let output = run(&host(Some(mac(0x92))), &tcp(1));
    let [DpAction::TunnelPush(push), DpAction::Output(PortNo(11))] = &output.actions[..] else {
        panic!("{:?}", output.actions)
    };
    assert_eq!((push.tunnel_port, push.out_port, push.header.0.len()), (PortNo(VXLAN), PortNo(12), 50));
    assert_eq!(push.header.0[..12], [mac(0x92).0, mac(0x88).0].concat());
    // Of the inner packet, only the fields that its outer header copies were consulted.
    assert_eq!((output.mask.nw_dst, output.mask.tp_dst, output.mask.nw_tos), (0, 0, 3));
    let longer = |c: &StatsTarget| match c {
        StatsTarget::LengthChange { by } => *by,
        _ => 0,
    };
    let all: Vec<i64> = output.stats_targets.iter().map(longer).filter(|n| *n != 0).collect();
    assert_eq!(all, [50, -50]);
}

/// The underlay is not translated in advance for a truncated packet: the encapsulated packet is recirculated.
#[test]
fn a_truncated_packet_is_recirculated_below() {
    let cut = Action::OutputTrunc { port: OfPort(2), max_len: 60 };
    let output = run(&host_with(Some(mac(0x92)), vec![cut.clone(), out(2)]), &tcp(1));
    let [DpAction::Trunc(60), DpAction::Clone(first), DpAction::TunnelPush(_), DpAction::Output(PortNo(11))] =
        &output.actions[..]
    else {
        panic!("{:?}", output.actions)
    };
    let [DpAction::TunnelPush(push), DpAction::Recirc(0)] = &first[..] else { panic!("{first:?}") };
    assert_eq!(push.out_port, PortNo(12));
    // A truncated packet without a next hop is not held, because it would later be sent untruncated.
    let output = run(&host_with(None, vec![cut]), &tcp(1));
    assert!(!output.effects.iter().any(|e| matches!(e, PacketEffect::Hold(..))), "{:?}", output.effects);
}

#[test]
fn an_unknown_next_hop_is_asked_for_and_the_packet_is_held() {
    let s = host(None);
    let output = run(&s, &tcp(1));
    assert_eq!(output.actions, [DpAction::Drop(DropReason::ActionTunnelNeighCacheMiss)]);
    assert!(output.avoid_caching);
    let [PacketEffect::Solicit(asked), PacketEffect::Hold(held)] = &output.effects[..] else {
        panic!("{:?}", output.effects)
    };
    assert_eq!((asked.at, asked.target.to_string()), ((BR1, OfPort(2)), REMOTE.to_owned()));
    // Once the next hop is known the packet is sent, without consulting the tables again.
    let recirc = SharedRecirc::default();
    let resumed = Input { start: Start::TunnelOutput(held), ..input(&held.initial, &recirc) };
    let output = translate(&host(Some(mac(0x92))), &resumed);
    assert!(matches!(output.actions[..], [DpAction::TunnelPush(_), DpAction::Output(PortNo(11))]));
    assert!(!output.stats_targets.iter().any(|c| matches!(c, StatsTarget::Tunnel { .. })));
}

#[test]
fn a_held_packet_is_sent_as_the_tables_changed_it() {
    let with = |hop| host_with(hop, vec![set(FieldId::EthDst, 0x77), out(2)]);
    let output = run(&with(None), &tcp(1));
    let Some(PacketEffect::Hold(held)) = output.effects.last() else { panic!("{:?}", output.effects) };
    let recirc = SharedRecirc::default();
    let resumed = Input { start: Start::TunnelOutput(held), ..input(&held.initial, &recirc) };
    let output = translate(&with(Some(mac(0x92))), &resumed);
    let [DpAction::Set(SetField::Eth(write)), DpAction::TunnelPush(_), DpAction::Output(_)] =
        &output.actions[..]
    else {
        panic!("{:?}", output.actions)
    };
    assert_eq!(write.value.dst, Mac([0, 0, 0, 0, 0, 0x77]));
}

#[test]
fn a_change_of_the_next_hop_concerns_the_megaflow_and_of_others_does_not() {
    let output = run(&host(Some(mac(0x92))), &tcp(1));
    let affected = |ip: &str| {
        let change = DependencyChange::Neighbour { ip: ip.parse().unwrap() };
        !output.dependencies.affected_by(&change).is_empty()
    };
    assert!(affected(REMOTE) && !affected("1.1.2.93"));
    assert!(!output.dependencies.affected_by(&DependencyChange::Routes).is_empty());
}

#[test]
fn without_a_route_or_a_device_on_a_bridge_the_packet_is_dropped() {
    let mut s = host(Some(mac(0x92)));
    s.underlay.ports.clear();
    let failed = [DpAction::Drop(DropReason::ActionTunnelRoutingFailed)];
    assert_eq!(run(&s, &tcp(1)).actions, failed);
    s.underlay.router = router::Router::default();
    assert_eq!(run(&s, &tcp(1)).actions, failed);
}

#[test]
fn what_is_sent_to_the_end_of_a_tunnel_is_taken_out_of_it() {
    let s = host(None);
    let vxlan = Flow {
        in_port: 1,
        dl_dst: mac(0x88),
        nw_proto: 17,
        nw_src: 0x0101_025c,
        nw_dst: 0x0101_0258,
        tp_dst: 4789,
        ..tcp(1)
    };
    let recirc = SharedRecirc::default();
    let received = |flow: &Flow| translate(&s, &Input { bridge: BR1, ..input(flow, &recirc) });
    let output = received(&vxlan);
    assert_eq!(output.actions, [DpAction::TunnelPop(PortNo(VXLAN))]);
    let from = |e: &PacketEffect| matches!(e, PacketEffect::Neighbour { ip, .. } if ip.to_string() == REMOTE);
    assert!(output.effects.iter().any(from));
    assert_eq!(outputs(&received(&Flow { tp_dst: 80, ..vxlan })), [12]);
    assert_eq!(outputs(&received(&Flow { dl_dst: mac(9), ..vxlan })), [12]);
    let reply = Flow { in_port: 1, dl_type: 0x0806, nw_proto: 2, arp_sha: mac(0x92), ..vxlan };
    let heard = received(&reply);
    assert!(heard.effects.iter().any(from), "{:?}", heard.effects);
    // The neighbour is learned at once, not when a megaflow's statistics are read. Packets to a known next hop are forwarded.
    assert!(heard.avoid_caching);
    let known = translate(&host(Some(mac(0x92))), &Input { bridge: BR1, ..input(&reply, &recirc) });
    assert!(!known.avoid_caching);
    assert_eq!(received(&Flow { nw_dst: 7, ..reply }).effects.iter().filter(|e| from(e)).count(), 0);
    // A guest in a VLAN announces the address of the tunnel's remote endpoint.
    let mut announced = Flow { nw_proto: 1, nw_dst: reply.nw_src, ..reply };
    assert!(received(&announced).effects.iter().any(from));
    announced.vlans[0] = flow::Vlan { tpid: 0x8100, tci: flow::VLAN_CFI | 7 };
    assert!(!received(&announced).effects.iter().any(from));
}
