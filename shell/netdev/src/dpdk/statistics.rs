//! The counters of a DPDK device, with their keys in the database.

use crate::stats::Stats;
use dpdk::ethdev::Counters;

/// Counters of drivers that have a fixed key in the database: DPDK's name and the key.
const KEYS: [(&str, &str); 21] = [
    ("tx_multicast_packets", "tx_multicast_packets"),
    ("rx_broadcast_packets", "rx_broadcast_packets"),
    ("tx_broadcast_packets", "tx_broadcast_packets"),
    ("rx_undersized_errors", "rx_undersized_errors"),
    ("rx_oversize_errors", "rx_oversize_errors"),
    ("rx_fragmented_errors", "rx_fragmented_errors"),
    ("rx_jabber_errors", "rx_jabber_errors"),
    ("rx_size_64_packets", "rx_1_to_64_packets"),
    ("rx_size_65_to_127_packets", "rx_65_to_127_packets"),
    ("rx_size_128_to_255_packets", "rx_128_to_255_packets"),
    ("rx_size_256_to_511_packets", "rx_256_to_511_packets"),
    ("rx_size_512_to_1023_packets", "rx_512_to_1023_packets"),
    ("rx_size_1024_to_1522_packets", "rx_1024_to_1522_packets"),
    ("rx_size_1523_to_max_packets", "rx_1523_to_max_packets"),
    ("tx_size_64_packets", "tx_1_to_64_packets"),
    ("tx_size_65_to_127_packets", "tx_65_to_127_packets"),
    ("tx_size_128_to_255_packets", "tx_128_to_255_packets"),
    ("tx_size_256_to_511_packets", "tx_256_to_511_packets"),
    ("tx_size_512_to_1023_packets", "tx_512_to_1023_packets"),
    ("tx_size_1024_to_1522_packets", "tx_1024_to_1522_packets"),
    ("tx_size_1523_to_max_packets", "tx_1523_to_max_packets"),
];
/// The driver counter that has a field of its own in [`Stats`] ([`Stats::multicast`]), because other types of ports have it, too.
const MULTICAST: &str = "rx_multicast_packets";
/// Suffixes of the other driver counters that are shown.
const SUFFIXES: [&str; 2] = ["_errors", "_dropped"];

/// The counters of a `dpdk` port.
pub(super) fn stats(counters: Counters) -> Stats {
    let lost = counters.tx_failed + counters.tx_too_long;
    let mut stats = Stats {
        rx_packets: Some(counters.rx_packets),
        tx_packets: Some(counters.tx_packets),
        rx_bytes: Some(counters.rx_bytes),
        tx_bytes: Some(counters.tx_bytes),
        rx_dropped: Some(counters.rx_lost + counters.rx_no_buffer + counters.rx_missed),
        tx_dropped: Some(lost),
        rx_errors: Some(counters.rx_errors),
        tx_errors: Some(counters.tx_errors),
        rx_missed_errors: Some(counters.rx_missed),
        ..Stats::default()
    };
    stats.multicast = counters.extended.iter().find(|(name, _)| name == MULTICAST).map(|(_, n)| *n);
    let own = [
        ("ovs_tx_failure_drops", counters.tx_failed),
        ("ovs_tx_mtu_exceeded_drops", counters.tx_too_long),
        // The datapath, not this port, counts the drops of policers and shapers, and drivers report no invalid packets.
        ("ovs_tx_qos_drops", 0),
        ("ovs_rx_qos_drops", 0),
        ("ovs_tx_invalid_hwol_drops", 0),
    ];
    let mut custom: Vec<_> = own.map(|(name, n)| (name.to_owned(), n)).into();
    let taken: Vec<String> = stats.pairs().into_iter().map(|(key, _)| key).collect();
    for (name, n) in counters.extended {
        let key = match KEYS.iter().find(|(theirs, _)| *theirs == name) {
            Some((_, key)) => (*key).to_owned(),
            None if is_shown(&name) && !taken.contains(&name) => name,
            None => continue,
        };
        custom.push((key, n));
    }
    stats.custom = custom;
    stats
}

fn is_shown(name: &str) -> bool {
    SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) || name.contains("_management_") || is_of_queue(name)
}

/// Whether this is a counter of a queue, such as `rx_q<n>_packets`.
fn is_of_queue(name: &str) -> bool {
    let rest = name.strip_prefix("rx_q").or_else(|| name.strip_prefix("tx_q"));
    let digits = rest.and_then(|r| r.strip_suffix("_packets").or_else(|| r.strip_suffix("_bytes")));
    digits.is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_database() {
        let names = ["rx_good_packets", "rx_errors", "rx_q0_packets", "rx_qx_bytes", "rx_size_64_packets"];
        let extended = names.iter().map(|n| (n.to_string(), 7)).collect();
        let stats = stats(Counters {
            rx_missed: 2,
            rx_no_buffer: 3,
            tx_too_long: 1,
            extended,
            ..Counters::default()
        });
        let keys: Vec<_> = stats.custom.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys[5..], ["rx_q0_packets", "rx_1_to_64_packets"]);
        assert_eq!((stats.rx_dropped, stats.tx_dropped, stats.rx_missed_errors), (Some(5), Some(1), Some(2)));
    }
}
