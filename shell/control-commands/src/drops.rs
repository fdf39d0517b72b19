//! `dpif/show-drops [recent=N] [flow=FLOW]`: drops by port and reason, and the packets that were dropped recently, each with the rule that decided.
//! Sluice's own command with a JSON reply; `sluice drops` presents it as text.

use crate::capture::filter;
use crate::ingress_bridge::{ingress_bridge, tunnel_text};
use crate::last_drop::{DroppedPacket, deciding_rule_of, port_of, recent};
use crate::names::DatapathNames;
use datapath::DropCounts;
use datapath::last_drop::DropPort;
use dpif::DropReason;
use dpif::text::DpPortNames;
use flow::text::{NoNames, flow_text};
use ovsdb::Json;
use serde_json::json;
use switch::{Backer, Switch};
use units::PortNo;
use unixctl::Reply;

/// Default and maximum number of recent packets in a reply: each requires a trace in the main thread.
const RECENT: (usize, usize) = (10, 64);

pub(crate) fn show(switch: &Switch, args: &[String]) -> Result<Reply, String> {
    let (mut most, mut flow) = (RECENT.0, None);
    for arg in args {
        match arg.split_once('=') {
            Some(("recent", n)) => {
                most = n.parse().map_err(|_| format!("recent: \"{n}\" is not a number"))?;
            }
            Some(("flow", text)) => flow = Some(filter(text)?),
            _ => return Err(format!("{arg}: neither recent=N nor flow=FLOW")),
        }
    }
    let found = recent(switch, flow);
    let packets: Vec<Json> = found.iter().take(most.min(RECENT.1)).map(|one| packet(switch, one)).collect();
    let datapaths: Json = switch.datapaths.all().map(|b| (b.name(), datapath(switch, b))).collect();
    Ok(Reply::Json(json!({ "datapaths": datapaths, "recent": packets, "recent-total": found.len() })))
}

fn datapath(switch: &Switch, backer: &Backer) -> Json {
    let sums: Json =
        backer.datapath.drops().into_iter().map(|(r, n)| (r.name().to_owned(), Json::from(n))).collect();
    let ports: Vec<Json> = backer
        .datapath
        .port_drops()
        .iter()
        .filter_map(|(drop_port, n)| port(switch, backer, *drop_port, n))
        .collect();
    json!({ "reasons": sums, "ports": ports })
}

fn port(switch: &Switch, backer: &Backer, drop_port: DropPort, counts: &DropCounts) -> Option<Json> {
    let reasons: serde_json::Map<String, Json> = DropReason::ALL
        .iter()
        .map(|r| (r.name().to_owned(), counts[*r as usize]))
        .filter(|(_, n)| *n != 0)
        .map(|(name, n)| (name, Json::from(n)))
        .collect();
    let facts = port_of(switch, backer, PortNo(drop_port.port())).and_then(|port| port.facts.as_ref());
    let is_up = facts.map(|facts| facts.admin_up);
    (!reasons.is_empty()).then(|| {
        json!({
            "port": port_name(backer, drop_port), "number": drop_port.port(), "direction": direction(drop_port), "up": is_up, "reasons": reasons,
        })
    })
}

/// The name of a port; `None` if the port does not exist any more. A packet that a controller or the switch itself sent was received by no port.
fn port_name(backer: &Backer, drop_port: DropPort) -> Option<String> {
    match PortNo(drop_port.port()) {
        PortNo::NONE => Some("no port".to_owned()),
        number => DatapathNames(backer).name(number),
    }
}

fn direction(drop_port: DropPort) -> &'static str {
    match drop_port {
        DropPort::In(_) => "received",
        DropPort::Out(_) => "to be sent",
    }
}

pub(crate) fn packet(switch: &Switch, found: &DroppedPacket<'_>) -> Json {
    let drop = &found.drop;
    let rule = deciding_rule_of(switch, found).map(|by| {
        json!({
            "bridge": by.bridge, "table": by.table, "cookie": by.cookie, "rule": by.what, "drops-now": by.drops,
        })
    });
    json!({
        "datapath": found.backer.name(),
        "port": port_name(found.backer, drop.port),
        "number": drop.port.port(),
        "direction": direction(drop.port),
        "reason": drop.reason.name(),
        "help": drop.reason.help(),
        "milliseconds-ago": switch.clock.now().since(drop.at).0,
        "bytes": drop.len,
        "flow": flow_text(&found.fields, &NoNames),
        "decided-by": rule,
        "problem": problem(found),
    })
}

/// Why no bridge receives a packet. `None` for a recirculated packet, because a bridge has already received it.
fn problem(found: &DroppedPacket<'_>) -> Option<String> {
    let DroppedPacket { backer, drop, .. } = found;
    let (DropPort::In(_), DropReason::ActionOfPipeline) = (drop.port, drop.reason) else { return None };
    let key = drop.flow();
    if drop.len == 0 || key.recirc_id != 0 {
        return None;
    }
    let why = ingress_bridge(backer, &backer.shared.published(), &key).err()?;
    Some(tunnel_text(&key.tunnel).map_or_else(|| why.clone(), |text| format!("{why}, {text}")))
}
