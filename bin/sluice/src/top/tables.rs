//! The pages of ports, drops, flows and connections: lines from two replies of the daemon.

use super::replies::{Sample, list, number, word};
use super::view::rate;
use ovsdb::Json;

/// Lines of a page, in the order of the terminal.
pub type Lines = Vec<String>;

/// A value that grows, as a rate.
fn per_second(now: &Json, before: &Json, name: &str, seconds: f64) -> f64 {
    // An object that is new since the last sample has no rate yet.
    if before.is_null() || seconds <= 0.0 {
        return 0.0;
    }
    number(now, name).saturating_sub(number(before, name)) as f64 / seconds
}

fn same<'a>(all: &'a [Json], key: &str, of: &Json) -> &'a Json {
    all.iter().find(|one| one[key] == of[key]).unwrap_or(&Json::Null)
}

/// Cuts a text to a width.
fn cut(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

/// Ports with rates, those with the most packets first.
pub fn ports(sample: &Sample<'_>) -> Lines {
    let mut out = Vec::new();
    for (name, now, before) in sample.datapaths() {
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
            "drop in",
            "drop out",
            if now.iter().any(has_name) { "  logical port" } else { "" }
        ));
        let mut rows: Vec<(f64, String)> =
            now.iter().map(|port| port_row(port, same(before, "number", port), sample.seconds)).collect();
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
    // A link that has changed often is worth a look.
    let link = if number(port, "link-changes") > 2 { format!("{link}*") } else { link.to_owned() };
    let (rx, tx) = (of("rx-packets"), of("tx-packets"));
    let logical = if has_name(port) { format!("  {}", word(port, "logical-port")) } else { String::new() };
    let row = format!(
        "{:<16} {link:>5} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8}{logical}",
        cut(word(port, "port"), 16),
        rate(rx),
        rate(of("rx-bytes") * 8.0),
        rate(tx),
        rate(of("tx-bytes") * 8.0),
        rate(of("rx-drops")),
        rate(of("tx-drops"))
    );
    (rx + tx, row)
}

/// Drops by port and reason, those that grow fastest first, and recent packets.
pub fn drops(sample: &Sample<'_>) -> Lines {
    let mut out =
        vec![format!("{:<16} {:<10} {:<36} {:>6} {:>8}", "port", "packets", "reason", "/s", "in all")];
    let mut rows = Vec::new();
    for (_, now, before) in sample.datapaths() {
        for port in list(&now["ports"]) {
            let is_same = |one: &&Json| one["number"] == port["number"] && one["way"] == port["way"];
            let old = list(&before["ports"]).iter().find(is_same).unwrap_or(&Json::Null);
            for (reason, n) in port["reasons"].as_object().into_iter().flatten() {
                // A reason that was not there before has grown from 0.
                let (n, was) = (n.as_u64().unwrap_or(0), number(&old["reasons"], reason));
                let grows =
                    if sample.seconds > 0.0 { n.saturating_sub(was) as f64 / sample.seconds } else { 0.0 };
                let name =
                    port["port"].as_str().map_or_else(|| format!("port {}", port["number"]), str::to_owned);
                let (name, reason) = (cut(&name, 16), cut(reason, 36));
                let row =
                    format!("{name:<16} {:<10} {reason:<36} {:>6} {n:>8}", word(port, "way"), rate(grows));
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
    for packet in list(&sample.now["recent"]) {
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

/// Megaflows with rates, those with the most packets per second first.
pub fn flows(sample: &Sample<'_>) -> Lines {
    let mut out = Vec::new();
    for (name, now, before) in sample.datapaths() {
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
                let before = same(old, "ufid", flow);
                // A megaflow that is younger than the sample counts from its beginning.
                let is_young = before.is_null()
                    && flow["age"].as_u64().is_some_and(|age| age as f64 <= sample.seconds * 1000.0 + 500.0);
                let zero = serde_json::json!({});
                let before = if is_young { &zero } else { before };
                let of = |name| per_second(flow, before, name, sample.seconds);
                let packets = of("packets");
                let text = format!("{} -> {}", word(flow, "flow"), word(flow, "actions"));
                (packets, format!("{:>8} {:>8}  {text}", rate(packets), rate(of("bytes") * 8.0)))
            })
            .collect();
        rows.sort_by(|a, b| b.0.total_cmp(&a.0));
        out.extend(rows.into_iter().map(|(_, row)| row));
        out.push(String::new());
    }
    out
}

/// Connections by zone and state, and some of them.
pub fn connections(sample: &Sample<'_>) -> Lines {
    let mut out = Vec::new();
    for (name, now, before) in sample.datapaths() {
        let (count, limit) = (number(now, "count"), number(now, "limit"));
        let grows = if before.is_null() || sample.seconds <= 0.0 {
            0.0
        } else {
            (count as f64 - number(before, "count") as f64) / sample.seconds
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
