//! Where the fields of a line are in an IPv4 packet, and where its payload may end.

use packet::Tcp;
use packet::ip::ipproto;

/// The bytes of an IPv4 header and of the ports after it that a line contains are in these parts of a packet without tags.
pub(super) const ADDRESSES: usize = 0;
pub(super) const NETWORK: usize = 22;
pub(super) const SERVICE: usize = 8;

/// Where the bytes of words 1 to 4 of a line are in those parts, for `cpu::rearrange`: destination, type and source, then the network
/// addresses, ports, protocol, TOS and TTL.
const ORDERS: [[u8; 16]; 3] = {
    const NO: u8 = cpu::NO_BYTE;
    [
        [13, 12, 5, 4, 3, 2, 1, 0, NO, NO, 11, 10, 9, 8, 7, 6],
        [11, 10, 9, 8, 7, 6, 5, 4, NO, 0, NO, 1, 15, 14, 13, 12],
        [NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, 7, NO, NO, NO, NO, NO],
    ]
};

/// As [`ORDERS`], of a packet with tags, whose type is elsewhere, and without ports.
const fn orders(has_tags: bool, has_ports: bool) -> [[u8; 16]; 3] {
    let mut orders = ORDERS;
    if has_tags {
        (orders[0][0], orders[0][1]) = (cpu::NO_BYTE, cpu::NO_BYTE);
    }
    let mut i = 12;
    while !has_ports && i < 16 {
        orders[1][i] = cpu::NO_BYTE;
        i += 1;
    }
    orders
}

/// Those without and with tags, of each without and with ports.
pub(super) static ALL_ORDERS: [[[[u8; 16]; 3]; 2]; 2] =
    [[orders(false, false), orders(false, true)], [orders(true, false), orders(true, true)]];

/// The most padding that is plausible.
pub(super) const PADDING_MAX: usize = u16::MAX as usize;

/// Returns whether `len` bytes of payload, which are more than the `here` ones, end in the `absent` bytes after those, and the
/// transport header is here. Only the headers of these protocols always are.
#[cold]
#[inline(never)]
pub(super) fn ends_in_tail(proto: u8, len: usize, here: usize, absent: usize) -> bool {
    const LONGEST_HEADER: usize = 60;
    let in_tail = len > here && len <= here + absent && here >= LONGEST_HEADER;
    in_tail && matches!(proto, ipproto::TCP | ipproto::UDP)
}

/// The TCP flags, if the packet has a valid TCP header. `data`: what is here of the payload, whose length is `len`.
#[inline(always)]
pub(super) fn tcp_flags_of(data: &[u8], len: usize) -> Option<u16> {
    let header: &[u8; Tcp::LEN] = data.first_chunk()?;
    let flags = u16::from_be_bytes([header[12], header[13]]);
    let header_len = usize::from(flags >> 12) * 4;
    (header_len >= Tcp::LEN && header_len <= len).then_some(flags & 0x0fff)
}
