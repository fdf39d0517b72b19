//! Extract: reads keys directly from packet bytes, only to the depth that the port's megaflows need.
//!
//! The result equals that of `flow::extract`; a test compares the two. At depth `L3` and above, the TCP flags are
//! read too, because flow statistics contain them.

mod byte_order;
mod network;
mod params;
mod parse;
mod shape;

use crate::batch::{BATCH, Batch};
use crate::packet::Meta;
use crate::port::Frame;
use classifier::megaflow::convert::{ext_of, line_of, options_of};
use classifier::megaflow::{Depth, EXT_WORDS, Key, NSH_WORDS, Words, bits};
use cpu::{Level, Line, Stage};
use flow::{Flow, VLAN_CFI};
use network::{IGMP_WORD, MPLS_WORDS, NEIGHBOUR_WORDS};
use packet::ether::ethertype;
use packet::ip::ipproto;
use params::{ANY, L2, L3, L4, Params, WIDE};
use parse::Parse;
use shape::{AHEAD, Keys, ReceivedBase, RecirculatedBases};

/// Fills keys and TCP flags of a batch to this depth. `words`: the words after the line to be filled (depth `Wide`
/// only).
pub fn read(batch: &mut Batch, depth: Depth, words: Words) {
    cpu::stage(Extract { batch, depth, words, by_kind: false });
}

/// Fills keys and TCP flags of the batch.
pub(crate) struct Extract<'a> {
    pub(crate) batch: &'a mut Batch,
    pub(crate) depth: Depth,
    /// At depth `Wide`: the words after the line that are filled.
    pub(crate) words: Words,
    /// The port's megaflows match only fields that distinguish kinds of packets, so packets of one kind need only one
    /// key.
    pub(crate) by_kind: bool,
}

impl Stage for Extract<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Level>(self, level: L) {
        let Extract { batch, depth, words, by_kind } = self;
        let n = batch.len();
        batch.depth = depth;
        batch.shares_key = depth == Depth::Port && batch.own.is_empty();
        if batch.shares_key {
            batch.lines[0] = batch.base();
            batch.tcp_flags[..n].fill(0);
            return;
        }
        batch.frames.iter().take(AHEAD).for_each(Frame::prefetch);
        if by_kind && depth >= Depth::L2 && batch.own.is_empty() && batch.common.packet_type == 0 && n > 0 {
            fill_first(level, batch, depth);
            if is_one_kind(batch, depth) {
                batch.shares_key = true;
                return;
            }
        }
        // Each depth has its own compiled loop.
        match depth {
            Depth::Wide => {
                batch.clear(words);
                batch.outers.fill(&mut batch.exts, words);
                fill_batch::<WIDE, L>(batch, depth, words, level);
            }
            Depth::L4 => fill_batch::<L4, L>(batch, depth, 0, level),
            Depth::L3 => fill_batch::<L3, L>(batch, depth, 0, level),
            Depth::L2 => fill_batch::<L2, L>(batch, depth, 0, level),
            Depth::Port => bits(batch.key_bits()).for_each(|i| fill_any(batch, i, Depth::Port, 0)),
        }
    }
}

/// Fills the line of the batch's first packet. The batch was just received, so all metadata is in `common`.
#[inline]
fn fill_first<L: Level>(level: L, batch: &mut Batch, depth: Depth) {
    let (base, tags) = (batch.base(), batch.common.tags());
    let params = Params { depth: depth.min(Depth::L4), tags, words: 0, level };
    if !batch.frames[0].is_complete() && fill_first_by_head(batch, base, params) {
        return;
    }
    fill(&mut batch.lines[0], &base, batch.frames[0].bytes(), tags, depth);
}

/// As [`fill_first`], from the bytes in the buffer alone, without copying the packet's tail. Returns false if that is
/// not possible.
#[inline(never)]
fn fill_first_by_head<L: Level>(batch: &mut Batch, base: Line, params: Params<L>) -> bool {
    let Batch { frames, lines, tcp_flags, .. } = batch;
    let keys = Keys { lines, tcp_flags, columns: &mut [], mixed: &mut false };
    shape::fill::<ANY, _>(&frames[..1], &ReceivedBase(&base), keys, params, 1) == 0
}

/// Parameters for reading a packet that a port has just received.
pub(super) struct PlainIpv4<'a, L> {
    /// A line that contains only the packet's metadata.
    pub(super) base: &'a Line,
    /// `L3` or `L4`.
    pub(super) depth: Depth,
    pub(super) level: L,
}

/// Fills the line and the TCP flags of a packet. Returns `None` if the packet is not IPv4 without tags and options,
/// or is a fragment.
#[inline(always)]
pub(super) fn read_plain_ipv4<L: Level>(
    frame: &Frame,
    packet: PlainIpv4<'_, L>,
    line: &mut Line,
    tcp_flags: &mut u16,
) -> Option<()> {
    let PlainIpv4 { base, depth, level } = packet;
    let params = Params { depth, tags: 0, words: 0, level };
    network::plain_line((frame.head(), frame.len()), base, params, (line, tcp_flags))
}

/// Fills lines and the requested words after them. Packets of the same shape are filled by one loop per shape; the
/// general parser fills the others.
#[inline(always)]
fn fill_batch<const DEPTH: u8, L: Level>(batch: &mut Batch, depth: Depth, words: Words, level: L) {
    debug_assert_eq!(DEPTH, depth as u8);
    let (all, meta) = (batch.key_bits(), batch.own.first().unwrap_or(&batch.common));
    let params = Params { depth, tags: meta.tags(), words, level };
    let has_shapes = meta.packet_type == 0 && !meta.has_words(words);
    let base = batch.base();
    let Batch { frames, lines, tcp_flags, exts, own, mixed, .. } = &mut *batch;
    let keys = Keys { lines, tcp_flags, columns: exts, mixed };
    let others = if !has_shapes {
        all
    } else if own.is_empty() {
        shape::fill::<DEPTH, _>(frames, &ReceivedBase(&base), keys, params, all)
    } else {
        fill_recirculated(frames, &RecirculatedBases { own, params }, keys, params, all)
    };
    bits(others).for_each(|i| fill_any(batch, i, depth, words));
}

/// Fills the keys of recirculated packets. There are few such packets, so one loop serves all depths.
#[inline(never)]
fn fill_recirculated<L: Level>(
    frames: &[Frame],
    bases: &RecirculatedBases<'_, L>,
    keys: Keys<'_>,
    params: Params<L>,
    all: u64,
) -> u64 {
    shape::fill::<ANY, _>(frames, bases, keys, params, all)
}

/// Fills the key of any packet with the general parser.
#[inline(never)]
fn fill_any(batch: &mut Batch, i: usize, depth: Depth, words: Words) {
    let i = i % BATCH;
    let (Some(frame), meta) = (batch.frames.get(i), batch.own.get(i).unwrap_or(&batch.common)) else {
        return;
    };
    let data = frame.bytes();
    let (line, tags) = (&mut batch.lines[i], meta.tags());
    batch.tcp_flags[i] = fill(line, &meta.line(), data, tags, depth);
    if depth < Depth::Wide {
        return;
    }
    let mut needs_flow =
        words & other_header_words(line) != 0 || meta.packet_type != 0 || meta.has_words(words);
    if !needs_flow && line[1] as u16 == ethertype::IPV6 {
        match ipv6_words(data, line) {
            Some(six) => batch.exts.iter_mut().zip(six).for_each(|(column, word)| column[i] = word),
            None => needs_flow = true,
        }
    }
    if needs_flow {
        fill_complete_key(batch, i);
    }
}

/// Fills the key of packet `i` again after its bytes have changed. The metadata in the packet's line is kept.
pub(super) fn reread_one(batch: &mut Batch, i: usize) {
    let before = metadata(&batch.lines[i % BATCH]);
    fill_any(batch, i, batch.depth, batch.words);
    restore(&mut batch.lines[i % BATCH], before);
}

/// Fills the keys of these packets again after their bytes have changed. The metadata in their lines is kept. All
/// other metadata must be common to the packets.
pub(super) fn reread(batch: &mut Batch, packets: u64) {
    if batch.depth == Depth::Port {
        return;
    }
    batch.unshare_key();
    let all = batch.key_bits();
    if packets & all == all {
        let (mut before, n) = ([[0; 3]; BATCH], batch.len().min(BATCH));
        before.iter_mut().zip(&batch.lines[..n]).for_each(|(before, line)| *before = metadata(line));
        read(batch, batch.depth, batch.words);
        batch.lines[..n].iter_mut().zip(before).for_each(|(line, before)| restore(line, before));
        return batch.fill_connections();
    }
    for i in bits(packets & all) {
        if batch.depth == Depth::Wide {
            bits(batch.words).take_while(|word| *word < EXT_WORDS).for_each(|word| batch.exts[word][i] = 0);
        }
        reread_one(batch, i);
    }
    if batch.depth == Depth::Wide {
        batch.outers.fill(&mut batch.exts, batch.words);
        batch.fill_connections();
    }
}

/// Returns the words of a line that contain metadata.
#[inline(always)]
fn metadata(line: &Line) -> [u64; 3] {
    [line[0], line[5], line[6]]
}

/// Writes the [`metadata`] words back into a line that was filled again.
#[inline(always)]
fn restore(line: &mut Line, metadata: [u64; 3]) {
    line[0] = metadata[0] & !0xffff_ffff | line[0] & 0xffff_ffff;
    (line[5], line[6]) = (metadata[1], metadata[2]);
}

/// Returns whether all packets are of the same kind as the first one, so that the first packet's line serves for all.
/// Fills the TCP flags of each packet. Also returns false where the check would take longer than parsing.
#[inline(always)]
fn is_one_kind(batch: &mut Batch, depth: Depth) -> bool {
    match batch.lines[0][1] as u16 {
        ethertype::IPV4 if depth >= Depth::L3 => all_plain(batch),
        ethertype::IPV6 if depth >= Depth::L3 => false,
        _ => all_of_one_type(batch),
    }
}

/// Returns whether all packets are of the most frequent kind: IPv4 without tags and options, and not a fragment.
#[inline(always)]
fn all_plain(batch: &mut Batch) -> bool {
    let (frames, mut i) = (&batch.frames[..batch.frames.len().min(BATCH)], 0);
    // No iterators: `each_of_shape` in the file `shape` has the reason.
    while let Some(frame) = frames.get(i) {
        if let Some(ahead) = frames.get(i + AHEAD) {
            ahead.prefetch();
        }
        let Some(flags) = network::plain_flags(frame.head(), frame.len()) else { return false };
        batch.tcp_flags[i % BATCH] = flags;
        i += 1;
    }
    true
}

/// Returns whether no packet has a VLAN tag and all packets have the Ethernet type or LLC header of the first one. IP
/// fragments are not distinguished from other packets.
fn all_of_one_type(batch: &mut Batch) -> bool {
    let Some(first) = type_words(batch.frames[0].head()) else { return false };
    let type_field = (first.0 as u16).swap_bytes();
    if ethertype::is_vlan(type_field) {
        return false;
    }
    let same = if type_field >= ethertype::MIN { (0xffff, 0) } else { (u64::MAX, u16::MAX) };
    let rest = batch.frames.iter().enumerate().skip(1);
    for (i, frame) in rest {
        batch.frames.get(i + AHEAD).into_iter().for_each(Frame::prefetch);
        let Some((low, high)) = type_words(frame.head()) else { return false };
        if (low ^ first.0) & same.0 | u64::from((high ^ first.1) & same.1) != 0 {
            return false;
        }
    }
    batch.tcp_flags.fill(0);
    true
}

/// Returns the ten bytes from the type field on, as two little-endian words: the Ethernet type, or the length and the
/// LLC and SNAP headers, which contain the type.
#[inline(always)]
fn type_words(data: &[u8]) -> Option<(u64, u16)> {
    let (low, rest) = data.get(12..)?.split_first_chunk()?;
    Some((u64::from_le_bytes(*low), u16::from_le_bytes(*rest.first_chunk()?)))
}

/// Returns the first words of an IPv6 packet's `Ext`: label, source and destination. Returns `None` if the header is
/// not at the usual offset for packets with this line, or if a length in the header is wrong.
#[inline(always)]
fn ipv6_words(data: &[u8], line: &Line) -> Option<[u64; 5]> {
    let tagged = |word: u64| word & u64::from(VLAN_CFI) != 0;
    let tags = 4 * (usize::from(tagged(line[0])) + usize::from(tagged(line[2])));
    // A valid IPv6 header sets a protocol other than 0 in the line: 0 is the hop-by-hop extension header, which is
    // skipped.
    let parsed =
        line[4] & 0xff00_0000 != 0 && data.get(12 + tags..14 + tags)? == ethertype::IPV6.to_be_bytes();
    parsed.then(|| network::ipv6_words(data, tags)).flatten()
}

/// Words of an `Ext` that ARP fills.
const ARP_WORDS: Words = 0b1_1000_0000;

/// Returns the words that headers other than IPv6 may fill in packets with this line.
#[inline(always)]
fn other_header_words(line: &Line) -> Words {
    match line[1] as u16 {
        ethertype::IPV4 | ethertype::IPV6 => match (line[4] >> 24) as u8 {
            ipproto::ICMPV6 => NEIGHBOUR_WORDS,
            ipproto::IGMP => IGMP_WORD,
            _ => 0,
        },
        t if ethertype::is_arp(t) => ARP_WORDS,
        t if ethertype::is_mpls(t) => MPLS_WORDS,
        ethertype::NSH => NSH_WORDS,
        _ => 0,
    }
}

/// Fills the complete key of packet `i` of the batch by way of a [`Flow`].
#[inline(never)]
fn fill_complete_key(batch: &mut Batch, i: usize) {
    let (Some(frame), meta) = (batch.frames.get(i), batch.own.get(i).unwrap_or(&batch.common)) else {
        return;
    };
    let mut flow = meta.to_flow();
    batch.fill_outer(i, &mut flow);
    batch.tcp_flags[i] = fill_wide(frame.bytes(), meta.tags(), &mut flow);
    batch.lines[i] = line_of(&flow);
    batch.exts.iter_mut().zip(ext_of(&flow)).for_each(|(column, word)| column[i] = word);
    if flow.tlv.present != 0 {
        batch.options.resize_with(BATCH, || None);
        batch.options[i] = options_of(&flow);
    }
}

/// Returns the complete key of a packet, and its TCP flags.
pub(crate) fn wide_key(data: &[u8], meta: &Meta) -> (Key, u16) {
    let mut flow = meta.to_flow();
    let flags = fill_wide(data, meta.tags(), &mut flow);
    (Key::from_flow(&flow), flags)
}

/// Fills the packet fields of a flow whose metadata is filled already; returns the packet's TCP flags.
fn fill_wide(data: &[u8], tags: usize, flow: &mut Flow) -> u16 {
    flow::extract::extract(data, tags, flow);
    if flow.is_ip() && flow.nw_proto == ipproto::TCP { flow.tcp_flags } else { 0 }
}

/// Returns the line of a packet parsed to `depth` (for `Wide`: to `L4`), and the packet's TCP flags.
pub fn line(data: &[u8], meta: &Meta, depth: Depth) -> (Line, u16) {
    let mut line = [0; 8];
    let flags = fill(&mut line, &meta.line(), data, meta.tags(), depth);
    (line, flags)
}

/// Returns a line that contains only the type, addresses, protocol and ports of an IPv4 packet without tags and
/// options. `len`: length of the packet in bytes; `data`: the bytes that are in the buffer. Returns `None` for other
/// packets.
#[inline(always)]
pub(crate) fn tuple_line(data: &[u8], len: usize) -> Option<Line> {
    let (proto, payload) = network::plain(data, len)?;
    let addresses = u64::from_be_bytes(*data.get(26..)?.first_chunk()?);
    let ports = parse::transport(proto, payload, Depth::L4).unwrap_or_default().ports;
    Some([0, u64::from(ethertype::IPV4), 0, addresses, u64::from(proto) << 24 | ports, 0, 0, 0])
}

/// Fills the line of a packet, starting from its metadata in `base`; returns the packet's TCP flags.
fn fill(line: &mut Line, base: &Line, data: &[u8], tags: usize, depth: Depth) -> u16 {
    *line = *base;
    if depth == Depth::Port {
        return 0;
    }
    let mut out = Parse { line, tcp_flags: 0 };
    out.packet(data, base[7] as u16, tags, depth);
    out.tcp_flags
}
