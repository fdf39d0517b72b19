//! Prints ports and their counters.

use super::flow_out::duration_text;
use crate::port::{Port, PortConfig, PortMod, PortReason, PortState, PortStatus, StpState};
use crate::stats::{PortStats, QueueConfig, QueueStats, UNKNOWN};
use flow::text::{NameMap, NoNames, port_text};
use units::OfPort;

const FEATURES: [&str; 16] = [
    "10MB-HD",
    "10MB-FD",
    "100MB-HD",
    "100MB-FD",
    "1GB-HD",
    "1GB-FD",
    "10GB-FD",
    "40GB-FD",
    "100GB-FD",
    "1TB-FD",
    "OTHER",
    "COPPER",
    "FIBER",
    "AUTO_NEG",
    "AUTO_PAUSE",
    "AUTO_PAUSE_ASYM",
];

/// Prints the names of the bits that are set, separated by spaces; `0` if none is set. Bits without a name
/// are printed in hexadecimal.
pub(super) fn bits_text(bits: u32, names: &[&str]) -> String {
    let mut parts = Vec::new();
    let mut left = bits;
    for (i, name) in names.iter().enumerate() {
        if bits & 1 << i != 0 {
            parts.push((*name).to_owned());
            left &= !(1 << i);
        }
    }
    if left != 0 || bits == 0 {
        parts.push(if left == 0 { "0".to_owned() } else { format!("{left:#x}") });
    }
    parts.join(" ")
}

/// Prints the names of the flags that are set; `0` if none is set.
pub(super) fn flags_text(flags: &[(bool, &str)]) -> String {
    let parts: Vec<&str> = flags.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
    if parts.is_empty() { "0".to_owned() } else { parts.join(" ") }
}

fn config_text(c: &PortConfig) -> String {
    flags_text(&[
        (c.port_down, "PORT_DOWN"),
        (c.no_stp, "NO_STP"),
        (c.no_recv, "NO_RECV"),
        (c.no_recv_stp, "NO_RECV_STP"),
        (c.no_flood, "NO_FLOOD"),
        (c.no_fwd, "NO_FWD"),
        (c.no_packet_in, "NO_PACKET_IN"),
    ])
}

fn state_text(s: &PortState) -> String {
    let flags = flags_text(&[(s.link_down, "LINK_DOWN"), (s.blocked, "BLOCKED"), (s.live, "LIVE")]);
    // "listen" is also the state that a switch without spanning tree reports.
    let stp = match s.stp {
        StpState::Listen => return flags,
        StpState::Learn => "STP_LEARN",
        StpState::Forward => "STP_FORWARD",
        StpState::Block => "STP_BLOCK",
    };
    if flags == "0" { stp.to_owned() } else { stp.to_owned() + &flags }
}

/// Prints one port, in several lines.
fn port_lines(p: &Port) -> String {
    let name: String = p.name.chars().take_while(|c| c.is_ascii_graphic() || *c == ' ').collect();
    let mut text = format!(" {}({name}): addr:{}\n", port_text(p.number, &NoNames), p.hw_addr);
    text +=
        &format!("     config:     {}\n     state:      {}\n", config_text(&p.config), state_text(&p.state));
    let features = [
        ("current:    ", p.current),
        ("advertised: ", p.advertised),
        ("supported:  ", p.supported),
        ("peer:       ", p.peer),
    ];
    for (label, bits) in features.into_iter().filter(|(_, bits)| *bits != 0) {
        text += &format!("     {label}{}\n", bits_text(bits, &FEATURES));
    }
    text + &format!("     speed: {} Mbps now, {} Mbps max\n", p.current_speed / 1000, p.max_speed / 1000)
}

/// Prints ports, sorted by number.
pub(super) fn ports_text(ports: &[Port]) -> String {
    let mut ports: Vec<&Port> = ports.iter().collect();
    ports.sort_by_key(|p| p.number.0);
    ports.into_iter().map(port_lines).collect()
}

pub(super) fn port_status_text(s: &PortStatus) -> String {
    let reason = match s.reason {
        PortReason::Add => "ADD",
        PortReason::Delete => "DEL",
        PortReason::Modify => "MOD",
    };
    format!(" {reason}:{}", port_lines(&s.port))
}

pub(super) fn port_mod_text(m: &PortMod, names: &dyn NameMap) -> String {
    let advertise = match m.advertise {
        0 => "UNCHANGED".to_owned(),
        bits => bits_text(bits, &FEATURES),
    };
    format!(
        " port: {}: addr:{}\n     config: {}\n     mask:   {}\n     advertise: {advertise}\n",
        port_text(m.number, names),
        m.hw_addr,
        config_text(&m.config),
        config_text(&m.mask)
    )
}

fn counter(v: u64) -> String {
    if v == UNKNOWN { "?".to_owned() } else { v.to_string() }
}

fn counters(list: &[(&str, u64)]) -> String {
    let parts: Vec<String> = list.iter().map(|(name, v)| format!("{name}={}", counter(*v))).collect();
    parts.join(", ")
}

/// Names of the RFC 2819 counters in wire order.
const RFC2819: [&str; 21] = [
    "1_to_64_packets",
    "65_to_127_packets",
    "128_to_255_packets",
    "256_to_511_packets",
    "512_to_1023_packets",
    "1024_to_1522_packets",
    "1523_to_max_packets",
    "1_to_64_packets",
    "65_to_127_packets",
    "128_to_255_packets",
    "256_to_511_packets",
    "512_to_1023_packets",
    "1024_to_1522_packets",
    "1523_to_max_packets",
    "multicast_packets",
    "broadcast_packets",
    "broadcast_packets",
    "undersized_errors",
    "oversize_errors",
    "rx_fragmented_errors",
    "rx_jabber_errors",
];
/// Indices in `RFC2819` of the counters of sent packets.
const RFC2819_SENT: [usize; 9] = [7, 8, 9, 10, 11, 12, 13, 14, 16];

fn rfc2819_text(values: &[u64; 21]) -> String {
    let side = |sent: bool| -> String {
        let chosen = (0..21).filter(|i| RFC2819_SENT.contains(i) == sent && values[*i] != UNKNOWN);
        chosen.map(|i| format!("{}={}, ", RFC2819[i], values[i])).collect()
    };
    let mut text = String::new();
    for (label, list) in [("rx", side(false)), ("tx", side(true))] {
        if !list.is_empty() {
            text += &format!("           {label} rfc2819 {list}\n");
        }
    }
    text
}

fn custom_text(custom: &[(String, u64)]) -> String {
    if custom.is_empty() {
        return String::new();
    }
    let mut text = "           CUSTOM Statistics".to_owned();
    for (i, (name, value)) in custom.iter().enumerate().filter(|(_, (name, _))| !name.is_empty()) {
        text += if i % 3 == 0 { "\n                      " } else { " " };
        text += &format!("{name}={value},");
    }
    text + "\n"
}

pub(super) fn port_stats_text(s: &PortStats, names: &dyn NameMap) -> String {
    let pad = if s.port < OfPort(10) { " " } else { "" };
    let received = counters(&[
        ("pkts", s.rx_packets),
        ("bytes", s.rx_bytes),
        ("drop", s.rx_dropped),
        ("errs", s.rx_errors),
        ("frame", s.rx_frame_errors),
        ("over", s.rx_over_errors),
        ("crc", s.rx_crc_errors),
    ]);
    let sent = counters(&[
        ("pkts", s.tx_packets),
        ("bytes", s.tx_bytes),
        ("drop", s.tx_dropped),
        ("errs", s.tx_errors),
        ("coll", s.collisions),
    ]);
    let mut text = format!("  port {pad}{}: rx {received}\n           tx {sent}\n", port_text(s.port, names));
    if s.duration.sec != u32::MAX {
        text += &format!("           duration={}\n", duration_text(s.duration));
    }
    if let Some(values) = &s.rfc2819 {
        text += &rfc2819_text(values);
    }
    text + &custom_text(&s.custom)
}

/// Prints a queue's number or `ALL`.
pub(super) fn queue_text(queue: u32) -> String {
    if queue == crate::stats::QUEUE_ALL { "ALL".to_owned() } else { queue.to_string() }
}

pub(super) fn queue_stats_text(q: &QueueStats, names: &dyn NameMap) -> String {
    let duration = if q.duration.sec == u32::MAX { "?".to_owned() } else { duration_text(q.duration) };
    let counters = counters(&[("bytes", q.tx_bytes), ("pkts", q.tx_packets), ("errors", q.tx_errors)]);
    format!(
        "  port {} queue {}: {counters}, duration={duration}\n",
        port_text(q.port, names),
        queue_text(q.queue)
    )
}

pub(super) fn queue_config_text(queues: &[QueueConfig], names: &dyn NameMap) -> String {
    let mut queues: Vec<&QueueConfig> = queues.iter().collect();
    queues.sort_by_key(|q| (q.port.0, q.queue));
    let mut text = String::from(" ");
    let mut port = OfPort(0);
    let rate = |name: &str, rate: Option<u16>| match rate {
        None => String::new(),
        Some(r) if r <= 1000 => format!(" {name}:{}.{}%", r / 10, r % 10),
        Some(_) => format!(" {name}:(disabled)"),
    };
    for q in queues {
        if q.port != port {
            port = q.port;
            text += &format!("port={}\n", port_text(port, names));
        }
        text +=
            &format!("queue {}:{}{}\n", q.queue, rate("min_rate", q.min_rate), rate("max_rate", q.max_rate));
    }
    if text == " " { String::new() } else { text }
}
