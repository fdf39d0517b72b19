//! State of a `dpdk` port: the modes of the link and the `status` column.

use super::options::Settings;
use crate::device::{LinkModes, TxOffloads};
use dpdk::ethdev::{self, Ethdev, Info, Link};
use packet::gso::GsoKind;
use std::collections::BTreeMap;

/// Bytes of a frame that the MTU does not include: Ethernet header (14) and check sequence (4).
const ETHERNET_OVERHEAD: u32 = 18;
/// `ethernetCsmacd` (RFC 2863).
const IF_TYPE: u32 = 6;
/// Speeds in Mbit/s, their text in `status`, and their bits of `ofp_port_features` for half and full duplex.
const SPEEDS: [(u32, &str, u32, u32); 12] = [
    (10, "10Mbps", 1 << 0, 1 << 1),
    (100, "100Mbps", 1 << 2, 1 << 3),
    (1_000, "1Gbps", 1 << 4, 1 << 5),
    (2_500, "2.5Gbps", OTHER, OTHER),
    (5_000, "5Gbps", OTHER, OTHER),
    (10_000, "10Gbps", OTHER, 1 << 6),
    (20_000, "20Gbps", OTHER, OTHER),
    (25_000, "25Gbps", OTHER, OTHER),
    (40_000, "40Gbps", OTHER, 1 << 7),
    (50_000, "50Gbps", OTHER, OTHER),
    (56_000, "56Gbps", OTHER, OTHER),
    (100_000, "100Gbps", OTHER, 1 << 8),
];
const OTHER: u32 = 1 << 10;
const AUTONEG: u32 = 1 << 13;

/// The modes of the link as bits of `ofp_port_features`.
pub(super) fn modes(link: Link) -> LinkModes {
    let speed = link.speed_mbps.unwrap_or(0);
    let known = SPEEDS.iter().find(|(mbps, ..)| *mbps == speed);
    let bit = known.map_or(OTHER, |(.., half, full)| if link.full_duplex { *full } else { *half });
    LinkModes {
        speed_mbps: link.speed_mbps,
        full_duplex: link.speed_mbps.map(|_| link.full_duplex),
        current: bit | if link.autoneg { AUTONEG } else { 0 },
        advertised: 0,
        supported: 0,
    }
}

/// A substitute for the kernel's interface index: MurmurHash3 of the name, reduced to 24 bits, as in Open vSwitch.
pub(super) fn ifindex(name: &str) -> u32 {
    packet::murmur::of_bytes(name.as_bytes(), 0) % 0x00ff_fffe + 1
}

/// Offloads that the device performs on transmission.
pub(super) fn tx_offloads(offloads: ethdev::TxOffloads) -> TxOffloads {
    TxOffloads {
        ip_checksum: offloads.ip_checksum,
        checksum: offloads.checksum,
        sctp_checksum: false,
        segmentation: offloads.segmentation.contains(GsoKind::Tcp4),
    }
}

/// The `status` column, without offloads.
pub(super) fn status(device: &Ethdev, info: &Info, live: &Settings, link: Link) -> BTreeMap<String, String> {
    let (n_rxq, n_txq) = device.queues();
    let speed = SPEEDS.iter().find(|(mbps, ..)| Some(*mbps) == link.speed_mbps).map(|(_, text, ..)| *text);
    let bus_info = info.bus_info.as_ref().map(|i| format!(", {i}")).unwrap_or_default();
    let pairs = [
        ("port_no", device.port().to_string()),
        ("numa_id", device.numa_id().0.to_string()),
        ("driver_name", info.driver_name.clone()),
        ("min_rx_bufsize", info.min_rx_bufsize.to_string()),
        ("max_rx_pktlen", (u32::from(live.mtu) + ETHERNET_OVERHEAD).to_string()),
        ("max_rx_queues", info.max_rx_queues.to_string()),
        ("max_tx_queues", info.max_tx_queues.to_string()),
        ("max_mac_addrs", info.max_mac_addrs.to_string()),
        ("max_hash_mac_addrs", info.max_hash_mac_addrs.to_string()),
        ("max_vfs", info.max_vfs.to_string()),
        ("max_vmdq_pools", info.max_vmdq_pools.to_string()),
        ("n_rxq", n_rxq.to_string()),
        ("n_txq", n_txq.to_string()),
        ("rx_csum_offload", info.has_rx_checksum.to_string()),
        ("if_type", IF_TYPE.to_string()),
        ("if_descr", format!("{} {}", dpdk::eal::version(), info.driver_name)),
        ("bus_info", format!("bus_name={}{bus_info}", info.bus_name)),
        ("link_speed", speed.unwrap_or("Not Defined").to_owned()),
        ("rx-steering", "rss".to_owned()),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_in_openflow_bits() {
        let link = Link { up: true, speed_mbps: Some(10_000), full_duplex: true, autoneg: true };
        assert_eq!(modes(link).current, 1 << 6 | AUTONEG);
        assert_eq!(modes(Link { full_duplex: false, ..link }).current, OTHER | AUTONEG);
        let unknown = modes(Link { speed_mbps: None, ..link });
        assert_eq!((unknown.speed_mbps, unknown.full_duplex), (None, None));
    }
}
