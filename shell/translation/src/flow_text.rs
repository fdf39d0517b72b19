//! A datapath flow as a line of text.

use dpif::text::{DpPortNames, NoNames, actions_text, key_text, ufid_text};
use dpif::{DpFlow, FlowStats};
use units::Millis;

/// The format of a flow's line.
#[derive(Clone, Copy)]
pub struct Style<'a> {
    /// Show the identifier, and fields that are not matched.
    pub verbose: bool,
    /// Show names of ports instead of numbers.
    pub names: Option<&'a dyn DpPortNames>,
    /// Text after the identifier.
    pub after_ufid: &'static str,
    /// Text before the actions in a verbose line.
    pub before_actions: &'static str,
    /// The current time.
    pub now: Millis,
}

/// Text of all fields of a packet.
pub fn key_only(key: &flow::Flow) -> String {
    key_text(key, None, true, &NoNames)
}

/// The line of a flow, without a newline.
pub fn flow_line(flow: &DpFlow, style: Style<'_>) -> String {
    let names = style.names.unwrap_or(&NoNames);
    let ufid = if style.verbose { ufid_text(flow.ufid) + style.after_ufid } else { String::new() };
    let key = key_text(&flow.key, Some(&flow.mask), style.verbose, names);
    let stats = stats_text(&flow.stats, style.now);
    let before_actions = if style.verbose { style.before_actions } else { "" };
    format!("{ufid}{key}, {stats}{before_actions}, actions:{}", actions_text(&flow.actions, names))
}

/// Text of statistics, for example `packets:2, bytes:236, used:0.500s, flags:S.`
pub fn stats_text(stats: &FlowStats, now: Millis) -> String {
    let used = match stats.used {
        Some(used) => format!("{:.3}s", now.since(used).0 as f64 / 1000.0),
        None => "never".to_owned(),
    };
    let flags = match stats.tcp_flags {
        0 => String::new(),
        flags => format!(", flags:{}", tcp_flags(flags)),
    };
    format!("packets:{}, bytes:{}, used:{used}{flags}", stats.packets, stats.bytes)
}

/// One letter for each set flag of a TCP header (RFC 9293 §3.1), in the order of tcpdump(8); a flag without a letter is shown
/// as a number.
fn tcp_flags(flags: u16) -> String {
    const NAMES: [(u16, &str); 12] = [
        (0x002, "S"),
        (0x001, "F"),
        (0x008, "P"),
        (0x004, "R"),
        (0x020, "U"),
        (0x010, "."),
        (0x040, "E"),
        (0x080, "C"),
        (0x100, "N"),
        (0x200, "[200]"),
        (0x400, "[400]"),
        (0x800, "[800]"),
    ];
    NAMES.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_as_dumps_show_them() {
        let mut stats = FlowStats::default();
        assert_eq!(stats_text(&stats, Millis(9)), "packets:0, bytes:0, used:never");
        stats = FlowStats { packets: 2, bytes: 236, used: Some(Millis(1000)), tcp_flags: 0x12 };
        assert_eq!(stats_text(&stats, Millis(1500)), "packets:2, bytes:236, used:0.500s, flags:S.");
        assert_eq!(tcp_flags(0x311), "F.N[200]");
    }
}
