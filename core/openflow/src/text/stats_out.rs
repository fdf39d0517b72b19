//! Prints the statistics of IPFIX exporters.

use crate::stats::{IpfixStats, UNKNOWN};

/// Prints the statistics in two lines; the second line is indented by `indent` blanks.
pub(super) fn ipfix_text(s: &IpfixStats, indent: usize) -> String {
    let number = |n: u64| if n == UNKNOWN { "?".to_owned() } else { n.to_string() };
    let line = |fields: &[(&str, u64)]| {
        let one = |(name, value): &(&str, u64)| format!("{name}={}", number(*value));
        fields.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let first = line(&[
        ("flows", s.flows),
        ("current flows", s.current_flows),
        ("sampled pkts", s.packets),
        ("ipv4 ok", s.ipv4),
        ("ipv6 ok", s.ipv6),
        ("tx pkts", s.tx_packets),
    ]);
    let second = line(&[
        ("pkts errs", s.errors),
        ("ipv4 errs", s.ipv4_errors),
        ("ipv6 errs", s.ipv6_errors),
        ("tx errs", s.tx_errors),
    ]);
    format!("{first}\n{:indent$}{second}", "")
}
