//! `dpif/top PAGE`: the counters on a page of `sluice top`: `ports`, `flows` or `connections`. Sluice's own command with a JSON reply; clients
//! compute rates from two replies.

use crate::last_drop::port_of;
use crate::names::DatapathNames;
use conntrack::ConnectionSnapshot;
use datapath::last_drop::DropPort;
use dpif::text::{DpPortNames, actions_text, key_text};
use ovsdb::Json;
use packet::ipproto;
use serde_json::json;
use std::collections::BTreeMap;
use switch::{Backer, Switch};
use units::PortNo;
use unixctl::Reply;

/// Megaflows or connections are not listed if there are more than this: a search would block the main thread for too long.
const SEARCHED_MAX: usize = 50_000;
/// Maximum number of megaflows in a reply: those with the most packets among the recently used ones.
const FLOWS_MAX: usize = 256;
/// A megaflow counts as recently used if it was used within this many milliseconds: five times the default interval of
/// `sluice top`.
const RECENT_MS: u64 = 5_000;
/// Maximum number of connections in a reply.
const CONNECTIONS_MAX: usize = 64;

pub(crate) fn show(switch: &Switch, args: &[String]) -> Result<Reply, String> {
    let page: fn(&Switch, &Backer) -> Json = match args {
        [page] => match page.as_str() {
            "ports" => ports,
            "flows" => flows,
            "connections" => connections,
            _ => return Err(format!("{page}: none of ports, flows and connections")),
        },
        _ => return Err("missing argument PAGE (ports, flows or connections)".to_owned()),
    };
    let datapaths: Json = switch.datapaths.all().map(|b| (b.name(), page(switch, b))).collect();
    Ok(Reply::Json(json!({ "milliseconds": switch.clock.now().0, "datapaths": datapaths })))
}

fn ports(switch: &Switch, backer: &Backer) -> Json {
    let drops = backer.datapath.port_drops();
    let at = |drop_port: DropPort| drops.get(&drop_port).map_or(0, |counts| counts.iter().sum::<u64>());
    let one = |no: &PortNo, name: &str| {
        let stats = backer.datapath.port_stats(*no).unwrap_or_default();
        let bridge_port = port_of(switch, backer, *no);
        let facts = bridge_port.and_then(|port| port.facts.as_ref());
        let logical = bridge_port.and_then(|port| switch.logical_name_of(port));
        json!({
            "port": name, "logical-port": logical, "number": no.0,
            "up": facts.map(|f| f.admin_up && f.link_up), "link-changes": facts.map(|f| f.link_resets),
            "rx-packets": stats.rx_packets, "rx-bytes": stats.rx_bytes,
            "tx-packets": stats.tx_packets, "tx-bytes": stats.tx_bytes,
            "rx-drops": at(DropPort::In(no.0)), "tx-drops": at(DropPort::Out(no.0)),
        })
    };
    backer.ports.iter().map(|(no, port)| one(no, &port.name)).collect()
}

fn flows(switch: &Switch, backer: &Backer) -> Json {
    let (count, masks) = (backer.datapath.flow_count(), backer.datapath.subtables().1);
    let mut out = json!({ "count": count, "limit": backer.datapath.flow_capacity(), "masks": masks });
    let names = DatapathNames(backer);
    out["most-masks"] = backer.datapath.most_masks().map_or(
        Json::Null,
        |(port, masks)| json!({ "port": names.name(port), "masks": masks, "limit": datapath::PORT_MASKS }),
    );
    if count > SEARCHED_MAX {
        out["not-searched"] = Json::from(true);
        return out;
    }
    let now = switch.clock.now();
    let mut all = backer.datapath.flow_dump(now);
    all.retain(|f| f.stats.used.is_some_and(|used| now.since(used).0 <= RECENT_MS));
    all.sort_by_key(|f| std::cmp::Reverse(f.stats.packets));
    let one = |f: &dpif::DpFlow| {
        json!({
            "ufid": f.ufid.to_string(), "port": names.name(PortNo(f.key.in_port)),
            "flow": key_text(&f.key, Some(&f.mask), false, &names), "actions": actions_text(&f.actions, &names),
            "packets": f.stats.packets, "bytes": f.stats.bytes,
            "age": f.created.map(|created| now.since(created).0),
        })
    };
    out["flows"] = all.iter().take(FLOWS_MAX).map(one).collect();
    out
}

fn connections(switch: &Switch, backer: &Backer) -> Json {
    let table = backer.datapath.conntrack();
    let count = table.count();
    let mut out = json!({ "count": count, "limit": table.max() });
    if count as usize > SEARCHED_MAX {
        out["not-searched"] = Json::from(true);
        return out;
    }
    let all = table.dump(None, switch.clock.now());
    let (mut zones, mut kinds) = (BTreeMap::<u16, u64>::new(), BTreeMap::<String, u64>::new());
    for entry in &all {
        *zones.entry(entry.original.zone()).or_default() += 1;
        *kinds.entry(kind(entry)).or_default() += 1;
    }
    let zone = |(zone, n): (&u16, &u64)| json!({ "zone": zone, "count": n, "limit": table.limit(Some(*zone)).limit });
    out["zones"] = zones.iter().map(zone).collect();
    out["kinds"] = kinds.into_iter().map(|(kind, n)| (kind, Json::from(n))).collect();
    out["connections"] = all.iter().take(CONNECTIONS_MAX).map(|e| Json::from(e.text(false, false))).collect();
    out
}

/// The protocol of a connection, for TCP with the state.
fn kind(entry: &ConnectionSnapshot) -> String {
    match (entry.original.proto(), entry.tcp_state()) {
        (_, Some(state)) => format!("tcp {}", state.name()),
        (ipproto::UDP, _) => "udp".to_owned(),
        (ipproto::ICMP | ipproto::ICMPV6, _) => "icmp".to_owned(),
        (other, _) => format!("protocol {other}"),
    }
}
