//! The values in tables and packets. They are few, so that random packets often match random flows.

use crate::rng::Rng;

/// Ethernet addresses: first unicast, then multicast addresses.
pub const MACS: [[u8; 6]; 9] = [
    [0x50, 0x54, 0, 0, 0, 1],
    [0x50, 0x54, 0, 0, 0, 2],
    [0x50, 0x54, 0, 0, 0, 3],
    [0x50, 0x54, 0, 0, 0, 4],
    [0x50, 0x54, 0, 0, 0, 5],
    [0xff; 6],
    [0x01, 0, 0x5e, 0, 0, 1],
    [0x33, 0x33, 0, 0, 0, 1],
    [0x01, 0x80, 0xc2, 0, 0, 0],
];

/// IPv4 addresses.
pub const IPS: [[u8; 4]; 7] = [
    [10, 0, 0, 1],
    [10, 0, 0, 2],
    [10, 0, 1, 1],
    [10, 0, 1, 3],
    [192, 168, 0, 1],
    [172, 16, 0, 9],
    [224, 0, 0, 5],
];

/// Layer 4 ports.
pub const PORTS: [u16; 7] = [53, 80, 443, 1000, 1001, 1002, 8080];

/// VLAN IDs: two that the ports of the bridges are configured with, one that no port is configured with, and
/// 0 (a priority tag).
pub const VLANS: [u16; 4] = [10, 20, 30, 0];

/// Last bytes of IPv6 addresses.
const HOSTS: [u8; 4] = [1, 2, 3, 0x11];

/// An IPv6 address.
pub fn ip6(rng: &mut Rng) -> [u8; 16] {
    let mut a = [0; 16];
    match rng.below(8) {
        0..3 => a[..2].copy_from_slice(&[0xfe, 0x80]),
        3..7 => a[..4].copy_from_slice(&[0x20, 1, 0x0d, 0xb8]),
        _ => a[..2].copy_from_slice(&[0xff, 2]),
    }
    a[15] = rng.pick(&HOSTS);
    a
}

/// Returns an Ethernet address as text.
pub fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|b| format!("{b:02x}")).join(":")
}

/// A random Ethernet address: a unicast address with a probability of 80 %, otherwise any of the pool. Instead of the last one
/// in the pool, any reserved address (IEEE 802.1D §7.12.6) or the one after them is used.
pub fn mac(rng: &mut Rng) -> [u8; 6] {
    let mut mac = if rng.chance(80) { rng.pick(&MACS[..5]) } else { rng.pick(&MACS) };
    if mac[0] == 1 && mac[1] == 0x80 {
        mac[5] = rng.between(0, 0x10) as u8;
    }
    mac
}

/// An IPv4 address as text, in five of eight cases with a mask.
pub fn ip_text(rng: &mut Rng) -> String {
    let address = std::net::Ipv4Addr::from(rng.pick(&IPS));
    match rng.below(8) {
        0 => format!("{address}/8"),
        1 => format!("{address}/16"),
        2 => format!("{address}/24"),
        3 => format!("{address}/31"),
        4 => format!("0.0.0.{}/0.0.0.3", address.octets()[3] & 3),
        _ => address.to_string(),
    }
}

/// An IPv6 address as text, half of the time with a mask.
pub fn ip6_text(rng: &mut Rng) -> String {
    let address = std::net::Ipv6Addr::from(ip6(rng));
    match rng.below(8) {
        0 => format!("{address}/16"),
        1 => format!("{address}/64"),
        2 => format!("{address}/127"),
        3 => format!("::{:x}/::3", address.octets()[15] & 3),
        _ => address.to_string(),
    }
}

/// A layer 4 port as text, sometimes with a mask.
pub fn port_text(rng: &mut Rng) -> String {
    let port = rng.pick(&PORTS);
    match rng.below(6) {
        0 => format!("{:#x}/0xfffc", port & 0xfffc),
        1 => format!("{:#x}/0xfff0", port & 0xfff0),
        2 => format!("{:#x}/0x1", port & 1),
        _ => port.to_string(),
    }
}

/// A random output port.
pub fn port(rng: &mut Rng) -> u64 {
    rng.pick(&[1, 2, 3, 4, 5, 6, 10])
}
