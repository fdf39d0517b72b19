//! Fast path for the most frequent outer headers: VXLAN or Geneve, over IPv4 or IPv6, with an inner Ethernet frame. Its result equals the
//! result of [`pop`](crate::pop()), but it reads all headers in one step.

use crate::pop::PADDED_MAX;
use crate::pop_kinds::are_options_complete;
use crate::wire::{self, flag, vxlan};
use flow::Tunnel;
use packet::checksum::{self, WordSum};

/// Length of the outer headers over IPv4, without options, in bytes.
const HEADERS_V4: usize = wire::ETHERNET + wire::IPV4 + wire::UDP + wire::VXLAN;
/// Length of the outer headers over IPv6, without options, in bytes.
const HEADERS_V6: usize = wire::ETHERNET + wire::IPV6 + wire::UDP + wire::VXLAN;
const _: () = assert!(wire::VXLAN == wire::GENEVE);
/// The shortest inner frame: an Ethernet header.
const INNER_FRAME_MIN: usize = wire::ETHERNET;

/// Bits of a Geneve header whose values do not matter: the length of the options, and the C bit (an option is critical).
const GENEVE_IGNORED: u64 = 0x3f40 << 48;
/// Bits of a Geneve header that contain the length of the options.
const GENEVE_OPTIONS_LEN: u64 = 0x3f << 56;

#[inline(always)]
fn word(head: &[u8], at: usize) -> u64 {
    head.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// Counts of outer headers that the fast path has read. Headers over IPv4 are not counted: their number is
/// that of all read headers minus `over_ipv6`. It is also the number of verified IPv4 checksums, because the
/// fast path verifies each.
#[derive(Clone, Copy, Debug, Default)]
pub struct FastChecksumCounts {
    /// Headers over IPv6, which have no checksum of their own.
    pub over_ipv6: u64,
    /// UDP checksums that were verified, and are right.
    pub udp: u64,
}

/// Lengths of the outer headers of a frame, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderLengths {
    /// All outer headers; the rest of the frame is the inner frame.
    pub header: usize,
    /// The Geneve options at the end of the outer headers.
    pub options: usize,
}

/// Reads the most frequent outer headers of one kind of tunnel.
pub trait FastPop: Copy {
    /// Expected value of the first 32 bits of the tunnel header.
    const EXPECTED_HEADER: u32;
    /// Mask of the bits of the tunnel header that must have the expected value.
    const COMPARED: u64;
    /// Mask of the bits of the tunnel header that contain the length of the options, in units of 4 bytes.
    const OPTIONS_LEN: u64;

    /// Reads the outer headers of a frame and overwrites `tunnel` with their fields. `None`: use [`pop`](crate::pop()), for example for a
    /// frame that may have padding.
    #[inline(always)]
    fn read(
        self,
        frame: &[u8],
        tunnel: &mut Tunnel,
        checks: &mut FastChecksumCounts,
    ) -> Option<HeaderLengths> {
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
    const EXPECTED_HEADER: u32 = vxlan::I;
    const COMPARED: u64 = ALL_BUT_VNI;
    const OPTIONS_LEN: u64 = 0;
}

impl FastPop for FastGeneve {
    const EXPECTED_HEADER: u32 = wire::ETHERTYPE_TEB as u32;
    const COMPARED: u64 = ALL_BUT_VNI & !GENEVE_IGNORED;
    const OPTIONS_LEN: u64 = GENEVE_OPTIONS_LEN;
}

/// Mask of all bits of a tunnel header except the VNI. If they are as expected, the header has no field but the VNI, and an Ethernet
/// frame follows.
const ALL_BUT_VNI: u64 = 0xffff_ffff_0000_00ff;

#[inline(always)]
fn read<K: FastPop>(
    frame: &[u8],
    tunnel: &mut Tunnel,
    checks: &mut FastChecksumCounts,
) -> Option<HeaderLengths> {
    let head = frame.first_chunk::<HEADERS_V4>().filter(|_| frame.len() > PADDED_MAX)?;
    // The 64-bit words of the frame from byte 12 on. `word12`: ethertype, version and header length, TOS, total length, identification.
    // `word20`: flags and fragment offset, TTL, protocol, checksum, first half of the source address. `word28`: second half of the source
    // address, destination address, UDP source port. `word36`: UDP destination port, length and checksum, first 16 bits of the tunnel
    // header.
    let [word12, word20, word28, word36] = [12, 20, 28, 36].map(|at| word(head, at));
    if word12 >> 48 == u64::from(wire::ETHERTYPE_IPV6) {
        return read_ipv6::<K>(frame, tunnel, checks);
    }
    let tunnel_header = word(head, 42);
    let total = usize::from((word12 >> 16) as u16);
    let padding = (frame.len() - wire::ETHERNET).wrapping_sub(total);
    // 0x08_0045: IPv4, header length 20 bytes. The mask of `word20`: no fragment, UDP.
    let is_supported = (word12 >> 40 == 0x08_0045)
        & (word20 & 0x3fff_00ff_0000_0000 == u64::from(wire::PROTO_UDP) << 32)
        & (total >= HEADERS_V4 - wire::ETHERNET)
        & (padding <= usize::from(u16::MAX))
        & is_supported_header::<K>(tunnel_header)
        & is_ipv4_sum_right(word12, word20, word28);
    if !is_supported {
        return None;
    }
    let lengths = lengths::<K>(HEADERS_V4, tunnel_header, frame.get(..wire::ETHERNET + total)?)?;
    let mut flags = flag::KEY | (((word20 >> 62) as u16 & 1) * flag::DF);
    if (word36 >> 16) as u16 != 0 {
        let datagram = frame.get(wire::ETHERNET + wire::IPV4..wire::ETHERNET + total)?;
        check_udp_sum(&head[26..34], datagram)?;
        flags |= flag::CSUM;
        checks.udp += 1;
    }
    *tunnel = Tunnel { tun_id: tunnel_header >> 8 & 0xff_ffff, ..Tunnel::default() };
    tunnel.ip_src = (word20 as u32) << 16 | (word28 >> 48) as u32;
    tunnel.ip_dst = (word28 >> 16) as u32;
    tunnel.flags = flags;
    (tunnel.ip_tos, tunnel.ip_ttl) = ((word12 >> 32) as u8, (word20 >> 40) as u8);
    (tunnel.tp_src, tunnel.tp_dst) = (word28 as u16, (word36 >> 48) as u16);
    Some(lengths)
}

/// [`read`] over IPv6. Also returns `None` if bytes follow the IPv6 packet.
#[inline(always)]
fn read_ipv6<K: FastPop>(
    frame: &[u8],
    tunnel: &mut Tunnel,
    checks: &mut FastChecksumCounts,
) -> Option<HeaderLengths> {
    let head = frame.first_chunk::<HEADERS_V6>()?;
    // `word12`: ethertype, version, traffic class, flow label, payload length. `word16` overlaps it by four bytes: end of the flow label,
    // payload length, protocol, hop limit, first 16 bits of the source address.
    let (word12, word16) = (word(head, 12), word(head, 16));
    let (udp, tunnel_header) = (word(head, 54), word(head, 62));
    let datagram = frame.get(wire::ETHERNET + wire::IPV6..)?;
    // 0x8_6dd6: IPv6.
    let is_supported = (word12 >> 44 == 0x8_6dd6)
        & ((word16 >> 24) as u8 == wire::PROTO_UDP)
        & (usize::from((word16 >> 32) as u16) == datagram.len())
        & is_supported_header::<K>(tunnel_header);
    if !is_supported {
        return None;
    }
    let lengths = lengths::<K>(HEADERS_V6, tunnel_header, frame)?;
    let mut flags = flag::KEY;
    if udp as u16 != 0 {
        check_udp_sum(&head[22..54], datagram)?;
        flags |= flag::CSUM;
        checks.udp += 1;
    }
    *tunnel = Tunnel { tun_id: tunnel_header >> 8 & 0xff_ffff, ..Tunnel::default() };
    tunnel.flags = flags;
    (tunnel.ip_tos, tunnel.ip_ttl) = ((word12 >> 36) as u8, (word16 >> 16) as u8);
    (tunnel.tp_src, tunnel.tp_dst) = ((udp >> 48) as u16, (udp >> 32) as u16);
    checks.over_ipv6 += 1;
    tunnel.ipv6_src.copy_from_slice(&head[22..38]);
    tunnel.ipv6_dst.copy_from_slice(&head[38..54]);
    Some(lengths)
}

/// Returns whether the tunnel header contains only VNI and options, and an Ethernet frame follows.
#[inline(always)]
fn is_supported_header<K: FastPop>(tunnel_header: u64) -> bool {
    tunnel_header & K::COMPARED == u64::from(K::EXPECTED_HEADER) << 32
}

/// Computes the length of the outer headers: `fixed_len` bytes plus the options. `None`: the options are malformed, or no complete
/// Ethernet header follows.
#[inline(always)]
fn lengths<K: FastPop>(fixed_len: usize, tunnel_header: u64, frame: &[u8]) -> Option<HeaderLengths> {
    let options = ((tunnel_header & K::OPTIONS_LEN) >> 56) as usize * 4;
    let header = fixed_len + options;
    if options != 0 && !are_options_complete(frame.get(fixed_len..header)?) {
        return None;
    }
    (frame.len() >= header + INNER_FRAME_MIN).then_some(HeaderLengths { header, options })
}

/// Verifies the checksum of a UDP datagram; `None` if it is wrong. `addresses`: source and destination address of the outer IP header.
#[inline(always)]
fn check_udp_sum(addresses: &[u8], datagram: &[u8]) -> Option<()> {
    let len = u32::from(u16::try_from(datagram.len()).ok()?);
    let pseudo = WordSum::default().with(addresses).with_pair(u32::from(wire::PROTO_UDP) << 16 | len);
    pseudo.with(datagram).is_checksum_right().then_some(())
}

/// Returns whether the checksum of the IPv4 header is right.
#[inline(always)]
fn is_ipv4_sum_right(word12: u64, word20: u64, word28: u64) -> bool {
    // Ones' complement arithmetic: modulo 0xffff, a 64-bit word equals the sum of its 16-bit parts, wherever they are in the word. So the
    // header, from the version to the destination address, is summed as four words. Their sum does not overflow 64 bits.
    checksum::is_intact(
        (word12 & 0xffff_ffff_ffff) + (word20 >> 32) + (word20 & 0xffff_ffff) + (word28 >> 16),
    )
}
