//! Encapsulation, packet types, layer 3 ports.

use super::*;
use ::bridge::TunnelConfig;
use ::bridge::tunnel::PacketTypes;
use openflow::action::{Encap, PACKET_TYPE_NEXT};
use openflow::group::{Bucket, GroupType};

const NSH: u32 = 0x1_894f;

fn encap(packet_type: u32) -> Action {
    Action::Encap(Encap { packet_type, header_size: 0, properties: Vec::new() })
}

fn decap() -> Action {
    Action::Decap { packet_type: PACKET_TYPE_NEXT }
}

/// The datapath's actions as text.
fn text(o: &Output) -> String {
    dpif::text::actions_text(&o.actions, &dpif::text::NoNames)
}

fn one_flow(actions: Vec<Action>) -> Snapshot {
    let mut b = TestBridge::with_ports(BR0, 4, 0);
    b.flow(0, 1, &[], actions);
    switch(&mut [b])
}

const SERVICE: &str = "spi=0x0,si=255,c1=0x0,c2=0x0,c3=0x0,c4=0x0)";

#[test]
fn nsh_and_ethernet_headers_are_pushed_and_popped() {
    let around = vec![encap(NSH), set(FieldId::NshSpi, 7), encap(0), Action::SetEthDst(mac(9)), out(2)];
    let o = run(&one_flow(around), &tcp(1));
    assert_eq!(
        text(&o),
        "push_nsh(flags=0,ttl=63,mdtype=1,np=3,spi=0x7,si=255,c1=0x0,c2=0x0,c3=0x0,c4=0x0),\
         push_eth(src=00:00:00:00:00:00,dst=02:00:00:00:00:09),2"
    );
    assert_eq!(o.mask.nsh, Default::default(), "the packet that came has no such header");
    let s = one_flow(vec![decap(), decap(), out(3)]);
    let recirc = SharedRecirc::default();
    let flow = Flow { in_port: 1, dl_type: 0x894f, nsh: flow::Nsh { np: 3, ..flow::Nsh::NEW }, ..Flow::ZERO };
    let o = translate(&s, &input(&flow, &recirc));
    assert_eq!(text(&o), "pop_eth,pop_nsh(),recirc(0x1)");
    assert_eq!((o.mask.nsh.np, o.mask.packet_type), (u8::MAX, u32::MAX));
    let o = translate(&s, &input(&Flow { recirc_id: 1, ..tcp(1) }, &recirc));
    assert_eq!(text(&o), "3");
}

#[test]
fn buckets_do_not_share_headers() {
    let mut b = TestBridge::with_ports(BR0, 4, 0);
    let resubmit = |table| Action::Resubmit { port: None, table: Some(table), with_ct: false };
    let bucket = |table| Bucket { actions: vec![resubmit(table)], ..Bucket::default() };
    let buckets = vec![bucket(2), bucket(3)];
    b.group(&GroupMod { group: 1, kind: GroupType::All, buckets, ..GroupMod::default() });
    for table in [2, 3] {
        b.flow(table, 1, &[], vec![encap(NSH), encap(0), out(table.into())]);
    }
    b.flow(0, 1, &[], vec![Action::Group(1), out(4)]);
    let around = |port: u32| {
        let eth = "push_eth(src=00:00:00:00:00:00,dst=00:00:00:00:00:00)";
        format!("clone(push_nsh(flags=0,ttl=63,mdtype=1,np=3,{SERVICE},{eth},{port})")
    };
    assert_eq!(text(&run(&switch(&mut [b]), &tcp(1))), format!("{},{},4", around(2), around(3)));
    let clone = Action::Clone(vec![encap(NSH), encap(0), out(2)]);
    assert_eq!(text(&run(&one_flow(vec![clone, out(3)]), &tcp(1))), format!("{},3", around(2)));
}

#[test]
fn length_branches_do_not_share_headers() {
    let mut b = TestBridge::with_ports(BR0, 4, 0);
    let bit = flow::Subfield::new(FieldId::Reg0, 0, 1).unwrap();
    let next = Action::Resubmit { port: None, table: Some(1), with_ct: false };
    b.flow(0, 1, &[], vec![Action::CheckPktLarger { len: 200, dst: bit }, next]);
    b.flow(1, 1, &[(FieldId::Reg0, 1)], vec![encap(NSH)]);
    b.flow(1, 1, &[(FieldId::Reg0, 0)], vec![out(2)]);
    let mut s = switch(&mut [b]);
    s.capabilities.check_pkt_len = true;
    assert_eq!(text(&run(&s, &tcp(1))), "check_pkt_len(size=200,gt(drop),le(2))");
}

#[test]
fn a_pending_header_of_a_copy_is_not_pushed_on_the_packet() {
    let next = || Action::Resubmit { port: None, table: Some(1), with_ct: false };
    let switch_with = |first: Vec<Action>, second: Vec<Action>| {
        let mut b = TestBridge::with_ports(BR0, 4, 0);
        let bucket = Bucket { actions: vec![next()], ..Bucket::default() };
        b.group(&GroupMod { group: 1, kind: GroupType::All, buckets: vec![bucket], ..GroupMod::default() });
        b.flow(0, 1, &[], first);
        b.flow(1, 1, &[], second);
        switch(&mut [b])
    };
    for copy in [Action::Clone(vec![next()]), Action::Group(1)] {
        let s = switch_with(vec![copy.clone(), out(3)], vec![encap(NSH)]);
        assert_eq!(text(&run(&s, &tcp(1))), "3", "{copy:?}");
        // The header that was pending before the copy stays pending, and the copy commits it at most once.
        let s = switch_with(vec![encap(NSH), copy.clone(), encap(0), out(3)], vec![encap(0)]);
        let eth = "push_eth(src=00:00:00:00:00:00,dst=00:00:00:00:00:00)";
        let pushed = format!("push_nsh(flags=0,ttl=63,mdtype=1,np=3,{SERVICE}");
        assert_eq!(text(&run(&s, &tcp(1))), format!("{pushed},{eth},3"), "{copy:?}");
        let s = switch_with(vec![encap(NSH), copy.clone(), encap(0), out(3)], vec![set(FieldId::NshSpi, 7)]);
        assert_eq!(text(&run(&s, &tcp(1))), format!("{pushed},{eth},3"), "{copy:?}");
    }
}

#[test]
fn an_action_set_is_executed_on_the_packet_and_not_on_the_copy_before_it() {
    let mut b = TestBridge::with_ports(BR0, 4, 0);
    b.flow(0, 1, &[], vec![Action::WriteActions(vec![out(3)]), Action::GotoTable(1)]);
    b.flow(1, 1, &[], vec![Action::Clone(vec![encap(NSH), encap(0), out(2)])]);
    let o = text(&run(&switch(&mut [b]), &tcp(1)));
    assert!(o.starts_with("clone(push_nsh(") && o.ends_with(",2),3"), "{o}");
}

#[test]
fn only_the_inner_copy_becomes_a_clone() {
    let mut b = TestBridge::with_ports(BR0, 5, 0);
    let resubmit = Action::Resubmit { port: None, table: Some(2), with_ct: false };
    b.flow(0, 1, &[], vec![Action::Clone(vec![resubmit]), out(3)]);
    b.flow(2, 1, &[], vec![Action::Clone(vec![encap(NSH), encap(0), out(4)]), out(5)]);
    let o = text(&run(&switch(&mut [b]), &tcp(1)));
    assert!(o.starts_with("clone(push_nsh(") && o.ends_with(",4),5,3"), "{o}");
}

#[test]
fn a_datapath_without_truncation_takes_the_slow_path() {
    let mut s = one_flow(vec![Action::OutputTrunc { port: OfPort(2), max_len: 64 }]);
    assert_eq!(run(&s, &tcp(1)).slow, dpif::SlowReason::empty());
    s.capabilities.trunc = false;
    let o = run(&s, &tcp(1));
    assert_eq!((text(&o).as_str(), o.slow), ("trunc(64),2", dpif::SlowReason::ACTION));
}

#[test]
fn labels_around_a_frame() {
    let o = run(&one_flow(vec![encap(0x1_8847), set(FieldId::MplsLabel, 5), encap(0), out(2)]), &tcp(1));
    let eth = "push_eth(src=00:00:00:00:00:00,dst=00:00:00:00:00:00)";
    assert_eq!(text(&o), format!("add_mpls(label=5,tc=0,ttl=64,bos=1,eth_type=0x8847),{eth},2"));
    assert_eq!((o.mask.nw_tos, o.mask.nw_ttl), (0, 0));
    let inner = Action::Decap { packet_type: 0 };
    let labelled = Flow { in_port: 1, dl_type: 0x8847, mpls_lse: [0x5140, 0, 0], ..Flow::ZERO };
    let o = run(&one_flow(vec![decap(), inner, out(2)]), &labelled);
    assert_eq!(text(&o), "pop_eth,pop_mpls(eth_type=0x6558),recirc(0x1)");
    let o = run(&one_flow(vec![decap(), decap(), out(2)]), &labelled);
    assert_eq!(
        o.error,
        Some(Failure::UnsupportedPacketType),
        "the type of the payload below the label is not known"
    );
    let two = Flow { mpls_lse: [0x6040, 0x5140, 0], ..labelled };
    let o = run(&one_flow(vec![decap(), decap(), encap(0), out(2)]), &two);
    assert_eq!(text(&o), format!("pop_eth,pop_mpls(eth_type=0x8847),{eth},2"));
}

/// The new label copies TTL and class of a label in the frame only if the frame has multicast labels (0x8848), as in Open vSwitch 3.7.
#[test]
fn a_label_around_a_labelled_frame() {
    let outer = |ethertype| {
        let labelled = Flow { in_port: 1, dl_type: ethertype, mpls_lse: [0x5140, 0, 0], ..Flow::ZERO };
        text(&run(&one_flow(vec![encap(0x1_8847), set(FieldId::MplsLabel, 9), encap(0), out(2)]), &labelled))
    };
    let eth = "push_eth(src=00:00:00:00:00:00,dst=00:00:00:00:00:00),2";
    assert_eq!(outer(0x8848), format!("add_mpls(label=9,tc=0,ttl=64,bos=0,eth_type=0x8847),{eth}"));
    assert_eq!(outer(0x8847), format!("add_mpls(label=9,tc=0,ttl=0,bos=0,eth_type=0x8847),{eth}"));
}

#[test]
fn unsupported_encapsulations_are_dropped_and_reported() {
    let tagged = Flow { vlans: [flow::Vlan { tpid: 0x8100, tci: 0x1005 }, Default::default()], ..tcp(1) };
    for (flow, actions, why) in [
        (tagged, vec![decap()], "cannot decap Ethernet if VLAN is present."),
        (tcp(1), vec![encap(0)], "encap(ethernet) is not supported for packet type ethernet."),
        (tcp(1), vec![decap(), decap()], "decap() does not support packet type (1,0x800)"),
        (tcp(1), vec![encap(0x1_8847), encap(NSH)], "encap(nsh) is not supported for packet type (1,0x8847)"),
    ] {
        let s = one_flow(actions);
        let o = run(&s, &flow);
        assert_eq!(o.error, Some(Failure::UnsupportedPacketType), "{why}");
        assert!(trace(&s, &flow).contains(why), "{}", trace(&s, &flow));
    }
}

#[test]
fn hops_are_counted_down_to_one() {
    let s = one_flow(vec![Action::DecNshTtl, out(2)]);
    let of_ttl =
        |ttl| Flow { in_port: 1, dl_type: 0x894f, nsh: flow::Nsh { ttl, ..flow::Nsh::NEW }, ..Flow::ZERO };
    assert_eq!(text(&run(&s, &of_ttl(63))), "set(nsh(ttl=62)),2");
    let o = run(&s, &of_ttl(1));
    assert!(outputs(&o).is_empty() && o.mask.nsh.ttl == u8::MAX);
}

/// A bridge whose port 2 accepts layer 3 packets, and port 3 all.
fn with_tunnels(actions: Vec<Action>) -> Snapshot {
    let mut b = TestBridge::with_ports(BR0, 4, 0);
    for (number, packet_types) in [(2, PacketTypes::Layer3), (3, PacketTypes::Aware)] {
        let options = [("remote_ip".to_owned(), format!("1.1.1.{number}"))].into();
        let (mut config, _) = TunnelConfig::parse("gre", "p", &options).unwrap();
        config.packet_types = packet_types;
        b.ports.get_mut(&OfPort(number)).unwrap().tunnel = Some(Arc::new(config));
    }
    b.flow(0, 1, &[], actions);
    let mut s = switch(&mut [b]);
    // The outer header of an output packet is shown as metadata.
    s.capabilities.tunnels = false;
    s
}

fn shape(o: &Output) -> String {
    let name = |a: &DpAction| match a {
        DpAction::Set(_) => String::new(),
        other => dpif::text::actions_text(std::slice::from_ref(other), &dpif::text::NoNames) + " ",
    };
    o.actions.iter().map(name).collect()
}

#[test]
fn layer_3_ports_send_and_receive_packets_without_ethernet() {
    let o = run(&with_tunnels(vec![out(4), out(2), out(1), out(4)]), &tcp(1));
    let back = "push_eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02)";
    assert_eq!(shape(&o), format!("4 pop_eth 2 {back} 4 "));
    // A received packet gets a header only if it is sent as a frame.
    let bare = Flow { packet_type: 0x1_0800, dl_src: Mac::default(), dl_dst: Mac::default(), ..tcp(2) };
    let s = with_tunnels(vec![Action::output(OfPort::IN_PORT), Action::SetEthDst(mac(9)), out(4)]);
    let o = run(&s, &bare);
    assert_eq!(shape(&o), "2 push_eth(src=00:00:00:00:00:00,dst=02:00:00:00:00:09) 4 ");
    assert_eq!((o.mask.dl_src, o.mask.dl_dst), Default::default());
}

#[test]
fn only_ports_that_know_packet_types_take_any_packet() {
    let o = run(&with_tunnels(vec![decap(), out(3), out(2), out(4)]), &tcp(1));
    assert_eq!(shape(&o), "pop_eth 3 2 ");
    let bare = Flow { packet_type: 0x1_0800, dl_src: Mac::default(), dl_dst: Mac::default(), ..tcp(3) };
    assert_eq!(
        shape(&run(&with_tunnels(vec![out(4), encap(0), out(1)]), &bare)).matches("push_eth").count(),
        1
    );
}
