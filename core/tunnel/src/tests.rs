use super::*;
use flow::{Mac, Tunnel};
use packet::frame::{Frame, FramePool};
use packet::hex;
use proptest::prelude::*;
use std::net::IpAddr;

const V4: [&str; 2] = ["1.1.2.88", "1.1.2.92"];
const V6: [&str; 2] = ["2001:cafe::88", "2001:cafe::92"];
/// A frame of 60 bytes.
const FRAME: [u8; 60] = [0x5a; 60];

fn request<'a>(kind: Kind, ends: [&str; 2], tunnel: &'a Tunnel, config: &'a HeaderConfig) -> Request<'a> {
    let [src, dst] = ends.map(|a| a.parse::<IpAddr>().unwrap());
    Request {
        kind,
        dst_mac: Mac([0xf8, 0xbc, 0x12, 0x44, 0x34, 0xb6]),
        src_mac: Mac([0xaa, 0x55, 0xaa, 0x55, 0, 0]),
        src,
        dst,
        dst_port: 4789,
        tunnel,
        options: &[],
        packet_type: 0,
        dl_type: 0x0800,
        config,
    }
}

fn tunnel(tun_id: u64) -> Tunnel {
    Tunnel { tun_id, ip_ttl: 64, flags: 2, erspan_ver: 1, ..Tunnel::default() }
}

/// The packet with the header added.
fn pushed(built: &BuiltHeader, inner: &[u8], each: &PerPacket) -> Vec<u8> {
    let template = Template::new(&built.bytes, built.tunnel_type).unwrap();
    let mut packet = vec![0; template.len()];
    packet.extend(inner);
    template.write(&mut packet, each).unwrap();
    packet
}

/// The frame with the header added, by the fast path if possible.
fn push_on(template: &Template, frame: &mut Frame, each: &PerPacket) -> Vec<u8> {
    template.push_on(frame, each).unwrap();
    frame.bytes().to_vec()
}

/// Reads a header on the fast path.
fn pop_fast(kind: Kind, frame: &[u8]) -> Option<Popped<'_>> {
    let (mut tunnel, mut checks) = (Tunnel::default(), FastChecksumCounts::default());
    let HeaderLengths { header, options } = match kind {
        Kind::Vxlan { .. } => FastVxlan.read(frame, &mut tunnel, &mut checks)?,
        Kind::Geneve => FastGeneve.read(frame, &mut tunnel, &mut checks)?,
        _ => return None,
    };
    let options = &frame[header - options..header];
    Some(Popped { tunnel, options, packet_type: 0, header, end: frame.len() })
}

#[test]
fn fast_and_general_path_put_the_same_header() {
    let mut pool = FramePool::new(1);
    let each = PerPacket { source_port: 0xc123, ..PerPacket::default() };
    let options = [0x55; 68];
    for (ends, csum) in [(V4, false), (V6, false), (V4, true)] {
        for options in [&options[..0], &options[..20], &options[..]] {
            for headroom in [usize::MAX, 70, 10] {
                let (t, config) =
                    (Tunnel { flags: if csum { 6 } else { 2 }, ..tunnel(5) }, HeaderConfig::default());
                let kind = request(Kind::Geneve, ends, &t, &config);
                let built = build(&Request { options, ..kind }).unwrap();
                let template = Template::new(&built.bytes, built.tunnel_type).unwrap();
                let mut frame = pool.frame_of(&FRAME).unwrap();
                let used = frame.headroom().saturating_sub(headroom);
                frame.push_front(used).unwrap();
                let inner = frame.bytes().to_vec();
                let outer = push_on(&template, &mut frame, &each);
                assert_eq!(
                    outer,
                    pushed(&built, &inner, &each),
                    "{ends:?} {csum} {} {headroom}",
                    options.len()
                );
            }
        }
    }
    let mut long = pool.frame_of(&vec![0; 65_530]).unwrap();
    let built = build(&request(Kind::Geneve, V4, &tunnel(5), &HeaderConfig::default())).unwrap();
    let template = Template::new(&built.bytes, built.tunnel_type).unwrap();
    assert_eq!(template.push_on(&mut long, &each), None);
}

#[test]
fn vxlan_as_on_the_wire() {
    let (t, config) = (tunnel(123), HeaderConfig::default());
    let built = build(&request(Kind::Vxlan { gbp: false }, V4, &t, &config)).unwrap();
    assert_eq!((built.bytes.len(), built.tunnel_type), (50, 4));
    let packet = pushed(&built, &FRAME, &PerPacket { source_port: 0xc000, ..PerPacket::default() });
    let want = "f8bc124434b6aa55aa55000008004500006000004000401133d8010102580101025cc00012b5004c000008000000\
                00007b00";
    assert_eq!(packet[..50], hex::parse(want).unwrap());
    let popped = pop(Kind::Vxlan { gbp: false }, &packet).unwrap();
    assert_eq!(pop_fast(Kind::Vxlan { gbp: true }, &packet).as_ref(), Some(&popped));
    assert_eq!((popped.header, popped.end, popped.packet_type), (50, 110, 0));
    let (src, dst) = (0x0101_0258, 0x0101_025c);
    let want = Tunnel { tun_id: 123, ip_src: src, ip_dst: dst, ip_ttl: 64, ..Tunnel::default() };
    assert_eq!(popped.tunnel, Tunnel { tp_src: 0xc000, tp_dst: 4789, flags: 2 | 8, ..want });
}

#[test]
fn each_kind_is_read_back_as_it_was_written() {
    let kinds = [
        (Kind::Vxlan { gbp: true }, 0x7fff_ffff_u64 >> 8),
        (Kind::Geneve, 5),
        (Kind::Gre, 0xffff_ffff),
        (Kind::Erspan, 0x3ff),
        (Kind::Gtpu, 7),
    ];
    let config = HeaderConfig { key: true, seq: true, ..HeaderConfig::default() };
    for (kind, key) in kinds {
        for (ends, csum) in [(V4, false), (V4, true), (V6, true)] {
            for erspan_ver in [1, 2] {
                let flags = 2 | if csum { 4 } else { 0 };
                let erspan =
                    Tunnel { erspan_ver, erspan_idx: 3, erspan_dir: 1, erspan_hwid: 0x2a, ..tunnel(key) };
                let t = Tunnel { flags, gbp_id: 0x1234, gbp_flags: 0x48, ip_tos: 0x10, ..erspan };
                let inner = [&[0x45; 1], &FRAME[..]].concat();
                let packet_type = if kind == Kind::Gtpu { 0x1_0800 } else { 0 };
                let built = build(&Request { packet_type, ..request(kind, ends, &t, &config) }).unwrap();
                let each = PerPacket { source_port: 40_000, seq: 0x0102_0304, timestamp: 9, hash: 0 };
                let packet = pushed(&built, &inner, &each);
                let popped = pop(kind, &packet).unwrap_or_else(|e| panic!("{kind:?} {ends:?}: {e:?}"));
                assert_eq!(packet[popped.header..popped.end], inner, "{kind:?}");
                assert_eq!((popped.tunnel.tun_id, popped.packet_type), (key, packet_type), "{kind:?}");
                assert_eq!((popped.tunnel.ip_tos, popped.tunnel.ip_ttl), (0x10, 64));
                if kind == Kind::Erspan {
                    let e = &popped.tunnel;
                    assert_eq!(e.erspan_ver, erspan_ver);
                    assert_eq!((e.erspan_idx, e.erspan_dir), if erspan_ver == 1 { (3, 0) } else { (0, 1) });
                }
                if kind == (Kind::Vxlan { gbp: true }) {
                    assert_eq!((popped.tunnel.gbp_id, popped.tunnel.gbp_flags), (0x1234, 0x48));
                    assert_eq!(pop(Kind::Vxlan { gbp: false }, &packet), Err(PopError::Flags));
                }
            }
        }
    }
}

#[test]
fn geneve_options_are_read_back_and_checked() {
    let (t, config) = (tunnel(5), HeaderConfig::default());
    let options = [0xff, 0xff, 0x80, 1, 0, 0, 0, 0xa, 0, 1, 2, 0];
    let request = Request { options: &options, dst_port: 6081, ..request(Kind::Geneve, V4, &t, &config) };
    let built = build(&request).unwrap();
    assert_eq!(built.bytes[43], 0x40, "a critical option");
    let mut packet = pushed(&built, &FRAME, &PerPacket::default());
    assert_eq!(pop(Kind::Geneve, &packet).unwrap().options, options);
    packet[50 + 3] = 2;
    assert_eq!(
        pop(Kind::Geneve, &packet).map(|p| p.header),
        Ok(62),
        "the second option is a part of the first"
    );
    packet[50 + 3] = 3;
    assert_eq!(pop(Kind::Geneve, &packet), Err(PopError::Options));
    let long = [0; 256];
    assert_eq!(build(&Request { options: &long, ..request }), Err(BuildError::Options));
}

#[test]
fn srv6_lists_its_segments_in_reverse() {
    let t = tunnel(0);
    let segments: Vec<_> = ["2001:cafe::92", "2001:cafe::93"].map(|a| a.parse().unwrap()).into();
    let config = HeaderConfig { segments, flow_label: FlowLabel::Compute, ..HeaderConfig::default() };
    let request = Request { packet_type: 0x1_0800, ..request(Kind::Srv6, V6, &t, &config) };
    let built = build(&request).unwrap();
    assert_eq!((built.bytes.len(), built.bytes[17], built.tunnel_type), (94, 2, 112));
    assert_eq!(built.bytes[54..62], [4, 4, 4, 1, 1, 0, 0, 0]);
    assert_eq!((built.bytes[77], built.bytes[93]), (0x93, 0x92));
    let mut packet = pushed(&built, &[0x45; 40], &PerPacket { hash: 0x1_2345, ..PerPacket::default() });
    assert_eq!(packet[15..18], [0x01, 0x23, 0x45]);
    assert_eq!(pop(Kind::Srv6, &packet), Err(PopError::Segments));
    packet[57] = 0;
    assert_eq!(pop(Kind::Srv6, &packet).map(|p| (p.header, p.packet_type)), Ok((94, 0x1_0800)));
    let elsewhere = Request { dst: "2001:cafe::77".parse().unwrap(), ..request };
    assert_eq!(build(&elsewhere), Err(BuildError::Segments));
    assert_eq!(build(&Request { dl_type: 0x0806, ..request }), Err(BuildError::PacketType));
    assert_eq!(build(&Request { src: V4[0].parse().unwrap(), ..request }), Err(BuildError::Family));
}

#[test]
fn values_that_the_header_cannot_hold_are_refused() {
    let (t, config) = (tunnel(0x400), HeaderConfig::default());
    let error = |kind, packet_type| {
        build(&Request { packet_type, ..request(kind, V4, &t, &config) }).map(|b| b.bytes.len())
    };
    assert_eq!(error(Kind::Erspan, 0), Err(BuildError::Key));
    assert_eq!(error(Kind::Vxlan { gbp: false }, 0x1_0800), Err(BuildError::PacketType));
    assert_eq!(error(Kind::Geneve, 0x1_0800), Err(BuildError::PacketType));
    assert_eq!(error(Kind::Gre, 0x1_0800), Ok(38));
    let gpe = HeaderConfig { gpe: true, ..HeaderConfig::default() };
    let next = |packet_type| {
        let request = Request { packet_type, ..request(Kind::Vxlan { gbp: false }, V4, &t, &gpe) };
        build(&request).map(|b| b.bytes[42..46].to_vec())
    };
    assert_eq!(next(0x1_0800), Ok(vec![0x0c, 0, 0, 1]));
    assert_eq!(next(0), Ok(vec![0x0c, 0, 0, 3]));
    assert_eq!(next(0x1_894f), Ok(vec![0x0c, 0, 0, 4]));
    assert_eq!(next(0x1_8847), Err(BuildError::PacketType));
}

#[test]
fn invalid_headers_have_reasons() {
    let (t, config) = (tunnel(1), HeaderConfig::default());
    let built = build(&request(Kind::Vxlan { gbp: false }, V4, &t, &config)).unwrap();
    let good = pushed(&built, &FRAME, &PerPacket::default());
    let vxlan = Kind::Vxlan { gbp: false };
    let with = |at: usize, value: u8| {
        let mut packet = good.clone();
        packet[at] = value;
        // Correct the header's checksum.
        packet[24..26].fill(0);
        let sum = packet::checksum::checksum(&packet[14..34]);
        packet[24..26].copy_from_slice(&sum.to_be_bytes());
        pop(vxlan, &packet).map(|p| p.header)
    };
    assert_eq!(with(15, 0), Ok(50));
    assert_eq!(with(12, 0x09), Err(PopError::NotIp));
    assert_eq!(with(14, 0x55), Err(PopError::Version));
    assert_eq!(with(16, 0xff), Err(PopError::Short));
    assert_eq!(with(20, 0x20), Err(PopError::Fragment));
    assert_eq!(with(23, 6), Err(PopError::Protocol));
    assert_eq!(with(41, 7), Err(PopError::Checksum));
    assert_eq!(with(42, 0x88), Err(PopError::Flags));
    assert_eq!(with(42, 0x0c), Err(PopError::InnerPacketType));
    assert_eq!(with(49, 1), Err(PopError::Flags));
    let mut wrong = good.clone();
    wrong[24] ^= 1;
    assert_eq!(pop(vxlan, &wrong), Err(PopError::Checksum));
    // Options are covered by the checksum.
    let mut options = good.clone();
    (options[14], options[24], options[25]) = (0x46, 0, 0);
    let sum = packet::checksum::checksum(&options[14..38]);
    options[24..26].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(pop(vxlan, &options), Err(PopError::IpOptions));
    // The padding of a short frame is not part of the packet.
    let request = Request { packet_type: 0x1_0800, ..request(Kind::Gre, V4, &t, &config) };
    let short = pushed(&build(&request).unwrap(), &[0x45; 20], &PerPacket::default());
    let padded = [&short[..], &[0; 2]].concat();
    assert_eq!((short.len(), pop(Kind::Gre, &padded).map(|p| p.end)), (58, Ok(58)));
}

/// A checksum that the device has reported is not verified, and only verified checksums count as verified.
#[test]
fn checksums_are_counted() {
    use packet::rx_checksums::RxChecksum;
    let kind = Kind::Vxlan { gbp: false };
    let (t, config) = (Tunnel { flags: wire::flag::CSUM, ..tunnel(1) }, HeaderConfig::default());
    let good = pushed(&build(&request(kind, V4, &t, &config)).unwrap(), &FRAME, &PerPacket::default());
    let (mut wrong_ip, mut wrong_udp) = (good.clone(), good.clone());
    wrong_ip[24] ^= 1;
    wrong_udp[40] ^= 1;
    let (none, bad, right) = (RxChecksum::Unknown, RxChecksum::Wrong, RxChecksum::Right(0));
    for (frame, stated, refused, counts) in [
        (&good, [none, none], false, [1, 0, 1, 0]),
        (&wrong_ip, [none, none], true, [1, 1, 0, 0]),
        (&wrong_udp, [none, none], true, [1, 0, 1, 1]),
        (&good, [bad, none], true, [0, 1, 0, 0]),
        (&good, [none, bad], true, [1, 0, 0, 1]),
        (&wrong_ip, [right, none], false, [0, 0, 1, 0]),
        (&wrong_udp, [RxChecksum::Unfinished, RxChecksum::Unfinished], false, [0, 0, 0, 0]),
    ] {
        let mut checks = ChecksumCounts::default();
        let popped = pop_counted(kind, frame, stated, &mut checks);
        let ChecksumCounts { ip, ip_wrong, udp, udp_wrong } = checks;
        assert_eq!((popped.is_err(), [ip, ip_wrong, udp, udp_wrong]), (refused, counts), "{stated:?}");
    }
}

/// For every header that the fast path reads, its result is that of `pop`: over IPv4 and IPv6, with and without a checksum and options,
/// and with any bit changed.
#[test]
fn fast_path_reads_as_pop_does() {
    let options = [&[][..], &[1, 2, 0x80, 1, 0, 1, 0, 4], &[1, 2, 3, 0, 1, 2, 4, 2, 0, 1, 2, 3, 4, 5, 6, 7]];
    for (ends, csum) in [(V4, false), (V4, true), (V6, false), (V6, true)] {
        for (kind, options) in options
            .map(|options| (Kind::Geneve, options))
            .into_iter()
            .chain([(Kind::Vxlan { gbp: false }, &[][..])])
        {
            let (t, config) =
                (Tunnel { flags: if csum { 6 } else { 2 }, ..tunnel(5) }, HeaderConfig::default());
            let built = build(&Request { options, ..request(kind, ends, &t, &config) }).unwrap();
            let each = PerPacket { source_port: 0xc123, ..PerPacket::default() };
            let good = pushed(&built, &FRAME, &each);
            assert_eq!(pop_fast(kind, &good), pop(kind, &good).ok(), "{kind:?} {ends:?} {csum}");
            assert_eq!(pop(kind, &good).map(|popped| popped.options), Ok(options));
            for bit in 12 * 8..good.len() * 8 {
                let mut wrong = good.clone();
                wrong[bit / 8] ^= 1 << (bit % 8);
                if let Some(popped) = pop_fast(kind, &wrong) {
                    assert_eq!(pop(kind, &wrong), Ok(popped), "{kind:?} {ends:?} {csum}, bit {bit}");
                }
            }
            for len in 0..good.len() {
                let popped = pop(kind, &good[..len]).ok();
                let same = |fast: Popped<'_>| {
                    popped.is_some_and(|p| (p.tunnel, p.options) == (fast.tunnel, fast.options))
                };
                assert!(pop_fast(kind, &good[..len]).is_none_or(same));
            }
        }
    }
}

/// Sets total length and checksum of the IPv4 header of a frame without tags and options.
fn finish_ipv4(frame: &mut [u8]) {
    let total = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    frame[24..26].fill(0);
    let sum = packet::checksum::checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn extension_headers_of_gtp_u_are_skipped() {
    // A PDU session container (type 0x85, one word), then one of two words.
    let extensions = [0x85, 1, 0x10, 9, 0x20, 2, 1, 2, 3, 4, 5, 6, 0];
    let config = HeaderConfig { key: true, seq: true, ..HeaderConfig::default() };
    let t = tunnel(7);
    let request = Request { packet_type: 0x1_0800, ..request(Kind::Gtpu, V4, &t, &config) };
    let built = build(&request).unwrap();
    const MESSAGE: usize = 14 + 20 + 8;
    let with = |flags: u8, optional: &[u8]| {
        let mut packet = pushed(&built, &[&[0x45; 1], &FRAME[..]].concat(), &PerPacket::default());
        packet.splice(MESSAGE + 11..MESSAGE + 12, optional.iter().copied());
        packet[MESSAGE] = 0x30 | flags;
        let udp_len = (packet.len() - 14 - 20) as u16;
        packet[38..40].copy_from_slice(&udp_len.to_be_bytes());
        finish_ipv4(&mut packet);
        packet
    };
    let header = |packet: &[u8]| pop(Kind::Gtpu, packet).map(|popped| popped.header - MESSAGE);
    assert_eq!(header(&with(0x04, &extensions)), Ok(8 + 4 + 4 + 8));
    assert_eq!(header(&with(0x06, &[0])), Ok(8 + 4));
    for flags in [0x01, 0x02, 0x03] {
        assert_eq!(header(&with(flags, &[0])), Ok(8 + 4), "{flags}");
    }
    assert_eq!(header(&with(0x04, &[0x85, 0, 0, 0, 0])), Err(PopError::Options));
    assert_eq!(header(&with(0x04, &[0x85, 255, 0, 0, 0])), Err(PopError::Short));
}

/// The first extension header is the one that Linux adds by default: destination options with the encapsulation limit (RFC 2473 §4.1.1).
#[test]
fn extension_headers_of_ipv6_are_skipped() {
    const PAYLOAD: usize = 14 + 40;
    let (t, config) =
        (Tunnel { flags: 0, ..tunnel(7) }, HeaderConfig { key: true, ..HeaderConfig::default() });
    for kind in [Kind::Gre, Kind::Vxlan { gbp: false }] {
        let built = build(&request(kind, V6, &t, &config)).unwrap();
        let plain = pushed(&built, &FRAME, &PerPacket::default());
        let header = pop(kind, &plain).unwrap().header;
        let with = |first: u8, extension: [u8; 8]| {
            let mut packet = plain.clone();
            let next = std::mem::replace(&mut packet[20], first);
            packet.splice(PAYLOAD..PAYLOAD, extension);
            packet[PAYLOAD] = next;
            let length = (packet.len() - PAYLOAD) as u16;
            packet[18..20].copy_from_slice(&length.to_be_bytes());
            packet
        };
        let popped = |packet: &[u8]| pop(kind, packet).map(|popped| (popped.header, popped.tunnel.tun_id));
        assert_eq!(popped(&with(60, [0, 0, 4, 1, 4, 1, 0, 0])), Ok((header + 8, 7)));
        // A fragment that is the whole packet (RFC 6946), and a first fragment.
        assert_eq!(popped(&with(44, [0; 8])), Ok((header + 8, 7)));
        assert_eq!(popped(&with(44, [0, 0, 0, 1, 0, 0, 0, 0])), Err(PopError::Fragment));
        assert_eq!(popped(&with(60, [0, 255, 0, 0, 0, 0, 0, 0])), Err(PopError::Short));
        assert_eq!(pop_fast(kind, &with(60, [0, 0, 4, 1, 4, 1, 0, 0])), None);
    }
}

fn any_kind() -> impl Strategy<Value = Kind> {
    let kinds = [Kind::Geneve, Kind::Gre, Kind::Erspan, Kind::Gtpu, Kind::Srv6];
    let vxlan = [true, false].map(|gbp| Kind::Vxlan { gbp });
    prop::sample::select([&kinds[..], &vxlan[..]].concat())
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(kind in any_kind(), bytes in prop::collection::vec(any::<u8>(), 0..200), v6: bool) {
        let mut frame = bytes;
        let start: &[u8] = if v6 { &[0x86, 0xdd, 0x60] } else { &[0x08, 0x00, 0x45] };
        if let Some(place) = frame.get_mut(12..15) {
            place.copy_from_slice(start);
        }
        if !v6 && frame.len() >= 34 {
            frame[20..22].fill(0);
            frame[23] = if kind.is_udp() { 17 } else { 47 };
            finish_ipv4(&mut frame);
        }
        if let Some(popped) = pop_fast(kind, &frame) {
            prop_assert_eq!(pop(kind, &frame), Ok(popped));
        }
        if let Ok(popped) = pop(kind, &frame) {
            prop_assert!(popped.header <= popped.end && popped.end <= frame.len());
        }
        for number in [3, 4, 5, 107, 110, 112] {
            if let Some(template) = Template::new(&frame, number) {
                let mut packet = vec![0; frame.len() + 20];
                prop_assert_eq!(template.write(&mut packet, &PerPacket::default()), Some(()));
            }
        }
    }
}
