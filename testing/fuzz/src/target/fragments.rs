//! Fragments: for any packets in any order, each byte of a complete datagram comes from one fragment, and the number
//! of waiting fragments is bounded.

use packet::ether::ethertype;
use reassembly::{AddResult, Family, Origin, PacketKind, Reassembly, read};
use units::Millis;

/// Number of bytes before a packet: options, the packet's length, and the pause before it.
const HEAD: usize = 3;
const STEPS_MAX: usize = 200;
const MAX: u32 = 40;

pub fn run(data: &[u8]) {
    let all: Reassembly<Vec<u8>> = Reassembly::new(1);
    all.set_max_fragments(MAX);
    for family in [Family::V4, Family::V6] {
        assert!(all.set_min_size(family, 400) && !all.set_min_size(family, 399));
    }
    let (mut rest, mut now, mut held) = (data, Millis(0), 0);
    for _ in 0..STEPS_MAX {
        let Some((&[option_bits, len, pause], after)) = rest.split_first_chunk::<HEAD>() else { break };
        let (bytes, after) = after.split_at(usize::from(len).min(after.len()));
        rest = after;
        now = now + Millis(u64::from(pause) * u64::from(option_bits >> 4) * 10);
        if option_bits & 4 != 0 {
            held -= all.purge(now).len();
        }
        let (dl_type, l3) = packet(option_bits, bytes);
        if let PacketKind::Fragment(_) = read(dl_type, &l3) {
            held = put(&all, (dl_type, l3), u32::from(option_bits >> 3 & 1), now, held);
        }
        assert_eq!((all.fragments() as usize, held <= MAX as usize), (held, true));
        assert!(all.dump().iter().map(|e| e.fragments).sum::<usize>() == held);
    }
    held -= all.purge(now + Millis::from_secs(60)).len();
    assert_eq!((held, all.fragments()), (0, 0), "all are over");
}

/// Returns the bytes as a packet, or a fragment with a valid header that depends on the bytes.
fn packet(option_bits: u8, bytes: &[u8]) -> (u16, Vec<u8>) {
    let dl_type = if option_bits & 1 != 0 { ethertype::IPV6 } else { ethertype::IPV4 };
    let Some(&[id, offset, more, units]) = bytes.first_chunk::<4>().filter(|_| option_bits & 2 != 0) else {
        return (dl_type, bytes.to_vec());
    };
    let payload = vec![units; usize::from(units) * 8 + usize::from(more >> 4)];
    let mut l3 = match dl_type {
        ethertype::IPV6 => {
            let mut l3 = vec![0x60, 0, 0, 0];
            l3.extend((8 + payload.len() as u16).to_be_bytes());
            l3.extend([44, 64]);
            l3.extend([id & 1; 32]);
            l3.extend([17, 0]);
            l3.extend(((u16::from(offset) * 8) | u16::from(more & 1)).to_be_bytes());
            l3.extend([0, 0, 0, id]);
            l3
        }
        _ => {
            let mut l3 = vec![0x45, 0];
            for word in [20 + payload.len() as u16, id.into(), u16::from(offset) | u16::from(more & 1) << 13]
            {
                l3.extend(word.to_be_bytes());
            }
            l3.extend([64, 17, 0, 0, 10, 0, 0, id & 1, 10, 0, 0, 2]);
            let sum = packet::checksum::checksum(&l3);
            l3[10..12].copy_from_slice(&sum.to_be_bytes());
            l3
        }
    };
    l3.extend(payload);
    (dl_type, l3)
}

/// Adds a fragment. Returns the number of waiting fragments.
fn put(
    all: &Reassembly<Vec<u8>>,
    (dl_type, l3): (u16, Vec<u8>),
    port: u32,
    now: Millis,
    held: usize,
) -> usize {
    let Some(fragment) = all.read(dl_type, &l3) else { return held };
    let mut removed = Vec::new();
    let origin = Origin { port, memory: l3.len() as u32, ..Origin::default() };
    let held = match all.add(&fragment, &origin, l3, now, &mut removed) {
        AddResult::Stored => held + 1,
        AddResult::Refused(_) => held,
        AddResult::TooLong(datagram) => held + 1 - datagram.parts.len(),
        AddResult::Complete(datagram) => {
            let places = datagram.parts.iter().map(|p| p.range_in_datagram());
            let end = places.fold(0, |at, place| {
                assert_eq!(place.start, at, "no gap and no overlap");
                place.end
            });
            let mut whole = vec![0; datagram.len()];
            assert!(datagram.write(&mut whole, |l3| l3).is_some());
            assert_eq!(read(dl_type, &whole), PacketKind::NotFragment);
            assert!(end <= whole.len());
            held + 1 - datagram.parts.len()
        }
    };
    held - removed.len()
}
