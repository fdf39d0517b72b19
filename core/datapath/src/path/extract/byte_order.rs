//! The order in which the bytes of an IPv4 packet are copied to a line, and checks of where its payload ends.

use packet::Tcp;
use packet::ip::ipproto;

/// Offsets of three parts of a packet without tags, of 16 bytes each. They contain all bytes of the Ethernet header, the IPv4 header
/// and the ports that a line contains: the Ethernet addresses, the network header, and the bytes around the type of service.
pub(super) const ADDRESSES: usize = 0;
pub(super) const NETWORK: usize = 22;
pub(super) const TOS: usize = 8;

/// For each byte of words 1 to 4 of a line, its index in those parts, for `cpu::rearrange`. The words contain destination, type and
/// source, then the network addresses, ports, protocol, TOS and TTL.
const BYTE_ORDER: [[u8; 16]; 3] = {
    const NO: u8 = cpu::NO_BYTE;
    [
        [13, 12, 5, 4, 3, 2, 1, 0, NO, NO, 11, 10, 9, 8, 7, 6],
        [11, 10, 9, 8, 7, 6, 5, 4, NO, 0, NO, 1, 15, 14, 13, 12],
        [NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, 7, NO, NO, NO, NO, NO],
    ]
};

/// As [`BYTE_ORDER`], for a packet with tags, whose type is elsewhere, or for one without ports.
const fn byte_order(has_tags: bool, has_ports: bool) -> [[u8; 16]; 3] {
    let mut byte_order = BYTE_ORDER;
    if has_tags {
        (byte_order[0][0], byte_order[0][1]) = (cpu::NO_BYTE, cpu::NO_BYTE);
    }
    let mut i = 12;
    while !has_ports && i < 16 {
        byte_order[1][i] = cpu::NO_BYTE;
        i += 1;
    }
    byte_order
}

/// All byte orders. First index: whether the packet has tags; second index: whether it has ports.
pub(super) static BYTE_ORDERS: [[[[u8; 16]; 3]; 2]; 2] =
    [[byte_order(false, false), byte_order(false, true)], [byte_order(true, false), byte_order(true, true)]];

/// Maximum plausible padding.
pub(super) const PADDING_MAX: usize = u16::MAX as usize;

/// Returns whether a payload of `len` bytes ends in the packet's tail, and its transport header does not. `here`: bytes of the payload
/// that are in the head; `absent`: bytes in the tail. Only TCP and UDP headers are known to be short enough.
#[cold]
#[inline(never)]
pub(super) fn ends_in_tail(proto: u8, len: usize, here: usize, absent: usize) -> bool {
    const LONGEST_HEADER: usize = 60;
    let in_tail = len > here && len <= here + absent && here >= LONGEST_HEADER;
    in_tail && matches!(proto, ipproto::TCP | ipproto::UDP)
}

/// The TCP flags, if the packet has a valid TCP header. `data`: the part of the payload that is in the head; `len`: length of the payload.
#[inline(always)]
pub(super) fn tcp_flags_of(data: &[u8], len: usize) -> Option<u16> {
    let header: &[u8; Tcp::LEN] = data.first_chunk()?;
    let flags = u16::from_be_bytes([header[12], header[13]]);
    let header_len = usize::from(flags >> 12) * 4;
    (header_len >= Tcp::LEN && header_len <= len).then_some(flags & 0x0fff)
}
