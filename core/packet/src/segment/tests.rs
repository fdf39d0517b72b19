//! Segmentation compared with a sender that does not use offloads.

use super::*;
use crate::checksum::{add, finish};
use crate::offload::{Gso, Offload, PartialChecksum};
use proptest::prelude::*;

/// Ethernet, one VLAN tag if asked, IPv4, TCP, `payload` bytes.
fn tcp(tagged: bool, payload: usize) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    if tagged {
        f.extend([0x81, 0, 0, 9]);
    }
    f.extend([8, 0]);
    f.extend([0x45, 0]);
    f.extend(((40 + payload).min(65535) as u16).to_be_bytes());
    f.extend([0, 7, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    f.extend([0, 80, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0x50, 0x99, 1, 0, 0, 0, 0, 0]);
    f.extend((0..payload).map(|i| i as u8));
    f
}

fn checksums_hold(f: &[u8]) {
    let l = layout(f).unwrap();
    assert_eq!(fold(sum(&f[l.l3..l.l4], 0)), 0xffff, "ip");
    let total = pseudo_header(f, &l, f.len() - l.l4).unwrap();
    assert_eq!(fold(sum(&f[l.l4..], total)), 0xffff, "tcp");
    assert_eq!(usize::from(be16(f, l.l3 + 2).unwrap()), f.len() - l.l3);
}

#[test]
fn segments_are_whole_packets() {
    for tagged in [false, true] {
        let frame = tcp(tagged, 2501);
        let mut parts = Vec::new();
        assert_eq!(segment(&frame, &layout(&frame).unwrap(), 1000, |s| parts.push(s.to_vec())), Some(3));
        let l4 = layout(&frame).unwrap().l4;
        let mut payload: Vec<u8> = Vec::new();
        for (i, part) in parts.iter().enumerate() {
            checksums_hold(part);
            assert_eq!(part[l4 + 6..l4 + 8], ((0x100 + 1000 * i as u16).to_be_bytes()));
            payload.extend(&part[l4 + 20..]);
        }
        assert_eq!(payload, frame[l4 + 20..]);
        let flags: Vec<u8> = parts.iter().map(|p| p[l4 + 13]).collect();
        assert_eq!(flags, [0x90, 0x10, 0x19]);
    }
}

#[test]
fn partial_then_complete_is_right() {
    let mut frame = tcp(false, 77);
    let (start, offset) = make_partial_checksum(&mut frame).unwrap();
    assert_eq!((start, offset), (34, 16));
    finish_checksum(&mut frame, start, offset).unwrap();
    let l = layout(&frame).unwrap();
    let total = pseudo_header(&frame, &l, frame.len() - l.l4).unwrap();
    assert_eq!(fold(sum(&frame[l.l4..], total)), 0xffff);
}

#[test]
fn the_sctp_checksum_is_a_crc() {
    let mut frame = vec![0; 34];
    frame.extend([0x12, 0x34, 0, 80, 1, 2, 3, 4, 9, 9, 9, 9, 6, 0, 0, 4]);
    finish_checksum(&mut frame, 34, 8).unwrap();
    let told = u32::from_le_bytes([frame[42], frame[43], frame[44], frame[45]]);
    frame[42..46].fill(0);
    assert_eq!(told, cpu::crc32c(&frame[34..]));
    assert_eq!(finish_checksum(&mut frame[..45], 34, 8), None);
}

#[test]
fn a_partial_checksum_is_found_by_its_value() {
    for tagged in [false, true] {
        let mut frame = tcp(tagged, 77);
        let note = make_partial_checksum(&mut frame).unwrap();
        assert_eq!(find_partial_checksum(&frame), Some(note));
        let mut padded = frame.clone();
        padded.push(1);
        assert_eq!(find_partial_checksum(&padded), None);
        finish_checksum(&mut frame, note.0, note.1).unwrap();
        assert_eq!(find_partial_checksum(&frame), None);
    }
}

/// A frame to be segmented, field by field.
#[derive(Debug)]
struct Sent {
    /// UDP, which has neither options nor sequence number nor flags; otherwise TCP.
    udp: bool,
    v6: bool,
    tags: Vec<u16>,
    ip_options: usize,
    tcp_options: usize,
    id: u16,
    sequence: u32,
    flags: u8,
    payload: Vec<u8>,
}

impl Sent {
    /// The packet on the wire for a part of the payload, written from the RFCs without using the tested module.
    fn packet(&self, id: u16, sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut transport = self.transport(sequence, flags, payload);
        let (protocol, at) = if self.udp { (17, 6) } else { (6, 16) };
        let addresses: Vec<u8> = (1..).take(if self.v6 { 32 } else { 8 }).collect();
        let len = transport.len() as u32;
        let pseudo = add(add(add(0, &addresses), &len.to_be_bytes()), &[0, protocol]);
        let sum = finish(add(pseudo, &transport));
        // RFC 1624: the two zeros are one number; senders write 0xffff.
        transport[at..at + 2].copy_from_slice(&if sum == 0 { 0xffff } else { sum }.to_be_bytes());
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for tag in &self.tags {
            frame.extend([0x81, 0]);
            frame.extend(tag.to_be_bytes());
        }
        if self.v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((transport.len() as u16).to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend(addresses);
        } else {
            let header = 20 + self.ip_options;
            let mut ip = vec![0x40 | (header / 4) as u8, 0x2c];
            ip.extend(((header + transport.len()) as u16).to_be_bytes());
            ip.extend(id.to_be_bytes());
            ip.extend([0x40, 0, 64, protocol, 0, 0]);
            ip.extend(addresses);
            ip.extend(vec![1; self.ip_options]);
            let sum = finish(add(0, &ip));
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            frame.extend([8, 0]);
            frame.extend(ip);
        }
        frame.extend(transport);
        frame
    }

    /// The transport header without checksum, and the payload.
    fn transport(&self, sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![0x12, 0x34, 0, 80];
        if self.udp {
            out.extend((8 + payload.len() as u16).to_be_bytes());
            out.extend([0, 0]);
        } else {
            out.extend(sequence.to_be_bytes());
            out.extend([9, 8, 7, 6, (((20 + self.tcp_options) / 4) << 4) as u8, flags, 0xff, 0, 0, 0, 0, 0]);
            out.extend(vec![1; self.tcp_options]);
        }
        out.extend(payload);
        out
    }

    /// The packets of a sender without offloads: full segments, the rest in the last one.
    fn cut(&self, mss: usize) -> Vec<Vec<u8>> {
        let n = self.payload.len().div_ceil(mss);
        let one = |i: usize| {
            let part = &self.payload[i * mss..self.payload.len().min((i + 1) * mss)];
            let not_first = if i > 0 { 0x80 } else { 0 };
            let not_last = if i + 1 < n { 0x09 } else { 0 };
            let sequence = self.sequence.wrapping_add((i * mss) as u32);
            self.packet(self.id.wrapping_add(i as u16), sequence, self.flags & !not_first & !not_last, part)
        };
        (0..n).map(one).collect()
    }
}

prop_compose! {
    fn sent()(udp: bool, v6: bool, tags in proptest::collection::vec(any::<u16>(), 0..3), ip_options in 0usize..11,
              tcp_options in 0usize..11, id: u16, sequence: u32, flags: u8,
              payload in proptest::collection::vec(any::<u8>(), 1..3000)) -> Sent {
        let (ip_options, tcp_options) = (ip_options * 4, tcp_options * 4);
        Sent { udp, v6, tags, ip_options, tcp_options, id, sequence, flags, payload }
    }
}

proptest! {
    #[test]
    fn segments_are_what_a_sender_without_offload_sends(sent in sent(), mss in 32usize..1500) {
        let mut whole = sent.packet(sent.id, sent.sequence, sent.flags, &sent.payload);
        let (start, offset) = make_partial_checksum(&mut whole).unwrap();
        let kind = GsoKind::of(if sent.udp { 17 } else { 6 }, sent.v6).unwrap();
        let note = Offload {
            csum: Some(PartialChecksum { start, offset }),
            gso: Some(Gso { kind, size: mss as u16, ecn: !sent.udp && sent.flags & CWR != 0 }),
        };
        prop_assert!(note.fits(&whole));
        let longest = note.longest_segment(&whole);
        let mut cut = Vec::new();
        prop_assert!(note.finish(&mut whole, |packet| cut.push(packet.to_vec())).is_some());
        prop_assert_eq!(cut.iter().map(Vec::len).max(), Some(longest));
        prop_assert_eq!(cut, sent.cut(mss));
    }

    #[test]
    fn no_frame_causes_a_panic(mut f in proptest::collection::vec(any::<u8>(), 0..120), a: u16, b: u16, mss in 0u16..90) {
        let _ = layout(&f).and_then(|l| segment(&f, &l, mss, |_| {}));
        let _ = find_partial_checksum(&f);
        let _ = make_partial_checksum(&mut f);
        let _ = finish_checksum(&mut f, a, b);
    }

    #[test]
    fn damaged_tcp_is_survived(payload in 0usize..90, at in 0usize..60, byte: u8, mss in 1u16..50) {
        let mut f = tcp(true, payload);
        let len = f.len();
        f[at % len] = byte;
        let _ = layout(&f).and_then(|l| segment(&f, &l, mss, |_| {}));
        let _ = make_partial_checksum(&mut f);
    }
}
