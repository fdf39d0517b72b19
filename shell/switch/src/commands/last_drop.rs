//! `ofproto/trace --last-drop [BRIDGE|DATAPATH [PORT]]`: why the packet was dropped that was dropped last.
//!
//! Sluice's own. The packet goes through the tables of now, without any effect; they may have changed since.

use super::bridge::rule_line;
use super::names::DatapathNames;
use super::trace::received;
use super::trace_run::{Traced, run};
use crate::backer::Backer;
use crate::control::Published;
use crate::switch::Switch;
use datapath::last_drop::LastDrop;
use dpif::DpAction;
use dpif::text::DpPortNames;
use std::sync::Arc;
use units::PortNo;
use xlate::{Credit, Output};

/// Whose packets are asked for.
struct Asked<'a> {
    /// For messages.
    what: String,
    ports: Vec<(&'a Backer, PortNo)>,
}

/// Answers; `args` without the option.
pub(super) fn trace(switch: &Switch, args: &[String]) -> Result<String, String> {
    let (names, args): (Vec<_>, Vec<_>) =
        args.iter().partition(|a| matches!(a.as_str(), "--names" | "-names"));
    if let Some(option) = args.iter().find(|a| a.starts_with('-')) {
        return Err(format!("{option}: not an option of --last-drop"));
    }
    let asked = asked(switch, &args)?;
    let found = asked.ports.iter().filter_map(|(b, no)| Some((*b, *no, b.datapath.last_drop(*no)?)));
    let newest = found.max_by_key(|(_, _, drop)| drop.at);
    let (backer, port, last) = newest.ok_or_else(|| format!("no packet of {} was dropped", asked.what))?;
    let flow = last.flow();
    let published = backer.control.published();
    let head = head(switch, backer, port, &last);
    let (bridge, flow) = received(backer, &published, &flow).map_err(|e| format!("{head}{e}"))?;
    let traced = Traced {
        published: Arc::clone(&published),
        bridge,
        flow,
        packet: None,
        actions: None,
        names: !names.is_empty(),
        ct_next: Vec::new(),
    };
    let told = run(backer, traced, switch.clock.now());
    Ok(format!("{head}{}\n{}", told.text, verdict(switch, &published, &told.outputs)))
}

fn asked<'a>(switch: &'a Switch, args: &[&String]) -> Result<Asked<'a>, String> {
    let (place, port) = match args {
        [] => (None, None),
        [place] => (Some(place.as_str()), None),
        [place, port] => (Some(place.as_str()), Some(port.as_str())),
        _ => return Err("too many arguments".to_owned()),
    };
    let Some(place) = place else {
        return Ok(Asked {
            what: "any port".to_owned(),
            ports: switch.backers.values().flat_map(all).collect(),
        });
    };
    if let Some(bridge) = switch.bridges.get(place)
        && let Some(backer) = switch.backers.get(&bridge.config.datapath_type)
    {
        let wanted = |p: &crate::port::BridgePort| match port {
            Some(port) => p.name == port || port.parse() == Ok(p.ofport.0),
            None => true,
        };
        let ports = bridge.ports.values().filter(|p| wanted(p)).filter_map(|p| Some((backer, p.number()?)));
        return some(place, port, ports.collect());
    }
    let short = place.rsplit('@').next().unwrap_or(place);
    let backer = switch.backers.values().find(|b| b.dp_name == short);
    let backer = backer.ok_or_else(|| format!("{place}: unknown bridge or datapath"))?;
    let wanted = |no: PortNo| match port {
        Some(port) => port.parse() == Ok(no.0) || DatapathNames(backer).number(port) == Some(no),
        None => true,
    };
    some(place, port, all(backer).filter(|(_, no)| wanted(*no)).collect())
}

fn some<'a>(place: &str, port: Option<&str>, ports: Vec<(&'a Backer, PortNo)>) -> Result<Asked<'a>, String> {
    match port {
        Some(port) if ports.is_empty() => Err(format!("{place} has no port {port} that packets come in by")),
        Some(port) => Ok(Asked { what: format!("port {port} of {place}"), ports }),
        None => Ok(Asked { what: place.to_owned(), ports }),
    }
}

fn all(backer: &Backer) -> impl Iterator<Item = (&Backer, PortNo)> {
    backer.ports.keys().map(move |no| (backer, *no))
}

fn head(switch: &Switch, backer: &Backer, port: PortNo, last: &LastDrop) -> String {
    let name = DatapathNames(backer).name(port).unwrap_or_default();
    let ago = switch.clock.now().since(last.at).0;
    let reason = last.reason.map_or("", dpif::DropReason::name);
    let hex: String = last.bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!(
        "Port {name} ({} of {}), {}.{:03} s ago: {reason}\nPacket, {} bytes, as it was then: {hex}\n\n",
        port.0,
        backer.name(),
        ago / 1000,
        ago % 1000,
        last.bytes.len()
    )
}

/// Whether the packet would be dropped again, and which rule has the last word.
fn verdict(switch: &Switch, published: &Published, outputs: &[Output]) -> String {
    let again = if outputs.iter().all(|o| drops(&o.actions)) { "Dropped" } else { "Not dropped" };
    let credits = outputs.last().map(|o| o.credits.as_slice()).unwrap_or_default();
    let now = switch.clock.now();
    let in_tables = credits.iter().rev().find_map(|c| match c {
        Credit::Match { bridge, rule } => Some((Some(*bridge), rule_line(rule, false, now))),
        Credit::Miss { bridge, table } => Some((Some(*bridge), format!("no flow of table {table} matches"))),
        _ => None,
    });
    let before_them = || {
        credits.iter().find_map(|c| match c {
            Credit::Rule(rule) => Some((None, rule_line(rule, false, now))),
            _ => None,
        })
    };
    let (bridge, last) =
        in_tables.or_else(before_them).unwrap_or_else(|| (None, "no table was looked up".to_owned()));
    let bridge = bridge.and_then(|id| published.snapshot.bridge(id)).map_or("none", |b| &b.name);
    format!("{again} by the tables as they are now. The last word, bridge {bridge}: {last}\n")
}

/// Nothing is done with the packet that anybody sees.
fn drops(actions: &[DpAction]) -> bool {
    actions.iter().all(|a| match a {
        DpAction::Output(_) | DpAction::Userspace(_) | DpAction::Recirc(_) => false,
        DpAction::Clone(list) => drops(list),
        _ => true,
    })
}
