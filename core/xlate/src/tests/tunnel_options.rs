//! Options of tunnel headers in the pipeline.

use super::*;
use dpif::{DropReason, SetField};
use flow::{Subfield, Tlv, Tunnel};
use openflow::flow_mod::FlowCommand;
use openflow::session::{TlvMap, TlvTableMod};

const GENEVE: u32 = 6081;

fn map(index: u16, kind: u8, len: u8) -> TlvMap {
    TlvMap { class: 0xffff, kind, len, index }
}

/// Port 1 is a Geneve tunnel, port 2 a device. Two options are mapped.
fn bridge() -> TestBridge {
    let mut b = TestBridge::with_ports(BR0, 2, 0);
    let options = BTreeMap::from([("remote_ip".to_owned(), "1.1.1.1".to_owned())]);
    let (tunnel, _) = ::bridge::TunnelConfig::parse("geneve", "p1", &options).unwrap();
    let port = b.ports.get_mut(&OfPort(1)).unwrap();
    (port.tunnel, port.attachment) = (Some(Arc::new(tunnel)), Attachment::Datapath(PortNo(GENEVE)));
    b.ofproto.change_tlv(&TlvTableMod::Add(vec![map(0, 0, 4), map(1, 1, 8)]), 0).unwrap();
    b
}

fn with(b: &mut TestBridge, table: u8, text: &str, actions: &str) {
    let line = format!("table={table},{text} actions={actions}");
    let names = &flow::text::NoNames;
    let fm = openflow::text::parse_flow_mod(&line, FlowCommand::Add, names).unwrap().flow;
    let fm = b.ofproto.with_tlv_layout(&fm).unwrap();
    b.ofproto.handle_flow_mod(&fm, Millis(0)).unwrap();
}

fn snapshot(b: TestBridge) -> Snapshot {
    let config = Arc::clone(b.ports[&OfPort(1)].tunnel.as_ref().unwrap());
    let mut s = switch(&mut [b]);
    // The outer header of an output packet is shown as metadata.
    s.capabilities.tunnels = false;
    s.tunnels.push(TunnelPort { number: PortNo(GENEVE), at: (BR0, OfPort(1)), config });
    s
}

/// A packet received from the tunnel, as the datapath describes it.
fn tunnelled(options: &[u8]) -> Flow {
    let tunnel = Tunnel { ip_src: 0x0101_0101, ip_dst: 0x0101_0102, flags: 8, ..Tunnel::default() };
    Flow { tunnel, tlv: Tlv::from_options(options).unwrap(), ..tcp(GENEVE) }
}

const A: [u8; 8] = [0xff, 0xff, 0, 1, 0, 0, 0, 0xb];
const B: [u8; 12] = [0xff, 0xff, 1, 2, 1, 2, 3, 4, 5, 6, 7, 8];

fn received(s: &Snapshot, flow: &Flow) -> Output {
    let (bridge, flow) = s.receive(flow).unwrap();
    assert_eq!(bridge, BR0);
    run(s, &flow)
}

fn set_options(o: &Output) -> Vec<&[u8]> {
    let set = |a| match a {
        &DpAction::Set(SetField::Tunnel(ref t)) => Some(&t.geneve_options[..]),
        _ => None,
    };
    o.actions.iter().filter_map(set).collect()
}

#[test]
fn options_are_matched_and_the_megaflow_says_which_bits() {
    let mut b = bridge();
    with(&mut b, 0, "tun_metadata0=0xb/0xf", "2");
    let s = snapshot(b);
    let flow = tunnelled(&[&B[..], &A].concat());
    let o = received(&s, &flow);
    assert_eq!(outputs(&o), [2]);
    let mask = s.options_mask(BR0, &flow, &o);
    assert_eq!(mask.present, u64::MAX);
    let header = [0xff, 0xff, 0xff, 0x1f];
    assert_eq!(mask.data[..20], [&header[..], &[0; 8], &header, &[0, 0, 0, 0xf]].concat());
    let other = received(&s, &tunnelled(&B));
    assert_eq!(outputs(&other), [0u32; 0]);
    // Packets without options are distinguished from packets with options.
    let none = tunnelled(&[]);
    let o = received(&s, &none);
    assert_eq!(s.options_mask(BR0, &none, &o).present, u64::MAX);
}

#[test]
fn options_that_are_sent_as_received_are_matched() {
    let mask = |actions: &str, options: &[u8]| {
        let mut b = bridge();
        with(&mut b, 0, "in_port=1", actions);
        let s = snapshot(b);
        let flow = tunnelled(options);
        let o = received(&s, &flow);
        s.options_mask(BR0, &flow, &o)
    };
    let sent = mask("in_port", &A);
    assert_eq!(
        (sent.present, &sent.data[..8]),
        (u64::MAX, &[0xff, 0xff, 0xff, 0x1f, 0xff, 0xff, 0xff, 0xff][..])
    );
    assert_eq!(mask("in_port", &[]).present, u64::MAX, "packets with options are sent otherwise");
    assert_eq!(mask("2", &[]).present, 0);
    let set = mask("set_field:0xc->tun_metadata0,in_port", &A);
    assert_eq!(&set.data[4..8], [0; 4], "the received value is not sent");
}

/// Packets from VXLAN have no options. If the megaflow matched that they have none as soon as its packets also leave by Geneve, its mask
/// would change, and it would be deleted without need.
#[test]
fn options_of_packets_that_cannot_have_any_are_not_matched() {
    const VXLAN: u32 = 4789;
    let mut b = bridge();
    with(&mut b, 0, "in_port=2", "1");
    let (vxlan, _) = ::bridge::TunnelConfig::parse(
        "vxlan",
        "p2",
        &BTreeMap::from([("remote_ip".to_owned(), "1.1.1.1".to_owned())]),
    )
    .unwrap();
    let mut s = snapshot(b);
    s.tunnels.push(TunnelPort { number: PortNo(VXLAN), at: (BR0, OfPort(2)), config: Arc::new(vxlan) });
    let flow = Flow { in_port: VXLAN, ..tunnelled(&[]) };
    let o = received(&s, &flow);
    assert_eq!(outputs(&o), [GENEVE]);
    assert_eq!(s.options_mask(BR0, &flow, &o), Tlv::NONE);
}

#[test]
fn fields_become_options_of_what_leaves() {
    let mut b = bridge();
    with(
        &mut b,
        0,
        "in_port=2",
        "set_field:0xa->tun_metadata0,move:reg0[0..31]->tun_metadata1[32..63],1,set_field:0xc/0xf->tun_metadata0,delete_field:tun_metadata1,1",
    );
    let mut flow = tcp(2);
    flow.regs[0] = 0x0102_0304;
    let o = run(&snapshot(b), &flow);
    let first = [&[0xff, 0xff, 0, 1, 0, 0, 0, 0xa][..], &[0xff, 0xff, 1, 2, 1, 2, 3, 4, 0, 0, 0, 0]].concat();
    assert_eq!(set_options(&o), [&first[..], &[0xff, 0xff, 0, 1, 0, 0, 0, 0xc]]);
    assert_eq!(outputs(&o), [GENEVE, GENEVE]);
    assert_eq!(o.mask.tlv, Tlv::NONE, "nothing of the packet was looked at");
}

#[test]
fn options_that_cannot_be_taken_in_drop_the_packet() {
    let mut b = bridge();
    with(&mut b, 0, "", "2");
    let s = snapshot(b);
    for bad in [&[0xff, 0xff, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0][..], &[0, 0, 0x99, 0]] {
        let o = received(&s, &tunnelled(bad));
        assert_eq!((o.error, outputs(&o)), (Some(Failure::InvalidTunnelMetadata), vec![]));
    }
    assert_eq!(outputs(&received(&s, &tunnelled(&[0, 0, 0x19, 0]))), [2]);
}

/// A drop because of congestion (RFC 6040 §4.2) is no error, and has a reason of its own.
#[test]
fn congestion_that_the_inner_packet_cannot_show_is_a_reason_to_drop() {
    let mut b = bridge();
    with(&mut b, 0, "", "2");
    let s = snapshot(b);
    let mut flow = tunnelled(&[]);
    (flow.tunnel.ip_tos, flow.nw_tos) = (3, 0);
    let o = received(&s, &flow);
    assert_eq!((o.error, &o.actions[..]), (None, &[DpAction::Drop(DropReason::ActionCongestion)][..]));
    flow.nw_tos = 1;
    assert_eq!(outputs(&received(&s, &flow)), [2]);
}

#[test]
fn fields_come_back_with_a_packet_that_recirculates() {
    let mut b = bridge();
    with(
        &mut b,
        0,
        "mpls",
        "set_field:0xa->tun_metadata0,push:tun_metadata0[0..31],pop_mpls:0x0800,resubmit(,1)",
    );
    with(&mut b, 1, "tun_metadata0=0xa", "pop:reg0[],1");
    let s = snapshot(b);
    let recirc = SharedRecirc::default();
    let flow = Flow { dl_type: 0x8847, mpls_lse: [0x5140, 0, 0], in_port: 2, ..Flow::ZERO };
    let o = translate(&s, &input(&flow, &recirc));
    assert_eq!(o.actions.last(), Some(&DpAction::Recirc(1)));
    let o = translate(&s, &input(&Flow { recirc_id: 1, ..tcp(2) }, &recirc));
    assert_eq!(set_options(&o), [[0xff, 0xff, 0, 1, 0, 0, 0, 0xa]]);
    assert_eq!(FieldId::Reg0.get(&o.flow), 0xa);
}

#[test]
fn a_learned_flow_matches_fields() {
    let mut b = bridge();
    with(
        &mut b,
        0,
        "",
        "set_field:0x1122334455667788->tun_metadata1,learn(table=5,tun_metadata1[0..63]=tun_metadata1[0..63],load:tun_metadata1[0..31]->tun_metadata0[0..31])",
    );
    let o = run(&snapshot(b), &tcp(2));
    let [PacketEffect::Learn(learned)] = o.effects.as_slice() else { panic!("{:?}", o.effects) };
    assert_eq!(learned.flow_mod.matching.to_string(), "tun_metadata1=0x1122334455667788");
    let dst = Subfield { n_bytes: 4, ..Subfield::new(FieldId::TunMetadata0, 0, 32).unwrap() };
    assert_eq!(learned.flow_mod.actions, [Action::RegLoad { dst, value: 0x5566_7788 }]);
}
