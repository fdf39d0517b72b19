//! Shapes: the combinations of headers that nearly all packets have. Each shape has its own loop, without a branch
//! per header.
//!
//! A shape is a number of VLAN tags and the header that follows them. Usually all packets of a batch have the shape
//! of the first packet, so all are first read as if they had that shape. The packets that have another shape are then
//! [sorted](sort) by shape, without a branch that depends on the packet. If there are many of them, the next batch is
//! sorted at once. Packets without a shape, or with a field that needs the [general parser](super::parse), are left
//! to that parser.

use super::network::{
    Ipv4Header, Ipv6Header, KeyOut, LineInput, Mpls, NetworkHeader, Packet, TypeOnly, pair,
};
use super::params::Params;
use crate::batch::BATCH;
use crate::packet::Meta;
use crate::port::Frame;
use classifier::megaflow::{Column, Depth};
use cpu::{Level, Line};
use flow::VLAN_CFI;
use packet::ether::ethertype;

/// How many packets ahead frames are prefetched.
pub(super) const AHEAD: usize = 6;

/// The keys of a batch to be filled.
pub(super) struct Keys<'b> {
    pub(super) lines: &'b mut [Line; BATCH],
    pub(super) tcp_flags: &'b mut [u16; BATCH],
    /// All columns, or none at depths without columns. The columns of the requested words are zero before they are
    /// filled.
    pub(super) columns: &'b mut [Column],
    /// Many packets of the previous batch had other shapes than the most frequent one. Only a hint; set for the next
    /// batch.
    pub(super) mixed: &'b mut bool,
}

/// Provides the words of the packets' metadata.
pub(super) trait Bases {
    /// Returns a line that contains only the metadata of packet `i`; `None` if its metadata requires the general
    /// parser.
    fn of(&self, i: usize) -> Option<Line>;
}

/// Packets that a port has just received: all have the same metadata, which is in this line.
pub(super) struct ReceivedBase<'b>(pub(super) &'b Line);

impl Bases for ReceivedBase<'_> {
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

/// Fills the keys of the packets in `all` that have a shape; returns the bits of the other packets.
#[inline(always)]
pub(super) fn fill<const DEPTH: u8, L: Level>(
    frames: &[Frame],
    bases: &impl Bases,
    keys: Keys<'_>,
    params: Params<L>,
    all: u64,
) -> u64 {
    let mut keys = keys;
    let first = frames.get(all.trailing_zeros() as usize).map(|frame| shape_of(frame.head(), params));
    let mut sorted = Sorted { by_shape: [0; SHAPES], shapeless: 0 };
    let mut is_sorted = *keys.mixed;
    match first {
        Some(first @ ..SHAPES) if !is_sorted => sorted.by_shape[first] = all,
        _ => {
            sorted = sort(frames, params, all);
            is_sorted = true;
            *keys.mixed = sorted.is_mixed(all);
        }
    }
    let (mut shape, mut unread) = (0, 0);
    while let Some(packets) = sorted.by_shape.get_mut(shape).map(std::mem::take) {
        if packets == 0 {
            shape += 1;
            continue;
        }
        let others = fill_shape::<DEPTH, L>(shape, frames, bases, &mut keys, params, packets);
        if is_sorted || others == 0 {
            unread |= others;
            continue;
        }
        sorted = sort(frames, params, others);
        is_sorted = true;
        *keys.mixed = is_many(sorted.in_shapes() & !sorted.by_shape[shape], all);
        // These packets have the shape of the first packet, but a field that needs the general parser.
        unread |= std::mem::take(&mut sorted.by_shape[shape]);
        shape = 0;
    }
    unread | sorted.shapeless
}

/// Number of shapes: 0 to 2 tags, each with one of the headers of [`Network`].
const SHAPES: usize = 3 * NETWORKS;
const NETWORKS: usize = 4;

/// The header after the tags. The number of a shape is the number of this header plus [`NETWORKS`] for each tag.
#[derive(Clone, Copy)]
enum Network {
    Ipv4,
    Ipv6,
    Mpls,
    /// Only the Ethernet type is needed.
    Any,
}

/// Packets by shape. Bit i: packet i of the batch.
struct Sorted {
    by_shape: [u64; SHAPES],
    /// Packets without a shape.
    shapeless: u64,
}

impl Sorted {
    /// The packets that have a shape.
    fn in_shapes(&self) -> u64 {
        self.by_shape.iter().fold(0, |all, packets| all | packets)
    }

    /// Returns whether many packets have other shapes than the most frequent one.
    fn is_mixed(&self, all: u64) -> bool {
        let most = self.by_shape.iter().max_by_key(|packets| packets.count_ones());
        is_many(self.in_shapes() & !most.unwrap_or(&0), all)
    }
}

/// Returns whether more than one of eight packets is in `these`. Above this share, reading these packets twice costs
/// more than sorting all packets.
fn is_many(these: u64, all: u64) -> bool {
    8 * these.count_ones() > all.count_ones()
}

/// Sorts packets by shape.
#[inline(never)]
fn sort<L: Level>(frames: &[Frame], params: Params<L>, left: u64) -> Sorted {
    let (frames, mut left) = (&frames[..frames.len().min(BATCH)], left);
    let mut packets = [0; SHAPES + 1];
    while let Some(frame) = frames.get(left.trailing_zeros() as usize) {
        let bit = left & left.wrapping_neg();
        left ^= bit;
        if let Some(ahead) = frames.get(bit.trailing_zeros() as usize + AHEAD) {
            ahead.prefetch();
        }
        packets[shape_of(frame.head(), params)] |= bit;
    }
    let [by_shape @ .., shapeless] = packets;
    Sorted { by_shape, shapeless }
}

/// Returns the number of the shape that the packet's Ethernet types determine, or [`SHAPES`] if the packet has none.
/// No branch depends on the types, because in a mixed batch such branches are mispredicted.
#[inline(always)]
fn shape_of<L>(data: &[u8], params: Params<L>) -> usize {
    let Some(head) = data.get(..22) else { return SHAPES };
    let types = [12, 16, 20].map(|at| pair(head, at));
    let first = usize::from(params.tags > 0 && ethertype::is_vlan(types[0]));
    let tags = first + (first & usize::from(params.tags > 1 && ethertype::is_vlan(types[1])));
    let dl_type = types[tags];
    let is = |holds: bool| usize::from(holds);
    let network = if params.depth < Depth::L3 {
        [usize::MAX, Network::Any as usize][is(dl_type >= ethertype::MIN && !ethertype::is_vlan(dl_type))]
    } else {
        let known = is(dl_type == ethertype::IPV4)
            + is(dl_type == ethertype::IPV6) * (1 + Network::Ipv6 as usize)
            + is(ethertype::is_mpls(dl_type)) * (1 + Network::Mpls as usize);
        known.wrapping_sub(1)
    };
    (NETWORKS * tags).saturating_add(network).min(SHAPES)
}

#[inline(always)]
fn fill_shape<const DEPTH: u8, L: Level>(
    shape: usize,
    frames: &[Frame],
    bases: &impl Bases,
    keys: &mut Keys<'_>,
    params: Params<L>,
    packets: u64,
) -> u64 {
    let tags = shape / NETWORKS;
    if params.at::<DEPTH>().depth < Depth::L3 {
        return match tags {
            0 => each_of_shape::<0, TypeOnly, DEPTH, L>(frames, bases, keys, params, packets),
            1 => each_of_shape::<1, TypeOnly, DEPTH, L>(frames, bases, keys, params, packets),
            _ => each_of_shape::<2, TypeOnly, DEPTH, L>(frames, bases, keys, params, packets),
        };
    }
    const IPV4: usize = Network::Ipv4 as usize;
    const IPV6: usize = Network::Ipv6 as usize;
    match (tags, shape % NETWORKS) {
        (0, IPV4) => each_of_shape::<0, Ipv4Header, DEPTH, L>(frames, bases, keys, params, packets),
        (1, IPV4) => each_of_shape::<1, Ipv4Header, DEPTH, L>(frames, bases, keys, params, packets),
        (_, IPV4) => each_of_shape::<2, Ipv4Header, DEPTH, L>(frames, bases, keys, params, packets),
        (0, IPV6) => each_of_shape::<0, Ipv6Header, DEPTH, L>(frames, bases, keys, params, packets),
        (1, IPV6) => each_of_shape::<1, Ipv6Header, DEPTH, L>(frames, bases, keys, params, packets),
        (_, IPV6) => each_of_shape::<2, Ipv6Header, DEPTH, L>(frames, bases, keys, params, packets),
        (0, _) => each_of_shape::<0, Mpls, DEPTH, L>(frames, bases, keys, params, packets),
        (1, _) => each_of_shape::<1, Mpls, DEPTH, L>(frames, bases, keys, params, packets),
        (_, _) => each_of_shape::<2, Mpls, DEPTH, L>(frames, bases, keys, params, packets),
    }
}

/// Fills the keys of the packets in the bit set; returns the bits of packets that do not have this shape.
#[inline(always)]
fn each_of_shape<const TAGS: usize, N: NetworkHeader, const DEPTH: u8, L: Level>(
    frames: &[Frame],
    bases: &impl Bases,
    keys: &mut Keys<'_>,
    params: Params<L>,
    packets: u64,
) -> u64 {
    let (frames, params) = (&frames[..frames.len().min(BATCH)], params.at::<DEPTH>());
    let Keys { lines, tcp_flags, columns, .. } = keys;
    let (mut left, mut others) = (packets, 0);
    // No iterators or closures: if the compiler does not inline one of them here, it compiles that function without
    // the vector instructions.
    while let Some(frame) = frames.get(left.trailing_zeros() as usize) {
        let i = left.trailing_zeros() as usize;
        left &= left - 1;
        if let Some(ahead) = frames.get(i + AHEAD) {
            ahead.prefetch();
        }
        let out = (&mut lines[i % BATCH], &mut tcp_flags[i % BATCH]);
        match fill_one::<TAGS, N, L>((frame.head(), frame.len()), bases, i, params, out) {
            Some(packet) if params.depth == Depth::Wide => N::words(&packet, columns, i),
            Some(_) => {}
            None => others |= 1 << i,
        }
    }
    others
}

/// Fills the line and the TCP flags of one packet of `len` bytes, of which `data` are in the buffer. Returns `None`
/// if the packet does not have this shape; the line is then undefined.
#[inline(always)]
fn fill_one<'a, const TAGS: usize, N: NetworkHeader, L: Level>(
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
    N::line(&packet, &LineInput { base: &bases.of(i)?, tags, params }, out)?;
    Some(packet)
}
