//! Prints the drops of a running switch.

use crate::appctl::{ControlSession, Failure};
use crate::call::Call;
use crate::getopt::Parsed;
use dpif::DropReason;
use ovsdb::Json;
use std::io::Write;

/// Requests the drops from the switch and prints the reply.
pub fn show(call: &Call, parsed: &Parsed, json: bool) -> Result<(), Failure> {
    let mut words: Vec<String> = parsed.value("recent").map(|n| format!("recent={n}")).into_iter().collect();
    words.extend(parsed.value("flow").map(|flow| format!("flow={flow}")));
    let mut session = ControlSession::new(call, parsed.value("target"))?;
    let mut reply = session.ask_with_args("dpif/show-drops", &words)?;
    let part = parsed.rest.first().map_or("", String::as_str);
    select(&mut reply, part);
    let text = if json { format!("{reply}\n") } else { text(&reply, part) };
    // An error means that the reader has closed the pipe, which is not a failure.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

/// Removes from the reply all reasons whose name does not contain `part`.
fn select(reply: &mut Json, part: &str) {
    let keep = |reasons: &mut Json| {
        if let Some(reasons) = reasons.as_object_mut() {
            reasons.retain(|name, _| name.contains(part));
        }
    };
    for datapath in reply["datapaths"].as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
        keep(&mut datapath["reasons"]);
        if let Some(ports) = datapath["ports"].as_array_mut() {
            ports.iter_mut().for_each(|port| keep(&mut port["reasons"]));
            ports.retain(|port| port["reasons"].as_object().is_some_and(|r| !r.is_empty()));
        }
    }
    if let Some(recent) = reply["recent"].as_array_mut() {
        recent.retain(|packet| packet["reason"].as_str().is_some_and(|name| name.contains(part)));
    }
}

/// The reply as text. `part`: the user requested only reasons whose name contains this text.
fn text(reply: &Json, part: &str) -> String {
    let mut out = String::new();
    for (name, datapath) in reply["datapaths"].as_object().into_iter().flatten() {
        let ports = list(&datapath["ports"]);
        if ports.is_empty() {
            let which =
                if part.is_empty() { String::new() } else { format!(" for a reason like \"{part}\"") };
            out += &format!("{name}: no packet was dropped{which}\n");
            continue;
        }
        out += &format!("{name}\n  {:<18} {:<10} {:<38} {:>12}\n", "port", "packets", "reason", "dropped");
        for port in ports {
            for (reason, n) in port["reasons"].as_object().into_iter().flatten() {
                out += &format!(
                    "  {:<18} {:<10} {reason:<38} {:>12}\n",
                    port_name(port),
                    word(&port["direction"]),
                    n.to_string()
                );
            }
        }
        for reason in DropReason::ALL.iter().filter(|r| !datapath["reasons"][r.name()].is_null()) {
            let hint =
                reason.diagnostic_command().map_or(String::new(), |command| format!("\n      see {command}"));
            out += &format!("  {}: {}{hint}\n", reason.name(), reason.help());
        }
        out.extend(ports.iter().filter(|port| dropped_because_down(port)).map(|port| {
            format!("  Port {} is down, so packets that are flooded to it are dropped.\n", port_name(port))
        }));
    }
    let recent = list(&reply["recent"]);
    if !recent.is_empty() {
        out += "recent packets\n";
    }
    recent.iter().for_each(|packet| out += &packet_text(packet));
    out
}

/// Whether a port dropped packets that it should have sent, and is down.
fn dropped_because_down(port: &Json) -> bool {
    port["up"].as_bool() == Some(false) && !port["reasons"][DropReason::TxFailed.name()].is_null()
}

fn list(of: &Json) -> &[Json] {
    of.as_array().map_or(&[], Vec::as_slice)
}

fn word(of: &Json) -> &str {
    of.as_str().unwrap_or("")
}

fn port_name(of: &Json) -> String {
    of["port"].as_str().map_or_else(|| format!("port {}", of["number"]), str::to_owned)
}

fn packet_text(packet: &Json) -> String {
    let ago = packet["milliseconds-ago"].as_u64().unwrap_or(0);
    let (port, reason, direction) = (port_name(packet), word(&packet["reason"]), word(&packet["direction"]));
    let mut out = format!("  {:>8}.{:03} s ago, {direction} by {port}: {reason}\n", ago / 1000, ago % 1000);
    out += &format!("      {} bytes, {}\n", packet["bytes"], word(&packet["flow"]));
    if let Some(problem) = packet["problem"].as_str() {
        out += &format!("      {problem}\n");
    }
    let by = &packet["decided-by"];
    if !by.is_null() {
        // Only drops by the tables get the note: for other reasons the rule did not drop the packet, so the note would be wrong.
        let by_tables = reason == DropReason::ActionOfPipeline.name();
        let note = match by["drops-now"].as_bool() {
            Some(false) if by_tables => " (does not drop it any more)",
            _ => "",
        };
        out += &format!("      bridge {}: {}{note}\n", word(&by["bridge"]), word(&by["rule"]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ports_reasons_and_rules() {
        let mut reply = json!({
            "datapaths": { "netdev@ovs-netdev": {
                "reasons": { "drop_action_of_pipeline": 5, "datapath_drop_tx_mtu_exceeded": 1 },
                "ports": [
                    { "port": "p1", "number": 2, "direction": "received", "reasons": { "drop_action_of_pipeline": 5 } },
                    { "port": null, "number": 7, "direction": "to be sent", "reasons": { "datapath_drop_tx_mtu_exceeded": 1 } },
                    { "port": "br0", "number": 1, "direction": "to be sent", "up": false, "reasons": { "datapath_drop_tx_failed": 1 } },
                    { "port": "p9", "number": 9, "direction": "to be sent", "up": true, "reasons": { "datapath_drop_tx_failed": 1 } },
                ] } },
            "recent": [{ "port": "p1", "number": 2, "direction": "received", "reason": "drop_action_of_pipeline", "milliseconds-ago": 1234,
                "bytes": 60, "flow": "icmp", "decided-by": { "bridge": "br0", "rule": "table_id=4, actions=drop", "drops-now": true } }],
        });
        let all = text(&reply, "");
        assert!(all.contains("Port br0 is down") && !all.contains("Port p9"), "{all}");
        assert!(all.contains("  p1                 received   drop_action_of_pipeline"), "{all}");
        assert!(
            all.contains("  port 7 ")
                && all.contains("see sluice appctl ofproto/trace --last-drop --reason mtu"),
            "{all}"
        );
        assert!(all.contains("         1.234 s ago, received by p1: drop_action_of_pipeline\n      60 bytes, icmp\n      bridge br0: table_id=4"), "{all}");
        select(&mut reply, "mtu");
        let some = text(&reply, "mtu");
        assert!(!some.contains("pipeline") && some.contains("port 7"), "{some}");
        select(&mut reply, "nosuch");
        assert_eq!(
            text(&reply, "nosuch"),
            "netdev@ovs-netdev: no packet was dropped for a reason like \"nosuch\"\n"
        );
        assert_eq!(text(&reply, ""), "netdev@ovs-netdev: no packet was dropped\n");
        let lost = json!({ "recent": [{ "port": "vx", "reason": "drop_action_of_pipeline", "flow": "icmp", "bytes": 60,
            "problem": "no OpenFlow tunnel port" }] });
        assert!(text(&lost, "").ends_with("      60 bytes, icmp\n      no OpenFlow tunnel port\n"));
    }
}
