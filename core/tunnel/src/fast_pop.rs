//! Fast path for the most frequent outer headers: VXLAN or Geneve, over IPv4 or IPv6, with a frame inside. The result equals that of
//! [`pop`](crate::pop()), without a step for each header.

use crate::pop::PADDED_MAX;
use crate::pop_kinds::is_whole;
use crate::wire::{self, flag, vxlan};
use flow::Tunnel;
use packet::checksum::{self, Words};

/// Bytes of the outer headers over IPv4.
const HEADERS_V4: usize = wire::ETHERNET + wire::IPV4 + wire::UDP + wire::VXLAN;
/// Bytes of the outer headers over IPv6.
const HEADERS_V6: usize = wire::ETHERNET + wire::IPV6 + wire::UDP + wire::VXLAN;
const _: () = assert!(wire::VXLAN == wire::GENEVE);
/// The shortest inner frame: an Ethernet header.
const SHORTEST_FRAME: usize = wire::ETHERNET;

/// Bits of a Geneve header whose values do not matter: the length of the options, and whether one of them is critical.
const GENEVE_FREE: u64 = 0x3f40 << 48;
/// Bits of the length of the options.
const GENEVE_LEN: u64 = 0x3f << 56;

#[inline(always)]
fn word(head: &[u8], at: usize) -> u64 {
    head.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// What was checked of the headers that were read. Each over IPv4 had a checksum of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct FastChecks {
    /// Headers over IPv6, which have no checksum of their own.
    pub over_ipv6: u64,
    /// UDP checksums that were verified, and are right.
    pub udp: u64,
}

/// Lengths of outer headers that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// All outer headers; the rest of the frame is the inner frame.
    pub header: usize,
    /// The options at their end.
    pub options: usize,
}

/// Reads the usual headers of one kind of tunnel.
pub trait FastPop: Copy {
    /// The first word of the tunnel's own header.
    const OWN: u32;
    /// Bits of the tunnel's own header that are compared.
    const COMPARED: u64;
    /// Bits of the length of its options, in units of 4 bytes.
    const LEN: u64;

    /// Reads the outer headers of a frame into `tunnel`, which is overwritten. `None`: use [`pop`](crate::pop()), for example for a frame
    /// that may have padding.
    #[inline(always)]
    fn read(self, frame: &[u8], tunnel: &mut Tunnel, checks: &mut FastChecks) -> Option<Lengths> {
        read::<Self>(frame, tunnel, checks)
    }
}

/// VXLAN without extensions.
#[derive(Clone, Copy, Debug)]
pub struct FastVxlan;

/// Geneve.
#[derive(Clone, Copy, Debug)]
pub struct FastGeneve;

impl FastPop for FastVxlan {
    const OWN: u32 = vxlan::I;
    const COMPARED: u64 = ONLY_A_KEY;
    const LEN: u64 = 0;
}

impl FastPop for FastGeneve {
    const OWN: u32 = wire::ETHERTYPE_TEB as u32;
    const COMPARED: u64 = ONLY_A_KEY & !GENEVE_FREE;
    const LEN: u64 = GENEVE_LEN;
}

/// Bits of a header that contains only a key, and behind which a frame follows.
const ONLY_A_KEY: u64 = 0xffff_ffff_0000_00ff;

#[inline(always)]
fn read<K: FastPop>(frame: &[u8], tunnel: &mut Tunnel, checks: &mut FastChecks) -> Option<Lengths> {
    let head = frame.first_chunk::<HEADERS_V4>().filter(|_| frame.len() > PADDED_MAX)?;
    // Four words from byte 12 on. Second: ethertype, version and header length, TOS, total length, 16 bits of identification.
    // Third: flags and offset, TTL, protocol, checksum, first half of the source. Fourth: its second half, destination, source
    // port. Fifth: destination port, UDP length and checksum, 16 bits of the tunnel's header.
    let [second, third, fourth, fifth] = [12, 20, 28, 36].map(|at| word(head, at));
    if second >> 48 == u64::from(wire::ETHERTYPE_IPV6) {
        return read_ipv6::<K>(frame, tunnel, checks);
    }
    let own = word(head, 42);
    let total = usize::from((second >> 16) as u16);
    let padding = (frame.len() - wire::ETHERNET).wrapping_sub(total);
    let is_plain = (second >> 40 == 0x08_0045)
        & (third & 0x3fff_00ff_0000_0000 == u64::from(wire::PROTO_UDP) << 32)
        & (total >= HEADERS_V4 - wire::ETHERNET)
        & (padding <= usize::from(u16::MAX))
        & is_usual_header::<K>(own)
        & is_ipv4_sum_right(second, third, fourth);
    if !is_plain {
        return None;
    }
    let lengths = lengths::<K>(HEADERS_V4, own, frame.get(..wire::ETHERNET + total)?)?;
    let mut flags = flag::KEY | (((third >> 62) as u16 & 1) * flag::DF);
    if (fifth >> 16) as u16 != 0 {
        let datagram = frame.get(wire::ETHERNET + wire::IPV4..wire::ETHERNET + total)?;
        check_udp_sum(&head[26..34], datagram)?;
        flags |= flag::CSUM;
        checks.udp += 1;
    }
    *tunnel = Tunnel { tun_id: own >> 8 & 0xff_ffff, ..Tunnel::default() };
    tunnel.ip_src = (third as u32) << 16 | (fourth >> 48) as u32;
    tunnel.ip_dst = (fourth >> 16) as u32;
    tunnel.flags = flags;
    (tunnel.ip_tos, tunnel.ip_ttl) = ((second >> 32) as u8, (third >> 40) as u8);
    (tunnel.tp_src, tunnel.tp_dst) = (fourth as u16, (fifth >> 48) as u16);
    Some(lengths)
}

/// As [`read`], over IPv6. `None` also if bytes follow the IPv6 packet.
#[inline(always)]
fn read_ipv6<K: FastPop>(frame: &[u8], tunnel: &mut Tunnel, checks: &mut FastChecks) -> Option<Lengths> {
    let head = frame.first_chunk::<HEADERS_V6>()?;
    // Second word: ethertype, version, traffic class, flow label, payload length. Third: end of the flow label, payload length,
    // protocol, hop limit, 16 bits of the source.
    let (second, third) = (word(head, 12), word(head, 16));
    let (udp, own) = (word(head, 54), word(head, 62));
    let datagram = frame.get(wire::ETHERNET + wire::IPV6..)?;
    let is_plain = (second >> 44 == 0x8_6dd6)
        & ((third >> 24) as u8 == wire::PROTO_UDP)
        & (usize::from((third >> 32) as u16) == datagram.len())
        & is_usual_header::<K>(own);
    if !is_plain {
        return None;
    }
    let lengths = lengths::<K>(HEADERS_V6, own, frame)?;
    let mut flags = flag::KEY;
    if udp as u16 != 0 {
        check_udp_sum(&head[22..54], datagram)?;
        flags |= flag::CSUM;
        checks.udp += 1;
    }
    *tunnel = Tunnel { tun_id: own >> 8 & 0xff_ffff, ..Tunnel::default() };
    tunnel.flags = flags;
    (tunnel.ip_tos, tunnel.ip_ttl) = ((second >> 36) as u8, (third >> 16) as u8);
    (tunnel.tp_src, tunnel.tp_dst) = ((udp >> 48) as u16, (udp >> 32) as u16);
    checks.over_ipv6 += 1;
    tunnel.ipv6_src.copy_from_slice(&head[22..38]);
    tunnel.ipv6_dst.copy_from_slice(&head[38..54]);
    Some(lengths)
}

/// Returns whether the tunnel's own header contains only a key and options, and a frame follows.
#[inline(always)]
fn is_usual_header<K: FastPop>(own: u64) -> bool {
    own & K::COMPARED == u64::from(K::OWN) << 32
}

/// The lengths of headers whose length without options is known. `None`: the options are malformed, or no whole Ethernet header follows.
#[inline(always)]
fn lengths<K: FastPop>(without: usize, own: u64, frame: &[u8]) -> Option<Lengths> {
    let options = ((own & K::LEN) >> 56) as usize * 4;
    let header = without + options;
    if options != 0 && !is_whole(frame.get(without..header)?) {
        return None;
    }
    (frame.len() >= header + SHORTEST_FRAME).then_some(Lengths { header, options })
}

/// `None`: the checksum of a UDP datagram between these addresses is wrong.
#[inline(always)]
fn check_udp_sum(addresses: &[u8], datagram: &[u8]) -> Option<()> {
    let len = u32::from(u16::try_from(datagram.len()).ok()?);
    let pseudo = Words::default().with(addresses).with_pair(u32::from(wire::PROTO_UDP) << 16 | len);
    pseudo.with(datagram).are_intact().then_some(())
}

/// Returns whether the checksum of the IPv4 header is right.
#[inline(always)]
fn is_ipv4_sum_right(second: u64, third: u64, fourth: u64) -> bool {
    // The words from the version to the destination. Modulo 0xffff a word of 64 bits equals the sum of its parts of 16 bits, at
    // whatever place these are, and the sum of these four does not overflow.
    checksum::is_intact((second & 0xffff_ffff_ffff) + (third >> 32) + (third & 0xffff_ffff) + (fourth >> 16))
}
