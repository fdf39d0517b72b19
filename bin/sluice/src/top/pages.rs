//! The pages: the command that each sends to the daemon, and its lines.

use super::page_lines::{self, Lines};
use super::replies::ReplyPair;

/// A page of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScreenPage {
    #[default]
    Threads,
    Ports,
    Drops,
    Flows,
    Connections,
}

impl ScreenPage {
    pub const ALL: [ScreenPage; 5] = [
        ScreenPage::Threads,
        ScreenPage::Ports,
        ScreenPage::Drops,
        ScreenPage::Flows,
        ScreenPage::Connections,
    ];

    pub fn name(self) -> &'static str {
        match self {
            ScreenPage::Threads => "threads",
            ScreenPage::Ports => "ports",
            ScreenPage::Drops => "drops",
            ScreenPage::Flows => "flows",
            ScreenPage::Connections => "connections",
        }
    }

    pub fn of_name(name: &str) -> Option<ScreenPage> {
        ScreenPage::ALL.into_iter().find(|page| page.name() == name)
    }

    /// The page that a key (`1` to `5`) selects.
    pub fn of_key(key: char) -> Option<ScreenPage> {
        ScreenPage::ALL.get(key.to_digit(10)?.checked_sub(1)? as usize).copied()
    }

    pub fn next(self) -> ScreenPage {
        ScreenPage::ALL[(self as usize + 1) % ScreenPage::ALL.len()]
    }

    /// The daemon's command that returns the counters of the page, and its arguments.
    pub fn command(self) -> (&'static str, &'static [&'static str]) {
        match self {
            ScreenPage::Threads => ("dpif-netdev/pmd-state", &[]),
            ScreenPage::Ports => ("dpif/top", &["ports"]),
            ScreenPage::Drops => ("dpif/show-drops", &["recent=8"]),
            ScreenPage::Flows => ("dpif/top", &["flows"]),
            ScreenPage::Connections => ("dpif/top", &["connections"]),
        }
    }

    /// The lines of the page, computed from two replies; empty for [`ScreenPage::Threads`].
    pub fn lines(self, replies: &ReplyPair<'_>) -> Lines {
        match self {
            ScreenPage::Threads => Vec::new(),
            ScreenPage::Ports => page_lines::ports(replies),
            ScreenPage::Drops => page_lines::drops(replies),
            ScreenPage::Flows => page_lines::flows(replies),
            ScreenPage::Connections => page_lines::connections(replies),
        }
    }
}

/// The first line of the screen: the pages and their keys; the current page is in brackets.
pub fn heading(page: ScreenPage) -> String {
    let names = ScreenPage::ALL.iter().zip(1..).map(|(kind, key)| match *kind == page {
        true => format!("[{key} {}]", kind.name()),
        false => format!(" {key} {} ", kind.name()),
    });
    names.collect::<Vec<_>>().join(" ") + "  q quit"
}

#[cfg(test)]
mod tests {
    use super::*;
    use ovsdb::Json;
    use serde_json::json;

    fn lines(page: ScreenPage, before: &Json, now: &Json) -> String {
        page.lines(&ReplyPair { before, now, seconds: 2.0 }).join("\n")
    }

    #[test]
    fn keys_and_names_lead_to_pages() {
        assert_eq!(ScreenPage::of_key('2'), Some(ScreenPage::Ports));
        assert_eq!(
            (ScreenPage::of_key('0'), ScreenPage::of_key('6'), ScreenPage::of_key('q')),
            (None, None, None)
        );
        assert!(ScreenPage::ALL.iter().all(|page| ScreenPage::of_name(page.name()) == Some(*page)));
        assert_eq!(ScreenPage::Connections.next(), ScreenPage::Threads);
        let heading = heading(ScreenPage::Drops);
        assert!(heading.contains("[3 drops]") && heading.len() <= 80, "{heading}");
    }

    #[test]
    fn ports_have_rates() {
        let of = |n: u64| {
            json!({ "datapaths": { "netdev": [
                { "port": "quiet", "number": 1, "up": false, "rx-packets": 0 },
                { "port": "p1", "number": 2, "up": true, "link-changes": 7, "rx-packets": 4000 * n, "rx-bytes": 64 * 4000 * n,
                  "tx-packets": 2 * n, "tx-bytes": 128 * n, "rx-drops": 20 * n, "tx-drops": 0 },
            ] } })
        };
        let text = lines(ScreenPage::Ports, &of(1), &of(2));
        let row = "p1                 up*      2.0k     1.02M         1       512       10        0";
        assert_eq!(text.lines().nth(2), Some(row), "{text}");
        assert!(text.lines().nth(3).unwrap().starts_with("quiet             down"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 80));
        let named =
            json!({ "datapaths": { "netdev": [{ "port": "vif1", "logical-port": "sw0-p1", "up": true }] } });
        let text = lines(ScreenPage::Ports, &Json::Null, &named);
        assert_eq!(text.lines().nth(2).unwrap().split_whitespace().last(), Some("sw0-p1"), "{text}");
        // The first reply has no rates.
        assert!(lines(ScreenPage::Ports, &Json::Null, &of(2)).contains("p1                 up*         0"));
    }

    #[test]
    fn drops_have_rates_and_rules() {
        let of = |n: u64| {
            json!({ "datapaths": { "netdev": { "ports": [
                    { "port": "p1", "number": 2, "direction": "received", "reasons": { "drop_action_of_pipeline": n } },
                    { "port": null, "number": 9, "direction": "to be sent", "reasons": { "datapath_drop_invalid_port": 3 } } ] } },
                "recent": [{ "port": "p1", "reason": "drop_action_of_pipeline", "flow": "icmp", "milliseconds-ago": 1200,
                    "decided-by": { "bridge": "br0", "rule": "actions=drop" } }] })
        };
        let text = lines(ScreenPage::Drops, &of(10), &of(30));
        assert!(
            text.contains(
                "p1               received   drop_action_of_pipeline                  10       30\nport 9 "
            ),
            "{text}"
        );
        assert!(
            text.contains(
                "     1.2 s ago p1: drop_action_of_pipeline\n    icmp\n    bridge br0: actions=drop"
            ),
            "{text}"
        );
        assert!(lines(ScreenPage::Drops, &Json::Null, &json!({})).contains("no packet was dropped"));
    }

    #[test]
    fn flows_have_rates_and_the_busiest_is_first() {
        let flow = |ufid: &str, packets: u64, age: u64| json!({ "ufid": ufid, "flow": ufid, "actions": "2", "packets": packets, "bytes": 100 * packets, "age": age });
        let of = |flows: Vec<Json>| json!({ "datapaths": { "netdev": { "count": 3, "limit": 9, "masks": 1, "flows": flows } } });
        let before = of(vec![flow("a", 10, 9000), flow("b", 10, 9000)]);
        let now =
            of(vec![flow("a", 12, 9000), flow("b", 50, 9000), flow("new", 8, 1000), flow("old", 800, 9000)]);
        let text = lines(ScreenPage::Flows, &before, &now);
        let order: Vec<&str> =
            text.lines().skip(2).filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(order, ["20", "4", "1", "0"], "{text}");
        assert!(
            text.contains("      20    16.0k  b -> 2") && text.contains("3 megaflows of at most 9, 1 masks"),
            "{text}"
        );
        let many = json!({ "datapaths": { "netdev": { "count": 1000000, "not-searched": true } } });
        assert!(lines(ScreenPage::Flows, &Json::Null, &many).contains("too many"));
    }

    #[test]
    fn connections_by_zone_and_state() {
        let of = |n: u64| {
            json!({ "datapaths": { "netdev": { "count": n, "limit": 100, "kinds": { "udp": 1, "tcp ESTABLISHED": 2 },
                "zones": [{ "zone": 7, "count": 3, "limit": 10 }], "connections": ["udp,orig=(...)"] } } })
        };
        let text = lines(ScreenPage::Connections, &of(1), &of(3));
        let wanted = "netdev  3 connections of at most 100, +1 per second\n1 udp, 2 tcp ESTABLISHED\nzone     7: 3 of at most 10\nudp,orig=(...)\n";
        assert_eq!(text, wanted);
    }

    #[test]
    fn nonsense_is_shown_as_nothing() {
        for odd in [
            json!(null),
            json!([]),
            json!({ "datapaths": 3 }),
            json!({ "datapaths": { "x": 7 }, "recent": [1] }),
        ] {
            for page in ScreenPage::ALL {
                lines(page, &odd, &odd);
            }
        }
    }
}
