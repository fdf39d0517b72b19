//! The pages of ports, drops, flows and connections: computes their lines from two replies of the daemon.

use super::replies::{ReplyPair, list, number, word};
use super::thread_lines::format_rate;
use ovsdb::Json;

/// Lines of a page, from top to bottom.
pub type Lines = Vec<String>;

/// The rate of a counter, per second.
fn per_second(now: &Json, before: &Json, name: &str, seconds: f64) -> f64 {
    // An object that is new since the previous reply has no rate yet.
    if before.is_null() || seconds <= 0.0 {
        return 0.0;
    }
    number(now, name).saturating_sub(number(before, name)) as f64 / seconds
}

/// Finds the entry of `all` that has the same `key` as `entry`.
fn find_same<'a>(all: &'a [Json], key: &str, entry: &Json) -> &'a Json {
    all.iter().find(|one| one[key] == entry[key]).unwrap_or(&Json::Null)
}

/// Cuts a text to a width.
fn cut(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

/// Ports with rates, sorted by packets per second, the highest first.
pub fn ports(replies: &ReplyPair<'_>) -> Lines {
    let mut out = Vec::new();
    for (name, now, before) in replies.datapaths() {
        let (now, before) = (list(now), list(before));
        out.push(format!("{name}  {} ports", now.len()));
        out.push(format!(
            "{:<16} {:>5} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8}{}",
            "port",
            "link",
            "rx pkt/s",
            "rx bit/s",
            "tx pkt/s",
            "tx bit/s",
            "rx drop",
            "tx drop",
            if now.iter().any(has_name) { "  logical port" } else { "" }
        ));
        let mut rows: Vec<(f64, String)> = now
            .iter()
            .map(|port| port_row(port, find_same(before, "number", port), replies.seconds))
            .collect();
        rows.sort_by(|a, b| b.0.total_cmp(&a.0));
        out.extend(rows.into_iter().map(|(_, row)| row));
        out.push(String::new());
    }
    out
}

/// Whether OVN has a name for the port.
fn has_name(port: &Json) -> bool {
    port["logical-port"].is_string()
}

fn port_row(port: &Json, before: &Json, seconds: f64) -> (f64, String) {
    let of = |name| per_second(port, before, name, seconds);
    let link = match port["up"].as_bool() {
        Some(true) => "up",
        Some(false) => "down",
        None => "-",
    };
    // Mark a link that has changed more than twice.
    let link = if number(port, "link-changes") > 2 { format!("{link}*") } else { link.to_owned() };
    let (rx, tx) = (of("rx-packets"), of("tx-packets"));
    let logical = if has_name(port) { format!("  {}", word(port, "logical-port")) } else { String::new() };
    let row = format!(
        "{:<16} {link:>5} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8}{logical}",
        cut(word(port, "port"), 16),
        format_rate(rx),
        format_rate(of("rx-bytes") * 8.0),
        format_rate(tx),
        format_rate(of("tx-bytes") * 8.0),
        format_rate(of("rx-drops")),
        format_rate(of("tx-drops"))
    );
    (rx + tx, row)
}

/// Drops by port and reason, sorted by drops per second, the highest first; then recently dropped packets.
pub fn drops(replies: &ReplyPair<'_>) -> Lines {
    let mut out =
        vec![format!("{:<16} {:<10} {:<36} {:>6} {:>8}", "port", "packets", "reason", "/s", "total")];
    let mut rows = Vec::new();
    for (_, now, before) in replies.datapaths() {
        for port in list(&now["ports"]) {
            let is_same =
                |one: &&Json| one["number"] == port["number"] && one["direction"] == port["direction"];
            let old = list(&before["ports"]).iter().find(is_same).unwrap_or(&Json::Null);
            for (reason, n) in port["reasons"].as_object().into_iter().flatten() {
                // A reason that is missing in the previous reply counts from 0.
                let (n, was) = (n.as_u64().unwrap_or(0), number(&old["reasons"], reason));
                let grows =
                    if replies.seconds > 0.0 { n.saturating_sub(was) as f64 / replies.seconds } else { 0.0 };
                let name =
                    port["port"].as_str().map_or_else(|| format!("port {}", port["number"]), str::to_owned);
                let (name, reason) = (cut(&name, 16), cut(reason, 36));
                let row = format!(
                    "{name:<16} {:<10} {reason:<36} {:>6} {n:>8}",
                    word(port, "direction"),
                    format_rate(grows)
                );
                rows.push((grows, n, row));
            }
        }
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
    if rows.is_empty() {
        out.push("no packet was dropped".to_owned());
    }
    out.extend(rows.into_iter().map(|(_, _, row)| row));
    out.push(String::new());
    for packet in list(&replies.now["recent"]) {
        let seconds = number(packet, "milliseconds-ago") as f64 / 1000.0;
        out.push(format!("{seconds:>8.1} s ago {}: {}", word(packet, "port"), word(packet, "reason")));
        out.push(format!("    {}", word(packet, "flow")));
        if let Some(problem) = packet["problem"].as_str() {
            out.push(format!("    {problem}"));
        }
        let by = &packet["decided-by"];
        if !by.is_null() {
            out.push(format!("    bridge {}: {}", word(by, "bridge"), word(by, "rule")));
        }
    }
    out
}

/// Megaflows with rates, sorted by packets per second, the highest first.
pub fn flows(replies: &ReplyPair<'_>) -> Lines {
    let mut out = Vec::new();
    for (name, now, before) in replies.datapaths() {
        let (count, limit, masks) = (number(now, "count"), number(now, "limit"), number(now, "masks"));
        out.push(format!("{name}  {count} megaflows of at most {limit}, {masks} masks"));
        let most = &now["most-masks"];
        let (port, masks, limit) = (word(most, "port"), number(most, "masks"), number(most, "limit"));
        if limit != 0 && masks >= limit {
            out.push(format!("Port {port} has all of its {limit} masks: its new megaflows match exactly. Each mask costs a look-up."));
        } else if limit != 0 && masks * 2 >= limit {
            out.push(format!("Port {port} has {masks} of at most {limit} masks: each costs a look-up."));
        }
        if now["not-searched"].as_bool() == Some(true) {
            out.push("There are too many to search; dpctl/dump-flows prints them.".to_owned());
            continue;
        }
        out.push(format!("{:>8} {:>8}  {}", "pkt/s", "bit/s", "megaflow -> actions"));
        let old = list(&before["flows"]);
        let mut rows: Vec<(f64, String)> = list(&now["flows"])
            .iter()
            .map(|flow| {
                let before = find_same(old, "ufid", flow);
                // A megaflow that was added since the previous reply counts from 0. The daemon computes `age` when it builds the reply;
                // `seconds` is measured here when replies arrive. 500 ms allow for the delays of the two replies.
                let is_young = before.is_null()
                    && flow["age"].as_u64().is_some_and(|age| age as f64 <= replies.seconds * 1000.0 + 500.0);
                let zero = serde_json::json!({});
                let before = if is_young { &zero } else { before };
                let of = |name| per_second(flow, before, name, replies.seconds);
                let packets = of("packets");
                let text = format!("{} -> {}", word(flow, "flow"), word(flow, "actions"));
                (
                    packets,
                    format!("{:>8} {:>8}  {text}", format_rate(packets), format_rate(of("bytes") * 8.0)),
                )
            })
            .collect();
        rows.sort_by(|a, b| b.0.total_cmp(&a.0));
        out.extend(rows.into_iter().map(|(_, row)| row));
        out.push(String::new());
    }
    out
}

/// Numbers of connections by zone and state, and some of the connections.
pub fn connections(replies: &ReplyPair<'_>) -> Lines {
    let mut out = Vec::new();
    for (name, now, before) in replies.datapaths() {
        let (count, limit) = (number(now, "count"), number(now, "limit"));
        let grows = if before.is_null() || replies.seconds <= 0.0 {
            0.0
        } else {
            (count as f64 - number(before, "count") as f64) / replies.seconds
        };
        out.push(format!("{name}  {count} connections of at most {limit}, {grows:+.0} per second"));
        if now["not-searched"].as_bool() == Some(true) {
            out.push("There are too many to search; dpctl/dump-conntrack prints them.".to_owned());
            continue;
        }
        let kinds: Vec<String> =
            now["kinds"].as_object().into_iter().flatten().map(|(kind, n)| format!("{n} {kind}")).collect();
        if !kinds.is_empty() {
            out.push(kinds.join(", "));
        }
        for zone in list(&now["zones"]) {
            let limit = match number(zone, "limit") {
                0 => String::new(),
                limit => format!(" of at most {limit}"),
            };
            out.push(format!("zone {:>5}: {}{limit}", number(zone, "zone"), number(zone, "count")));
        }
        out.extend(list(&now["connections"]).iter().filter_map(|one| one.as_str().map(str::to_owned)));
        out.push(String::new());
    }
    out
}
