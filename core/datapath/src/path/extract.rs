//! Extract: keys straight from bytes, no deeper than the port's megaflows ask.
//!
//! The meaning is that of `flow::extract`, and a test holds the two together. Whatever the depth, the TCP flags of a
//! packet that was parsed as far as its addresses are read too, since statistics show them.

use crate::batch::{BATCH, Batch};
use crate::packet::Meta;
use crate::port::Frame;
use classifier::megaflow::convert::{ext_of, line_of, options_of};
use classifier::megaflow::{ALL_WORDS, Depth, EXT_WORDS, Key, Words, bits};
use cpu::{Line, Stage};
use flow::{Flow, VLAN_CFI};
use packet::ether::{Arp, Ethernet, TypeField, VlanTag, ethertype, ethertype_of};
use packet::ip::{Fragment, Ipv4, Ipv6, ipproto, is_extension, skip_extensions};
use packet::{Icmp, Icmpv6, Igmp, Sctp, Tcp, Udp, nd};

/// How many packets ahead to prefetch.
const AHEAD: usize = 6;

/// Fills keys and flags of the batch.
pub(crate) struct Extract<'a> {
    pub(crate) batch: &'a mut Batch,
    pub(crate) depth: Depth,
    /// At depth `Wide`: which words behind the line are filled.
    pub(crate) words: Words,
    /// The port's megaflows tell no more than kinds of packets apart.
    pub(crate) by_kind: bool,
}

impl Stage for Extract<'_> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        stage(self.batch, self.depth, self.words, self.by_kind);
    }
}

#[inline(always)]
fn stage(batch: &mut Batch, depth: Depth, words: Words, by_kind: bool) {
    let n = batch.len();
    batch.depth = depth;
    batch.alike = depth == Depth::Port && batch.own.is_empty();
    if batch.alike {
        batch.lines[0] = batch.common.line();
        batch.tcp_flags[..n].fill(0);
        return;
    }
    batch.frames.iter().take(AHEAD).for_each(prefetch);
    if by_kind && depth >= Depth::L2 && batch.own.is_empty() && batch.common.packet_type == 0 && n > 0 {
        let (base, tags) = (batch.common.line(), batch.common.tags());
        fill(&mut batch.lines[0], &base, batch.frames[0].bytes(), tags, depth);
        if one_kind(batch, depth) {
            batch.alike = true;
            return;
        }
    }
    let fresh = batch.own.is_empty();
    match depth {
        Depth::Wide => {
            batch.widen();
            batch.options.clear();
            batch.words = words;
            some_words(batch, words);
        }
        // Each depth is compiled for itself.
        Depth::L4 if fresh => narrow(batch, Depth::L4),
        Depth::L3 if fresh => narrow(batch, Depth::L3),
        _ if fresh => narrow(batch, depth),
        _ => each(batch, |batch, i, frame| {
            (batch.lines[i], batch.tcp_flags[i]) = line(frame.bytes(), batch.meta(i), depth);
        }),
    }
}

/// Fills the lines of packets fresh from their port: those of plain packets in a loop of their own, which needs all registers,
/// then the others.
#[inline(always)]
fn narrow(batch: &mut Batch, depth: Depth) {
    let (base, tags) = (batch.common.line(), batch.common.tags());
    let is_quick = depth >= Depth::L3 && base[7] as u16 == 0;
    let Batch { frames, lines, tcp_flags, .. } = batch;
    let (mut others, mut n) = ([0u8; BATCH], 0);
    let places = lines.iter_mut().zip(&mut *tcp_flags);
    for (i, (frame, (line, tcp_flags))) in frames.iter().zip(places).enumerate() {
        frames.get(i + AHEAD).into_iter().for_each(prefetch);
        *line = base;
        let mut out = Parse { line, tcp_flags: 0 };
        if !is_quick {
            out.packet(frame.bytes(), base[7] as u16, tags, depth);
        } else if out.plain(frame.bytes(), depth).is_none() {
            others[n % BATCH] = i as u8;
            n += 1;
        }
        *tcp_flags = out.tcp_flags;
    }
    for i in others[..n.min(BATCH)].iter().map(|i| usize::from(*i) % BATCH) {
        let Some(frame) = frames.get(i) else { break };
        let mut out = Parse { line: &mut lines[i], tcp_flags: 0 };
        if out.quick(frame.bytes(), tags, depth).is_none() {
            out.packet(frame.bytes(), 0, tags, depth);
        }
        tcp_flags[i] = out.tcp_flags;
    }
}

/// All packets are of the kind of the first, whose line is filled; then their TCP flags are filled. `false`: they are
/// not, or it would take longer to find out than to parse them.
fn one_kind(batch: &mut Batch, depth: Depth) -> bool {
    match batch.lines[0][1] as u16 {
        ethertype::IPV4 if depth >= Depth::L3 => all_plain(batch),
        ethertype::IPV6 if depth >= Depth::L3 => false,
        _ => all_of_one_type(batch),
    }
}

/// All are of the kind that most are (see [`Plain`]).
fn all_plain(batch: &mut Batch) -> bool {
    let frames = batch.frames.iter().take(BATCH).zip(&mut batch.tcp_flags).enumerate();
    for (i, (frame, tcp_flags)) in frames {
        batch.frames.get(i + AHEAD).into_iter().for_each(prefetch);
        let Some(plain) = Plain::of(frame.bytes()) else { return false };
        *tcp_flags = match plain.proto() {
            ipproto::TCP => Tcp::parse_checked(plain.payload).map_or(0, |(tcp, _)| tcp.flags()),
            _ => 0,
        };
    }
    true
}

/// All have no VLAN tag and the Ethernet type or LLC header of the first. Of IP that does not tell fragments.
fn all_of_one_type(batch: &mut Batch) -> bool {
    let Some(first) = batch.frames[0].bytes().get(TYPE) else { return false };
    let type_field = u16::from_be_bytes([first[0], first[1]]);
    if ethertype::is_vlan(type_field) {
        return false;
    }
    let same = if type_field >= ethertype::MIN { 2 } else { TYPE.len() };
    let rest = batch.frames.iter().enumerate().skip(1);
    for (i, frame) in rest {
        batch.frames.get(i + AHEAD).into_iter().for_each(prefetch);
        if frame.bytes().get(TYPE).is_none_or(|t| t[..same] != first[..same]) {
            return false;
        }
    }
    batch.tcp_flags.fill(0);
    true
}

/// The Ethernet type, or the length and what says the type then: LLC and SNAP headers.
const TYPE: std::ops::Range<usize> = 12..22;

#[inline(always)]
fn prefetch(frame: &Frame) {
    frame.prefetch();
}

#[inline(always)]
fn each(batch: &mut Batch, mut key: impl FnMut(&mut Batch, usize, &Frame)) {
    let frames = std::mem::take(&mut batch.frames);
    for (i, frame) in frames.iter().enumerate().take(BATCH) {
        frames.get(i + AHEAD).into_iter().for_each(prefetch);
        key(batch, i, frame);
    }
    batch.frames = frames;
}

/// Fills lines and the words behind them that are asked for.
#[inline(always)]
fn some_words(batch: &mut Batch, words: Words) {
    let meta = &batch.common;
    let metadata_has_some = meta.rare.is_some() || meta.skb_priority != 0;
    let mut left = u64::MAX;
    if batch.own.is_empty() && !(metadata_has_some && words & METADATA_WORDS != 0) {
        narrow(batch, Depth::L4);
        left = behind(batch, words);
    }
    if left != 0 {
        each(batch, |batch, i, frame| {
            if left >> i & 1 == 1 {
                whole(batch, i, frame.bytes());
            }
        });
    }
}

/// Fills the words that are asked for behind lines, where all of them come from an IPv6 header or must be zero; the packets
/// where others may have a value: a bit for each. The metadata has none.
#[inline(always)]
fn behind(batch: &mut Batch, words: Words) -> u64 {
    let Batch { frames, lines, exts, .. } = batch;
    let mut left = 0;
    for (i, (frame, (line, ext))) in frames.iter().zip(lines.iter().zip(exts)).enumerate() {
        let mut whole = words & others(line) != 0;
        if line[1] as u16 == ethertype::IPV6 {
            match six_words(frame.bytes(), line) {
                Some(six) => ext[..5].copy_from_slice(&six),
                None => whole = true,
            }
        } else {
            ext[..5].fill(0);
        }
        // Packets without options have none beside their words.
        for word in bits(words & !SIX_WORDS & !OPTIONS) {
            ext[word % EXT_WORDS] = 0;
        }
        left |= u64::from(whole) << i;
    }
    left
}

/// The first words of an `Ext`: label, source, destination. `None`: the header is not where it is in most packets of this
/// line, or a length in it was wrong.
#[inline(always)]
fn six_words(data: &[u8], line: &Line) -> Option<[u64; 5]> {
    let tagged = |word: u64| word & u64::from(VLAN_CFI) != 0;
    let tags = usize::from(tagged(line[0])) + usize::from(tagged(line[2]));
    let head: &[u8; 2 + Ipv6::LEN] = data.get(12 + 4 * tags..)?.first_chunk()?;
    let at = |i: usize| {
        let mut out = [0; 8];
        out.copy_from_slice(&head[2 + i..10 + i]);
        u64::from_be_bytes(out)
    };
    // No protocol has the number of an extension, and zero is one.
    let parsed = line[4] & 0xff00_0000 != 0 && head[..2] == ethertype::IPV6.to_be_bytes();
    parsed.then(|| [at(0) & 0x000f_ffff_0000_0000, at(8), at(16), at(24), at(32)])
}

/// Words of an `Ext` by what fills them. The label shares a word with what IGMP and neighbour discovery have.
const SIX_WORDS: Words = 0b1_1111;
const NEIGHBOUR_WORDS: Words = 0b1_1110_0001;
const GROUP_WORD: Words = 1;
const ARP_WORDS: Words = 0b1_1000_0000;
const MPLS_WORDS: Words = 0b110_0000_0000;
const OPTIONS: Words = 1 << EXT_WORDS;
const NSH_WORDS: Words = 0b11_1111 << 26;
/// QoS priority, connection, tunnel and its options.
const METADATA_WORDS: Words = ALL_WORDS & !(SIX_WORDS | NEIGHBOUR_WORDS | NSH_WORDS | 1 << 9);

/// The words that something else than an IPv6 header may fill, of packets of this line.
#[inline(always)]
fn others(line: &Line) -> Words {
    match line[1] as u16 {
        ethertype::IPV4 | ethertype::IPV6 => match (line[4] >> 24) as u8 {
            ipproto::ICMPV6 => NEIGHBOUR_WORDS,
            ipproto::IGMP => GROUP_WORD,
            _ => 0,
        },
        t if ethertype::is_arp(t) => ARP_WORDS,
        t if ethertype::is_mpls(t) => MPLS_WORDS,
        ethertype::NSH => NSH_WORDS,
        _ => 0,
    }
}

/// Fills the whole key of packet `i` of the batch.
#[inline(never)]
fn whole(batch: &mut Batch, i: usize, data: &[u8]) {
    let mut flow = batch.meta(i).to_flow();
    batch.tcp_flags[i] = fill_wide(data, batch.meta(i).tags(), &mut flow);
    (batch.lines[i], batch.exts[i]) = (line_of(&flow), ext_of(&flow));
    if flow.tlv.present != 0 {
        batch.options.resize_with(BATCH, || None);
        batch.options[i] = options_of(&flow);
    }
}

/// The whole key of a packet, and its TCP flags.
pub(crate) fn wide(data: &[u8], meta: &Meta) -> (Key, u16) {
    let mut flow = meta.to_flow();
    let flags = fill_wide(data, meta.tags(), &mut flow);
    (Key::from_flow(&flow), flags)
}

/// Fills the packet's fields of a flow that has its metadata; its TCP flags.
fn fill_wide(data: &[u8], tags: usize, flow: &mut Flow) -> u16 {
    flow::extract::extract(data, tags, flow);
    if flow.is_ip() && flow.nw_proto == ipproto::TCP { flow.tcp_flags } else { 0 }
}

/// The line of a packet parsed to `depth` (`Wide`: as `L4`), and its TCP flags.
pub fn line(data: &[u8], meta: &Meta, depth: Depth) -> (Line, u16) {
    let mut line = [0; 8];
    let flags = fill(&mut line, &meta.line(), data, meta.tags(), depth);
    (line, flags)
}

/// Fills the line of a packet whose metadata are those of `base`; its TCP flags.
#[inline(always)]
fn fill(line: &mut Line, base: &Line, data: &[u8], tags: usize, depth: Depth) -> u16 {
    *line = *base;
    if depth == Depth::Port {
        return 0;
    }
    let packet_type = base[7] as u16;
    let mut out = Parse { line, tcp_flags: 0 };
    if packet_type != 0 || out.plain(data, depth).is_none() {
        out.packet(data, packet_type, tags, depth);
    }
    out.tcp_flags
}

fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn mac(bytes: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = bytes;
    u64::from_be_bytes([a, b, c, d, e, f, 0, 0])
}

/// Eight bytes from `AT` on.
#[inline(always)]
fn word<const AT: usize>(head: &[u8; 34]) -> u64 {
    let mut out = [0; 8];
    out.copy_from_slice(&head[AT..AT + 8]);
    u64::from_be_bytes(out)
}

/// An Ethernet frame without tags, of IPv4 without options that is not a fragment: what most packets are.
struct Plain<'a> {
    head: &'a [u8; 34],
    /// Type, version and length, TOS, total length, identification.
    second: u64,
    /// Fragment bits, TTL, protocol, checksum, half of the source.
    third: u64,
    payload: &'a [u8],
}

impl<'a> Plain<'a> {
    /// `None`: it is another.
    #[inline(always)]
    fn of(data: &'a [u8]) -> Option<Plain<'a>> {
        const IPV4_NO_OPTIONS: u64 = 0x0800 << 8 | 0x45;
        let head: &[u8; 34] = data.first_chunk()?;
        let (second, third) = (word::<12>(head), word::<20>(head));
        let end = 14 + (second >> 16 & 0xffff) as usize;
        let plain = second >> 40 == IPV4_NO_OPTIONS
            && third >> 48 & 0x3fff == 0
            && (34..=data.len()).contains(&end)
            && data.len() - end <= usize::from(u16::MAX);
        plain.then(|| Plain { head, second, third, payload: &data[34..end] })
    }

    #[inline(always)]
    fn proto(&self) -> u8 {
        (self.third >> 32) as u8
    }
}

/// An Ethernet frame without tags, of IPv6 without extension headers.
struct PlainSix<'a> {
    /// Type, version, traffic class and label, length.
    second: u64,
    /// Next header, hop limit, most of the source.
    third: u64,
    payload: &'a [u8],
}

impl<'a> PlainSix<'a> {
    /// `None`: it is another.
    #[inline(always)]
    fn of(data: &'a [u8]) -> Option<PlainSix<'a>> {
        const START: usize = 14;
        let head: &[u8; 34] = data.first_chunk()?;
        let (second, third) = (word::<12>(head), word::<20>(head));
        let end = START + Ipv6::LEN + (second & 0xffff) as usize;
        let plain = second >> 48 == u64::from(ethertype::IPV6)
            && !is_extension((third >> 56) as u8)
            && end <= data.len()
            && data.len() - end <= usize::from(u16::MAX);
        plain.then(|| PlainSix { second, third, payload: &data[START + Ipv6::LEN..end] })
    }
    #[inline(always)]
    fn proto(&self) -> u8 {
        (self.third >> 56) as u8
    }

    /// Protocol, traffic class and hop limit as a line has them.
    #[inline(always)]
    fn word(&self) -> u64 {
        self.third >> 32 & 0xff00_0000 | self.second >> 20 & 0xff_0000 | self.third >> 40 & 0xff00
    }
}

struct Parse<'l> {
    line: &'l mut Line,
    tcp_flags: u16,
}

impl Parse<'_> {
    /// A plain packet. `None`, and nothing done: it is another, or not to be looked into so deep.
    #[inline(always)]
    fn plain(&mut self, data: &[u8], depth: Depth) -> Option<()> {
        let packet = Plain::of(data).filter(|_| depth >= Depth::L3)?;
        self.line[1] = word::<0>(packet.head) & !0xffff | u64::from(ethertype::IPV4);
        self.line[2] = word::<6>(packet.head) & !0xffff;
        self.addresses(&packet);
        self.l4(packet.proto(), Fragment::No, packet.payload, depth);
        Some(())
    }

    /// The words of an IPv4 header.
    #[inline(always)]
    fn addresses(&mut self, packet: &Plain<'_>) {
        let Plain { head, second, third, .. } = *packet;
        self.line[3] = word::<26>(head);
        self.line[4] = third >> 8 & 0xff00_0000 | second >> 16 & 0xff_0000 | third >> 32 & 0xff00;
    }

    /// A packet of IPv6 without extension headers, or of that or plain behind one tag or two, which is to be looked into as
    /// deep as its addresses. `None`, and nothing done: it is another.
    #[inline(always)]
    fn quick(&mut self, data: &[u8], tags: usize, depth: Depth) -> Option<()> {
        let head: &[u8; 34] = data.first_chunk()?;
        let (outer, inner) = (word::<12>(head), word::<16>(head));
        let is_tag = |word: u64| ethertype::is_vlan((word >> 48) as u16);
        let tci = |word: u64| word >> 32 & 0xffff | u64::from(VLAN_CFI);
        // The tags' parts of words 0, 2 and 7, and the frame without them, seen from its type field.
        let (mut places, mut frame, mut type_field) = ([0; 3], data, outer);
        if is_tag(outer) && tags > 0 {
            (places, frame, type_field) = ([tci(outer), 0, outer >> 48 << 32], &data[4..], inner);
            if is_tag(inner) && tags > 1 {
                (places[1], frame, type_field) = (tci(inner), &data[8..], word::<20>(head));
                places[2] |= inner >> 48 << 16;
            }
        }
        let dl_type = (type_field >> 48) as u16;
        let (proto, payload);
        if dl_type == ethertype::IPV6 {
            let packet = PlainSix::of(frame)?;
            self.line[4] = packet.word();
            (proto, payload) = (packet.proto(), packet.payload);
        } else {
            let packet = Plain::of(frame)?;
            self.addresses(&packet);
            (proto, payload) = (packet.proto(), packet.payload);
        }
        self.line[0] |= places[0];
        self.line[1] = word::<0>(head) & !0xffff | u64::from(dl_type);
        self.line[2] = word::<6>(head) & !0xffff | places[1];
        self.line[7] |= places[2];
        self.l4(proto, Fragment::No, payload, depth);
        Some(())
    }

    /// `None` is only a short way out: what was filled stays.
    #[inline(never)]
    fn packet(&mut self, data: &[u8], packet_type: u16, tags: usize, depth: Depth) -> Option<()> {
        let (dl_type, rest) = if packet_type == 0 { self.l2(data, tags)? } else { (packet_type, data) };
        self.line[1] |= u64::from(dl_type);
        if depth < Depth::L3 {
            return None;
        }
        match dl_type {
            ethertype::IPV4 => self.ipv4(rest, depth),
            ethertype::IPV6 => self.ipv6(rest, depth),
            t if ethertype::is_arp(t) => self.arp(rest),
            _ => None,
        }
    }

    fn l2<'a>(&mut self, data: &'a [u8], tags: usize) -> Option<(u16, &'a [u8])> {
        let (eth, mut rest) = Ethernet::parse(data)?;
        TypeField::parse(rest)?;
        (self.line[1], self.line[2]) = (mac(eth.dst()), mac(eth.src()));
        for outer in [true, false].into_iter().take(tags) {
            let tag =
                VlanTag::parse(rest).filter(|(t, after)| ethertype::is_vlan(t.tpid()) && after.len() >= 2);
            let Some((tag, after)) = tag else { break };
            let (tpid, tci) = (u64::from(tag.tpid()), u64::from(tag.tci() | VLAN_CFI));
            if outer {
                self.line[0] |= tci;
                self.line[7] |= tpid << 32;
            } else {
                self.line[2] |= tci;
                self.line[7] |= tpid << 16;
            }
            rest = after;
        }
        ethertype_of(rest)
    }

    fn ip_word(&mut self, proto: u8, tos: u8, ttl: u8, fragment: Fragment) {
        let frag = match fragment {
            Fragment::No => 0,
            Fragment::First => flow::flow::frag::ANY,
            Fragment::Later => flow::flow::frag::ANY | flow::flow::frag::LATER,
        };
        self.line[4] = u64::from(u32::from_be_bytes([proto, tos, ttl, frag]));
    }

    fn ipv4(&mut self, data: &[u8], depth: Depth) -> Option<()> {
        let (ip, payload) = Ipv4::parse_checked(data)?;
        self.line[3] = pair(ip.src(), ip.dst());
        let fragment = ip.fragment();
        self.ip_word(ip.proto(), ip.tos(), ip.ttl(), fragment);
        self.l4(ip.proto(), fragment, payload, depth)
    }

    fn ipv6(&mut self, data: &[u8], depth: Depth) -> Option<()> {
        let (ip, payload) = Ipv6::parse_checked(data)?;
        let inner = skip_extensions(ip.next_header(), payload)?;
        self.ip_word(inner.proto, ip.traffic_class(), ip.hop_limit(), inner.fragment);
        self.l4(inner.proto, inner.fragment, inner.data, depth)
    }

    fn arp(&mut self, data: &[u8]) -> Option<()> {
        let (arp, _) = Arp::parse(data).filter(|(a, _)| a.is_ethernet_ipv4())?;
        self.line[3] = pair(arp.spa(), arp.tpa());
        self.line[4] = u64::from(u8::try_from(arp.op()).unwrap_or(0)) << 24;
        Some(())
    }

    #[inline(always)]
    fn l4(&mut self, proto: u8, fragment: Fragment, data: &[u8], depth: Depth) -> Option<()> {
        if fragment == Fragment::Later {
            return None;
        }
        let mut word = 0;
        let (src, dst) = match proto {
            ipproto::TCP => {
                let (tcp, _) = Tcp::parse_checked(data)?;
                (self.tcp_flags, word) = (tcp.flags(), tcp.flags());
                (tcp.src(), tcp.dst())
            }
            _ if depth < Depth::L4 => return None,
            ipproto::UDP => Udp::parse(data).map(|(udp, _)| (udp.src(), udp.dst()))?,
            ipproto::SCTP => Sctp::parse(data).map(|(sctp, _)| (sctp.src(), sctp.dst()))?,
            ipproto::ICMP => Icmp::parse(data).map(|(i, _)| (i.icmp_type().into(), i.code().into()))?,
            ipproto::IGMP => Igmp::parse(data).map(|(i, _)| (i.igmp_type().into(), i.code().into()))?,
            ipproto::ICMPV6 => {
                let (icmp, rest) = Icmpv6::parse(data)?;
                if icmp.is_nd() {
                    word = u16::from(nd::neighbour(rest).first_option);
                }
                (icmp.icmp_type().into(), icmp.code().into())
            }
            _ => return None,
        };
        if depth >= Depth::L4 {
            self.line[4] |= u64::from(src) << 48 | u64::from(dst) << 32;
            self.line[7] |= u64::from(word) << 48;
        }
        Some(())
    }
}
