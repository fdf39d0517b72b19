//! Every action compared with a reference implementation: `flow::compose` builds a packet of the changed flow,
//! including checksums, which must equal the packet after the action.

use super::set_field::set;
use super::{ether, mpls, vlan};
use crate::packet::{Meta, Packet};
use crate::port::FramePool;
use dpif::*;
use flow::compose::compose;
use flow::{Flow, Mac, Vlan};
use packet::offload::{Gso, GsoKind, Offload, PartialChecksum};
use packet::segment;
use proptest::prelude::*;

pub(super) fn packet(bytes: &[u8]) -> Packet {
    Packet::new(FramePool::new(1).frame_of(bytes).unwrap(), Meta::received(1))
}

fn base(v6: bool, proto: u8, tagged: bool) -> Flow {
    let mut f = Flow {
        dl_dst: Mac([2, 0, 0, 0, 0, 1]),
        dl_src: Mac([2, 0, 0, 0, 0, 2]),
        dl_type: if v6 { 0x86dd } else { 0x0800 },
        nw_proto: proto,
        nw_ttl: 64,
        tp_src: 1000,
        tp_dst: 2000,
        ..Flow::ZERO
    };
    if v6 {
        (f.ipv6_src, f.ipv6_dst) = ([0x20; 16], [0x21; 16]);
    } else {
        (f.nw_src, f.nw_dst) = (0x0a00_0001, 0x0a00_0002);
    }
    if tagged {
        f.vlans[0] = Vlan { tpid: 0x8100, tci: 0x1005 };
    }
    f
}

fn check(before: &Flow, field: SetField, after: &Flow) {
    let mut p = packet(&compose(before, b"payload"));
    set(&mut p, &field);
    assert_eq!(p.frame.bytes(), compose(after, b"payload"), "{field:?}");
}

proptest! {
    #[test]
    fn ipv4_under_any_transport(
        src: u32, dst: u32, tos: u8, ttl: u8, mask: u32,
        proto in prop::sample::select(vec![1u8, 6, 17, 47, 132]), tagged: bool,
    ) {
        let before = base(false, proto, tagged);
        let value = Ipv4Key { src, dst, tos, ttl, ..Ipv4Key::default() };
        let mask = Ipv4Key { src: mask, dst: !mask, tos: mask as u8, ttl: 0xff, ..Ipv4Key::default() };
        let after = Flow {
            nw_src: before.nw_src & !mask.src | src & mask.src,
            nw_dst: before.nw_dst & !mask.dst | dst & mask.dst,
            nw_tos: tos & mask.tos,
            nw_ttl: ttl,
            ..before
        };
        check(&before, SetField::Ipv4(Masked::new(value, mask)), &after);
    }

    #[test]
    fn ipv6_under_any_transport(
        src: [u8; 16], dst: [u8; 16], label in 0..0x10_0000u32, tclass: u8, hlimit: u8,
        proto in prop::sample::select(vec![6u8, 17, 58]),
    ) {
        let before = base(true, proto, false);
        let value = Ipv6Key { src, dst, label, tclass, hlimit, ..Ipv6Key::default() };
        let mask = Ipv6Key { src: [0xff; 16], dst: [0xff; 16], label: 0xf_ffff, tclass: 0xff, hlimit: 0xff, ..value };
        let after = Flow {
            ipv6_src: src, ipv6_dst: dst, ipv6_label: label, nw_tos: tclass, nw_ttl: hlimit, ..before
        };
        check(&before, SetField::Ipv6(Box::new(Masked::new(value, mask))), &after);
    }

    #[test]
    fn ports(src: u16, dst: u16, v6: bool, proto in prop::sample::select(vec![6u8, 17, 132])) {
        let before = base(v6, proto, false);
        let m = Masked::new(PortsKey { src, dst }, PortsKey { src: 0xffff, dst: 0xffff });
        let field = match proto { 6 => SetField::Tcp(m), 17 => SetField::Udp(m), _ => SetField::Sctp(m) };
        if proto == 132 {
            // The reference leaves the CRC zero, so only the ports are compared. Setting the old values must restore
            // the packet.
            let bytes = compose(&before, b"payload");
            let mut p = packet(&bytes);
            set(&mut p, &field);
            let f = p.flow();
            prop_assert_eq!((f.tp_src, f.tp_dst), (src, dst));
            set(&mut p, &SetField::Sctp(Masked::new(PortsKey { src: 1000, dst: 2000 }, m.mask)));
            prop_assert_eq!(p.frame.bytes(), &bytes[..]);
        } else {
            check(&before, field, &Flow { tp_src: src, tp_dst: dst, ..before });
        }
    }

    /// No action may panic or write beyond the end, whatever packet a port received.
    #[test]
    fn any_bytes(data in prop::collection::vec(any::<u8>(), 14..90), dl_type in prop::sample::select(
        vec![0x0800u16, 0x86dd, 0x0806, 0x8100, 0x8847, 0x0010])) {
        let mut data = data;
        data[12..14].copy_from_slice(&dl_type.to_be_bytes());
        for field in all_fields() {
            let mut p = packet(&data);
            set(&mut p, &field);
            prop_assert_eq!(p.frame.len(), data.len());
        }
        let mut p = packet(&data);
        mpls::pop(&mut p, 0x0800);
        vlan::pop(&mut p);
        vlan::push(&mut p, 0x8100, 0x1001);
        mpls::push(&mut p, 0x8847, 1);
        ether::pop(&mut p);
        ether::push(&mut p, Mac::default(), Mac::default());
    }
}

fn all_fields() -> Vec<SetField> {
    vec![
        SetField::Eth(Masked::default()),
        SetField::Ipv4(Masked::new(
            Ipv4Key { src: 1, ..Ipv4Key::default() },
            Ipv4Key { src: 3, ..Ipv4Key::default() },
        )),
        SetField::Ipv6(Box::default()),
        SetField::Tcp(Masked::new(PortsKey { src: 1, dst: 2 }, PortsKey { src: 3, dst: 3 })),
        SetField::Udp(Masked::default()),
        SetField::Sctp(Masked::default()),
        SetField::Icmp(Masked::default()),
        SetField::Icmpv6(Masked::default()),
        SetField::Arp(Masked::default()),
        SetField::Nd(Box::default()),
        SetField::NdExt(Masked::default()),
        SetField::Mpls(Masked::new(1, 1)),
    ]
}

#[test]
fn arp_and_icmp() {
    let before = Flow { dl_type: 0x0806, nw_proto: 1, nw_src: 1, nw_dst: 2, ..Flow::ZERO };
    let value = ArpKey { sip: 7, tip: 8, op: 2, sha: Mac([1; 6]), tha: Mac([2; 6]) };
    let mask = ArpKey { sip: u32::MAX, tip: u32::MAX, op: 0xffff, sha: Mac([255; 6]), tha: Mac([255; 6]) };
    let after =
        Flow { nw_proto: 2, nw_src: 7, nw_dst: 8, arp_sha: Mac([1; 6]), arp_tha: Mac([2; 6]), ..before };
    check(&before, SetField::Arp(Masked::new(value, mask)), &after);

    let before = Flow { tp_src: 8, tp_dst: 0, ..base(false, 1, true) };
    let value = IcmpKey { icmp_type: 0, code: 0 };
    let m = Masked::new(value, IcmpKey { icmp_type: 0xff, code: 0xff });
    check(&before, SetField::Icmp(m), &Flow { tp_src: 0, ..before });
}

#[test]
fn of_a_cut_arp_packet_the_fields_that_are_there_are_written() {
    let whole = compose(&Flow { dl_type: 0x0806, nw_proto: 1, nw_src: 1, nw_dst: 2, ..Flow::ZERO }, &[]);
    let value = ArpKey { sip: 7, tip: 8, op: 2, sha: Mac([1; 6]), tha: Mac([2; 6]) };
    let mask = ArpKey { sip: u32::MAX, tip: u32::MAX, op: 0xffff, sha: Mac([255; 6]), tha: Mac([255; 6]) };
    let written = |bytes: &[u8]| {
        let mut p = packet(bytes);
        set(&mut p, &SetField::Arp(Masked::new(value, mask)));
        p.frame.bytes().to_vec()
    };
    let all = written(&whole[..42]);
    for len in 14..42 {
        assert_eq!(written(&whole[..len]), all[..len], "{len} bytes");
    }
}

#[test]
fn ports_of_a_header_beyond_the_packet_stay() {
    let mut bytes = compose(&base(false, 6, false), b"payload");
    // The data offset in units of four bytes.
    bytes[14 + 20 + 12] = 0xa0;
    let mut p = packet(&bytes);
    let all = PortsKey { src: 0xffff, dst: 0xffff };
    set(&mut p, &SetField::Tcp(Masked::new(PortsKey { src: 1, dst: 2 }, all)));
    assert_eq!(p.frame.bytes(), bytes);
}

#[test]
fn a_transport_header_that_goes_on_in_the_padding_stays() {
    let fields = [
        SetField::Ipv4(Masked::new(
            Ipv4Key { src: 1, ..Ipv4Key::default() },
            Ipv4Key { src: u32::MAX, ..Ipv4Key::default() },
        )),
        SetField::Tcp(Masked::new(PortsKey { src: 1, dst: 2 }, PortsKey { src: 0xffff, dst: 0xffff })),
        SetField::Udp(Masked::new(PortsKey { src: 1, dst: 2 }, PortsKey { src: 0xffff, dst: 0xffff })),
        SetField::Icmp(Masked::new(IcmpKey { icmp_type: 3, code: 1 }, IcmpKey { icmp_type: 255, code: 255 })),
    ];
    for (proto, whole) in [(6, 20_u16), (17, 8), (1, 8)] {
        for length in [whole - 1, whole] {
            let mut bytes = compose(&base(false, proto, false), b"payload and padding");
            bytes[16..18].copy_from_slice(&(20 + length).to_be_bytes());
            let mut p = packet(&bytes);
            fields.iter().for_each(|f| set(&mut p, f));
            assert_eq!(p.frame.bytes()[34..] == bytes[34..], length < whole, "{proto}");
        }
    }
}

#[test]
fn a_neighbour_message_keeps_its_checksum() {
    let before =
        Flow { tp_src: 135, tp_dst: 0, nd_target: [3; 16], arp_sha: Mac([4; 6]), ..base(true, 58, false) };
    let value = NdKey { target: [9; 16], sll: Mac([8; 6]), tll: Mac([7; 6]) };
    let mask = NdKey { target: [255; 16], sll: Mac([255; 6]), tll: Mac([255; 6]) };
    let mut p = packet(&compose(&before, &[]));
    set(&mut p, &SetField::Nd(Box::new(Masked::new(value, mask))));
    let f = p.flow();
    assert_eq!((f.nd_target, f.arp_sha, f.arp_tha), ([9; 16], Mac([8; 6]), Mac::default()));
    assert_eq!(p.frame.bytes(), compose(&Flow { nd_target: [9; 16], arp_sha: Mac([8; 6]), ..before }, &[]));
}

#[test]
fn tags_and_labels_are_pushed_and_popped() {
    let plain = base(false, 6, false);
    let bytes = compose(&plain, b"x");
    let mut p = packet(&bytes);
    vlan::push(&mut p, 0x8100, 0x1005).unwrap();
    assert_eq!(p.frame.bytes(), compose(&base(false, 6, true), b"x"));
    mpls::push(&mut p, 0x8847, 0x0012_3140).unwrap();
    assert_eq!(
        (p.flow().dl_type, p.flow().mpls_lse[0], p.flow().vlans[0].tci),
        (0x8847, 0x0012_3140, 0x1005)
    );
    set(&mut p, &SetField::Mpls(Masked::new(0x3f, 0xff)));
    assert_eq!(p.flow().mpls_lse[0], 0x0012_313f);
    mpls::pop(&mut p, 0x0800);
    vlan::pop(&mut p);
    vlan::pop(&mut p);
    assert_eq!(p.frame.bytes(), bytes);
    ether::pop(&mut p);
    assert_eq!((p.flow().packet_type, p.flow().nw_src), (0x1_0800, plain.nw_src));
    ether::push(&mut p, plain.dl_dst, plain.dl_src).unwrap();
    assert_eq!(p.frame.bytes(), bytes);
}

#[test]
fn a_tag_that_no_flow_has_is_what_a_frame_carries() {
    let frame = compose(&base(false, 6, true), b"payload");
    let mut p = packet(&frame);
    ether::pop(&mut p);
    assert_eq!((p.meta.packet_type, p.frame.bytes()), (1 << 16 | 0x8100, &frame[14..]));
    ether::push(&mut p, Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])).unwrap();
    assert_eq!(p.frame.bytes(), frame);
}

/// A frame with an 802.3 length followed by these bytes of LLC and payload.
fn frame_802_3(llc: &[u8]) -> Vec<u8> {
    let addresses = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    [&addresses[..], &(llc.len() as u16).to_be_bytes(), llc].concat()
}

#[test]
fn a_frame_without_a_type_keeps_all_that_follows_its_length() {
    // Not quite SNAP.
    let frame = frame_802_3(&[0xaa, 0xab, 3, 0, 0, 0, 8, 0, 0x45, 0, 0, 20]);
    let mut p = packet(&frame);
    ether::pop(&mut p);
    assert_eq!((p.meta.packet_type, p.frame.bytes()), (1 << 16 | 12, &frame[14..]));
    ether::push(&mut p, Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])).unwrap();
    assert_eq!(p.frame.bytes(), frame);
    mpls::push(&mut p, 0x8847, 0x0012_3140).unwrap();
    assert_eq!(p.frame.bytes()[12..], [&[0x88, 0x47, 0, 0x12, 0x31, 0x40], &frame[14..]].concat());
}

#[test]
fn a_type_in_snap_is_the_type_of_what_the_frame_carries() {
    let mut p = packet(&frame_802_3(&[0xaa, 0xaa, 3, 0, 0, 0, 8, 6, 7, 7]));
    ether::pop(&mut p);
    assert_eq!((p.meta.packet_type, p.frame.bytes()), (1 << 16 | 0x0806, &[7, 7][..]));
}

#[test]
fn no_room_is_told() {
    let mut p = packet(&compose(&base(false, 6, false), b"x"));
    let room = p.frame.tailroom() + crate::port::HEADROOM;
    let pushed = (0..room).take_while(|_| vlan::push(&mut p, 0x8100, 0x1001).is_some()).count();
    assert_eq!(pushed, room / 4);
}

/// An unfinished checksum is right when it is finished after the address was changed.
#[test]
fn an_unfinished_checksum_follows() {
    let before = base(false, 6, false);
    let after = Flow { nw_dst: 0xc0a8_0102, tp_dst: 99, vlans: base(false, 6, true).vlans, ..before };
    let mut bytes = compose(&before, b"payload");
    let len = (bytes.len() - 34) as u16;
    let sum = !packet::checksum::finish(packet::checksum::pseudo_v4(before.nw_src, before.nw_dst, 6, len));
    bytes[50..52].copy_from_slice(&sum.to_be_bytes());
    let mut p = packet(&bytes);
    p.frame.set_offload(Offload { csum: Some(PartialChecksum { start: 34, offset: 16 }), gso: None });
    let ip = |dst| Ipv4Key { dst, ..Ipv4Key::default() };
    set(&mut p, &SetField::Ipv4(Masked::new(ip(after.nw_dst), ip(u32::MAX))));
    let ports = |dst| PortsKey { src: 0, dst };
    set(&mut p, &SetField::Tcp(Masked::new(ports(99), ports(0xffff))));
    vlan::push(&mut p, 0x8100, 0x1005).unwrap();
    let note = p.frame.offload();
    note.finish(p.frame.bytes_mut(), |b| assert_eq!(b, compose(&after, b"payload"))).unwrap();
}

/// A change by its number: addresses, ports, TTL, tags.
fn change(p: &mut Packet, which: u8, v6: bool, address: u32, port: u16) {
    let key4 = |src, dst, ttl| Ipv4Key { src, dst, ttl, ..Ipv4Key::default() };
    let key6 = |src, dst, hlimit| Ipv6Key { src: [src; 16], dst: [dst; 16], hlimit, ..Ipv6Key::default() };
    let ports = |src, dst| PortsKey { src, dst };
    let transport = if p.offsets().proto == 17 { SetField::Udp } else { SetField::Tcp };
    match (which, v6) {
        (0, false) => set(p, &SetField::Ipv4(Masked::new(key4(address, 0, 9), key4(u32::MAX, 0, 255)))),
        (1, false) => set(p, &SetField::Ipv4(Masked::new(key4(0, address, 0), key4(0, !address, 0)))),
        (0, true) => {
            set(p, &SetField::Ipv6(Box::new(Masked::new(key6(address as u8, 0, 9), key6(255, 0, 255)))));
        }
        (1, true) => set(p, &SetField::Ipv6(Box::new(Masked::new(key6(0, port as u8, 0), key6(0, 15, 0))))),
        (2, _) => set(p, &transport(Masked::new(ports(port, 0), ports(u16::MAX, 0)))),
        (3, _) => set(p, &transport(Masked::new(ports(port, port), ports(0xff, u16::MAX)))),
        (4, _) => vlan::push(p, 0x8100, port).unwrap(),
        _ => vlan::pop(p),
    }
}

/// Replaces a checksum of zero in a TCP header by 0xffff. TCP does not distinguish them, and an update of a finished checksum may give one where
/// the computation of a new checksum gives the other.
fn one_zero(mut packet: Vec<u8>) -> Vec<u8> {
    let layout = segment::layout(&packet).unwrap();
    let at = layout.l4 + 16;
    if layout.protocol == 6 && packet[at..at + 2] == [0, 0] {
        packet[at..at + 2].fill(0xff);
    }
    packet
}

proptest! {
    #[test]
    fn changed_and_cut_is_cut_and_changed(
        udp: bool, v6: bool, tagged: bool, address: u32, port: u16, changes in prop::collection::vec(0u8..6, 0..8),
        payload in 1usize..5000, size in 100u16..1500,
    ) {
        // A packet with more than four tags is not segmented.
        prop_assume!(changes.iter().filter(|which| **which == 4).count() <= 3);
        let protocol = if udp { 17 } else { 6 };
        let mut bytes = compose(&base(v6, protocol, tagged), &vec![7; payload]);
        let (start, offset) = segment::make_partial_checksum(&mut bytes).unwrap();
        let kind = GsoKind::of(protocol, v6).unwrap();
        let csum = Some(PartialChecksum { start, offset });
        let note = Offload { csum, gso: Some(Gso { kind, size, ecn: false }) };
        let changed = |mut p: Packet| {
            changes.iter().for_each(|&which| change(&mut p, which, v6, address, port));
            p
        };
        let mut whole = packet(&bytes);
        whole.frame.set_offload(note);
        let mut whole = changed(whole);
        let (mut late, mut early) = (Vec::new(), Vec::new());
        let left = whole.frame.offload();
        left.finish(whole.frame.bytes_mut(), |b| late.push(one_zero(b.to_vec()))).unwrap();
        note.finish(&mut bytes, |b| early.push(one_zero(changed(packet(b)).frame.bytes().to_vec()))).unwrap();
        prop_assert_eq!(late, early);
    }
}
