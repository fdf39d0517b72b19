//! The headers after the Ethernet header and its tags: how each kind of header fills the line and the words of a
//! packet.

use super::byte_order::{ADDRESSES, BYTE_ORDERS, NETWORK, PADDING_MAX, TOS, ends_in_tail, tcp_flags_of};
use super::params::Params;
use super::parse::{Transport, transport};
use crate::batch::BATCH;
use classifier::megaflow::{Column, Depth, Words};
use cpu::{Level, Line};
use packet::Udp;
use packet::ether::ethertype;
use packet::ip::{Ipv6, ipproto, is_extension};

/// Minimum number of bytes of headers, without VLAN tags, in a packet of any shape: Ethernet and IPv4.
const HEAD: usize = 34;

/// Words of an `Ext` that neighbour discovery fills. The flow label is in the same word as fields of IGMP and
/// neighbour discovery.
pub(super) const NEIGHBOUR_WORDS: Words = 0b1_1110_0001;
/// The word of an `Ext` that IGMP fills.
pub(super) const IGMP_WORD: Words = 1;
/// The words of an `Ext` that MPLS labels fill.
pub(super) const MPLS_WORDS: Words = 0b110_0000_0000;
/// Index of the first word in [`MPLS_WORDS`].
const MPLS_AT: usize = 9;

/// The parts of a line that do not come from the network header, and the parameters.
pub(super) struct LineInput<'a, L> {
    /// A line that contains only the packet's metadata.
    pub(super) base: &'a Line,
    /// The parts of words 0, 2 and 7 that come from tags.
    pub(super) tags: [u64; 3],
    pub(super) params: Params<L>,
}

/// Where a packet's line and TCP flags are written.
pub(super) type KeyOut<'a> = (&'a mut Line, &'a mut u16);

/// Returns the line of a packet with these header fields, and its TCP flags.
#[inline(always)]
fn line_of<L>(packet: &Packet<'_>, given: &LineInput<'_, L>, found: &NetworkFields<'_>) -> (Line, u16) {
    let &LineInput { base, tags, params: Params { depth, .. } } = given;
    let &NetworkFields { dl_type, addresses, protocol, payload } = found;
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

/// Returns the eight bytes from offset `at` on.
#[inline(always)]
fn word(head: &[u8], at: usize) -> u64 {
    let mut out = [0; 8];
    out.copy_from_slice(&head[at..at + 8]);
    u64::from_be_bytes(out)
}

/// Returns the two bytes from offset `at` on.
#[inline(always)]
pub(super) fn pair(head: &[u8], at: usize) -> u16 {
    let mut out = [0; 2];
    out.copy_from_slice(&head[at..at + 2]);
    u16::from_be_bytes(out)
}

/// A packet with as many tags as its shape has.
pub(super) struct Packet<'a> {
    /// Its bytes that are in the buffer: all bytes except an absent tail.
    pub(super) data: &'a [u8],
    /// Its length in bytes, including an absent tail.
    pub(super) len: usize,
    /// Its first [`HEAD`] + `at` bytes.
    pub(super) head: &'a [u8],
    /// Length of the tags in bytes.
    pub(super) at: usize,
}

/// Result of reading a network header.
pub(super) struct NetworkFields<'a> {
    /// The Ethernet type of the header.
    dl_type: u16,
    /// Word 3 of the line.
    addresses: u64,
    /// The lower half of word 4.
    protocol: u64,
    /// The protocol of the payload, and the payload without padding.
    payload: Option<(u8, &'a [u8])>,
}

/// Returns the lower half of word 4.
#[inline(always)]
fn protocol(proto: u8, tos: u8, ttl: u8) -> u64 {
    u64::from(u32::from_be_bytes([proto, tos, ttl, 0]))
}

/// Returns the first `len` bytes of the payload `data`, or all of `data` if the payload ends in the packet's tail and
/// its transport header does not. Returns `None` if more padding follows than is plausible.
#[inline(always)]
fn without_padding<'a>(packet: &Packet<'a>, proto: u8, data: &'a [u8], len: usize) -> Option<&'a [u8]> {
    if data.len().wrapping_sub(len) > PADDING_MAX {
        let absent = packet.len - packet.data.len();
        return ends_in_tail(proto, len, data.len(), absent).then_some(data);
    }
    Some(&data[..len])
}

/// A network header.
pub(super) trait NetworkHeader {
    /// Returns the first bytes of a packet with this header after `at` bytes of tags: at least [`HEAD`] + `at` bytes.
    #[inline(always)]
    fn head(data: &[u8], at: usize) -> Option<&[u8]> {
        data.get(..HEAD + at)
    }

    /// Reads the header. Returns `None` if the packet has another kind of header.
    fn read<'a>(packet: &Packet<'a>, words: Words) -> Option<NetworkFields<'a>>;

    /// Fills the line and the TCP flags of a packet with this header. Returns `None` if the packet has another kind
    /// of header; the line is then undefined.
    #[inline(always)]
    fn line<L: Level>(
        packet: &Packet<'_>,
        given: &LineInput<'_, L>,
        (line, tcp_flags): KeyOut<'_>,
    ) -> Option<()> {
        let found = Self::read(packet, given.params.words)?;
        (*line, *tcp_flags) = line_of(packet, given, &found);
        Some(())
    }

    /// Fills the words after the line of packet `i` from this header. Called after the header was read.
    #[inline(always)]
    fn words(_packet: &Packet<'_>, _columns: &mut [Column], _i: usize) {}
}

/// IPv4 without options, and not a fragment.
pub(super) struct Ipv4Header;

/// Bytes of ports after the header.
const PORT_BYTES: usize = 4;

/// The half of word 4 that contains the ports.
const PORTS: u64 = 0xffff_ffff << 32;

impl Ipv4Header {
    /// Returns the protocol and the payload's length without padding. Either the payload is complete in the buffer,
    /// or at least the longest transport header is.
    #[inline(always)]
    fn check(packet: &Packet<'_>) -> Option<(u8, usize)> {
        const PLAIN: u64 = 0x45_0008;
        let Packet { data, head, at, .. } = *packet;
        // `first`: Ethernet type, version, header length, TOS and total length, the first byte lowest. `fragment`:
        // the fragment bits and offset.
        let (first, fragment) = (word(head, 12 + at).swap_bytes(), pair(head, 20 + at).swap_bytes());
        if first & 0xff_ffff ^ PLAIN | u64::from(fragment & 0xff3f) != 0 {
            return None;
        }
        let (proto, present) = (head[23 + at], data.len() - HEAD - at);
        // A total length smaller than the header wraps to a length that no packet has.
        let len = usize::from(((first >> 32) as u16).swap_bytes()).wrapping_sub(HEAD - 14);
        (len <= present || ends_in_tail(proto, len, present, packet.len - data.len())).then_some((proto, len))
    }
}

impl NetworkHeader for Ipv4Header {
    /// Includes the bytes of ports, and fails if more bytes follow than padding may have; one comparison checks both.
    #[inline(always)]
    fn head(data: &[u8], at: usize) -> Option<&[u8]> {
        let len = HEAD + PORT_BYTES + at;
        if data.len().wrapping_sub(len) > PADDING_MAX - PORT_BYTES { None } else { data.get(..len) }
    }

    #[inline(always)]
    fn read<'a>(packet: &Packet<'a>, words: Words) -> Option<NetworkFields<'a>> {
        let Packet { data, head, at, .. } = *packet;
        let (proto, len) = Self::check(packet).filter(|(proto, _)| !needs_igmp_word(*proto, words))?;
        let payload = &data[HEAD + at..];
        Some(NetworkFields {
            dl_type: ethertype::IPV4,
            addresses: word(head, 26 + at),
            protocol: protocol(proto, head[15 + at], head[22 + at]),
            payload: Some((proto, payload.get(..len).unwrap_or(payload))),
        })
    }

    #[inline(always)]
    fn line<L: Level>(
        packet: &Packet<'_>,
        given: &LineInput<'_, L>,
        (line, tcp_flags): KeyOut<'_>,
    ) -> Option<()> {
        let (&Packet { data, head, at, .. }, &LineInput { base, tags, params }) = (packet, given);
        let (proto, len) = Self::check(packet).filter(|(proto, _)| !needs_igmp_word(*proto, params.words))?;
        let part = |start: usize| head.get(start..)?.first_chunk();
        let parts = (part(ADDRESSES)?, part(NETWORK + at)?, part(TOS + at)?);
        let (has_tags, has_ports) = (at != 0, params.depth >= Depth::L4);
        *line = *base;
        let [first, words @ .., _, _, last] = line;
        cpu::rearrange(
            params.level,
            parts,
            &BYTE_ORDERS[usize::from(has_tags)][usize::from(has_ports)],
            words,
        );
        if has_tags {
            *first |= tags[0];
            words[0] |= u64::from(ethertype::IPV4);
            words[1] |= tags[1];
            *last |= tags[2];
        }
        *tcp_flags = 0;
        match proto {
            ipproto::UDP if !has_ports || len >= Udp::LEN => {}
            ipproto::TCP => {
                let flags = tcp_flags_of(data.get(HEAD + at..)?, len);
                *tcp_flags = flags.unwrap_or_default();
                match flags {
                    _ if !has_ports => {}
                    Some(flags) => *last |= u64::from(flags) << 48,
                    None => words[3] &= !PORTS,
                }
            }
            _ if !has_ports => {}
            _ => rare_ports(proto, &data[HEAD + at..], len, (&mut words[3], last)),
        }
        Some(())
    }
}

/// Writes the ports of less frequent protocols, and of UDP without a valid header.
#[cold]
#[inline(never)]
fn rare_ports(proto: u8, data: &[u8], len: usize, (ports, last): (&mut u64, &mut u64)) {
    let found = transport(proto, data.get(..len).unwrap_or(data), Depth::L4).unwrap_or_default();
    *ports = *ports & !PORTS | found.ports;
    *last |= found.word;
}

/// Returns whether the packet is IGMP and `words` contain a field of IGMP.
#[inline(always)]
fn needs_igmp_word(proto: u8, words: Words) -> bool {
    words & IGMP_WORD != 0 && proto == ipproto::IGMP
}

/// Fills the line and the TCP flags of a packet, if it is IPv4 without tags and options and not a fragment. The
/// packet has `len` bytes, of which `data` are in the buffer. `base`: a line with its metadata.
#[inline(always)]
pub(super) fn plain_line<L: Level>(
    (data, len): (&[u8], usize),
    base: &Line,
    params: Params<L>,
    out: KeyOut<'_>,
) -> Option<()> {
    let packet = Packet { data, len, head: Ipv4Header::head(data, 0)?, at: 0 };
    Ipv4Header::line(&packet, &LineInput { base, tags: [0; 3], params }, out)
}

/// Returns the TCP flags of a packet (0 for other protocols), if it is IPv4 without tags and options and not a
/// fragment. The packet has `len` bytes, of which `data` are in the buffer.
#[inline(always)]
pub(super) fn plain_flags(data: &[u8], len: usize) -> Option<u16> {
    let head = Ipv4Header::head(data, 0)?;
    let (proto, len) = Ipv4Header::check(&Packet { data, len, head, at: 0 })?;
    match proto {
        ipproto::TCP => Some(tcp_flags_of(&data[HEAD..], len).unwrap_or_default()),
        _ => Some(0),
    }
}

/// Returns protocol and payload of a packet, if it is IPv4 without tags and options and not a fragment. The packet
/// has `len` bytes, of which `data` are in the buffer.
#[inline(always)]
pub(super) fn plain(data: &[u8], len: usize) -> Option<(u8, &[u8])> {
    let head = Ipv4Header::head(data, 0)?;
    Ipv4Header::read(&Packet { data, len, head, at: 0 }, 0)?.payload
}

/// IPv6 without extension headers.
pub(super) struct Ipv6Header;

impl NetworkHeader for Ipv6Header {
    #[inline(always)]
    fn read<'a>(packet: &Packet<'a>, words: Words) -> Option<NetworkFields<'a>> {
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
        Some(NetworkFields {
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

/// Returns the first words of an `Ext`: label, source and destination of an IPv6 header after `tags` bytes of tags.
/// Returns `None` if the packet is shorter.
#[inline(always)]
pub(super) fn ipv6_words(data: &[u8], tags: usize) -> Option<[u64; 5]> {
    let ip: &[u8; Ipv6::LEN] = data.get(14 + tags..)?.first_chunk()?;
    Some([word(ip, 0) & 0x000f_ffff_0000_0000, word(ip, 8), word(ip, 16), word(ip, 24), word(ip, 32)])
}

/// MPLS. The payload after the labels is not parsed.
pub(super) struct Mpls;

impl NetworkHeader for Mpls {
    #[inline(always)]
    fn read<'a>(packet: &Packet<'a>, _: Words) -> Option<NetworkFields<'a>> {
        let dl_type = pair(packet.head, 12 + packet.at);
        let found = NetworkFields { dl_type, addresses: 0, protocol: 0, payload: None };
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

/// Any packet with an Ethernet type, of which nothing else is read.
pub(super) struct TypeOnly;

impl NetworkHeader for TypeOnly {
    #[inline(always)]
    fn read<'a>(packet: &Packet<'a>, _: Words) -> Option<NetworkFields<'a>> {
        let dl_type = pair(packet.head, 12 + packet.at);
        let found = NetworkFields { dl_type, addresses: 0, protocol: 0, payload: None };
        Self::is_final_type(dl_type).then_some(found)
    }

    #[inline(always)]
    fn line<L: Level>(
        packet: &Packet<'_>,
        given: &LineInput<'_, L>,
        (line, tcp_flags): KeyOut<'_>,
    ) -> Option<()> {
        let (&Packet { head, at, .. }, &LineInput { base, tags, params }) = (packet, given);
        if !Self::is_final_type(pair(head, 12 + at)) {
            return None;
        }
        let has_tags = at != 0;
        (*line, *tcp_flags) = (*base, 0);
        let [first, words @ .., _, _, _, _, last] = line;
        cpu::rearrange_part(
            params.level,
            head.first_chunk()?,
            &BYTE_ORDERS[usize::from(has_tags)][0][0],
            words,
        );
        if has_tags {
            *first |= tags[0];
            words[0] |= u64::from(pair(head, 12 + at));
            words[1] |= tags[1];
            *last |= tags[2];
        }
        Some(())
    }
}

impl TypeOnly {
    /// Returns whether `dl_type` is an Ethernet type and not that of another tag.
    #[inline(always)]
    fn is_final_type(dl_type: u16) -> bool {
        dl_type >= ethertype::MIN && !ethertype::is_vlan(dl_type)
    }
}
