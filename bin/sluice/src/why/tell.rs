//! Sentences about what was seen. Pure: the facts come as arguments.

use super::watch::Seen;
use dpif::DropReason;
use ovsdb::Json;

/// Everything that is known.
#[derive(Debug, Default)]
pub struct Facts {
    pub flow: String,
    pub seconds: f64,
    pub there: Seen,
    pub back: Seen,
    /// `ofproto/why` about the first packet of each direction, or about what a packet would be.
    pub why_there: Option<Json>,
    pub why_back: Option<Json>,
    /// The packet of `why_there` was made from the flow.
    pub is_made: bool,
    /// Packets that the megaflow has counted, before and after.
    pub megaflow: Option<Megaflow>,
    /// Recent drops that match (`dpif/show-drops`).
    pub recent: Vec<Json>,
}

/// A megaflow and its counter in two samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Megaflow {
    pub ufid: String,
    pub actions: String,
    pub before: u64,
    /// `None`: it is not there any more.
    pub after: Option<u64>,
}

/// Sentences, and the one that matters most.
pub struct Told {
    pub sentences: Vec<String>,
    pub conclusion: String,
}

fn packets(n: u64) -> String {
    if n == 1 { "1 packet".to_owned() } else { format!("{n} packets") }
}

fn reason_of(name: &str) -> Option<DropReason> {
    DropReason::ALL.iter().copied().find(|reason| reason.name() == name)
}

fn text(of: &Json) -> &str {
    of.as_str().unwrap_or("")
}

fn ports(names: &[&str]) -> String {
    match names {
        [one] => format!("port {one}"),
        many => format!("ports {}", many.join(", ")),
    }
}

/// Where the packets of one direction went.
fn direction(out: &mut Vec<String>, what: &str, seen: &Seen, seconds: f64) {
    let (rx, tx) = (seen.sum("rx"), seen.sum("tx"));
    if seen.counts.is_empty() {
        out.push(format!("{what}: no packet was seen at any port in {seconds} s."));
        return;
    }
    let part = if seen.is_part { "at least " } else { "" };
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

/// What the tables say.
fn tables(out: &mut Vec<String>, what: &str, why: &Json) {
    if let Some(problem) = why["problem"].as_str() {
        return out.push(format!("The tables were not reached by {what}: {problem}."));
    }
    let outputs: Vec<&str> =
        why["outputs"].as_array().into_iter().flatten().map(|p| text(&p["name"])).collect();
    let does = match (why["drops"].as_bool(), outputs.is_empty()) {
        (Some(true), _) => "drop".to_owned(),
        (_, true) => "do not send by any port".to_owned(),
        (_, false) => format!("send by {}", ports(&outputs)),
    };
    out.push(format!(
        "The tables {does} {what}. The last rule, bridge {}: {}",
        text(&why["bridge"]),
        text(&why["rule"])
    ));
    if let Some(reason) = why["reason"].as_str().and_then(reason_of) {
        out.push(format!("The reason is {}: {}", reason.name(), reason.help()));
    }
    if let Some(error) = why["error"].as_str() {
        out.push(format!("The translation failed: {error}."));
    }
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

/// The connections of the packets.
fn connections(out: &mut Vec<String>, why: &Json) {
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

/// What is wrong with a port; nothing if nothing is.
fn trouble(port: &Json, sends: bool) -> Vec<String> {
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

fn megaflow(out: &mut Vec<String>, m: &Megaflow) {
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

fn recent_drop(one: &Json) -> String {
    let ago = one["milliseconds-ago"].as_u64().unwrap_or(0);
    let mut line = format!(
        "{}.{:03} s ago such a packet, {} by port {}, was dropped: {}.",
        ago / 1000,
        ago % 1000,
        text(&one["way"]),
        text(&one["port"]),
        text(&one["reason"])
    );
    let by = &one["decided-by"];
    if by["drops-now"].as_bool() == Some(true) {
        line += &format!(" The rule, bridge {}: {}", text(&by["bridge"]), text(&by["rule"]));
    }
    line
}

/// All sentences.
pub fn tell(facts: &Facts) -> Told {
    let mut out = Vec::new();
    direction(&mut out, "Packets", &facts.there, facts.seconds);
    direction(&mut out, "Answers", &facts.back, facts.seconds);
    let what = if facts.is_made { "a packet made from the flow" } else { "the packets" };
    let mut troubles = Vec::new();
    for (why, what) in [(&facts.why_there, what), (&facts.why_back, "the answers")] {
        let Some(why) = why else { continue };
        tables(&mut out, what, why);
        connections(&mut out, why);
        troubles.extend(trouble(&why["port"], false));
        let outputs = why["outputs"].as_array().into_iter().flatten();
        troubles.extend(outputs.flat_map(|port| trouble(port, true)));
    }
    facts.megaflow.iter().for_each(|m| megaflow(&mut out, m));
    facts.recent.iter().for_each(|one| out.push(recent_drop(one)));
    troubles.sort();
    troubles.dedup();
    let conclusion = conclude(facts, &troubles);
    out.extend(troubles);
    Told { sentences: out, conclusion }
}

fn conclude(facts: &Facts, troubles: &[String]) -> String {
    let more = troubles.first().map_or(String::new(), |t| format!(" {t}"));
    let dropped = |what: &str, seen: &Seen, why: &Option<Json>| {
        let (port, reason, _) = seen.drops().into_iter().max_by_key(|(_, _, n)| *n)?;
        let help = reason_of(reason).map_or("", DropReason::help);
        let rule = why
            .as_ref()
            .filter(|w| w["drops"].as_bool() == Some(true))
            .map_or(String::new(), |w| format!(" Bridge {}: {}", text(&w["bridge"]), text(&w["rule"])));
        Some(format!("{what} dropped at port {port}: {reason}. {help}{rule}{more}"))
    };
    if let Some(line) = dropped("Packets are", &facts.there, &facts.why_there) {
        return line;
    }
    if facts.there.sum("rx") == 0 && facts.there.sum("tx") == 0 {
        let last = facts.recent.first().map_or(String::new(), |one| format!(" {}", recent_drop(one)));
        return format!(
            "No such packet reaches the switch now: look at the sender, or at what is in front of the switch.{last}{more}"
        );
    }
    if let Some(line) = dropped("Packets pass, but answers are", &facts.back, &facts.why_back) {
        return line;
    }
    if facts.there.sum("tx") == 0 {
        return format!("Packets come in and none leaves.{more}");
    }
    let left = ports(&facts.there.ports("tx"));
    match (facts.back.sum("rx"), facts.back.sum("tx")) {
        (0, _) => format!(
            "The switch sends the packets by {left}; no answer comes back. Look at what is behind {left}.{more}"
        ),
        (_, 0) => format!("The switch sends the packets by {left}; answers come in and none leaves.{more}"),
        _ => format!("Packets and answers pass the switch.{more}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn seen(counts: &[(&str, &str, u64)]) -> Seen {
        let counts =
            counts.iter().map(|(port, place, n)| ((port.to_string(), place.to_string()), *n)).collect();
        Seen { counts, ..Seen::default() }
    }

    fn facts(there: &[(&str, &str, u64)], back: &[(&str, &str, u64)]) -> Facts {
        Facts { flow: "icmp".into(), seconds: 2.0, there: seen(there), back: seen(back), ..Facts::default() }
    }

    #[test]
    fn each_outcome_has_a_conclusion() {
        let of =
            |there: &[(&str, &str, u64)], back: &[(&str, &str, u64)]| tell(&facts(there, back)).conclusion;
        assert!(of(&[], &[]).starts_with("No such packet reaches the switch now"));
        let dropped = of(&[("p1", "rx", 3), ("p1", "drop_action_of_pipeline", 3)], &[]);
        assert!(
            dropped.starts_with(
                "Packets are dropped at port p1: drop_action_of_pipeline. The OpenFlow tables send"
            ),
            "{dropped}"
        );
        let through = [("p1", "rx", 3), ("p2", "tx", 3)];
        assert!(of(&through, &[]).contains("by port p2; no answer comes back"));
        let answers = of(&through, &[("p2", "rx", 3), ("p1", "datapath_drop_tx_mtu_exceeded", 3)]);
        assert!(
            answers.starts_with(
                "Packets pass, but answers are dropped at port p1: datapath_drop_tx_mtu_exceeded."
            ),
            "{answers}"
        );
        assert_eq!(of(&through, &[("p2", "rx", 1), ("p1", "tx", 1)]), "Packets and answers pass the switch.");
        assert!(of(&through, &[("p2", "rx", 1)]).ends_with("answers come in and none leaves."));
        assert!(of(&[("p1", "rx", 1)], &[]).starts_with("Packets come in and none leaves"));
    }

    #[test]
    fn sentences_name_rules_ports_and_connections() {
        let port = json!({ "name": "p2", "up": false, "link-changes": 9, "mtu": 700, "too-long": true });
        let why = json!({
            "port": { "name": "p1", "up": true, "link": false }, "bridge": "br0", "drops": false, "rule": "actions=output:2",
            "outputs": [port], "tunnels": ["vxlan0"], "ct-state": "est|trk", "connections": ["tcp,orig=(...)"],
        });
        let megaflow = Megaflow { ufid: "17".into(), actions: "2".into(), before: 3, after: Some(5) };
        let facts = Facts {
            why_there: Some(why),
            megaflow: Some(megaflow),
            ..facts(&[("p1", "rx", 1), ("p2", "tx", 1)], &[])
        };
        let all = tell(&facts).sentences.join("\n");
        for wanted in [
            "Packets: in 2 s 1 packet came in by port p1, 1 packet left by port p2.",
            "Answers: no packet was seen",
            "The tables send by port p2 the packets. The last rule, bridge br0: actions=output:2",
            "They leave in a tunnel, port vxlan0",
            "their state there is est|trk",
            "Connection: tcp,orig=(...)",
            "counted 2 packets in the last second (ufid 17, actions: 2)",
            "Port p1 has no link.",
            "Port p2 is down.",
            "The link of port p2 has changed 9 times.",
            "longer than the MTU of port p2, 700 bytes",
        ] {
            assert!(all.contains(wanted), "{wanted}\n{all}");
        }
    }
}
