//! Packets of many connections, and the memory of the process.

#[path = "../../tests/shared/mod.rs"]
mod udp;

const SERVER: (u32, u16) = (0x1400_0001, 53);

/// A UDP packet of the `n`-th connection, without the Ethernet header.
pub fn packet(n: u64, reply: bool) -> Vec<u8> {
    let client = (0x0a00_0000 + (n / 60_000) as u32, (n % 60_000) as u16 + 1);
    let (src, dst) = if reply { (SERVER, client) } else { (client, SERVER) };
    udp::l3(&udp::udp(src, dst))
}

/// Resident bytes.
pub fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}
