//! Shapes: the combinations of headers that nearly all packets have. Each is read by its own loop, without a
//! branch per header.
//!
//! A shape is a number of VLAN tags and the header that follows them. Usually the packets of a batch have one
//! or two shapes: the first packet determines the first shape, and all packets of this shape are read; the
//! first of the other packets determines the next shape. Packets without a shape, or with a field that needs
//! the [general parser](super::parse), are left to that parser.

use super::network::{Any, Given, Ipv4Header, Ipv6Header, KeyOut, Mpls, Packet, Read, pair};
use super::params::Params;
use crate::batch::BATCH;
use crate::packet::Meta;
use crate::port::Frame;
use classifier::megaflow::{Column, Depth, bits};
use cpu::{Level, Line};
use flow::VLAN_CFI;
use flow::flow::VLANS_MAX;
use packet::ether::ethertype;

/// How many packets ahead to prefetch.
pub(super) const AHEAD: usize = 6;

/// Maximum number of shapes per batch that are read by separate loops.
const SHAPES: usize = 4;

/// The keys of a batch to be filled.
pub(super) struct Keys<'b> {
    pub(super) lines: &'b mut [Line; BATCH],
    pub(super) tcp_flags: &'b mut [u16; BATCH],
    /// All columns, or none at depths without columns; the columns of the words that are asked for are zero.
    pub(super) columns: &'b mut [Column],
}

/// Provides the words of the packets' metadata.
pub(super) trait Bases {
    /// The line of packet `i` with its metadata only. `None`: its metadata requires the general parser.
    fn of(&self, i: usize) -> Option<Line>;
}

/// Packets that a port has just received: all have the same metadata.
pub(super) struct Fresh<'b>(pub(super) &'b Line);

impl Bases for Fresh<'_> {
    #[inline(always)]
    fn of(&self, _: usize) -> Option<Line> {
        Some(*self.0)
    }
}

/// Recirculated packets.
pub(super) struct RecirculatedBases<'b, L> {
    pub(super) own: &'b [Meta],
    pub(super) params: Params<L>,
}

impl<L> Bases for RecirculatedBases<'_, L> {
    #[inline(always)]
    fn of(&self, i: usize) -> Option<Line> {
        let meta = self.own.get(i)?;
        let fits =
            meta.packet_type == 0 && meta.tags() == self.params.tags && !meta.has_words(self.params.words);
        fits.then(|| meta.line())
    }
}

/// Fills the keys of packets that are in `left` and have a shape; returns the bits of the others.
#[inline(always)]
pub(super) fn fill<const DEPTH: u8, L: Level>(
    frames: &[Frame],
    bases: &impl Bases,
    keys: Keys<'_>,
    params: Params<L>,
    left: u64,
) -> u64 {
    let (mut keys, mut left) = (keys, left);
    let mut shapeless = 0;
    for _ in 0..SHAPES {
        let Some(first) = bits(left).next() else { break };
        match frames.get(first).and_then(|frame| shape_of(frame.head(), &params)) {
            Some(shape) => {
                let others = fill_shape::<DEPTH, L>(shape, frames, bases, &mut keys, params, left);
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
fn shape_of<L>(data: &[u8], params: &Params<L>) -> Option<Shape> {
    for tags in 0..=params.tags.min(VLANS_MAX) {
        let &[high, low] = data.get(12 + 4 * tags..)?.first_chunk()?;
        let dl_type = u16::from_be_bytes([high, low]);
        if !ethertype::is_vlan(dl_type) {
            return Some((tags, network_of(dl_type, params.depth)?));
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
fn fill_shape<const DEPTH: u8, L: Level>(
    (tags, network): Shape,
    frames: &[Frame],
    bases: &impl Bases,
    keys: &mut Keys<'_>,
    params: Params<L>,
    left: u64,
) -> u64 {
    if params.at::<DEPTH>().depth < Depth::L3 {
        return match tags {
            0 => each::<0, Any, DEPTH, L>(frames, bases, keys, params, left),
            1 => each::<1, Any, DEPTH, L>(frames, bases, keys, params, left),
            _ => each::<2, Any, DEPTH, L>(frames, bases, keys, params, left),
        };
    }
    match (tags, network) {
        (0, Network::Ipv4Header) => each::<0, Ipv4Header, DEPTH, L>(frames, bases, keys, params, left),
        (1, Network::Ipv4Header) => each::<1, Ipv4Header, DEPTH, L>(frames, bases, keys, params, left),
        (_, Network::Ipv4Header) => each::<2, Ipv4Header, DEPTH, L>(frames, bases, keys, params, left),
        (0, Network::Ipv6Header) => each::<0, Ipv6Header, DEPTH, L>(frames, bases, keys, params, left),
        (1, Network::Ipv6Header) => each::<1, Ipv6Header, DEPTH, L>(frames, bases, keys, params, left),
        (_, Network::Ipv6Header) => each::<2, Ipv6Header, DEPTH, L>(frames, bases, keys, params, left),
        (0, _) => each::<0, Mpls, DEPTH, L>(frames, bases, keys, params, left),
        (1, _) => each::<1, Mpls, DEPTH, L>(frames, bases, keys, params, left),
        _ => each::<2, Mpls, DEPTH, L>(frames, bases, keys, params, left),
    }
}

/// Fills the keys of the packets in the bit set; returns the bits of packets without this shape.
#[inline(always)]
fn each<const TAGS: usize, N: Read, const DEPTH: u8, L: Level>(
    frames: &[Frame],
    bases: &impl Bases,
    keys: &mut Keys<'_>,
    params: Params<L>,
    left: u64,
) -> u64 {
    let (frames, params) = (&frames[..frames.len().min(BATCH)], params.at::<DEPTH>());
    let Keys { lines, tcp_flags, columns } = keys;
    let (mut i, mut others) = (left.trailing_zeros() as usize, 0);
    // Iterators and closures are avoided: a function that is not inlined here is compiled without the vector
    // instructions.
    while let Some(frame) = frames.get(i) {
        if let Some(ahead) = frames.get(i + AHEAD) {
            ahead.prefetch();
        }
        if left >> i & 1 != 0 {
            let out = (&mut lines[i % BATCH], &mut tcp_flags[i % BATCH]);
            match one::<TAGS, N, L>((frame.head(), frame.len()), bases, i, params, out) {
                Some(packet) if params.depth == Depth::Wide => N::words(&packet, columns, i),
                Some(_) => {}
                None => others |= 1 << i,
            }
        }
        i += 1;
    }
    others
}

/// Fills the line and the TCP flags of one packet of `len` bytes, of which `data` are present. `None`: the packet does not have
/// this shape, and the filled line is not its key.
#[inline(always)]
fn one<'a, const TAGS: usize, N: Read, L: Level>(
    (data, len): (&'a [u8], usize),
    bases: &impl Bases,
    i: usize,
    params: Params<L>,
    out: KeyOut<'_>,
) -> Option<Packet<'a>> {
    let at = 4 * TAGS;
    let head = N::head(data, at)?;
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
    N::line(&packet, &Given { base: &bases.of(i)?, tags, params }, out)?;
    Some(packet)
}
