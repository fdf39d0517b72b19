//! Adding and removing tunnel headers in the datapath.

use crate::port::{FrameBatch, FramePool, RxQueue, RxResult};
use crate::tests::{Rule, Setup, Wire, out, tcp};
use dpif::{DpAction, Masked, SetField, TunnelHeader, TunnelPush};
use flow::{Flow, Mac, Tunnel};
use packet::hex;
use packet::offload::{Offload, PartialChecksum};
use tunnel::{HeaderConfig, Kind, Request, build};
use units::{PortNo, QueueId};

const VXLAN: PortNo = PortNo(9);

fn push() -> DpAction {
    push_by(Kind::Vxlan { gbp: false }, &[])
}

fn push_by(kind: Kind, options: &[u8]) -> DpAction {
    let tunnel = Tunnel { tun_id: 7, ip_ttl: 64, flags: 2, ..Tunnel::default() };
    let built = build(&Request {
        kind,
        dst_mac: Mac([2, 0, 0, 0, 0, 0x92]),
        src_mac: Mac([2, 0, 0, 0, 0, 0x88]),
        src: "1.1.2.88".parse().unwrap(),
        dst: "1.1.2.92".parse().unwrap(),
        dst_port: 4789,
        tunnel: &tunnel,
        options,
        packet_type: 0,
        dl_type: 0x0800,
        config: &HeaderConfig::default(),
    })
    .unwrap();
    DpAction::TunnelPush(Box::new(TunnelPush {
        tunnel_port: VXLAN,
        out_port: PortNo(2),
        tunnel_type: built.tunnel_type,
        header: TunnelHeader(built.bytes),
    }))
}

/// Packets from port 1 are sent into the tunnel by port 2; packets from port 3 are decapsulated; decapsulated packets
/// are sent to port 4.
pub(crate) fn setup() -> Setup {
    let by = |port| Flow { in_port: port, ..Flow::ZERO };
    let mask = by(u32::MAX);
    let key = Flow { tunnel: Tunnel { tun_id: 7, ..Tunnel::default() }, ..by(VXLAN.0) };
    let key_mask = Flow { tunnel: Tunnel { tun_id: u64::MAX, ..Tunnel::default() }, ..mask };
    let setup = Setup::new(vec![
        (by(1), mask, vec![DpAction::Clone(vec![push(), out(2)]), out(4)]),
        (by(3), mask, vec![DpAction::TunnelPop(VXLAN)]),
        (key, key_mask, vec![out(4)]),
    ]);
    setup.datapath.set_tunnel(VXLAN, Kind::Vxlan { gbp: false }).unwrap();
    setup
}

fn packet() -> Vec<u8> {
    flow::compose::compose_len(&tcp(1, 80), 64)
}

#[test]
fn a_packet_goes_into_the_tunnel_and_comes_out_as_it_was() {
    let mut setup = setup();
    let inner = packet();
    setup.send(1, &inner);
    let [outer] = &setup.tx[1].take()[..] else { panic!("one packet leaves by the tunnel") };
    assert_eq!(outer[..14], hex::parse("0200000000920200000000880800").unwrap());
    assert_eq!(outer[50..], inner);
    // The copy without encapsulation has no header.
    assert_eq!(setup.tx[3].take(), std::slice::from_ref(&inner));
    setup.send(3, outer);
    assert_eq!(setup.tx[3].take(), [inner]);
    assert_eq!(setup.balance(), 0);
}

/// A truncated packet is recirculated with its tunnel header, as if the underlay's port had received it. Its
/// metadata, here the mark, is lost.
#[test]
fn a_truncated_packet_is_received_by_the_port_below() {
    let by = |port| Flow { in_port: port, ..Flow::ZERO };
    let mask = Flow { pkt_mark: u32::MAX, ..by(u32::MAX) };
    let mark = DpAction::Set(SetField::Mark(Masked::new(5, u32::MAX)));
    let mut setup = Setup::new(vec![
        (by(1), mask, vec![mark, DpAction::Trunc(20), push(), DpAction::Recirc(0)]),
        (by(2), mask, vec![out(4)]),
    ]);
    setup.datapath.set_tunnel(VXLAN, Kind::Vxlan { gbp: false }).unwrap();
    let inner = packet();
    for _ in 0..2 {
        setup.send(1, &inner);
        let sent = setup.tx[3].take();
        assert_eq!((sent.len(), sent[0].len()), (1, 50 + 20));
        assert_eq!(sent[0][50..], inner[..20]);
    }
    assert_eq!(setup.balance(), 0);
}

#[test]
fn flows_differ_in_their_source_ports_and_packets_of_one_do_not() {
    let mut setup = setup();
    let mut ports = Vec::new();
    for src in [1, 1, 2, 3, 4] {
        setup.send(1, &flow::compose::compose_len(&tcp(src, 80), 64));
        ports.extend(setup.tx[1].take().iter().map(|p| u16::from_be_bytes([p[34], p[35]])));
    }
    assert_eq!(ports[0], ports[1]);
    ports.sort_unstable();
    ports.dedup();
    assert!(ports.len() > 2 && ports.iter().all(|p| (32_768..61_000).contains(p)), "{ports:?}");
}

#[test]
fn what_is_no_packet_of_the_tunnel_is_dropped_and_counted() {
    let mut setup = setup();
    setup.send(1, &packet());
    let outer = setup.tx[1].take().remove(0);
    setup.tx[3].take();
    let mut wrong = outer.clone();
    wrong[24] ^= 1;
    setup.send(3, &wrong);
    // The frame ends within its header.
    setup.send(3, &outer[..44]);
    setup.datapath.del_tunnel(VXLAN);
    setup.send(3, &outer);
    setup.send(1, &packet());
    assert_eq!((setup.tx[1].take().len(), setup.tx[3].take().len()), (0, 1));
    let tally = setup.datapath.tally();
    let dropped = |reason| tally.dropped(reason);
    assert_eq!(dropped(dpif::DropReason::TunnelPopError), 2);
    assert_eq!(dropped(dpif::DropReason::InvalidTunnelPort), 2);
    assert_eq!(setup.balance(), 0);
}

#[test]
fn a_packet_in_a_packet_in_a_packet_does_not_go_round_for_ever() {
    let mut setup = setup();
    setup.control.rules.lock().unwrap().insert(
        0,
        (
            Flow { in_port: VXLAN.0, ..Flow::ZERO },
            Flow { in_port: u32::MAX, ..Flow::ZERO },
            vec![push(), DpAction::TunnelPop(VXLAN)],
        ),
    );
    let mut outer = packet();
    setup.send(1, &outer);
    outer = setup.tx[1].take().remove(0);
    setup.send(3, &outer);
    assert_eq!(setup.datapath.tally().dropped(dpif::DropReason::RecircError), 1);
    assert_eq!(setup.balance(), 0);
}

/// The packets of a batch differ in their outer headers, and some have an invalid one.
#[test]
fn a_batch_comes_out_of_its_tunnel_together_and_each_packet_keeps_its_outer_header() {
    let mut setup = setup();
    let mut outers = Vec::new();
    for src in 0..64 {
        setup.send(1, &flow::compose::compose_len(&tcp(src, 80), 64));
        outers.append(&mut setup.tx[1].take());
    }
    setup.tx[3].take();
    // The fields of the outer header belong to each packet: a packet with another key does not match the flow.
    for (i, outer) in outers.iter_mut().enumerate() {
        match i % 4 {
            1 => outer[48] = 9,
            2 => outer[24] ^= 1,
            _ => {}
        }
        setup.rx[2].put(outer);
    }
    setup.run();
    let inner = setup.tx[3].take();
    let sources: Vec<u8> = inner.iter().map(|p| p[29]).collect();
    let kept: Vec<u8> = (0..64).filter(|i| i % 4 == 0 || i % 4 == 3).collect();
    assert_eq!(sources, kept);
    let tally = setup.datapath.tally();
    assert_eq!(tally.dropped(dpif::DropReason::TunnelPopError), 16);
    assert_eq!(setup.balance(), 0);
}

/// The rule for second passes of packets of this tunnel with this destination port.
fn second(tun_id: u64, tp_dst: u16, port: u32) -> Rule {
    let key = Flow { in_port: VXLAN.0, dl_type: 0x0800, recirc_id: 1, tp_dst, ..Flow::ZERO };
    let mask =
        Flow { in_port: u32::MAX, dl_type: u16::MAX, recirc_id: u32::MAX, tp_dst: u16::MAX, ..Flow::ZERO };
    let tunnel = |tun_id| Tunnel { tun_id, ..Tunnel::default() };
    (Flow { tunnel: tunnel(tun_id), ..key }, Flow { tunnel: tunnel(u64::MAX), ..mask }, vec![out(port)])
}

/// Some packets of a decapsulated batch have a longer program; the others are recirculated and miss. The upcalls of
/// the latter contain the tunnel.
#[test]
fn recirculated_packets_keep_the_outer_header_beside_packets_of_longer_programs() {
    let hash = || vec![DpAction::Hash { alg: dpif::HashAlg::L4, basis: 0 }, DpAction::Recirc(1)];
    let by = |port| Flow { in_port: port, ..Flow::ZERO };
    let inner = |src| Flow { dl_type: 0x0800, nw_src: src, ..by(VXLAN.0) };
    let inner_mask = Flow { dl_type: u16::MAX, nw_src: 1, recirc_id: u32::MAX, ..by(u32::MAX) };
    let mut setup = Setup::new(vec![
        (by(1), by(u32::MAX), vec![push(), out(2)]),
        (by(3), by(u32::MAX), vec![DpAction::TunnelPop(VXLAN)]),
        (inner(0), inner_mask, hash()),
        (inner(1), inner_mask, vec![DpAction::Clone(vec![out(3)]), DpAction::PopVlan, out(3)]),
    ]);
    let seconds = [second(7, 80, 4), second(7, 81, 4), second(0, 80, 1), second(0, 81, 1)];
    setup.control.rules.lock().unwrap().extend(seconds);
    setup.datapath.set_tunnel(VXLAN, Kind::Vxlan { gbp: false }).unwrap();
    // The first round installs the megaflows of the first pass. In the second round the batch hits them, and the
    // recirculated packets miss.
    for tp_dst in [80, 81] {
        for src in 0..16 {
            setup.send(1, &flow::compose::compose_len(&tcp(src, tp_dst), 64));
        }
        setup.tx[1].take().iter().for_each(|outer| setup.rx[2].put(outer));
        setup.run();
        assert_eq!(
            [0, 2, 3].map(|port| setup.tx[port].take().len()),
            [0, 16, 8],
            "destination port {tp_dst}"
        );
    }
    assert_eq!(setup.balance(), 0);
}

/// Packets of a kernel, which leaves some checksums to the receiver.
struct FromKernel(Wire);

impl RxQueue for FromKernel {
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, max: usize) -> RxResult {
        let result = self.0.rx(pool, out, max);
        for frame in out {
            let csum = packet::segment::find_partial_checksum(frame.bytes());
            let csum = csum.map(|(start, offset)| PartialChecksum { start, offset });
            frame.set_offload(Offload { csum, gso: None });
        }
        result
    }
}

/// A batch of packets that are rewritten and get a tunnel header; some have checksums that the sender has left to the
/// receiver. Each packet must be the same as when it is executed alone, operation by operation. After decapsulation
/// the packets have their tunnel options.
#[test]
fn packets_are_rewritten_and_get_a_header_in_their_batch() {
    let options = [1, 2, 0x80, 1, 0, 1, 0, 4];
    let header = |out_port| {
        let DpAction::TunnelPush(mut push) = push_by(Kind::Geneve, &options) else { panic!("it pushes") };
        push.out_port = PortNo(out_port);
        DpAction::TunnelPush(push)
    };
    let ttl = || {
        let (value, mask) = (
            dpif::Ipv4Key { ttl: 63, ..Default::default() },
            dpif::Ipv4Key { ttl: 255, ..Default::default() },
        );
        DpAction::Set(SetField::Ipv4(Masked::new(value, mask)))
    };
    let key = |port| Flow { in_port: port, dl_type: 0x0800, nw_ttl: 64, ..Flow::ZERO };
    let mask = Flow { in_port: u32::MAX, dl_type: u16::MAX, nw_ttl: 255, ..Flow::ZERO };
    let with = |port, src| Flow { nw_src: src, ..key(port) };
    let by_src = Flow { nw_src: 1, ..mask };
    let pops = Flow { in_port: u32::MAX, dl_type: 0, nw_ttl: 0, ..Flow::ZERO };
    let mut from = Flow { in_port: VXLAN.0, ..Flow::ZERO };
    let mut from_mask = Flow { in_port: u32::MAX, ..Flow::ZERO };
    from.tlv = flow::Tlv::from_options(&options).unwrap();
    from_mask.tlv = flow::Tlv { present: u64::MAX, data: [0xff; flow::tlv::ALL_FIELDS_BYTES_MAX] };
    let mut setup = Setup::new(vec![
        // One megaflow for all packets; two megaflows; execution operation by operation.
        (key(1), mask, vec![DpAction::CtClear, ttl(), header(2), out(2)]),
        (with(2, 0), by_src, vec![ttl(), header(2), out(2)]),
        (with(2, 1), by_src, vec![header(2), out(2)]),
        (key(4), mask, vec![ttl(), DpAction::Trunc(9000), header(2), out(2)]),
        (Flow { in_port: 3, ..Flow::ZERO }, pops, vec![DpAction::TunnelPop(VXLAN)]),
        (from, from_mask, vec![out(4)]),
    ]);
    setup.datapath.set_tunnel(VXLAN, Kind::Geneve).unwrap();
    let inner = |src: u32| flow::compose::compose_len(&tcp(src, 80), 64 + src as usize % 3);
    let mut sent = Vec::new();
    for port in [1, 2, 4] {
        let kernel = Wire::default();
        for src in 0..12 {
            let mut frame = inner(src);
            if src % 4 == 1 {
                packet::segment::make_partial_checksum(&mut frame).unwrap();
            }
            kernel.put(&frame);
        }
        setup.worker.add_rxq(PortNo(port), QueueId(1), Box::new(FromKernel(kernel)));
        setup.run();
        sent.push(setup.tx[1].take());
    }
    let [one, two, general] = &sent[..] else { panic!("three ports send") };
    assert_eq!(one.len(), 12);
    assert_eq!(one, general);
    for (i, (a, b)) in two.iter().zip(general).enumerate() {
        assert_eq!(a == b, i % 2 == 0, "an odd source keeps its TTL");
    }
    general.iter().for_each(|outer| setup.rx[2].put(outer));
    setup.run();
    let inners = setup.tx[3].take();
    let bytes = |outer: &Vec<u8>| outer[58..].to_vec();
    assert_eq!(inners, general.iter().map(bytes).collect::<Vec<_>>());
    assert!(inners.iter().all(|frame| packet::segment::find_partial_checksum(frame).is_none()));
    assert_eq!(setup.balance(), 0);
}
