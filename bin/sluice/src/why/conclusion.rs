//! The conclusion from all facts: the last sentence of an explanation.

use super::facts::Facts;
use super::sentences::{decided, recent_drop, vlan};
use super::watch::Seen;
use super::wording::{packets, ports, reason_of, text};
use dpif::DropReason;
use ovsdb::Json;

/// The conclusion. `noun`: what packets of the flow are. `troubles`: sentences about problems of ports.
pub fn conclude(facts: &Facts, noun: &str, troubles: &[String]) -> String {
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
                "The switch sends the {lower} by {left}; no answer comes back.{vlan} Look at what is behind {left}.{more}"
            )
        }
        (_, 0) => format!("The switch sends the {lower} by {left}; answers come in and none leaves.{more}"),
        _ => format!("{noun} and answers pass the switch.{}{more}", few(facts)),
    }
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
        return " \"sluice appctl ovs/route/show\" shows the routes; the bridge needs the datapath_type of the tunnel's bridge.".to_owned();
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
