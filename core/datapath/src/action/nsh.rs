//! The network service header (RFC 8300), which precedes an Ethernet frame or a layer 3 packet.

use crate::packet::Packet;
use dpif::Masked;
use flow::Nsh;
use packet::ether::ethertype;
use packet::nsh::next;

const PACKET_TYPE: u32 = 1 << 16 | ethertype::NSH as u32;

/// Returns the protocol number of a header's payload; `None` if NSH has no number for this packet type.
fn next_of(packet_type: u32) -> Option<u8> {
    match (packet_type >> 16, packet_type as u16) {
        (0, 0) => Some(next::ETHERNET),
        (1, ethertype::IPV4) => Some(next::IPV4),
        (1, ethertype::IPV6) => Some(next::IPV6),
        (1, ethertype::NSH) => Some(next::NSH),
        _ => None,
    }
}

fn packet_type_of(next_protocol: u8) -> Option<u32> {
    let layer_3 = |dl_type: u16| 1 << 16 | u32::from(dl_type);
    match next_protocol {
        next::ETHERNET => Some(0),
        next::IPV4 => Some(layer_3(ethertype::IPV4)),
        next::IPV6 => Some(layer_3(ethertype::IPV6)),
        next::NSH => Some(PACKET_TYPE),
        _ => None,
    }
}

/// Pushes a prepared header and sets its next protocol. Returns `None` if there is not enough headroom.
pub fn push(p: &mut Packet, header: &[u8]) -> Option<()> {
    let Some(next_protocol) = next_of(p.meta.packet_type) else { return Some(()) };
    let room = p.frame.push_front(header.len())?;
    room.copy_from_slice(header);
    room[3] = next_protocol;
    p.meta.packet_type = PACKET_TYPE;
    p.offsets = None;
    Some(())
}

/// Removes the header. Returns `None` if the header is invalid, or its payload has an unsupported type.
pub fn pop(p: &mut Packet) -> Option<()> {
    if p.meta.packet_type != PACKET_TYPE {
        return Some(());
    }
    let (nsh, ..) = packet::nsh::Nsh::parse_checked(p.frame.bytes())?;
    let (len, packet_type) = (nsh.header_len(), packet_type_of(nsh.next_protocol())?);
    p.frame.pull_front(len)?;
    p.meta.packet_type = packet_type;
    p.offsets = None;
    Some(())
}

/// Writes bits of flags, TTL, path, and of the context header of MD type 1.
pub fn set(p: &mut Packet, m: &Masked<Nsh>) {
    let offsets = p.offsets();
    if offsets.dl_type != ethertype::NSH {
        return;
    }
    let Some(bytes) = p.frame.bytes_mut().get_mut(usize::from(offsets.l3)..) else { return };
    let Some(old) = Nsh::parse(bytes) else { return };
    let merge = |old: u32, value: u32, mask: u32| old & !mask | value & mask;
    let merge8 = |old: u8, value: u8, mask: u8| old & !mask | value & mask;
    let (value, mask) = (&m.value, &m.mask);
    let new = Nsh {
        flags: merge8(old.flags, value.flags, mask.flags),
        ttl: merge8(old.ttl, value.ttl, mask.ttl),
        path: merge(old.path, value.path, mask.path),
        context: std::array::from_fn(|i| merge(old.context[i], value.context[i], mask.context[i])),
        ..old
    };
    new.write(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::tests::packet;
    use crate::action::{ether, mpls};
    use flow::compose::compose;
    use flow::{Flow, Mac};
    use proptest::prelude::*;

    fn frame() -> Vec<u8> {
        let f = Flow { dl_type: 0x800, nw_proto: 17, nw_src: 1, tp_dst: 53, nw_ttl: 9, ..Flow::ZERO };
        compose(&f, b"payload")
    }

    fn header(md_type: u8, path: u32) -> Vec<u8> {
        Nsh { md_type, path, ..Nsh::NEW }.header(&[5; 244]).unwrap()
    }

    #[test]
    fn headers_in_headers_come_off_as_they_went_on() {
        let mut p = packet(&frame());
        push(&mut p, &header(1, 7)).unwrap();
        assert_eq!((p.meta.packet_type, p.flow().nsh.np, p.flow().nsh.path), (PACKET_TYPE, 3, 7));
        push(&mut p, &header(2, 8)).unwrap();
        assert_eq!((p.flow().nsh.np, p.flow().nsh.path, p.flow().nsh.md_type), (4, 8, 2));
        ether::push(&mut p, Mac([2; 6]), Mac([4; 6])).unwrap();
        assert_eq!((p.flow().dl_type, p.flow().nsh.path, p.flow().dl_dst), (0x894f, 8, Mac([2; 6])));
        pop(&mut p).unwrap();
        assert_eq!(p.meta.packet_type, 0, "behind Ethernet it is not the packet's header");
        ether::pop(&mut p);
        pop(&mut p).unwrap();
        assert_eq!(p.flow().nsh.path, 7);
        pop(&mut p).unwrap();
        assert_eq!((p.frame.bytes(), p.meta.packet_type), (&frame()[..], 0));
    }

    #[test]
    fn a_packet_without_ethernet_comes_out_without() {
        let mut p = packet(&frame());
        ether::pop(&mut p);
        push(&mut p, &header(1, 7)).unwrap();
        assert_eq!(p.flow().nsh.np, next::IPV4);
        pop(&mut p).unwrap();
        assert_eq!((p.frame.bytes(), p.meta.packet_type), (&frame()[14..], 0x1_0800));
        mpls::add(&mut p, 0x8847, 0x140).unwrap();
        let before = p.frame.bytes().to_vec();
        push(&mut p, &header(1, 7)).unwrap();
        assert_eq!(p.frame.bytes(), before, "no number stands for MPLS");
    }

    #[test]
    fn a_frame_behind_labels() {
        let mut p = packet(&frame());
        mpls::add(&mut p, 0x8847, 0x0000_2140).unwrap();
        mpls::add(&mut p, 0x8848, 0x0000_3040).unwrap();
        assert_eq!((p.flow().packet_type, p.flow().mpls_lse), (0x1_8848, [0x3040, 0x2140, 0]));
        mpls::pop(&mut p, 0x8847);
        mpls::pop(&mut p, ethertype::TEB);
        assert_eq!((p.frame.bytes(), p.meta.packet_type), (&frame()[..], 0));
    }

    #[test]
    fn what_no_packet_is_does_not_come_out() {
        let mut bytes = header(1, 7);
        for next_protocol in [0, 5, 0xff] {
            bytes[3] = next_protocol;
            let mut p = packet(&bytes);
            p.meta.packet_type = PACKET_TYPE;
            assert_eq!(pop(&mut p), None);
        }
    }

    #[test]
    fn bits_of_a_header_are_written() {
        let mut p = packet(&frame());
        push(&mut p, &header(1, 0x1234_56ff)).unwrap();
        let value = Nsh { flags: 2, ttl: 5, path: 0xfe, context: [0, 0, 0x7700, 0], md_type: 9, np: 9 };
        let context = [0, 0, 0xff00, 0];
        let mask = Nsh { flags: 0xff, ttl: 0xff, path: 0xff, context, md_type: 0, np: 0 };
        set(&mut p, &Masked::new(value, mask));
        let want = Nsh { path: 0x1234_56fe, md_type: 1, np: next::ETHERNET, ..value };
        assert_eq!(p.flow().nsh, want);
        pop(&mut p).unwrap();
        assert_eq!(p.frame.bytes(), frame());
    }

    proptest! {
        #[test]
        fn whatever_stands_there_nothing_breaks(bytes in prop::collection::vec(any::<u8>(), 0..60), first in 0..64u8,
                                                md_type in 0..4u8, ethernet: bool, mask: u8) {
            let mut bytes = bytes;
            let at = if ethernet { 14 } else { 0 };
            if bytes.len() > at + 3 {
                (bytes[at], bytes[at + 1], bytes[at + 2]) = (0, first, md_type);
            }
            if ethernet && bytes.len() > 13 {
                bytes[12..14].copy_from_slice(&ethertype::NSH.to_be_bytes());
            }
            let mut p = packet(&bytes);
            p.meta.packet_type = if ethernet { 0 } else { PACKET_TYPE };
            let all = Nsh { flags: mask, ttl: mask, md_type: mask, np: mask, path: mask.into(), context: [7; 4] };
            set(&mut p, &Masked::new(all, all));
            prop_assert_eq!(p.frame.len(), bytes.len());
            p.flow();
            let _ = pop(&mut p);
            ether::pop(&mut p);
            p.flow();
            let _ = pop(&mut p);
            mpls::pop(&mut p, ethertype::TEB);
            p.flow();
        }
    }
}
