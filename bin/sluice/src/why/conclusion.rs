//! The conclusion from all facts: the last sentence of an explanation.

use super::facts::Facts;
use super::sentences::{deciding_rule, recent_drop, vlan};
use super::watch::DirectionCapture;
use super::wording::{packets, ports, reason_of, text};
use dpif::DropReason;
use ovsdb::Json;

/// The conclusion. `noun`: the word for packets of the flow ("Packets" or "Requests"). `troubles`: sentences about problems of ports.
pub fn conclude(facts: &Facts, noun: &str, troubles: &[String]) -> String {
    let forward = (&facts.forward, &facts.why_forward, facts.recent.as_slice());
    if let Some(line) = conclude_drop(&format!("{noun} are"), forward, troubles) {
        return line;
    }
    if facts.forward.sum("rx") == 0 && facts.forward.sum("tx") == 0 {
        let last = facts.recent.first().map_or(String::new(), |one| format!(" {}", recent_drop(one)));
        return format!(
            "No such packet reaches the switch now: look at the sender, or at what is in front of the switch.{last}"
        );
    }
    let reverse = (&facts.reverse, &facts.why_reverse, facts.recent_reverse.as_slice());
    if let Some(line) = conclude_drop(&format!("{noun} pass, but answers are"), reverse, troubles) {
        return line;
    }
    let outputs = facts.forward.ports("tx");
    if let Some(line) = facts.why_forward.as_ref().and_then(|why| in_tunnel(facts, noun, why, troubles)) {
        return line;
    }
    if outputs.is_empty() {
        return format!("{noun} come in and none leaves.");
    }
    let (left, more) = (ports(&outputs), troubles_of_ports(troubles, &outputs));
    let lower = noun.to_lowercase();
    match (facts.reverse.sum("rx"), facts.reverse.sum("tx")) {
        (0, _) => {
            let vlan =
                facts.why_forward.as_ref().and_then(vlan).map_or(String::new(), |line| format!(" {line}"));
            format!(
                "The switch sends the {lower} by {left}; no answer comes back.{vlan} Look at what is behind {left}.{more}"
            )
        }
        (_, 0) => format!("The switch sends the {lower} by {left}; answers come in and none leaves.{more}"),
        _ => format!("{noun} and answers pass the switch.{}{more}", minor_drops(facts)),
    }
}

/// The drops that explain why packets do not arrive: drop reasons that apply to at least half of the packets. A drop at a port that is
/// down does not count if the packets also leave through another port: it is normal that flooded packets are dropped at such a port.
fn drops_that_matter<'a>(seen: &'a DirectionCapture, why: &Option<Json>) -> Vec<(&'a str, &'a str, u64)> {
    let outputs = why.as_ref().and_then(|why| why["outputs"].as_array());
    let is_down = |port: &str| {
        let mut all = outputs.into_iter().flatten();
        all.any(|p| text(&p["name"]) == port && p["up"].as_bool() == Some(false))
    };
    let has_at_most_one_output = seen.ports("tx").len() < 2;
    let matters = |(port, reason, n): &(&str, &str, u64)| {
        n * 2 >= seen.sum("rx")
            && (has_at_most_one_output || *reason != DropReason::TxFailed.name() || !is_down(port))
    };
    seen.drops().into_iter().filter(matters).collect()
}

/// The sentences of `troubles` that are about one of `ports`.
fn troubles_of_ports(troubles: &[String], ports: &[&str]) -> String {
    let names = |line: &&String| ports.iter().any(|port| line.split([' ', ',']).any(|word| word == *port));
    let named: Vec<&str> = troubles.iter().filter(names).map(String::as_str).collect();
    if named.is_empty() { String::new() } else { format!(" {}", named.join(" ")) }
}

/// The conclusion about dropped packets of one direction.
fn conclude_drop(
    what: &str,
    (seen, why, recent): (&DirectionCapture, &Option<Json>, &[Json]),
    troubles: &[String],
) -> Option<String> {
    let (port, reason, _) = drops_that_matter(seen, why).into_iter().max_by_key(|(_, _, n)| *n)?;
    let help = reason_of(reason).map_or("", DropReason::help);
    let is_it = |one: &&Json| text(&one["port"]) == port && text(&one["reason"]) == reason;
    let mut rule = recent.iter().find(is_it).map_or(String::new(), deciding_rule);
    let drops = why.as_ref().filter(|why| why["drops"].as_bool() == Some(true));
    if let Some(why) = drops.filter(|_| rule.is_empty()) {
        rule = format!(" The rule, bridge {}: {}", text(&why["bridge"]), text(&why["rule"]));
    }
    let tunnel = why.as_ref().map_or(String::new(), |why| tunnel_hint(reason, why));
    let vlan = why.as_ref().and_then(vlan).map_or(String::new(), |line| format!(" {line}"));
    let mut more = troubles_of_ports(troubles, &[port]);
    let mtu = why.as_ref().and_then(|why| mtu_of(why, port));
    if let Some(mtu) = mtu.filter(|_| reason == DropReason::TxTooLong.name() && more.is_empty()) {
        more = format!(" The MTU of port {port} is {mtu} bytes.");
    }
    let more = format!("{vlan}{more}");
    // The text of a rule does not end with a full stop.
    let stop = if rule.is_empty() || rule.ends_with('.') || more.is_empty() { "" } else { "." };
    Some(format!("{what} dropped at port {port}: {reason}. {help}{tunnel}{rule}{stop}{more}"))
}

/// A hint if a tunnel drops the packets: the unknown next hop, which the trace names, or the command that shows the routes.
fn tunnel_hint(reason: &str, why: &Json) -> String {
    if reason == DropReason::ActionTunnelRoutingFailed.name() {
        return " \"sluice appctl ovs/route/show\" shows the routes; the bridge needs the datapath_type of the tunnel's bridge.".to_owned();
    }
    let hop =
        text(&why["trace"]).split_once("neighbor cache miss for ").and_then(|(_, rest)| rest.split_once(','));
    match hop.filter(|_| reason == DropReason::ActionTunnelNeighCacheMiss.name()) {
        Some((hop, _)) => format!(" The switch asks for {hop}, and gets no answer."),
        None => String::new(),
    }
}

/// Sentences about all drops of both directions. None of them explains a failure (see `drops_that_matter`).
fn minor_drops(facts: &Facts) -> String {
    let all = facts.forward.drops().into_iter().chain(facts.reverse.drops());
    let all = all.map(|(port, reason, n)| format!(" {} dropped at port {port}: {reason}.", packets(n)));
    all.collect()
}

/// The conclusion about packets that leave in a tunnel. In the tunnel they belong to another flow, which is not captured.
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
    let more = troubles_of_ports(troubles, &outputs.iter().map(String::as_str).collect::<Vec<_>>());
    if let Some((port, reason, n)) = facts.outer_drops.iter().max_by_key(|(_, _, n)| *n) {
        let help = reason_of(reason).map_or("", DropReason::help);
        let mtu = mtu_of(why, port).filter(|_| reason == DropReason::TxTooLong.name());
        let mtu = mtu.map_or(String::new(), |mtu| {
            format!(" The MTU of port {port} is {mtu} bytes, including the tunnel's headers.")
        });
        let verb = if *n == 1 { "was" } else { "were" };
        return Some(format!(
            "{line}. Within one second, {} {verb} dropped at port {port}: {reason}. {help}{mtu}{more}",
            packets(*n)
        ));
    }
    Some(match facts.reverse.sum("tx") {
        0 => format!(
            "{line}; no answer comes back. Look at the network behind it, and at the other end of the tunnel.{more}"
        ),
        _ => format!("{line}, and answers pass the switch.{}{more}", minor_drops(facts)),
    })
}

/// The MTU of an output.
fn mtu_of(why: &Json, port: &str) -> Option<u64> {
    let outputs = why["outputs"].as_array().into_iter().flatten();
    outputs.filter(|output| text(&output["name"]) == port).find_map(|output| output["mtu"].as_u64())
}
