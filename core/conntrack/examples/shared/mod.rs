//! Packets of many connections, and the memory of the process.

use flow::compose::compose;
use flow::{Flow, Mac};

/// A UDP packet of the `n`-th connection, without the Ethernet header.
pub fn packet(n: u64, reply: bool) -> Vec<u8> {
    let (mut src, mut dst) =
        ((0x0a00_0000 + (n / 60_000) as u32, (n % 60_000) as u16 + 1), (0x1400_0001, 53));
    if reply {
        (src, dst) = (dst, src);
    }
    let flow = Flow {
        dl_dst: Mac([2; 6]),
        dl_type: 0x0800,
        nw_proto: 17,
        nw_ttl: 64,
        nw_src: src.0,
        nw_dst: dst.0,
        tp_src: src.1,
        tp_dst: dst.1,
        ..Flow::ZERO
    };
    compose(&flow, &[])[14..].to_vec()
}

/// Resident bytes.
pub fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}
