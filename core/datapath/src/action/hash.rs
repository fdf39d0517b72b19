//! The `hash` action: `dp_hash` from addresses, protocol and ports.
//!
//! Zero means "not hashed", so it is never the result. The symmetric hash is that of Open vSwitch, so that a select group
//! sends each connection where it went before; of the other only the distribution is promised.

use crate::packet::Packet;
use cpu::mix32;
use flow::Flow;
use packet::ip::ipproto;

/// Computes the hash of one packet.
pub fn hash(p: &mut Packet, symmetric: bool, basis: u32) {
    let flow = p.flow();
    let hash = if symmetric { both_ways(&flow, basis) } else { one_way(&flow, basis) };
    p.meta.dp_hash = hash.max(1);
}

fn one_way(f: &Flow, basis: u32) -> u32 {
    let ends = |port: u16, v4: u32, v6: &[u8; 16]| {
        let words = v6.as_chunks::<4>().0.iter().map(|w| u32::from_be_bytes(*w));
        let hash = words.fold(mix32(basis, v4), mix32);
        mix32(hash, u32::from(port))
    };
    let src = ends(f.tp_src, f.nw_src, &f.ipv6_src);
    let dst = ends(f.tp_dst, f.nw_dst, &f.ipv6_dst);
    mix32(mix32(src, dst), u32::from(f.nw_proto) << 16 | u32::from(f.dl_type))
}

/// Each pair of fields is one field, their difference; UDP's ports are left out, as they need not come in pairs.
fn both_ways(f: &Flow, basis: u32) -> u32 {
    let mut fields = [0; 32];
    if f.dl_type == 0x0800 {
        fields[..4].copy_from_slice(&(f.nw_src ^ f.nw_dst).to_be_bytes());
    } else if f.dl_type == 0x86dd {
        let both = u128::from_be_bytes(f.ipv6_src) ^ u128::from_be_bytes(f.ipv6_dst);
        fields[..16].copy_from_slice(&both.to_be_bytes());
    }
    let vids = f.vlans.iter().fold(0, |x, tag| x ^ tag.tci & 0xfff);
    fields[16..18].copy_from_slice(&f.dl_type.to_be_bytes());
    fields[18..20].copy_from_slice(&vids.to_be_bytes());
    let macs = f.dl_src.to_u64() ^ f.dl_dst.to_u64();
    fields[22..28].copy_from_slice(&macs.to_be_bytes()[2..]);
    if f.is_ip() {
        fields[28] = f.nw_proto;
        if matches!(f.nw_proto, ipproto::TCP | ipproto::SCTP) {
            fields[20..22].copy_from_slice(&(f.tp_src ^ f.tp_dst).to_be_bytes());
        }
    }
    jenkins(&fields, basis)
}

/// Bob Jenkins's hash of bytes (lookup3, 2006, public domain); where nothing is left over the last round is left out.
fn jenkins(bytes: &[u8], basis: u32) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32).wrapping_add(basis);
    let mut state = [start; 3];
    let add = |state: &mut [u32; 3], bytes: &[u8]| {
        for (word, part) in state.iter_mut().zip(bytes.chunks(4)) {
            let mut four = [0; 4];
            four[..part.len()].copy_from_slice(part);
            *word = word.wrapping_add(u32::from_le_bytes(four));
        }
    };
    let (whole, rest) = bytes.as_chunks::<12>();
    for twelve in whole {
        add(&mut state, twelve);
        let [mut a, mut b, mut c] = state;
        let step = |x: &mut u32, y: &mut u32, z: u32, bits| {
            *x = x.wrapping_sub(*y) ^ y.rotate_left(bits);
            *y = y.wrapping_add(z);
        };
        step(&mut a, &mut c, b, 4);
        step(&mut b, &mut a, c, 6);
        step(&mut c, &mut b, a, 8);
        step(&mut a, &mut c, b, 16);
        step(&mut b, &mut a, c, 19);
        step(&mut c, &mut b, a, 4);
        state = [a, b, c];
    }
    if !rest.is_empty() {
        add(&mut state, rest);
        let [mut a, mut b, mut c] = state;
        let step = |x: &mut u32, y: u32, bits| *x = (*x ^ y).wrapping_sub(y.rotate_left(bits));
        step(&mut c, b, 14);
        step(&mut a, c, 11);
        step(&mut b, a, 25);
        step(&mut c, b, 16);
        step(&mut a, c, 4);
        step(&mut b, a, 14);
        step(&mut c, b, 24);
        state = [a, b, c];
    }
    state[2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::Mac;

    #[test]
    fn symmetric_is_the_same_both_ways() {
        let there = Flow { nw_src: 1, nw_dst: 2, tp_src: 3, tp_dst: 4, nw_proto: 6, ..Flow::ZERO };
        let back = Flow { nw_src: 2, nw_dst: 1, tp_src: 4, tp_dst: 3, nw_proto: 6, ..Flow::ZERO };
        assert_eq!(both_ways(&there, 5), both_ways(&back, 5));
        assert_ne!(one_way(&there, 5), one_way(&back, 5));
        assert_ne!(both_ways(&there, 5), both_ways(&there, 6));
    }

    /// As Open vSwitch lays the fields out: a select group of two buckets takes the second for this ping.
    #[test]
    fn the_fields_have_their_places() {
        let (dl_src, dl_dst) = (Mac([0x50, 0x54, 0, 0, 0, 7]), Mac([0x50, 0x54, 0, 0, 0, 1]));
        let (nw_src, nw_dst) = (0xc0a8_0001, 0xc0a8_0002);
        let ping = Flow { dl_src, dl_dst, dl_type: 0x0800, nw_proto: 1, nw_src, nw_dst, ..Flow::ZERO };
        assert_eq!(both_ways(&ping, 0), 0x59fc_ebcb);
    }

    #[test]
    fn the_sums_of_its_author() {
        assert_eq!(jenkins(b"Four score and seven years ago", 0), 0x1777_0551);
        assert_eq!(jenkins(b"Four score and seven years ago", 1), 0xcd62_8161);
    }
}
