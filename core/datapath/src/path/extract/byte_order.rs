//! The order in which the bytes of an IPv4 packet are copied to its line, and checks of where its payload ends.

use packet::Tcp;
use packet::ip::ipproto;

/// A line is filled from three parts of a packet, of 16 bytes each. The parts contain all bytes that a line needs of
/// the Ethernet header, the IPv4 header and the ports. This is the offset of the first part: the Ethernet addresses.
pub(super) const ADDRESSES: usize = 0;
/// Offset of the second part in a packet without tags: TTL, protocol, network addresses and ports.
pub(super) const NETWORK: usize = 22;
/// Offset of the third part in a packet without tags: the bytes around the type of service.
pub(super) const TOS: usize = 8;

/// For each byte of words 1 to 4 of a line, its index in the three parts, for `cpu::rearrange`. The words contain the
/// destination address and type, the source address, the network addresses, then ports, protocol, TOS and TTL.
const BYTE_ORDER: [[u8; 16]; 3] = {
    const NO: u8 = cpu::NO_BYTE;
    [
        [13, 12, 5, 4, 3, 2, 1, 0, NO, NO, 11, 10, 9, 8, 7, 6],
        [11, 10, 9, 8, 7, 6, 5, 4, NO, 0, NO, 1, 15, 14, 13, 12],
        [NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, 7, NO, NO, NO, NO, NO],
    ]
};

/// As [`BYTE_ORDER`]. With tags, the Ethernet type is left out, because it is not at offset 12; without ports, the
/// ports are left out.
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

/// All byte orders. First index: whether the packet has tags; second index: whether its ports are read.
pub(super) static BYTE_ORDERS: [[[[u8; 16]; 3]; 2]; 2] =
    [[byte_order(false, false), byte_order(false, true)], [byte_order(true, false), byte_order(true, true)]];

/// The largest number of bytes after a payload that counts as padding.
pub(super) const PADDING_MAX: usize = u16::MAX as usize;

/// Returns whether a payload of `len` bytes ends in the packet's tail while its transport header does not. `present`:
/// bytes of the payload that are in the buffer; `absent`: bytes in the tail. The maximum header length is
/// known only for TCP and UDP.
#[cold]
#[inline(never)]
pub(super) fn ends_in_tail(proto: u8, len: usize, present: usize, absent: usize) -> bool {
    const LONGEST_HEADER: usize = 60;
    let in_tail = len > present && len <= present + absent && present >= LONGEST_HEADER;
    in_tail && matches!(proto, ipproto::TCP | ipproto::UDP)
}

/// Returns the TCP flags, if the packet has a valid TCP header. `data`: the part of the payload that is in the
/// buffer; `len`: length of the payload.
#[inline(always)]
pub(super) fn tcp_flags_of(data: &[u8], len: usize) -> Option<u16> {
    let header: &[u8; Tcp::LEN] = data.first_chunk()?;
    let flags = u16::from_be_bytes([header[12], header[13]]);
    let header_len = usize::from(flags >> 12) * 4;
    (header_len >= Tcp::LEN && header_len <= len).then_some(flags & 0x0fff)
}
