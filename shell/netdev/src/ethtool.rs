//! Parses the replies of ethtool's commands: modes of a link, name and versions of a driver.
//!
//! Source: linux/ethtool.h, `struct ethtool_cmd` and `struct ethtool_drvinfo`.

use crate::device::LinkModes;
use std::collections::BTreeMap;

const FULL_DUPLEX: u8 = 1;
const PORT_TP: u8 = 0;
const PORT_FIBRE: u8 = 3;

const F_OTHER: u32 = 1 << 10;
const F_COPPER: u32 = 1 << 11;
const F_FIBER: u32 = 1 << 12;
const F_AUTONEG: u32 = 1 << 13;

/// Bit numbers of ethtool's mode mask, and the corresponding features of OpenFlow.
const MODES: [(u32, u32); 22] = [
    (0, 1),
    (1, 1 << 1),
    (2, 1 << 2),
    (3, 1 << 3),
    (4, 1 << 4),
    (5, 1 << 5),
    (17, 1 << 5),
    (12, 1 << 6),
    (18, 1 << 6),
    (19, 1 << 6),
    (20, 1 << 6),
    (23, 1 << 7),
    (24, 1 << 7),
    (25, 1 << 7),
    (26, 1 << 7),
    (7, F_COPPER),
    (8, F_COPPER),
    (9, F_COPPER),
    (10, F_FIBER),
    (6, F_AUTONEG),
    (13, 1 << 14),
    (14, 1 << 15),
];

fn features(modes: u32) -> u32 {
    MODES.iter().filter(|(bit, _)| modes >> bit & 1 != 0).fold(0, |all, (_, feature)| all | feature)
}

/// The OpenFlow feature of a speed in Mbit/s; `F_OTHER` if there is none.
fn speed_feature(speed: u32, full: bool) -> u32 {
    match (speed, full) {
        (10, false) => 1,
        (10, true) => 1 << 1,
        (100, false) => 1 << 2,
        (100, true) => 1 << 3,
        (1_000, false) => 1 << 4,
        (1_000, true) => 1 << 5,
        (10_000, _) => 1 << 6,
        (40_000, _) => 1 << 7,
        (100_000, _) => 1 << 8,
        (1_000_000, _) => 1 << 9,
        _ => F_OTHER,
    }
}

/// The modes of a link, from `struct ethtool_cmd`.
pub fn modes(answer: &[u8; 44]) -> LinkModes {
    let u32_at = |i: usize| u32::from_ne_bytes([answer[i], answer[i + 1], answer[i + 2], answer[i + 3]]);
    let u16_at = |i: usize| u16::from_ne_bytes([answer[i], answer[i + 1]]);
    let speed = u32::from(u16_at(28)) << 16 | u32::from(u16_at(12));
    let known = speed != u32::MAX && speed != u32::from(u16::MAX) && speed != 0;
    let [duplex, port, autoneg] = [answer[14], answer[15], answer[18]];
    let full = duplex == FULL_DUPLEX;
    let medium = match port {
        PORT_TP => F_COPPER,
        PORT_FIBRE => F_FIBER,
        _ => 0,
    };
    LinkModes {
        speed_mbps: known.then_some(speed),
        full_duplex: (duplex <= FULL_DUPLEX).then_some(full),
        current: if known { speed_feature(speed, full) } else { 0 }
            | medium
            | if autoneg != 0 { F_AUTONEG } else { 0 },
        advertised: features(u32_at(8)),
        supported: features(u32_at(4)),
    }
}

/// The `status` column, from `struct ethtool_drvinfo`.
pub fn driver(answer: &[u8; 196]) -> BTreeMap<String, String> {
    let text = |from: usize| {
        let field = &answer[from..from + 32];
        let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
        String::from_utf8_lossy(&field[..end]).into_owned()
    };
    BTreeMap::from([
        ("driver_name".to_owned(), text(4)),
        ("driver_version".to_owned(), text(36)),
        ("firmware_version".to_owned(), text(68)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_link_is_ten_gigabits_over_copper() {
        let mut answer = [0u8; 44];
        answer[12..14].copy_from_slice(&10_000u16.to_ne_bytes());
        answer[14] = FULL_DUPLEX;
        let modes = modes(&answer);
        assert_eq!((modes.speed_mbps, modes.full_duplex), (Some(10_000), Some(true)));
        assert_eq!(modes.current, 1 << 6 | F_COPPER);
    }

    #[test]
    fn a_speed_without_a_feature_is_another_one() {
        let mut answer = [0u8; 44];
        answer[14] = FULL_DUPLEX;
        assert_eq!(modes(&answer).current, F_COPPER);
        answer[12..14].copy_from_slice(&50_000u16.to_ne_bytes());
        assert_eq!((modes(&answer).speed_mbps, modes(&answer).current), (Some(50_000), F_OTHER | F_COPPER));
    }
}
