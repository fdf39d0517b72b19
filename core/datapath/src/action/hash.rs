//! The `hash` action: `dp_hash` from addresses, protocol and ports.
//!
//! 0 means "not hashed", so it is never the result. The symmetric hash equals that of Open vSwitch, so that a select
//! group chooses the same bucket for each connection. For the other hash only an even distribution is guaranteed.

use crate::packet::Meta;
use crate::path::extract;
use crate::port::Frame;
use classifier::megaflow::{Depth, Rest, Words};
use cpu::Line;
use flow::{Flow, Mac};
use packet::ether::ethertype;
use packet::ip::ipproto;
use packet::lookup3::lookup3;

/// The words of a key after its line that contain IPv6 addresses.
const ADDRESSES: Words = 0b1_1110;

/// Returns the depth and the words to which keys of packets of this type must be read for hashing.
pub(crate) fn depth_of(dl_type: u16) -> (Depth, Words) {
    match dl_type {
        ethertype::IPV6 => (Depth::Wide, ADDRESSES),
        _ => (Depth::L4, 0),
    }
}

/// Returns the hash of a packet. `key`: its key, if the packet was parsed at least to layer 4.
#[inline]
pub fn hash(bytes: &[u8], meta: &Meta, key: Option<(&Line, Rest<'_>)>, symmetric: bool, basis: u32) -> u32 {
    if let Some((line, _)) = key
        && !symmetric
        && let Some(hash) = one_way_of_line(line, basis)
    {
        return hash;
    }
    let fields = match key {
        Some((line, rest)) => Fields::of_key(line, rest),
        None => Fields::of_key(&extract::line(bytes, meta, Depth::L4).0, Rest::NONE),
    };
    let fields = fields.unwrap_or_else(|| Fields::of_flow(&meta.flow_of(bytes)));
    fields.hash(symmetric, basis)
}

/// As [`hash`]. An absent tail is copied only if the key does not contain all hashed fields.
#[inline]
pub(crate) fn of_frame(
    frame: &Frame,
    meta: &Meta,
    key: Option<(&Line, Rest<'_>)>,
    symmetric: bool,
    basis: u32,
) -> u32 {
    if !frame.is_complete()
        && let Some(fields) = key.and_then(|(line, rest)| Fields::of_key(line, rest))
    {
        return fields.hash(symmetric, basis);
    }
    hash(frame.bytes(), meta, key, symmetric, basis)
}

/// Returns the hash of a packet's endpoints without use of its key: equals the non-symmetric [`hash`] with basis 0.
#[inline(always)]
pub(crate) fn of_endpoints(bytes: &[u8], meta: &Meta) -> u32 {
    if meta.packet_type == 0 {
        if let Some(hash) = of_plain(bytes) {
            return hash;
        }
        return of_other(bytes, meta);
    }
    hash(bytes, meta, None, false, 0)
}

/// As [`of_endpoints`]. An absent tail is copied only if the packet is not [plain](of_plain).
#[inline(always)]
pub(crate) fn of_frame_endpoints(frame: &Frame, meta: &Meta) -> u32 {
    if !frame.is_complete()
        && meta.packet_type == 0
        && let Some(hash) = of_plain(frame.head())
    {
        return hash;
    }
    of_endpoints(frame.bytes(), meta)
}

/// As [`of_endpoints`], for an Ethernet frame that is not [plain](of_plain).
#[inline(never)]
pub(crate) fn of_other(bytes: &[u8], meta: &Meta) -> u32 {
    match extract::tuple_line(bytes, bytes.len()) {
        Some(line) => one_way_of(&line, 0),
        None => hash(bytes, meta, None, false, 0),
    }
}

/// As [`of_endpoints`], for TCP and UDP over IPv4 without tags and options, by four loads instead of a parser for each
/// header. Returns `None` for other packets. If a length in the packet is wrong, the hash includes ports that the
/// packet's key would not have.
#[inline(always)]
pub(crate) fn of_plain(bytes: &[u8]) -> Option<u32> {
    const UDP: u64 = ipproto::UDP as u64;
    const TCP: u64 = ipproto::TCP as u64;
    let head = bytes.first_chunk::<42>()?;
    let word = |at: usize| head[at..].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    // The words overlap. Second: type, version and header length, TOS, total length, identification. Third: total
    // length, identification, flags and fragment offset, TTL, protocol. Then both addresses; then the ports.
    let (second, third, addresses, ports) = (word(12), word(16), word(26), word(34));
    let proto = u64::from(head[23]);
    let is_plain =
        (second >> 40 == 0x08_0045) & (third & 0x3fff_0000 == 0) & ((proto == UDP) | (proto == TCP));
    let endpoints = ports & 0xffff_ffff_0000_0000 | proto << 16 | u64::from(ethertype::IPV4);
    is_plain.then(|| finish(mixed(mixed(0, addresses), endpoints)).max(1))
}

/// Returns the non-symmetric hash of a key with ports; `None` if its addresses are not in its line.
#[inline(always)]
pub(crate) fn one_way_of_line(line: &Line, basis: u32) -> Option<u32> {
    if line[1] as u16 == ethertype::IPV6 { None } else { Some(one_way_of(line, basis)) }
}

/// Returns the hash of a key with ports whose addresses are in its line; equals [`Fields::one_way`].
#[inline(always)]
fn one_way_of(line: &Line, basis: u32) -> u32 {
    let endpoints = line[4] & 0xffff_ffff_0000_0000 | (line[4] >> 24 & 0xff) << 16 | line[1] & 0xffff;
    finish(mixed(mixed(basis.into(), line[3]), endpoints)).max(1)
}

/// Adds a word to the one-way hash: multiplication carries each bit upwards, xor with the upper half carries them
/// downwards. The hash is fixed and has no secret, because `dp_hash` must be the same after a restart.
#[inline(always)]
fn mixed(hash: u64, word: u64) -> u64 {
    let product = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}

#[inline(always)]
fn finish(hash: u64) -> u32 {
    (hash.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32) as u32
}

/// The hashed fields of a packet.
#[derive(Default)]
struct Fields {
    dl_type: u16,
    macs: [u64; 2],
    /// VLAN ids of both tags; 0 if there is no tag.
    vids: [u16; 2],
    nw_proto: u8,
    ports: [u16; 2],
    v4: [u32; 2],
    v6: [u128; 2],
}

impl Fields {
    #[inline]
    fn hash(&self, symmetric: bool, basis: u32) -> u32 {
        let hash = if symmetric { self.both_ways(basis) } else { self.one_way(basis) };
        hash.max(1)
    }

    /// Reads the fields from a key with ports. Returns `None` if the key does not contain all of them.
    #[inline]
    fn of_key(line: &Line, rest: Rest<'_>) -> Option<Fields> {
        let dl_type = line[1] as u16;
        let is_six = dl_type == ethertype::IPV6;
        let address = |at| u128::from(rest.word(at)) << 64 | u128::from(rest.word(at + 1));
        (!is_six || ADDRESSES & !rest.filled == 0).then(|| Fields {
            dl_type,
            macs: [line[2] >> 16, line[1] >> 16],
            vids: [line[0] as u16 & 0xfff, line[2] as u16 & 0xfff],
            nw_proto: (line[4] >> 24) as u8,
            ports: [(line[4] >> 48) as u16, (line[4] >> 32) as u16],
            v4: [(line[3] >> 32) as u32, line[3] as u32],
            v6: if is_six { [address(1), address(3)] } else { [0; 2] },
        })
    }

    fn of_flow(f: &Flow) -> Fields {
        Fields {
            dl_type: f.dl_type,
            macs: [f.dl_src, f.dl_dst].map(Mac::to_u64),
            vids: f.vlans.map(|tag| tag.tci & 0xfff),
            nw_proto: f.nw_proto,
            ports: [f.tp_src, f.tp_dst],
            v4: [f.nw_src, f.nw_dst],
            v6: [f.ipv6_src, f.ipv6_dst].map(u128::from_be_bytes),
        }
    }

    fn one_way(&self, basis: u32) -> u32 {
        let mut hash = u64::from(basis);
        if self.dl_type == ethertype::IPV6 {
            let words = self.v6.into_iter().flat_map(|address| [(address >> 64) as u64, address as u64]);
            hash = words.fold(hash, mixed);
        } else {
            hash = mixed(hash, u64::from(self.v4[0]) << 32 | u64::from(self.v4[1]));
        }
        let ports = u64::from(self.ports[0]) << 48 | u64::from(self.ports[1]) << 32;
        finish(mixed(hash, ports | u64::from(self.nw_proto) << 16 | u64::from(self.dl_type)))
    }

    /// Hashes the xor of each pair of fields, which is the same for both directions. UDP ports are excluded, because
    /// the ports of the two directions may be unrelated.
    fn both_ways(&self, basis: u32) -> u32 {
        let mut fields = [0; 32];
        let is_ip = matches!(self.dl_type, ethertype::IPV4 | ethertype::IPV6);
        if self.dl_type == ethertype::IPV4 {
            fields[..4].copy_from_slice(&(self.v4[0] ^ self.v4[1]).to_be_bytes());
        } else if is_ip {
            fields[..16].copy_from_slice(&(self.v6[0] ^ self.v6[1]).to_be_bytes());
        }
        fields[16..18].copy_from_slice(&self.dl_type.to_be_bytes());
        fields[18..20].copy_from_slice(&(self.vids[0] ^ self.vids[1]).to_be_bytes());
        fields[22..28].copy_from_slice(&(self.macs[0] ^ self.macs[1]).to_be_bytes()[2..]);
        if is_ip {
            fields[28] = self.nw_proto;
            if matches!(self.nw_proto, ipproto::TCP | ipproto::SCTP) {
                fields[20..22].copy_from_slice(&(self.ports[0] ^ self.ports[1]).to_be_bytes());
            }
        }
        lookup3(&fields, basis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use classifier::megaflow::convert::{ext_of, line_of};
    use flow::compose::compose;
    use proptest::prelude::*;

    fn both_ways(f: &Flow, basis: u32) -> u32 {
        Fields::of_flow(f).both_ways(basis)
    }

    fn one_way(f: &Flow, basis: u32) -> u32 {
        Fields::of_flow(f).one_way(basis)
    }

    proptest! {
        #[test]
        fn a_key_a_flow_and_the_bytes_say_the_same(nw_src: u32, nw_dst: u32, tp_src: u16, tp_dst: u16, tci: u16, tagged: bool,
                                                   dl_type in prop::sample::select(vec![0x0800u16, 0x86dd, 0x0806]),
                                                   nw_proto in prop::sample::select(vec![1u8, 6, 17])) {
            let mut f = Flow { dl_src: Mac([2; 6]), dl_type, nw_proto, nw_src, nw_dst, tp_src, tp_dst, ..Flow::ZERO };
            f.ipv6_src[..4].copy_from_slice(&nw_src.to_be_bytes());
            if tagged {
                f.vlans[0] = flow::Vlan { tpid: 0x8100, tci: tci | flow::VLAN_CFI };
            }
            let (bytes, meta) = (compose(&f, b"payload"), Meta::received(0));
            let f = meta.flow_of(&bytes);
            prop_assert_eq!(of_endpoints(&bytes, &meta), one_way(&f, 0).max(1));
            for symmetric in [true, false] {
                let from_flow = if symmetric { both_ways(&f, 7) } else { one_way(&f, 7) }.max(1);
                prop_assert_eq!(hash(&bytes, &meta, None, symmetric, 7), from_flow);
                prop_assert_eq!(hash(&bytes, &meta, Some((&line_of(&f), Rest::NONE)), symmetric, 7), from_flow);
                let whole = ext_of(&f);
                let key = Some((&line_of(&f), Rest::new(&whole, None)));
                prop_assert_eq!(hash(&bytes, &meta, key, symmetric, 7), from_flow);
            }
        }
    }

    /// Consecutive addresses and consecutive ports are spread over the buckets of a group as evenly as random
    /// numbers.
    #[test]
    fn one_way_spreads_neighbours() {
        fn spread(dl_type: u16, shift: u32, set: fn(&mut Flow, u32)) -> u32 {
            let mut counts = [0i32; 16];
            for i in 0..4096 {
                let (nw_src, nw_dst) = (0x0a00_0001, 0x1400_0001);
                let mut flow = Flow { dl_type, nw_proto: 17, nw_src, nw_dst, ..Flow::ZERO };
                set(&mut flow, i);
                counts[(one_way(&flow, 0) >> shift & 15) as usize] += 1;
            }
            counts.map(|n| n.abs_diff(256)).into_iter().max().unwrap()
        }
        for shift in [0, 8, 16, 28] {
            // 256 are expected in each bucket, with a standard deviation of 15.5: the limit is five
            // deviations.
            assert!(spread(0x0800, shift, |f, i| f.nw_src += i) < 80);
            assert!(spread(0x0800, shift, |f, i| f.nw_dst += 256 * i) < 80);
            assert!(spread(0x0800, shift, |f, i| f.tp_src = i as u16) < 80);
            assert!(spread(0x0800, shift, |f, i| f.tp_dst = 7 * i as u16) < 80);
            assert!(spread(0x86dd, shift, |f, i| f.ipv6_dst = (u128::from(i) << 40).to_be_bytes()) < 80);
        }
    }

    #[test]
    fn symmetric_is_the_same_both_ways() {
        let there = Flow { nw_src: 1, nw_dst: 2, tp_src: 3, tp_dst: 4, nw_proto: 6, ..Flow::ZERO };
        let back = Flow { nw_src: 2, nw_dst: 1, tp_src: 4, tp_dst: 3, nw_proto: 6, ..Flow::ZERO };
        assert_eq!(both_ways(&there, 5), both_ways(&back, 5));
        assert_ne!(one_way(&there, 5), one_way(&back, 5));
        assert_ne!(both_ways(&there, 5), both_ways(&there, 6));
    }

    /// Fields are arranged as in Open vSwitch: a select group of two buckets uses the second one for this
    /// ping.
    #[test]
    fn the_fields_have_their_places() {
        let (dl_src, dl_dst) = (Mac([0x50, 0x54, 0, 0, 0, 7]), Mac([0x50, 0x54, 0, 0, 0, 1]));
        let (nw_src, nw_dst) = (0xc0a8_0001, 0xc0a8_0002);
        let ping = Flow { dl_src, dl_dst, dl_type: 0x0800, nw_proto: 1, nw_src, nw_dst, ..Flow::ZERO };
        assert_eq!(both_ways(&ping, 0), 0x59fc_ebcb);
    }
}
