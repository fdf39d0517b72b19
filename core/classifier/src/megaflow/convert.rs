//! Conversion between `Flow` and the datapath's keys; masks are converted like keys.
//!
//! Fields that a key does not have (registers, OpenFlow metadata, conjunction id, output of the action set) have no meaning
//! in the datapath and are left out.

use super::key::{Depth, EXT_WORDS, Ext, Key, KeyMask, OPTION_WORDS, Options, Words};
use cpu::Line;
use flow::{Flow, Mac, Nsh, Tlv, Tunnel, Vlan};
use zerocopy::{FromBytes, IntoBytes};

/// First word of the tunnel header's fields in an [`Ext`].
pub const TUNNEL_AT: usize = 20;
const TUNNEL_LEN: usize = size_of::<Tunnel>() / 8;
/// The words of the tunnel header's fields.
pub const TUNNEL_WORDS: Words = ((1 << TUNNEL_LEN) - 1) << TUNNEL_AT;
/// First word of the network service header in an [`Ext`].
const NSH_AT: usize = TUNNEL_AT + TUNNEL_LEN;
const NSH_LEN: usize = size_of::<Nsh>() / 8;
/// The words of the network service header.
pub const NSH_WORDS: Words = ((1 << NSH_LEN) - 1) << NSH_AT;
const _: () = assert!(NSH_AT + NSH_LEN <= EXT_WORDS);

/// First of the two words of an [`Ext`] with the tuple of a connection: first the IPv4 addresses, then ports and protocol.
pub const CT_TUPLE_AT: usize = 11;
/// First of the two words with a connection's label; it has the more significant half.
pub const CT_LABEL_AT: usize = 14;
/// First of the four words with the IPv6 addresses of a connection's tuple.
pub const CT_IPV6_AT: usize = 16;

fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn halves(a: &[u8; 16]) -> [u64; 2] {
    let v = u128::from_be_bytes(*a);
    [(v >> 64) as u64, v as u64]
}

fn to_bytes(high: u64, low: u64) -> [u8; 16] {
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

/// The line of a flow or mask.
pub fn line_of(f: &Flow) -> Line {
    [
        pair(f.recirc_id, f.in_port << 16 | u32::from(f.vlans[0].tci)),
        f.dl_dst.to_u64() << 16 | u64::from(f.dl_type),
        f.dl_src.to_u64() << 16 | u64::from(f.vlans[1].tci),
        pair(f.nw_src, f.nw_dst),
        pair(
            u32::from(f.tp_src) << 16 | u32::from(f.tp_dst),
            u32::from_be_bytes([f.nw_proto, f.nw_tos, f.nw_ttl, f.nw_frag]),
        ),
        pair(u32::from(f.ct_state) << 24 | u32::from(f.ct_zone), f.ct_mark),
        pair(f.pkt_mark, f.dp_hash),
        pair(
            u32::from(f.tcp_flags) << 16 | u32::from(f.vlans[0].tpid),
            u32::from(f.vlans[1].tpid) << 16 | f.packet_type & 0xffff,
        ),
    ]
}

/// The ext of a flow or mask.
pub fn ext_of(f: &Flow) -> Ext {
    let mut e = [0; EXT_WORDS];
    e[0] = pair(f.ipv6_label, f.igmp_group_ip4);
    let addresses = [&f.ipv6_src, &f.ipv6_dst, &f.nd_target];
    for (i, a) in addresses.into_iter().enumerate() {
        e[1 + 2 * i..3 + 2 * i].copy_from_slice(&halves(a));
    }
    (e[7], e[8]) = (f.arp_sha.to_u64(), f.arp_tha.to_u64());
    e[9] = pair(f.mpls_lse[0], f.mpls_lse[1]);
    e[10] = pair(f.mpls_lse[2], f.skb_priority);
    e[CT_TUPLE_AT] = pair(f.ct_nw_src, f.ct_nw_dst);
    e[CT_TUPLE_AT + 1] =
        pair(u32::from(f.ct_tp_src) << 16 | u32::from(f.ct_tp_dst), u32::from(f.ct_nw_proto));
    e[CT_LABEL_AT..CT_LABEL_AT + 2].copy_from_slice(&f.ct_label);
    e[CT_IPV6_AT..CT_IPV6_AT + 2].copy_from_slice(&halves(&f.ct_ipv6_src));
    e[CT_IPV6_AT + 2..CT_IPV6_AT + 4].copy_from_slice(&halves(&f.ct_ipv6_dst));
    e[TUNNEL_AT..TUNNEL_AT + TUNNEL_LEN].copy_from_slice(tunnel_words(&f.tunnel));
    e[NSH_AT..NSH_AT + NSH_LEN].as_mut_bytes().copy_from_slice(f.nsh.as_bytes());
    e
}

/// The tunnel options of a flow or mask; `None` if there are none.
pub fn options_of(f: &Flow) -> Option<Box<Options>> {
    (f.tlv != Tlv::NONE).then(|| options_of_tlv(&f.tlv))
}

/// Tunnel options in the words of keys.
pub fn options_of_tlv(tlv: &Tlv) -> Box<Options> {
    Box::new(zerocopy::transmute!(*tlv))
}

/// The options of a packet from their bytes (at most 252).
pub fn options_of_bytes(bytes: &[u8]) -> Box<Options> {
    let mut options = Box::new([0; OPTION_WORDS]);
    let [len, words @ ..] = &mut *options;
    *len = bytes.len() as u64;
    for (word, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(padded);
    }
    options
}

/// The reverse of [`options_of_tlv`].
pub fn tlv_of_options(options: &Options) -> Tlv {
    zerocopy::transmute!(*options)
}

/// The fields of a tunnel's header in the words of an [`Ext`], from [`TUNNEL_AT`] on.
#[inline(always)]
pub fn tunnel_words(tunnel: &Tunnel) -> &[u64; TUNNEL_LEN] {
    zerocopy::transmute_ref!(tunnel)
}

/// The flow of a line and an [`Ext`], without tunnel options: the inverse of [`line_of`] and [`ext_of`].
pub fn flow_of(line: &Line, e: &Ext) -> Flow {
    let mut f = Flow::ZERO;
    let (high, low) = (|w: u64| (w >> 32) as u32, |w: u64| w as u32);
    f.recirc_id = high(line[0]);
    f.in_port = low(line[0]) >> 16;
    f.vlans = [
        Vlan { tpid: high(line[7]) as u16, tci: line[0] as u16 },
        Vlan { tpid: (line[7] >> 16) as u16, tci: line[2] as u16 },
    ];
    (f.dl_dst, f.dl_type) = (Mac::from_u64(line[1] >> 16), line[1] as u16);
    f.dl_src = Mac::from_u64(line[2] >> 16);
    (f.nw_src, f.nw_dst) = (high(line[3]), low(line[3]));
    (f.tp_src, f.tp_dst) = ((line[4] >> 48) as u16, (line[4] >> 32) as u16);
    [f.nw_proto, f.nw_tos, f.nw_ttl, f.nw_frag] = low(line[4]).to_be_bytes();
    (f.ct_state, f.ct_zone, f.ct_mark) = ((line[5] >> 56) as u8, (line[5] >> 32) as u16, low(line[5]));
    (f.pkt_mark, f.dp_hash) = (high(line[6]), low(line[6]));
    f.tcp_flags = (line[7] >> 48) as u16;
    f.packet_type = match line[7] as u16 {
        0 => 0,
        layer3 => 1 << 16 | u32::from(layer3),
    };
    (f.ipv6_label, f.igmp_group_ip4) = (high(e[0]), low(e[0]));
    (f.ipv6_src, f.ipv6_dst, f.nd_target) =
        (to_bytes(e[1], e[2]), to_bytes(e[3], e[4]), to_bytes(e[5], e[6]));
    (f.arp_sha, f.arp_tha) = (Mac::from_u64(e[7]), Mac::from_u64(e[8]));
    f.mpls_lse = [high(e[9]), low(e[9]), high(e[10])];
    f.skb_priority = low(e[10]);
    (f.ct_nw_src, f.ct_nw_dst) = (high(e[11]), low(e[11]));
    (f.ct_tp_src, f.ct_tp_dst, f.ct_nw_proto) = ((e[12] >> 48) as u16, (e[12] >> 32) as u16, e[12] as u8);
    f.ct_label = [e[14], e[15]];
    (f.ct_ipv6_src, f.ct_ipv6_dst) = (to_bytes(e[16], e[17]), to_bytes(e[18], e[19]));
    f.tunnel = Tunnel::read_from_bytes(e[TUNNEL_AT..TUNNEL_AT + TUNNEL_LEN].as_bytes()).unwrap_or_default();
    f.nsh = Nsh::read_from_bytes(e[NSH_AT..NSH_AT + NSH_LEN].as_bytes()).unwrap_or_default();
    f
}

impl Key {
    /// The key of a flow that was extracted completely.
    pub fn from_flow(f: &Flow) -> Key {
        Key { line: line_of(f), ext: ext_of(f), options: options_of(f), depth: Depth::Wide }
    }

    /// The flow of a key. Fields beyond the depth of the key are zero.
    pub fn to_flow(&self) -> Flow {
        let tlv = self.options.as_deref().map_or(Tlv::NONE, tlv_of_options);
        Flow { tlv, ..flow_of(&self.line, &self.ext) }
    }
}

impl KeyMask {
    /// The mask of a datapath flow. The ingress port and the recirculation id are always matched.
    pub fn from_flow(mask: &Flow) -> KeyMask {
        let mut line = line_of(mask);
        line[0] |= u64::MAX << 16;
        let (ext, options) = (ext_of(mask), options_of(mask));
        KeyMask::new(line, &ext, options.as_deref())
    }

    /// The mask as a flow. Two fields are wider in a flow than in a key: the port gets all bits, the packet type all bits or
    /// none.
    pub fn to_flow(&self) -> Flow {
        let (ext, options) = self.full_rest();
        let mut f = Flow { tlv: tlv_of_options(&options), ..flow_of(&self.line, &ext) };
        f.in_port = u32::MAX;
        f.packet_type = if self.line[7] & 0xffff == 0 { 0 } else { u32::MAX };
        f
    }
}
