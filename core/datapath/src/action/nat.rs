//! Edits for address translation: addresses, ports and ICMP identifiers of the packet, and of the packet that is
//! quoted in an ICMP error.

use super::address::{IPV4_DST, IPV4_SRC, IPV6_DST, IPV6_SRC, write_ipv4_address, write_ipv6_address};
use super::transport::{header_and_payload, set_ports, set_sctp_ports, write_word};
use crate::packet::Packet;
use crate::port::Frame;
use conntrack::{Endpoints4, Quoted, Translation, Transport};
use dpif::{Masked, PortsKey};
use packet::checksum::{add, finish, update16, update32, update128};
use packet::frame::HEAD_WINDOW;
use packet::ip::skip_extensions;
use packet::{Icmp, Ipv4, Ipv6, Tcp, Udp, ipproto};

/// Offset of the identifier in an ICMP header.
const ICMP_ID: usize = 4;

/// Writes a translation, and updates the checksums that cover it.
pub fn write(p: &mut Packet, t: &Translation) {
    p.number = None;
    let places = if t.v6 { [IPV6_SRC, IPV6_DST] } else { [IPV4_SRC, IPV4_DST] };
    for (offset, address) in places.into_iter().zip([t.src, t.dst]) {
        match address {
            None => {}
            Some(address) if t.v6 => write_ipv6_address(p, offset, &bytes(address), &[0xff; 16]),
            Some([_, address]) => write_ipv4_address(p, offset, address as u32, u32::MAX),
        }
    }
    match t.transport {
        Transport::Same => {}
        Transport::Ports(src, dst) => ports(p, src, dst),
        Transport::Id(id) => write_word(p, ICMP_ID, id, u16::MAX),
    }
    if let Some(quoted) = &t.quoted {
        let data = header_and_payload(p);
        let before = !finish(add(0, data));
        write_quoted(data, t.v6, quoted);
        let after = !finish(add(0, data));
        if let Some(sum) = data.get_mut(2..).and_then(|d| d.first_chunk_mut::<2>()) {
            *sum = update16(u16::from_be_bytes(*sum), before, after).to_be_bytes();
        }
    }
}

/// Offset of the IPv4 addresses in a frame without tags.
const ADDRESSES_AT: usize = 26;
/// Offset of the ports in a frame without tags, after an IPv4 header without options.
const PORTS_AT: usize = 34;
/// Offset of the IPv4 checksum in a frame without tags.
const HEADER_SUM_AT: usize = 24;
/// Offset of the UDP checksum in a frame without tags, after an IPv4 header without options.
const UDP_SUM_AT: usize = 40;
/// Offset of the TCP checksum in a frame without tags, after an IPv4 header without options.
const TCP_SUM_AT: usize = 50;

/// Writes addresses and ports of a TCP or UDP packet over IPv4 without options, and updates its checksums. Returns
/// `false` and changes nothing if the frame is of another kind or has tags, or if a device reported on its checksums.
#[inline]
pub fn write_endpoints(frame: &mut Frame, endpoints: &Endpoints4) -> bool {
    let len = frame.len();
    // Start and offset of a checksum that the sender left to the receiver.
    let mut open = None;
    if frame.has_offload_state() {
        open = frame.offload().csum.map(|csum| (usize::from(csum.start), usize::from(csum.offset)));
        if open.is_none() {
            return false;
        }
    }
    let Some(head) = frame.head_window(0, PORTS_AT + Tcp::LEN) else { return false };
    let tcp = head[PROTO_AT] == ipproto::TCP;
    if head[12..15] != IPV4_WITHOUT_TAGS || len < PORTS_AT + if tcp { Tcp::LEN } else { Udp::LEN } {
        return false;
    }
    let sum_offset = if tcp { TCP_SUM_AT } else { UDP_SUM_AT } - PORTS_AT;
    if open.is_some_and(|open| open != (PORTS_AT, sum_offset)) {
        return false;
    }
    let addresses = be64(head, ADDRESSES_AT);
    let ports = (be64(head, PORTS_AT) >> 32) as u32;
    // Changes of the checksums: by the addresses only, and by addresses and ports.
    let moved = delta(addresses, endpoints.addresses);
    let both = moved + delta(ports.into(), endpoints.ports.into());
    head[ADDRESSES_AT..PORTS_AT].copy_from_slice(&endpoints.addresses.to_be_bytes());
    head[PORTS_AT..PORTS_AT + 4].copy_from_slice(&endpoints.ports.to_be_bytes());
    update_sum(head, HEADER_SUM_AT, moved);
    match tcp {
        _ if open.is_some() => update_unfinished_sum(head, PORTS_AT + sum_offset, moved),
        true => _ = update_sum(head, TCP_SUM_AT, both),
        // A UDP checksum of zero means that there is none; a computed zero is written as 0xffff (RFC 768).
        false if head[UDP_SUM_AT..UDP_SUM_AT + 2] == [0; 2] => {}
        false => {
            if update_sum(head, UDP_SUM_AT, both) == 0 {
                head[UDP_SUM_AT..UDP_SUM_AT + 2].fill(0xff);
            }
        }
    }
    true
}

/// Offset of the protocol in a frame without tags.
const PROTO_AT: usize = 23;
/// Ethernet type IPv4, version 4, header length 20.
const IPV4_WITHOUT_TAGS: [u8; 3] = [8, 0, 0x45];

#[inline(always)]
fn be64(head: &[u8; HEAD_WINDOW], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&head[at..at + 8]);
    u64::from_be_bytes(word)
}

/// Returns the change of a checksum when `new` replaces `old` (RFC 1624, equation 3), in 34 bits.
#[inline(always)]
fn delta(old: u64, new: u64) -> u64 {
    let halves = |word: u64| (word >> 32) + (word & 0xffff_ffff);
    halves(!old) + halves(new)
}

/// Updates the checksum at offset `at` by a change; returns the new checksum.
#[inline(always)]
fn update_sum(head: &mut [u8; HEAD_WINDOW], at: usize, delta: u64) -> u16 {
    let old = u16::from_be_bytes([head[at], head[at + 1]]);
    let new = fold(u64::from(!old) + delta);
    head[at..at + 2].copy_from_slice(&(!new).to_be_bytes());
    !new
}

/// Updates an unfinished checksum by a change of the addresses. Its field holds the sum of the pseudo header, not
/// complemented.
#[inline(always)]
fn update_unfinished_sum(head: &mut [u8; HEAD_WINDOW], at: usize, delta: u64) {
    let old = u16::from_be_bytes([head[at], head[at + 1]]);
    head[at..at + 2].copy_from_slice(&fold(u64::from(old) + delta).to_be_bytes());
}

/// Returns the 16-bit one's complement sum of a number below 2^40.
#[inline(always)]
fn fold(wide: u64) -> u16 {
    let narrow = |wide: u64| (wide >> 16) + (wide & 0xffff);
    narrow(narrow(narrow(wide))) as u16
}

fn bytes([high, low]: [u64; 2]) -> [u8; 16] {
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

fn ports(p: &mut Packet, src: u16, dst: u16) {
    let masked = Masked { value: PortsKey { src, dst }, mask: PortsKey { src: u16::MAX, dst: u16::MAX } };
    match p.offsets().proto {
        ipproto::SCTP => set_sctp_ports(p, &masked),
        proto => set_ports(p, proto, &masked),
    }
}

/// Writes into the packet that is quoted in an ICMP error, as far as it is quoted.
fn write_quoted(icmp: &mut [u8], v6: bool, quoted: &Quoted) {
    let Some(packet) = icmp.get_mut(Icmp::LEN..) else { return };
    let place = if v6 { place_v6(packet) } else { place_v4(packet) };
    let Some((proto, at)) = place else { return };
    let mut pseudo = Vec::new();
    if v6 {
        for (offset, address) in [(IPV6_SRC, quoted.src), (IPV6_DST, quoted.dst)] {
            let Some(old) = packet.get_mut(offset..).and_then(|b| b.first_chunk_mut::<16>()) else { return };
            let new = bytes(address);
            pseudo.push((*old, new));
            *old = new;
        }
    } else {
        for (offset, [_, address]) in [(IPV4_SRC, quoted.src), (IPV4_DST, quoted.dst)] {
            let Some(old) = packet.get_mut(offset..).and_then(|b| b.first_chunk_mut::<4>()) else { return };
            let (from, to) = (u32::from_be_bytes(*old), address as u32);
            *old = to.to_be_bytes();
            with_word(packet, 10, |sum| update32(sum, from, to));
            let wide = |a: u32| u128::from(a).to_be_bytes();
            pseudo.push((wide(from), wide(to)));
        }
    }
    let Some(transport) = packet.get_mut(at..) else { return };
    let sum_at = match proto {
        ipproto::TCP => 16,
        ipproto::UDP => 6,
        ipproto::ICMP | ipproto::ICMPV6 => 2,
        // The CRC of SCTP covers bytes that are not quoted.
        _ => usize::MAX,
    };
    let none = proto == ipproto::UDP && transport.get(6..8) == Some(&[0, 0]);
    let cover = |transport: &mut [u8], change: &dyn Fn(u16) -> u16| {
        if !none {
            with_word(transport, sum_at, change);
        }
    };
    if proto != ipproto::ICMP {
        pseudo.iter().for_each(|(from, to)| cover(transport, &|sum| update128(sum, from, to)));
    }
    let words: &[(usize, u16)] = match quoted.transport {
        Transport::Same => &[],
        Transport::Ports(src, dst) => &[(0, src), (2, dst)],
        Transport::Id(id) => &[(ICMP_ID, id)],
    };
    for &(offset, new) in words {
        let mut old = new;
        with_word(transport, offset, |word| {
            old = word;
            new
        });
        cover(transport, &|sum| update16(sum, old, new));
    }
}

/// Changes a 16-bit word, if the data contains it.
fn with_word(data: &mut [u8], at: usize, change: impl FnOnce(u16) -> u16) {
    if let Some(word) = data.get_mut(at..).and_then(|d| d.first_chunk_mut::<2>()) {
        *word = change(u16::from_be_bytes(*word)).to_be_bytes();
    }
}

/// Returns protocol and offset of the transport header of an IPv4 packet, which may be truncated.
fn place_v4(packet: &[u8]) -> Option<(u8, usize)> {
    let (ip, _) = Ipv4::parse(packet)?;
    Some((ip.proto(), ip.header_len()))
}

/// As `place_v4`, for IPv6.
fn place_v6(packet: &[u8]) -> Option<(u8, usize)> {
    let (ip, rest) = Ipv6::parse(packet)?;
    let inner = skip_extensions(ip.next_header(), rest)?;
    Some((inner.proto, packet.len() - inner.data.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::tests::packet;
    use flow::compose::compose;
    use flow::{Flow, Mac};
    use packet::offload::{Offload, PartialChecksum};
    use proptest::prelude::*;

    fn flow_of(v6: bool, proto: u8, [src, dst]: [u8; 2], [a, b]: [u16; 2]) -> Flow {
        let mut flow = Flow {
            dl_dst: Mac([2; 6]),
            dl_type: if v6 { 0x86dd } else { 0x0800 },
            nw_proto: proto,
            nw_ttl: 64,
            tp_src: a,
            tp_dst: b,
            ..Flow::ZERO
        };
        match v6 {
            true => (flow.ipv6_src, flow.ipv6_dst) = ([src; 16], [dst; 16]),
            false => {
                (flow.nw_src, flow.nw_dst) = (u32::from_be_bytes([src; 4]), u32::from_be_bytes([dst; 4]))
            }
        }
        flow
    }

    fn address(v6: bool, n: u8) -> [u64; 2] {
        let half = u64::from_be_bytes([n; 8]);
        if v6 { [half; 2] } else { [0, u64::from(u32::from_be_bytes([n; 4]))] }
    }

    /// An ICMP error that quotes the first `quoted` bytes of a packet.
    fn error(v6: bool, [src, dst]: [u8; 2], about: &Flow, quoted: usize) -> Vec<u8> {
        let (proto, echo, kind) = if v6 { (58, 128, 1) } else { (1, 8, 3) };
        let about = &compose(about, b"an odd payload.")[14..];
        let mut frame =
            compose(&flow_of(v6, proto, [src, dst], [echo, 0]), &about[..quoted.min(about.len())]);
        let at = if v6 { 54 } else { 34 };
        frame[at] = kind;
        with_word(&mut frame, at + 2, |sum| update16(sum, echo << 8, u16::from(kind) << 8));
        frame
    }

    proptest! {
        #[test]
        fn a_translated_packet_equals_a_composed_one(
            v6: bool, proto in prop::sample::select(vec![6u8, 17, 132]), endpoints: [u8; 2], ports: [u16; 2],
            to: [u8; 2], to_ports: [u16; 2], source: bool,
        ) {
            let before = flow_of(v6, proto, endpoints, ports);
            let after_endpoints = if source { [to[0], endpoints[1]] } else { [endpoints[0], to[1]] };
            let t = Translation {
                v6,
                src: source.then(|| address(v6, to[0])),
                dst: (!source).then(|| address(v6, to[1])),
                transport: Transport::Ports(to_ports[0], to_ports[1]),
                quoted: None,
            };
            let mut p = packet(&compose(&before, b"payload"));
            write(&mut p, &t);
            let after = compose(&flow_of(v6, proto, after_endpoints, to_ports), b"payload");
            // `compose` does not compute the CRC of SCTP; the tests of `set_sctp_ports` check it.
            let end = if proto == ipproto::SCTP { after.len() - b"payload".len() - 4 } else { after.len() };
            let (is, is_to_be) = (&p.frame.bytes()[..end], &after[..end]);
            // One's complement has two zeros: a changed checksum may be either.
            prop_assert!(twice_zero(is, is_to_be), "{is:02x?}\n{is_to_be:02x?}");
        }

        #[test]
        fn write_ends_equals_write(
            tcp: bool, endpoints: [u8; 2], ports: [u16; 2], to: [u8; 2], to_ports: [u16; 2], no_sum: bool,
        ) {
            let proto = if tcp { ipproto::TCP } else { ipproto::UDP };
            let [mut before, mut after] = [(endpoints, ports), (to, to_ports)]
                .map(|(endpoints, ports)| compose(&flow_of(false, proto, endpoints, ports), b"an odd payload."));
            if no_sum && !tcp {
                [&mut before, &mut after].into_iter().for_each(|bytes| bytes[UDP_SUM_AT..UDP_SUM_AT + 2].fill(0));
            }
            let [src, dst] = to.map(|n| address(false, n)[1]);
            let new = Endpoints4 { addresses: src << 32 | dst, ports: u32::from(to_ports[0]) << 16 | u32::from(to_ports[1]) };
            let mut p = packet(&before);
            prop_assert!(write_endpoints(&mut p.frame, &new));
            prop_assert!(twice_zero(p.frame.bytes(), &after), "{:02x?}\n{after:02x?}", p.frame.bytes());
            let mut tagged = before;
            tagged.splice(12..12, [0x81, 0, 0, 5]);
            let mut p = packet(&tagged);
            prop_assert!(!write_endpoints(&mut p.frame, &new) && p.frame.bytes() == tagged);
        }

        /// The sender of the packet left its checksum open.
        #[test]
        fn an_open_checksum_is_right_when_it_is_finished(tcp: bool, endpoints: [u8; 2], ports: [u16; 2], to: [u8; 2], to_ports: [u16; 2]) {
            let proto = if tcp { ipproto::TCP } else { ipproto::UDP };
            let mut before = compose(&flow_of(false, proto, endpoints, ports), b"payload");
            let (start, offset) = packet::segment::make_partial_checksum(&mut before).unwrap();
            let [src, dst] = to.map(|n| address(false, n)[1]);
            let new = Endpoints4 { addresses: src << 32 | dst, ports: u32::from(to_ports[0]) << 16 | u32::from(to_ports[1]) };
            let mut p = packet(&before);
            p.frame.set_offload(Offload { csum: Some(PartialChecksum { start, offset }), gso: None });
            prop_assert!(write_endpoints(&mut p.frame, &new));
            let offload = p.frame.offload();
            prop_assert!(offload.finish(p.frame.bytes_mut(), |_| ()).is_some());
            let after = compose(&flow_of(false, proto, to, to_ports), b"payload");
            prop_assert!(twice_zero(p.frame.bytes(), &after), "{:02x?}\n{after:02x?}", p.frame.bytes());
        }

        #[test]
        fn a_translated_error_equals_a_composed_one(
            v6: bool, proto in prop::sample::select(vec![6u8, 17]), router: u8, endpoints: [u8; 2], ports: [u16; 2],
            to: [u8; 2], to_ports: [u16; 2], quoted in 28..100usize,
        ) {
            // A half of a checksum cannot be updated.
            let quoted = (quoted & !1) + if v6 { 20 } else { 0 };
            let (about, other) = (flow_of(v6, proto, endpoints, ports), flow_of(v6, proto, to, to_ports));
            let mut p = packet(&error(v6, [router, endpoints[0]], &about, quoted));
            let t = Translation {
                v6,
                src: None,
                dst: Some(address(v6, to[0])),
                transport: Transport::Same,
                quoted: Some(Quoted {
                    src: address(v6, to[0]),
                    dst: address(v6, to[1]),
                    transport: Transport::Ports(to_ports[0], to_ports[1]),
                }),
            };
            write(&mut p, &t);
            let after = error(v6, [router, to[0]], &other, quoted);
            prop_assert!(twice_zero(p.frame.bytes(), &after), "{:02x?}\n{after:02x?}", p.frame.bytes());
        }

        #[test]
        fn an_identifier_is_changed_under_its_checksum(id: u16) {
            let mut p = packet(&compose(&flow_of(false, 1, [1, 2], [8, 0]), b"payload"));
            let t = Translation { v6: false, src: None, dst: None, transport: Transport::Id(id), quoted: None };
            write(&mut p, &t);
            let icmp = &p.frame.bytes()[34..];
            prop_assert_eq!((finish(add(0, icmp)), &icmp[4..6]), (0, &id.to_be_bytes()[..]));
        }

        #[test]
        fn only_addresses_ports_and_checksums_of_quoted_packets_change(v6: bool, mut bytes in prop::collection::vec(any::<u8>(), 0..90)) {
            let len = bytes.len();
            let transport = Transport::Ports(1, 2);
            write_quoted(&mut bytes, v6, &Quoted { src: [1, 2], dst: [3, 4], transport });
            prop_assert_eq!(bytes.len(), len);
        }
    }

    /// Returns whether `a` and `b` are equal, except for words that are 0x0000 in one and 0xffff in the other.
    fn twice_zero(a: &[u8], b: &[u8]) -> bool {
        let words = |d: &[u8]| d.chunks(2).map(<[u8]>::to_vec).collect::<Vec<_>>();
        let zero = |w: &[u8]| w == [0, 0] || w == [0xff, 0xff];
        a.len() == b.len() && words(a).iter().zip(&words(b)).all(|(a, b)| a == b || zero(a) && zero(b))
    }
}
