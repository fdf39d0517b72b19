//! Makes sentences from the facts about a flow. Nothing is read here.

use super::subject::Requests;
use super::watch::Seen;
use dpif::DropReason;
use ovsdb::Json;
use std::collections::BTreeSet;

/// All facts about the flow.
#[derive(Debug, Default)]
pub struct Facts {
    pub flow: String,
    /// The sender asks for a hardware address, and sends no packet of the flow: all other facts are about these requests.
    pub requests: Option<Requests>,
    pub seconds: f64,
    pub there: Seen,
    pub back: Seen,
    /// The reply of `ofproto/why` for the first packet of each direction, or for a packet made from the flow.
    pub why_there: Option<Json>,
    pub why_back: Option<Json>,
    /// The packet of `why_there` was made from the flow.
    pub is_made: bool,
    /// Packets that the megaflow has counted, before and after.
    pub megaflow: Option<Megaflow>,
    /// Of packets that leave in a tunnel: what their ports dropped in a second, of all flows (port, reason, packets).
    pub outer_drops: Vec<(String, String, u64)>,
    /// Recent drops that match (`dpif/show-drops`).
    pub recent: Vec<Json>,
    pub recent_back: Vec<Json>,
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

/// The explanation of a flow: sentences, and the conclusion.
pub struct Explanation {
    pub sentences: Vec<String>,
    pub conclusion: String,
}

/// The drops that were counted between two states of ports: port, reason, packets.
pub fn new_drops(before: &Json, after: &Json) -> Vec<(String, String, u64)> {
    let all = |of: &Json| of.as_array().cloned().unwrap_or_default();
    let (old, mut out) = (all(before), Vec::new());
    for port in all(after) {
        let was = old.iter().find(|one| one["number"] == port["number"]);
        for (reason, n) in port["dropped"].as_object().into_iter().flatten() {
            let before = was.and_then(|was| was["dropped"][reason].as_u64()).unwrap_or(0);
            let more = n.as_u64().unwrap_or(0).saturating_sub(before);
            if more != 0 {
                out.push((text(&port["name"]).to_owned(), reason.clone(), more));
            }
        }
    }
    out
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

/// The VLAN of the packets, if NORMAL forwards them and not all ports of the bridge carry it.
fn vlan(why: &Json) -> Option<String> {
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

/// A sentence for each problem of a port.
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

/// The names that OVN has for the ports of the packets.
fn logical_names(out: &mut Vec<String>, facts: &Facts) {
    let whys = [&facts.why_there, &facts.why_back].into_iter().flatten();
    let ports = whys
        .flat_map(|why| [&why["port"]].into_iter().chain(why["outputs"].as_array().into_iter().flatten()));
    let named = ports.filter(|port| port["logical-port"].is_string());
    let names: BTreeSet<(&str, &str)> = named.map(|p| (text(&p["name"]), text(&p["logical-port"]))).collect();
    out.extend(names.iter().map(|(port, logical)| format!("OVN calls port {port} {logical}.")));
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
    let (way, port, reason) = (text(&one["way"]), text(&one["port"]), text(&one["reason"]));
    let time = format!("{}.{:03} s ago", ago / 1000, ago % 1000);
    format!("{time} such a packet, {way} by port {port}, was dropped: {reason}.{}", decided(one))
}

/// The rule by which a packet was dropped, and its state of connection tracking if it is invalid.
fn decided(one: &Json) -> String {
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
             connection from the beginning, as when one direction takes another way"
        );
    }
    out
}

/// All sentences.
pub fn explain(facts: &Facts) -> Explanation {
    let mut out = Vec::new();
    let (noun, what) = match (&facts.requests, facts.is_made) {
        (Some(_), _) => ("Requests", "the requests"),
        (None, true) => ("Packets", "a packet made from the flow"),
        (None, false) => ("Packets", "the packets"),
    };
    if facts.requests.is_some() {
        out.push(format!("Packets: no packet was seen at any port in {} s.", facts.seconds));
    }
    direction(&mut out, noun, &facts.there, facts.seconds);
    direction(&mut out, "Answers", &facts.back, facts.seconds);
    let mut troubles = Vec::new();
    for (why, what) in [(&facts.why_there, what), (&facts.why_back, "the answers")] {
        let Some(why) = why else { continue };
        tables(&mut out, what, why);
        connections(&mut out, why);
        troubles.extend(trouble(&why["port"], false));
        let outputs = why["outputs"].as_array().into_iter().flatten();
        troubles.extend(outputs.flat_map(|port| trouble(port, true)));
    }
    logical_names(&mut out, facts);
    facts.megaflow.iter().for_each(|m| megaflow(&mut out, m));
    out.extend(facts.recent.iter().chain(&facts.recent_back).map(recent_drop));
    troubles.sort();
    troubles.dedup();
    let conclusion = match &facts.requests {
        None => conclude(facts, "Packets", &troubles),
        Some(requests) => format!(
            "The sender does not know the hardware address of {}: it asks by {}. {}",
            requests.target,
            requests.protocol,
            conclude(facts, "Requests", &troubles)
        ),
    };
    out.extend(troubles);
    Explanation { sentences: out, conclusion }
}

/// The drops that explain why packets do not arrive: those of at least half of the packets. A drop at a port that is down
/// does not count if the packets also leave by another port, because flooded packets are dropped there.
fn drops_that_matter<'a>(seen: &'a Seen, why: &Option<Json>) -> Vec<(&'a str, &'a str, u64)> {
    let outputs = why.as_ref().and_then(|why| why["outputs"].as_array());
    let is_down = |port: &str| {
        let mut all = outputs.into_iter().flatten();
        all.any(|p| text(&p["name"]) == port && p["up"].as_bool() == Some(false))
    };
    let is_only_way = seen.ports("tx").len() < 2;
    let matters = |(port, reason, n): &(&str, &str, u64)| {
        n * 2 >= seen.sum("rx") && (is_only_way || *reason != DropReason::TxFailed.name() || !is_down(port))
    };
    seen.drops().into_iter().filter(matters).collect()
}

/// Sentences about the ports that packets passed or should have passed.
fn about(troubles: &[String], ports: &[&str]) -> String {
    let names = |line: &&String| ports.iter().any(|port| line.split([' ', ',']).any(|word| word == *port));
    let named: Vec<&str> = troubles.iter().filter(names).map(String::as_str).collect();
    if named.is_empty() { String::new() } else { format!(" {}", named.join(" ")) }
}

/// The conclusion about dropped packets of one direction.
fn dropped(
    what: &str,
    (seen, why, recent): (&Seen, &Option<Json>, &[Json]),
    troubles: &[String],
) -> Option<String> {
    let (port, reason, _) = drops_that_matter(seen, why).into_iter().max_by_key(|(_, _, n)| *n)?;
    let help = reason_of(reason).map_or("", DropReason::help);
    let is_it = |one: &&Json| text(&one["port"]) == port && text(&one["reason"]) == reason;
    let mut rule = recent.iter().find(is_it).map_or(String::new(), decided);
    let drops = why.as_ref().filter(|why| why["drops"].as_bool() == Some(true));
    if let Some(why) = drops.filter(|_| rule.is_empty()) {
        rule = format!(" The rule, bridge {}: {}", text(&why["bridge"]), text(&why["rule"]));
    }
    let tunnel = why.as_ref().map_or(String::new(), |why| tunnel_hint(reason, why));
    let vlan = why.as_ref().and_then(vlan).map_or(String::new(), |line| format!(" {line}"));
    let mut more = about(troubles, &[port]);
    let mtu = why.as_ref().and_then(|why| mtu_of(why, port));
    if let Some(mtu) = mtu.filter(|_| reason == DropReason::TxTooLong.name() && more.is_empty()) {
        more = format!(" The MTU of port {port} is {mtu} bytes.");
    }
    let more = format!("{vlan}{more}");
    // A rule ends without a full stop.
    let stop = if rule.is_empty() || rule.ends_with('.') || more.is_empty() { "" } else { "." };
    Some(format!("{what} dropped at port {port}: {reason}. {help}{tunnel}{rule}{stop}{more}"))
}

/// The next hop of a tunnel that is not known, which the trace names, or where to look for the route.
fn tunnel_hint(reason: &str, why: &Json) -> String {
    if reason == DropReason::ActionTunnelRoutingFailed.name() {
        return " \"sluice appctl ovs/route/show\" shows the routes.".to_owned();
    }
    let hop =
        text(&why["trace"]).split_once("neighbor cache miss for ").and_then(|(_, rest)| rest.split_once(','));
    match hop.filter(|_| reason == DropReason::ActionTunnelNeighCacheMiss.name()) {
        Some((hop, _)) => format!(" The switch asks for {hop}, and gets no answer."),
        None => String::new(),
    }
}

/// Drops of few packets.
fn few(facts: &Facts) -> String {
    let all = facts.there.drops().into_iter().chain(facts.back.drops());
    let all = all.map(|(port, reason, n)| format!(" {} dropped at port {port}: {reason}.", packets(n)));
    all.collect()
}

/// The conclusion about packets that leave in a tunnel: there they are packets of another flow, which is not captured.
fn in_tunnel(facts: &Facts, noun: &str, why: &Json, troubles: &[String]) -> Option<String> {
    let names = |list: &'_ Json, name: fn(&Json) -> &Json| -> Vec<String> {
        list.as_array().into_iter().flatten().map(|one| text(name(one)).to_owned()).collect()
    };
    let tunnels = names(&why["tunnels"], |one| one);
    let outputs = names(&why["outputs"], |one| &one["name"]);
    let list = |all: &[String]| ports(&all.iter().map(String::as_str).collect::<Vec<_>>());
    if tunnels.is_empty() {
        return None;
    }
    let line = format!("{noun} leave in a tunnel, {}, by {}", list(&tunnels), list(&outputs));
    let more = about(troubles, &outputs.iter().map(String::as_str).collect::<Vec<_>>());
    if let Some((port, reason, n)) = facts.outer_drops.iter().max_by_key(|(_, _, n)| *n) {
        let help = reason_of(reason).map_or("", DropReason::help);
        let mtu = mtu_of(why, port).filter(|_| reason == DropReason::TxTooLong.name());
        let mtu = mtu.map_or(String::new(), |mtu| {
            format!(" The MTU of port {port} is {mtu} bytes, of which the tunnel's headers take their part.")
        });
        let verb = if *n == 1 { "was" } else { "were" };
        return Some(format!(
            "{line}. In a second {} {verb} dropped at port {port}: {reason}. {help}{mtu}{more}",
            packets(*n)
        ));
    }
    Some(match facts.back.sum("tx") {
        0 => format!(
            "{line}; no answer comes back. Look at the network behind it, and at the other end of the tunnel.{more}"
        ),
        _ => format!("{line}, and answers pass the switch.{}{more}", few(facts)),
    })
}

/// The MTU of an output.
fn mtu_of(why: &Json, port: &str) -> Option<u64> {
    let outputs = why["outputs"].as_array().into_iter().flatten();
    outputs.filter(|output| text(&output["name"]) == port).find_map(|output| output["mtu"].as_u64())
}

/// `noun`: what packets of the flow are.
fn conclude(facts: &Facts, noun: &str, troubles: &[String]) -> String {
    let there = (&facts.there, &facts.why_there, facts.recent.as_slice());
    if let Some(line) = dropped(&format!("{noun} are"), there, troubles) {
        return line;
    }
    if facts.there.sum("rx") == 0 && facts.there.sum("tx") == 0 {
        let last = facts.recent.first().map_or(String::new(), |one| format!(" {}", recent_drop(one)));
        return format!(
            "No such packet reaches the switch now: look at the sender, or at what is in front of the switch.{last}"
        );
    }
    let back = (&facts.back, &facts.why_back, facts.recent_back.as_slice());
    if let Some(line) = dropped(&format!("{noun} pass, but answers are"), back, troubles) {
        return line;
    }
    let outputs = facts.there.ports("tx");
    if let Some(line) = facts.why_there.as_ref().and_then(|why| in_tunnel(facts, noun, why, troubles)) {
        return line;
    }
    if outputs.is_empty() {
        return format!("{noun} come in and none leaves.");
    }
    let (left, more) = (ports(&outputs), about(troubles, &outputs));
    let lower = noun.to_lowercase();
    match (facts.back.sum("rx"), facts.back.sum("tx")) {
        (0, _) => {
            let vlan =
                facts.why_there.as_ref().and_then(vlan).map_or(String::new(), |line| format!(" {line}"));
            format!(
                "The switch sends the {lower} by {left}; no answer comes back. Look at what is behind {left}.{vlan}{more}"
            )
        }
        (_, 0) => format!("The switch sends the {lower} by {left}; answers come in and none leaves.{more}"),
        _ => format!("{noun} and answers pass the switch.{}{more}", few(facts)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::subject::Subject;
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
            |there: &[(&str, &str, u64)], back: &[(&str, &str, u64)]| explain(&facts(there, back)).conclusion;
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
    fn the_cause_is_in_the_conclusion() {
        let drops = [("p2", "rx", 3), ("p2", "drop_action_of_pipeline", 3)];
        let recent = json!({ "port": "p2", "way": "received", "reason": "drop_action_of_pipeline",
            "flow": "ct_state=inv|trk,tcp",
            "decided-by": { "bridge": "br0", "rule": "table_id=1, actions=drop", "drops-now": true } });
        let through = [("p1", "rx", 3), ("p2", "tx", 3)];
        let line = explain(&Facts { recent_back: vec![recent], ..facts(&through, &drops) }).conclusion;
        assert!(line.contains("The rule, bridge br0: table_id=1, actions=drop"), "{line}");
        assert!(line.contains("invalid (ct_state=inv|trk)"), "{line}");
        let few = [("p1", "rx", 9), ("p2", "tx", 9), ("br0", "datapath_drop_tx_failed", 1)];
        let line = explain(&facts(&few, &through)).conclusion;
        assert_eq!(
            line,
            "Packets and answers pass the switch. 1 packet dropped at port br0: datapath_drop_tx_failed."
        );
        // A flooded packet is also dropped at a port that is down.
        let flooded =
            [("p1", "rx", 3), ("br0", "tx", 3), ("p2", "tx", 3), ("br0", "datapath_drop_tx_failed", 3)];
        let why = json!({ "outputs": [{ "name": "br0", "up": false }, { "name": "p2", "link": false }],
            "rule": "actions=NORMAL", "port": { "name": "p1" }, "vlan": 10,
            "vlan-of-port": "access port of VLAN 10", "vlan-ports": ["br0"],
            "other-vlan-ports": [{ "name": "p3", "vlan": "access port of VLAN 20" }] });
        let line = explain(&Facts { why_there: Some(why.clone()), ..facts(&flooded, &[]) }).conclusion;
        assert!(line.contains("no answer comes back"), "{line}");
        let vlan = "Look at what is behind ports br0, p2. Port p1 is an access port of VLAN 10,";
        assert!(line.contains(vlan), "{line}");
        assert!(line.ends_with("Port br0 is down. Port p2 has no link."), "{line}");
        let only = [("p1", "rx", 3), ("br0", "tx", 3), ("br0", "datapath_drop_tx_failed", 3)];
        let line = explain(&Facts { why_there: Some(why), ..facts(&only, &[]) }).conclusion;
        let wanted = "Port p1 is an access port of VLAN 10, so they are in VLAN 10; so is br0, but not p3 \
                      (access port of VLAN 20).";
        assert!(line.contains(wanted), "{line}");
    }

    #[test]
    fn packets_that_leave_in_a_tunnel_are_not_lost() {
        let port = |n: u64| json!([{ "name": "eth1", "number": 2, "mtu": 1500, "dropped": { "datapath_drop_tx_mtu_exceeded": n } }]);
        let why = json!({ "port": { "name": "p1" }, "tunnels": ["vx0"], "outputs": port(3) });
        let of = |back: &[(&str, &str, u64)], after: u64| {
            let outer_drops = new_drops(&port(3), &port(after));
            explain(&Facts { why_there: Some(why.clone()), outer_drops, ..facts(&[("p1", "rx", 5)], back) })
                .conclusion
        };
        let start = "Packets leave in a tunnel, port vx0, by port eth1";
        assert_eq!(of(&[("p1", "tx", 5)], 3), format!("{start}, and answers pass the switch."));
        assert!(of(&[], 3).starts_with(&format!("{start}; no answer comes back.")));
        let lost = of(&[], 8);
        assert!(
            lost.starts_with(&format!(
                "{start}. In a second 5 packets were dropped at port eth1: datapath_drop_tx_mtu_exceeded."
            )),
            "{lost}"
        );
        assert!(
            lost.contains(
                "The MTU of port eth1 is 1500 bytes, of which the tunnel's headers take their part."
            ),
            "{lost}"
        );
        assert_eq!(new_drops(&Json::Null, &Json::Null), []);
    }

    #[test]
    fn why_no_packet_enters_or_leaves_a_tunnel() {
        let told = |reason: &str, why: Json, recent: Vec<Json>| {
            let seen = facts(&[("p1", "rx", 3), ("p1", reason, 3)], &[]);
            explain(&Facts { why_there: Some(why), recent, ..seen }).conclusion
        };
        let why = json!({ "trace": " -> neighbor cache miss for 192.0.2.7 on bridge br-ext, sending ARP request\n" });
        let line = told("drop_action_tunnel_neigh_cache_miss", why.clone(), Vec::new());
        assert!(
            line.contains("The switch asks for 192.0.2.7 on bridge br-ext, and gets no answer."),
            "{line}"
        );
        let line = told("drop_action_of_pipeline", why.clone(), Vec::new());
        assert!(!line.contains("asks for"), "{line}");
        let line = told("drop_action_tunnel_routing_failed", json!({}), Vec::new());
        assert!(line.contains("ovs/route/show"), "{line}");
        let lost = json!({ "port": "p1", "way": "received", "reason": "drop_action_of_pipeline",
            "problem": "no OpenFlow tunnel port for this packet, which came from 192.0.2.1 to 192.0.2.2 with key 100" });
        let line = told("drop_action_of_pipeline", json!({}), vec![lost]);
        assert!(line.contains("with key 100. Compare with remote_ip"), "{line}");
    }

    #[test]
    fn an_mtu_is_named_if_the_first_packet_was_shorter() {
        let drops = [("p1", "rx", 4), ("p2", "tx", 2), ("p2", "datapath_drop_tx_mtu_exceeded", 2)];
        let why =
            json!({ "outputs": [{ "name": "p2", "mtu": 700, "too-long": false }], "port": { "name": "p1" } });
        let line = explain(&Facts { why_there: Some(why), ..facts(&drops, &[]) }).conclusion;
        assert!(line.ends_with("The MTU of port p2 is 700 bytes."), "{line}");
    }

    #[test]
    fn requests_for_a_hardware_address_come_first() {
        let subject =
            Subject { flow: "icmp,nw_src=10.0.0.1,nw_dst=10.0.0.2".to_owned(), answers: String::new() };
        let of = |there: &[(&str, &str, u64)], back: &[(&str, &str, u64)]| {
            explain(&Facts { requests: subject.requests(), ..facts(there, back) })
        };
        let told = of(&[("p1", "rx", 2), ("p1", "drop_action_of_pipeline", 2)], &[]);
        let start = "The sender does not know the hardware address of 10.0.0.2: it asks by ARP. Requests are dropped at port p1:";
        assert!(told.conclusion.starts_with(start), "{}", told.conclusion);
        assert!(told.sentences[0].starts_with("Packets: no packet was seen"), "{:?}", told.sentences);
        assert!(told.sentences[1].starts_with("Requests: in 2 s 2 packets came in"), "{:?}", told.sentences);
        let unanswered = of(&[("p1", "rx", 2), ("p2", "tx", 2)], &[]).conclusion;
        assert!(
            unanswered.contains("The switch sends the requests by port p2; no answer comes back."),
            "{unanswered}"
        );
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
        let all = explain(&facts).sentences.join("\n");
        for wanted in [
            "Packets: in 2 s 1 packet came in by port p1, 1 packet left by port p2.",
            "Answers: no packet was seen",
            "The tables send the packets by port p2. The last rule, bridge br0: actions=output:2",
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
