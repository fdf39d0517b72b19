//! The status and the statistics of a guest's port, with Open vSwitch's keys.

use super::counters::{CLASSES, Totals};
use crate::device::TxOffloads;
use crate::stats::Stats;
use std::collections::BTreeMap;
use vhost::{Guest, feature};

/// Names of the size classes of the complete port, which counts the first two classes together.
const SIZES: [&str; CLASSES - 1] =
    ["1_to_64", "65_to_127", "128_to_255", "256_to_511", "512_to_1023", "1024_to_1522", "1523_to_max"];
/// Names of the size classes of each queue, as in DPDK's vhost library.
const QUEUE_SIZES: [&str; CLASSES] = [
    "undersize",
    "size_64",
    "size_65_127",
    "size_128_255",
    "size_256_511",
    "size_512_1023",
    "size_1024_1518",
    "size_1519_max",
];

/// Offloads that the switch may leave to the guest, by the guest's features (virtio 1.1, 5.1.3).
pub(super) fn tx_offloads(guest: Option<&Guest>) -> TxOffloads {
    const SEGMENTATION: u64 = feature::GUEST_CSUM | feature::GUEST_TSO4 | feature::GUEST_TSO6;
    let features = guest.map_or(0, |guest| guest.features);
    let has = |bits| features & bits == bits;
    TxOffloads {
        ip_checksum: false,
        checksum: has(feature::GUEST_CSUM),
        sctp_checksum: false,
        segmentation: has(SEGMENTATION),
    }
}

/// The `status` column, without offloads.
pub(super) fn status(
    client: bool,
    socket: Option<&str>,
    guest: Option<&Guest>,
    queues: usize,
) -> BTreeMap<String, String> {
    let mut status = BTreeMap::new();
    let mut put = |key: &str, value: String| status.insert(key.to_owned(), value);
    put("mode", if client { "client" } else { "server" }.to_owned());
    let Some(guest) = guest else {
        put("status", "disconnected".to_owned());
        return status;
    };
    put("status", "connected".to_owned());
    put("socket", socket.unwrap_or_default().to_owned());
    put("features", format!("0x{:016x}", guest.features));
    if let Some(mtu) = guest.mtu {
        put("mtu", mtu.to_string());
    }
    if let Some(numa) = guest.numa {
        put("numa", numa.to_string());
    }
    put("num_of_vrings", guest.rings.len().to_string());
    for (i, size) in guest.rings.iter().enumerate() {
        put(&format!("vring_{i}_size"), size.to_string());
    }
    put("n_rxq", queues.to_string());
    put("n_txq", queues.to_string());
    status
}

fn sum(pairs: &[Totals]) -> Totals {
    let mut sum = Totals::default();
    pairs.iter().for_each(|p| sum.add_totals(p));
    sum
}

/// The `statistics` column. Without a guest it contains only the switch's own counters.
pub(super) fn stats(connected: bool, rx: &[Totals], tx: &[Totals]) -> Stats {
    let (all_rx, all_tx) = (sum(rx), sum(tx));
    let mut custom = vec![
        ("ovs_tx_retries".to_owned(), all_tx.retries),
        ("ovs_tx_failure_drops".to_owned(), all_tx.full),
        ("ovs_tx_mtu_exceeded_drops".to_owned(), all_tx.too_long),
        ("ovs_tx_qos_drops".to_owned(), 0),
        ("ovs_rx_qos_drops".to_owned(), 0),
        ("ovs_tx_invalid_hwol_drops".to_owned(), all_tx.bad_offload),
    ];
    if !connected {
        return Stats { custom, ..Stats::default() };
    }
    for (side, all) in [("rx", &all_rx), ("tx", &all_tx)] {
        let smallest = all.classes[0] + all.classes[1];
        let sizes = std::iter::once(smallest).chain(all.classes.iter().skip(2).copied());
        custom.extend(SIZES.iter().zip(sizes).map(|(s, n)| (format!("{side}_{s}_packets"), n)));
        custom.push((format!("{side}_broadcast_packets"), all.broadcast));
    }
    custom.push(("tx_multicast_packets".to_owned(), all_tx.multicast));
    for (side, pairs) in [("rx", rx), ("tx", tx)] {
        for (i, pair) in pairs.iter().enumerate() {
            let mut put = |what: &str, n| custom.push((format!("{side}_q{i}_{what}"), n));
            put("good_packets", pair.packets());
            put("good_bytes", pair.bytes);
            put("multicast_packets", pair.multicast);
            put("broadcast_packets", pair.broadcast);
            for (size, n) in QUEUE_SIZES.iter().zip(pair.classes) {
                put(&format!("{size}_packets"), n);
            }
            put("guest_notifications", pair.interrupts);
            // No packet is ever copied asynchronously.
            put("inflight_submitted", 0);
            put("inflight_completed", 0);
        }
    }
    Stats {
        rx_packets: Some(all_rx.packets()),
        tx_packets: Some(all_tx.packets()),
        rx_bytes: Some(all_rx.bytes),
        tx_bytes: Some(all_tx.bytes),
        rx_dropped: Some(all_rx.dropped),
        tx_dropped: Some(all_tx.dropped),
        multicast: Some(all_rx.multicast),
        custom,
        ..Stats::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_open_vswitch() {
        let guest = Guest { features: 0x1_5044_8000, mtu: None, numa: Some(0), rings: vec![256, 256] };
        let shown = status(true, Some("/s"), Some(&guest), 1);
        let text: Vec<String> = shown.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(
            text.join(" "),
            "features=0x0000000150448000 mode=client n_rxq=1 n_txq=1 num_of_vrings=2 numa=0 socket=/s \
             status=connected vring_0_size=256 vring_1_size=256"
        );
        let offloads = |features| tx_offloads(Some(&Guest { features, ..guest.clone() }));
        assert_eq!(tx_offloads(None), TxOffloads::default());
        assert!(offloads(2).checksum && !offloads(0x82).segmentation && offloads(0x182).segmentation);
        let none = status(false, None, None, 1);
        assert_eq!(none.get("status").map(String::as_str), Some("disconnected"));
        assert_eq!(none.get("mode").map(String::as_str), Some("server"));
    }

    #[test]
    fn sizes_and_queues_are_shown() {
        let mut one = Totals { bytes: 124, interrupts: 3, ..Totals::default() };
        one.classes[0] = 1;
        one.classes[1] = 1;
        let pairs = stats(true, &[one.clone()], &[one]).pairs();
        let get = |key: &str| pairs.iter().find(|(k, _)| k == key).map(|(_, v)| *v);
        assert_eq!(get("rx_1_to_64_packets"), Some(2));
        assert_eq!(get("tx_q0_size_64_packets"), Some(1));
        assert_eq!(get("rx_packets"), Some(2));
        assert_eq!(get("ovs_tx_retries"), Some(0));
        assert_eq!([get("rx_q0_guest_notifications"), get("tx_q0_guest_notifications")], [Some(3), Some(3)]);
        assert_eq!(stats(false, &[], &[]).pairs().len(), 6);
    }
}
