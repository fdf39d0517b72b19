//! Shapes: the combinations of headers that nearly all packets have. Each is read by its own loop, without a
//! branch per header.
//!
//! A shape is a number of VLAN tags and the header that follows them. Usually the packets of a batch have one
//! or two shapes: the first packet determines the first shape, and all packets of this shape are read; the
//! first of the other packets determines the next shape. Packets without a shape, or with a field that needs
//! the [general parser](super::parse), are left to that parser.

use super::parse::{Transport, transport};
use crate::batch::BATCH;
use crate::packet::Meta;
use crate::port::Frame;
use classifier::megaflow::{Column, Depth, Words, bits};
use cpu::Line;
use flow::VLAN_CFI;
use flow::flow::VLANS_MAX;
use packet::ether::ethertype;
use packet::ip::{Ipv6, ipproto, is_extension};

/// How many packets ahead to prefetch.
pub(super) const AHEAD: usize = 6;

/// Bytes of headers, VLAN tags excluded, that every shape has at least.
const HEAD: usize = 34;

/// Maximum number of shapes per batch that are read by separate loops.
const SHAPES: usize = 4;

/// Words of an `Ext` by the header that fills them. The label shares a word with fields of IGMP and neighbour
/// discovery.
pub(super) const NEIGHBOUR_WORDS: Words = 0b1_1110_0001;
pub(super) const GROUP_WORD: Words = 1;
pub(super) const MPLS_WORDS: Words = 0b110_0000_0000;
const MPLS_AT: usize = 9;

/// The keys of a batch to be filled.
pub(super) struct Keys<'b> {
    pub(super) lines: &'b mut [Line; BATCH],
    pub(super) tcp_flags: &'b mut [u16; BATCH],
    /// All columns, or none at depths without columns; the columns of `words` are zero.
    pub(super) columns: &'b mut [Column],
    pub(super) words: Words,
}

/// Parameters that are the same for all packets.
#[derive(Clone, Copy)]
pub(super) struct Ask {
    pub(super) depth: Depth,
    /// The maximum number of tags to parse.
    pub(super) tags: usize,
}

/// Provides the words of the packets' metadata.
pub(super) trait Bases {
    /// The line of packet `i` with its metadata only. `None`: its metadata requires the general parser.
    fn of(&self, i: usize) -> Option<Line>;
}

/// Packets that a port has just received: all have the same metadata.
pub(super) struct Fresh(pub(super) Line);

impl Bases for Fresh {
    #[inline(always)]
    fn of(&self, _: usize) -> Option<Line> {
        Some(self.0)
    }
}

/// Recirculated packets.
pub(super) struct RecirculatedBases<'b> {
    pub(super) own: &'b [Meta],
    pub(super) ask: Ask,
    pub(super) words: Words,
}

impl Bases for RecirculatedBases<'_> {
    #[inline(always)]
    fn of(&self, i: usize) -> Option<Line> {
        let meta = self.own.get(i)?;
        let fits = meta.packet_type == 0 && meta.tags() == self.ask.tags && !meta.has_words(self.words);
        fits.then(|| meta.line())
    }
}

/// Fills the keys of packets that are in `left` and have a shape; returns the bits of the others.
#[inline(always)]
pub(super) fn fill(frames: &[Frame], bases: &impl Bases, keys: &mut Keys<'_>, ask: Ask, left: u64) -> u64 {
    let mut left = left;
    let mut shapeless = 0;
    for _ in 0..SHAPES {
        let Some(first) = bits(left).next() else { break };
        match frames.get(first).and_then(|frame| shape_of(frame.head(), ask)) {
            Some(shape) => {
                let others = fill_shape(shape, frames, bases, keys, ask, left);
                // The first packet has this shape, but may have a field that needs the general parser.
                shapeless |= others & 1 << first;
                left = others & !(1 << first);
            }
            None => {
                shapeless |= 1 << first;
                left &= !(1 << first);
            }
        }
    }
    left | shapeless
}

/// A shape: number of tags, and the header after them.
type Shape = (usize, Network);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Network {
    Ipv4Header,
    Ipv6Header,
    Mpls,
    /// Only the Ethernet type is needed.
    Any,
}

/// The shape that the packet's Ethernet types determine.
#[inline]
fn shape_of(data: &[u8], ask: Ask) -> Option<Shape> {
    for tags in 0..=ask.tags.min(VLANS_MAX) {
        let &[high, low] = data.get(12 + 4 * tags..)?.first_chunk()?;
        let dl_type = u16::from_be_bytes([high, low]);
        if !ethertype::is_vlan(dl_type) {
            return Some((tags, network_of(dl_type, ask.depth)?));
        }
    }
    None
}

#[inline]
fn network_of(dl_type: u16, depth: Depth) -> Option<Network> {
    match dl_type {
        ..ethertype::MIN => None,
        _ if depth < Depth::L3 => Some(Network::Any),
        ethertype::IPV4 => Some(Network::Ipv4Header),
        ethertype::IPV6 => Some(Network::Ipv6Header),
        t if ethertype::is_mpls(t) => Some(Network::Mpls),
        _ => None,
    }
}

#[inline(always)]
fn fill_shape(
    (tags, network): Shape,
    frames: &[Frame],
    bases: &impl Bases,
    keys: &mut Keys<'_>,
    ask: Ask,
    left: u64,
) -> u64 {
    if ask.depth < Depth::L3 {
        return match tags {
            0 => each::<0, Any>(frames, bases, keys, ask, left),
            1 => each::<1, Any>(frames, bases, keys, ask, left),
            _ => each::<2, Any>(frames, bases, keys, ask, left),
        };
    }
    match (tags, network) {
        (0, Network::Ipv4Header) => each::<0, Ipv4Header>(frames, bases, keys, ask, left),
        (1, Network::Ipv4Header) => each::<1, Ipv4Header>(frames, bases, keys, ask, left),
        (_, Network::Ipv4Header) => each::<2, Ipv4Header>(frames, bases, keys, ask, left),
        (0, Network::Ipv6Header) => each::<0, Ipv6Header>(frames, bases, keys, ask, left),
        (1, Network::Ipv6Header) => each::<1, Ipv6Header>(frames, bases, keys, ask, left),
        (_, Network::Ipv6Header) => each::<2, Ipv6Header>(frames, bases, keys, ask, left),
        (0, _) => each::<0, Mpls>(frames, bases, keys, ask, left),
        (1, _) => each::<1, Mpls>(frames, bases, keys, ask, left),
        _ => each::<2, Mpls>(frames, bases, keys, ask, left),
    }
}

/// Fills the keys of the packets in the bit set; returns the bits of packets without this shape.
#[inline(always)]
fn each<const TAGS: usize, N: Read>(
    frames: &[Frame],
    bases: &impl Bases,
    keys: &mut Keys<'_>,
    ask: Ask,
    left: u64,
) -> u64 {
    let frames = &frames[..frames.len().min(BATCH)];
    let (mut i, mut others) = (left.trailing_zeros() as usize, 0);
    // Iterators and closures are avoided: a function that is not inlined here is compiled without the vector
    // instructions.
    while let Some(frame) = frames.get(i) {
        if let Some(ahead) = frames.get(i + AHEAD) {
            ahead.prefetch();
        }
        if left >> i & 1 != 0 && one::<TAGS, N>((frame.head(), frame.len()), bases, keys, ask, i).is_none() {
            others |= 1 << i;
        }
        i += 1;
    }
    others
}

/// The line and the TCP flags of a packet of `len` bytes of which `data` are here, if it is IPv4 without tags and options that is not a
/// fragment. `base`: the line of its metadata.
#[inline(always)]
pub(super) fn plain_line((data, len): (&[u8], usize), base: &Line, depth: Depth) -> Option<(Line, u16)> {
    let packet = Packet { data, len, head: data.get(..HEAD)?, at: 0 };
    let found = Ipv4Header::read(&packet, 0)?;
    Some(line_of(&packet, base, &found, [0; 3], depth))
}

/// Fills the key of one packet of `len` bytes, of which `data` are here. `None`: the packet has not this shape, and its key is
/// not filled.
#[inline(always)]
fn one<const TAGS: usize, N: Read>(
    (data, len): (&[u8], usize),
    bases: &impl Bases,
    keys: &mut Keys<'_>,
    ask: Ask,
    i: usize,
) -> Option<()> {
    let at = 4 * TAGS;
    let head = data.get(..HEAD + at)?;
    // The parts of words 0, 2 and 7 that come from tags.
    let mut tags = [0; 3];
    if TAGS > 0 {
        let tpid = pair(head, 12);
        if !ethertype::is_vlan(tpid) {
            return None;
        }
        (tags[0], tags[2]) = (u64::from(pair(head, 14) | VLAN_CFI), u64::from(tpid) << 32);
    }
    if TAGS > 1 {
        let tpid = pair(head, 16);
        if !ethertype::is_vlan(tpid) {
            return None;
        }
        tags[1] = u64::from(pair(head, 18) | VLAN_CFI);
        tags[2] |= u64::from(tpid) << 16;
    }
    let packet = Packet { data, len, head, at };
    let found = N::read(&packet, keys.words)?;
    let i = i % BATCH;
    (keys.lines[i], keys.tcp_flags[i]) = line_of(&packet, &bases.of(i)?, &found, tags, ask.depth);
    if ask.depth == Depth::Wide {
        N::words(&packet, keys.columns, i);
    }
    Some(())
}

/// The line of a packet with this header and these tags, and its TCP flags.
#[inline(always)]
fn line_of(packet: &Packet<'_>, base: &Line, found: &Found<'_>, tags: [u64; 3], depth: Depth) -> (Line, u16) {
    let &Found { dl_type, addresses, protocol, payload } = found;
    let l4 = match payload {
        Some((proto, payload)) => transport(proto, payload, depth).unwrap_or_default(),
        None => Transport::default(),
    };
    let line = [
        base[0] | tags[0],
        word(packet.head, 0) & !0xffff | u64::from(dl_type),
        word(packet.head, 6) & !0xffff | tags[1],
        addresses,
        protocol | l4.ports,
        base[5],
        base[6],
        base[7] | tags[2] | l4.word,
    ];
    (line, l4.tcp_flags)
}

/// The eight bytes from `at` on.
#[inline(always)]
fn word(head: &[u8], at: usize) -> u64 {
    let mut out = [0; 8];
    out.copy_from_slice(&head[at..at + 8]);
    u64::from_be_bytes(out)
}

/// The two bytes from `at` on.
#[inline(always)]
fn pair(head: &[u8], at: usize) -> u16 {
    let mut out = [0; 2];
    out.copy_from_slice(&head[at..at + 2]);
    u16::from_be_bytes(out)
}

/// A packet with the tags of its shape.
struct Packet<'a> {
    /// Its bytes, without an absent tail.
    data: &'a [u8],
    /// Its length, with the tail.
    len: usize,
    /// The first [`HEAD`] + `at` bytes.
    head: &'a [u8],
    /// Length of the tags in bytes.
    at: usize,
}

/// Result of reading a network header.
struct Found<'a> {
    /// The Ethernet type of the header.
    dl_type: u16,
    /// Word 3 of the line.
    addresses: u64,
    /// The lower half of word 4.
    protocol: u64,
    /// The protocol of the payload, and the payload without padding.
    payload: Option<(u8, &'a [u8])>,
}

/// The lower half of word 4.
#[inline(always)]
fn protocol(proto: u8, tos: u8, ttl: u8) -> u64 {
    u64::from(u32::from_be_bytes([proto, tos, ttl, 0]))
}

/// The first `len` bytes of the packet's payload `data`, or as many of them as are here: at least the transport header. Fails
/// if more padding follows than is plausible for this length.
#[inline(always)]
fn without_padding<'a>(packet: &Packet<'a>, proto: u8, data: &'a [u8], len: usize) -> Option<&'a [u8]> {
    if len > data.len() || data.len() - len > usize::from(u16::MAX) {
        return without_tail(packet, proto, data, len);
    }
    Some(&data[..len])
}

/// As `without_padding`, for a payload that is longer than what is here. Only the headers of these protocols always are.
#[inline(never)]
fn without_tail<'a>(packet: &Packet<'a>, proto: u8, data: &'a [u8], len: usize) -> Option<&'a [u8]> {
    const LONGEST_HEADER: usize = 60;
    let absent = packet.len - packet.data.len();
    let ends_in_tail = len > data.len() && len <= data.len() + absent && data.len() >= LONGEST_HEADER;
    (ends_in_tail && matches!(proto, ipproto::TCP | ipproto::UDP)).then_some(data)
}

/// A network header.
trait Read {
    /// Reads the header; `None`: it is another kind of header.
    fn read<'a>(packet: &Packet<'a>, words: Words) -> Option<Found<'a>>;

    /// Fills the words after the line of packet `i` that come from this header, after it was read.
    #[inline(always)]
    fn words(_packet: &Packet<'_>, _columns: &mut [Column], _i: usize) {}
}

/// IPv4 without options that is not a fragment.
struct Ipv4Header;

impl Read for Ipv4Header {
    #[inline(always)]
    fn read<'a>(packet: &Packet<'a>, words: Words) -> Option<Found<'a>> {
        const NO_OPTIONS: u8 = 0x45;
        let Packet { data, head, at, .. } = *packet;
        let proto = head[23 + at];
        let plain = pair(head, 12 + at) == ethertype::IPV4
            && head[14 + at] == NO_OPTIONS
            && pair(head, 20 + at) & 0x3fff == 0
            && (words & GROUP_WORD == 0 || proto != ipproto::IGMP);
        if !plain {
            return None;
        }
        // A length smaller than the header wraps to a length that no packet has.
        let len = usize::from(pair(head, 16 + at)).wrapping_sub(HEAD - 14);
        let payload = without_padding(packet, proto, &data[HEAD + at..], len)?;
        Some(Found {
            dl_type: ethertype::IPV4,
            addresses: word(head, 26 + at),
            protocol: protocol(proto, head[15 + at], head[22 + at]),
            payload: Some((proto, payload)),
        })
    }
}

/// Protocol and payload of IPv4 without tags and options that is not a fragment, in a packet of `len` bytes of which `data` are
/// here. `None`: another kind of packet.
#[inline(always)]
pub(super) fn plain(data: &[u8], len: usize) -> Option<(u8, &[u8])> {
    let head = data.get(..HEAD)?;
    Ipv4Header::read(&Packet { data, len, head, at: 0 }, 0)?.payload
}

/// IPv6 without extension headers.
struct Ipv6Header;

impl Read for Ipv6Header {
    #[inline(always)]
    fn read<'a>(packet: &Packet<'a>, words: Words) -> Option<Found<'a>> {
        let Packet { data, head, at, .. } = *packet;
        let proto = head[20 + at];
        let plain = pair(head, 12 + at) == ethertype::IPV6
            && (matches!(proto, ipproto::UDP | ipproto::TCP) || !is_extension(proto))
            && (words & NEIGHBOUR_WORDS == 0 || proto != ipproto::ICMPV6);
        if !plain {
            return None;
        }
        let payload =
            without_padding(packet, proto, data.get(14 + at + Ipv6::LEN..)?, pair(head, 18 + at).into())?;
        Some(Found {
            dl_type: ethertype::IPV6,
            addresses: 0,
            protocol: protocol(proto, (pair(head, 14 + at) >> 4) as u8, head[21 + at]),
            payload: Some((proto, payload)),
        })
    }

    #[inline(always)]
    fn words(packet: &Packet<'_>, columns: &mut [Column], i: usize) {
        let Packet { data, at, .. } = *packet;
        let (Some(six), Some(columns)) = (ipv6_words(data, at), columns.first_chunk_mut::<5>()) else {
            return;
        };
        for (column, word) in columns.iter_mut().zip(six) {
            column[i % BATCH] = word;
        }
    }
}

/// The first words of an `Ext`: label, source, destination, of an IPv6 header after this many bytes of tags.
/// `None`: the packet is shorter.
#[inline(always)]
pub(super) fn ipv6_words(data: &[u8], tags: usize) -> Option<[u64; 5]> {
    let ip: &[u8; Ipv6::LEN] = data.get(14 + tags..)?.first_chunk()?;
    Some([word(ip, 0) & 0x000f_ffff_0000_0000, word(ip, 8), word(ip, 16), word(ip, 24), word(ip, 32)])
}

/// MPLS: the payload of the labels is not read.
struct Mpls;

impl Read for Mpls {
    #[inline(always)]
    fn read<'a>(packet: &Packet<'a>, _: Words) -> Option<Found<'a>> {
        let dl_type = pair(packet.head, 12 + packet.at);
        let found = Found { dl_type, addresses: 0, protocol: 0, payload: None };
        ethertype::is_mpls(dl_type).then_some(found)
    }

    #[inline(always)]
    fn words(packet: &Packet<'_>, columns: &mut [Column], i: usize) {
        const BOTTOM: u64 = 0x100;
        let two = word(packet.head, 14 + packet.at);
        let (first, second) = (two >> 32, two & 0xffff_ffff);
        let third = word(packet.head, 22 + packet.at) >> 32;
        let second = if first & BOTTOM == 0 { second } else { 0 };
        let third = if (first | second) & BOTTOM == 0 { third } else { 0 };
        for (at, word) in [(MPLS_AT, first << 32 | second), (MPLS_AT + 1, third << 32)] {
            if let Some(column) = columns.get_mut(at) {
                column[i % BATCH] = word;
            }
        }
    }
}

/// Anything that has an Ethernet type.
struct Any;

impl Read for Any {
    #[inline(always)]
    fn read<'a>(packet: &Packet<'a>, _: Words) -> Option<Found<'a>> {
        let dl_type = pair(packet.head, 12 + packet.at);
        let found = Found { dl_type, addresses: 0, protocol: 0, payload: None };
        (dl_type >= ethertype::MIN && !ethertype::is_vlan(dl_type)).then_some(found)
    }
}
