//! Sentences about each fact.

use super::facts::{Facts, Megaflow};
use super::watch::DirectionCapture;
use super::wording::{packets, ports, reason_of, text};
use dpif::DropReason;
use ovsdb::Json;
use std::collections::BTreeSet;

/// Adds sentences that tell at which ports the packets of one direction were seen.
pub fn direction(out: &mut Vec<String>, what: &str, seen: &DirectionCapture, seconds: f64) {
    let (rx, tx) = (seen.sum("rx"), seen.sum("tx"));
    if seen.counts.is_empty() {
        out.push(format!("{what}: no packet was seen at any port in {seconds} s."));
        return;
    }
    let part = if seen.is_incomplete { "at least " } else { "" };
    let mut line = format!("{what}: in {seconds} s {part}{}", packets(rx));
    line +=
        &if rx == 0 { " came in".to_owned() } else { format!(" came in by {}", ports(&seen.ports("rx"))) };
    if tx != 0 {
        line += &format!(", {} left by {}", packets(tx), ports(&seen.ports("tx")));
    }
    for (port, reason, n) in seen.drops() {
        let verb = if n == 1 { "was" } else { "were" };
        line += &format!(", {} {verb} dropped at port {port}", packets(n));
        let help = reason_of(reason).map_or("", DropReason::help);
        line += &format!(" ({reason}: {})", help.trim_end_matches('.'));
    }
    out.push(line + ".");
}

/// Adds sentences about the result of the OpenFlow tables.
pub fn tables(out: &mut Vec<String>, what: &str, why: &Json) {
    if let Some(problem) = why["problem"].as_str() {
        return out.push(format!("The tables were not reached by {what}: {problem}."));
    }
    let outputs: Vec<&str> =
        why["outputs"].as_array().into_iter().flatten().map(|p| text(&p["name"])).collect();
    let does = match (why["drops"].as_bool(), outputs.is_empty()) {
        (Some(true), _) => format!("drop {what}"),
        (_, true) => format!("do not send {what}"),
        (_, false) => format!("send {what} by {}", ports(&outputs)),
    };
    let (bridge, rule) = (text(&why["bridge"]), text(&why["rule"]));
    out.push(format!("The tables {does}. The last rule, bridge {bridge}: {rule}"));
    if let Some(reason) = why["reason"].as_str().and_then(reason_of) {
        out.push(format!("The reason is {}: {}", reason.name(), reason.help()));
    }
    if let Some(error) = why["error"].as_str() {
        out.push(format!("The translation failed: {error}."));
    }
    out.extend(vlan(why));
    let tunnels: Vec<&str> = why["tunnels"].as_array().into_iter().flatten().map(text).collect();
    if !tunnels.is_empty() {
        out.push(format!(
            "They leave in a tunnel, {}; the next hop of its header is known.",
            ports(&tunnels)
        ));
    }
    if let Some(state) = why["ct-state"].as_str() {
        out.push(format!("They pass connection tracking; their state there is {state}."));
    }
}

/// A sentence about the VLAN of the packets, if NORMAL forwards them and not all ports of the bridge are in this VLAN.
pub fn vlan(why: &Json) -> Option<String> {
    let others = why["other-vlan-ports"].as_array().filter(|others| !others.is_empty())?;
    if !text(&why["rule"]).contains("NORMAL") {
        return None;
    }
    let others: Vec<String> =
        others.iter().map(|p| format!("{} ({})", text(&p["name"]), text(&p["vlan"]))).collect();
    let same: Vec<&str> = why["vlan-ports"].as_array().into_iter().flatten().map(text).collect();
    let same = match same[..] {
        [] => "no other port is".to_owned(),
        [one] => format!("so is {one}"),
        _ => format!("so are {}", same.join(", ")),
    };
    let (port, mode, vid) = (text(&why["port"]["name"]), text(&why["vlan-of-port"]), &why["vlan"]);
    let a = if mode.starts_with('a') { "an" } else { "a" };
    let others = others.join(", ");
    Some(format!("Port {port} is {a} {mode}, so they are in VLAN {vid}; {same}, but not {others}."))
}

/// Adds sentences about the tracked connections of the packets.
pub fn connections(out: &mut Vec<String>, why: &Json) {
    match &why["connections"] {
        Json::Array(all) if all.is_empty() => {
            if why["ct-state"].is_string() {
                out.push("Connection tracking has no connection of them.".to_owned());
            }
        }
        Json::Array(all) => all.iter().for_each(|one| out.push(format!("Connection: {}", text(one)))),
        other => {
            if let Some(n) = other["not-searched"].as_u64() {
                out.push(format!(
                    "There are {n} connections, too many to search; dpctl/dump-conntrack prints them."
                ));
            }
        }
    }
}

/// A sentence for each problem of a port.
pub fn trouble(port: &Json, sends: bool) -> Vec<String> {
    let (name, mut out) = (text(&port["name"]), Vec::new());
    if port["up"].as_bool() == Some(false) {
        out.push(format!("Port {name} is down."));
    } else if port["link"].as_bool() == Some(false) {
        out.push(format!("Port {name} has no link."));
    }
    if let Some(n) = port["link-changes"].as_u64().filter(|n| *n > 2) {
        out.push(format!("The link of port {name} has changed {n} times."));
    }
    if sends && port["too-long"].as_bool() == Some(true) {
        out.push(format!("The packet is longer than the MTU of port {name}, {} bytes.", port["mtu"]));
    }
    out
}

/// Adds sentences with the names that OVN has for the ports of the packets.
pub fn logical_names(out: &mut Vec<String>, facts: &Facts) {
    let whys = [&facts.why_forward, &facts.why_reverse].into_iter().flatten();
    let ports = whys
        .flat_map(|why| [&why["port"]].into_iter().chain(why["outputs"].as_array().into_iter().flatten()));
    let named = ports.filter(|port| port["logical-port"].is_string());
    let names: BTreeSet<(&str, &str)> = named.map(|p| (text(&p["name"]), text(&p["logical-port"]))).collect();
    out.extend(names.iter().map(|(port, logical)| format!("OVN calls port {port} {logical}.")));
}

/// Adds a sentence about the packets that a megaflow has counted between its two samples.
pub fn megaflow(out: &mut Vec<String>, m: &Megaflow) {
    let ufid = &m.ufid;
    out.push(match m.after {
        None => format!("Their megaflow, ufid {ufid}, is not there any more."),
        Some(after) if after > m.before => {
            format!(
                "Their megaflow counted {} in the last second (ufid {ufid}, actions: {}).",
                packets(after - m.before),
                m.actions
            )
        }
        Some(_) => format!(
            "Their megaflow counted no packet in the last second (ufid {ufid}, actions: {}).",
            m.actions
        ),
    });
}

/// A sentence about a packet that was dropped recently.
pub fn recent_drop(one: &Json) -> String {
    let ago = one["milliseconds-ago"].as_u64().unwrap_or(0);
    let (direction, port, reason) = (text(&one["direction"]), text(&one["port"]), text(&one["reason"]));
    let time = format!("{}.{:03} s ago", ago / 1000, ago % 1000);
    format!("{time} such a packet, {direction} by port {port}, was dropped: {reason}.{}", deciding_rule(one))
}

/// The rule that dropped a packet, and the connection tracking state of the packet if that is invalid.
pub fn deciding_rule(one: &Json) -> String {
    let (by, mut out) = (&one["decided-by"], String::new());
    if let Some(problem) = one["problem"].as_str() {
        let is_tunnel = problem.contains("tunnel port");
        let look =
            if is_tunnel { " Compare with remote_ip, local_ip and key of the tunnel ports." } else { "" };
        out += &format!(" There is {problem}.{look}");
    }
    if by["drops-now"].as_bool() == Some(true) {
        out += &format!(" The rule, bridge {}: {}", text(&by["bridge"]), text(&by["rule"]));
    }
    let state = text(&one["flow"]).split(',').find_map(|field| field.strip_prefix("ct_state="));
    if let Some(state) = state.filter(|state| state.split('|').any(|flag| flag == "inv")) {
        out += &format!(
            ". For connection tracking the packet is invalid (ct_state={state}): it has not seen both directions of the \
             connection from the beginning, as with asymmetric routing"
        );
    }
    out
}
