//! `--json`: the output of some commands as JSON values, one per command.
//!
//! Unknown values are null. A port has a number and a name. A match is an object of fields, with values in
//! flow syntax. Actions are a list of texts.

use super::conn::Conn;
use super::context::Context;
use super::fail::{Fail, fail, print};
use super::{ports, query};
use flow::text::NameMap;
use openflow::flow_mod::Duration;
use openflow::message::Body;
use openflow::port::Port;
use openflow::stats::{FlowStats, PortStats, UNKNOWN};
use openflow::text::{action_text, match_text};
use ovsdb::Json;
use ovsdb::json::sorted_string;
use serde_json::json;
use units::OfPort;

type Run = fn(&mut Context, &[String]) -> Result<Json, Fail>;

/// The JSON version of a command.
fn command(name: &str) -> Option<Run> {
    Some(match name {
        "show" => show,
        "dump-flows" => flows,
        "dump-aggregate" => aggregate,
        "dump-ports" => port_stats,
        "dump-ports-desc" => port_descriptions,
        _ => return None,
    })
}

/// Runs a command with JSON output.
pub fn run(cx: &mut Context, name: &str, args: &[String]) -> Result<(), Fail> {
    let Some(run) = command(name) else {
        return fail(format!(
            "'{name}' has no JSON output; show, dump-flows, dump-aggregate, dump-ports and dump-ports-desc have"
        ));
    };
    let value = run(cx, args)?;
    print(&(sorted_string(&value) + "\n"))
}

fn bad<T>(target: &str) -> Result<T, Fail> {
    fail(format!("{target}: received bad reply"))
}

fn show(cx: &mut Context, args: &[String]) -> Result<Json, Fail> {
    let ports = cx.fetch_ports(&args[0])?;
    let mut conn = Conn::open(cx, &args[0])?;
    let request = cx.message(conn.version, Body::FeaturesRequest);
    let answers = conn.transact_all(&request)?;
    let Some(Body::FeaturesReply(f)) = answers.into_iter().next().map(|m| m.body) else {
        return bad(&args[0]);
    };
    Ok(json!({
        "version": conn.version.name(),
        "datapath_id": format!("{:016x}", f.datapath_id),
        "n_buffers": f.n_buffers,
        "n_tables": f.n_tables,
        "ports": ports.iter().map(port).collect::<Vec<_>>(),
    }))
}

fn port_descriptions(cx: &mut Context, args: &[String]) -> Result<Json, Fail> {
    let mut list = cx.fetch_ports(&args[0])?;
    if let Some(text) = args.get(1) {
        let chosen = ports::number(cx, &args[0], text)?;
        list.retain(|p| p.number == chosen);
    }
    Ok(list.iter().map(port).collect())
}

fn port(p: &Port) -> Json {
    json!({
        "port": number(p.number),
        "name": p.name,
        "mac": p.hw_addr.to_string(),
        "config": {
            "port_down": p.config.port_down, "no_recv": p.config.no_recv, "no_flood": p.config.no_flood,
            "no_forward": p.config.no_fwd, "no_packet_in": p.config.no_packet_in,
        },
        "state": {"link_down": p.state.link_down, "blocked": p.state.blocked, "live": p.state.live},
        "current_kbps": Some(p.current_speed).filter(|n| *n != 0),
        "max_kbps": Some(p.max_speed).filter(|n| *n != 0),
    })
}

/// The number of a port; for reserved ports the name.
fn number(port: OfPort) -> Json {
    let text = flow::text::port_text(port, &flow::text::NoNames);
    text.parse::<u32>().map_or(Json::from(text), Json::from)
}

fn counter(n: u64) -> Option<u64> {
    Some(n).filter(|n| *n != UNKNOWN)
}

fn seconds(d: Duration) -> Option<f64> {
    let known = d.sec != u32::MAX || d.nsec != u32::MAX;
    known.then(|| f64::from(d.sec) + f64::from(d.nsec) / 1e9)
}

fn flows(cx: &mut Context, args: &[String]) -> Result<Json, Fail> {
    let flows = query::selected_flows(cx, args)?;
    let names = cx.names_to_show(&args[0])?;
    Ok(flows.iter().map(|f| flow(f, &*names)).collect())
}

fn flow(f: &FlowStats, names: &dyn NameMap) -> Json {
    json!({
        "table": f.table,
        "priority": f.priority,
        "cookie": f.cookie,
        "duration": seconds(f.duration),
        "packets": counter(f.packets),
        "bytes": counter(f.bytes),
        "idle_timeout": f.idle_timeout,
        "hard_timeout": f.hard_timeout,
        "importance": f.importance,
        "send_flow_rem": f.flags.send_flow_rem,
        // Pass the default priority, which is then omitted from the text.
        "match": fields(&match_text(&f.matching, 0x8000, names)),
        "actions": f.actions.iter().map(|a| action_text(a, names)).collect::<Vec<_>>(),
    })
}

/// Converts `tcp,in_port=1` to an object; a word without a value becomes true.
fn fields(text: &str) -> Json {
    let mut depth = 0i32;
    let parts = text.split(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    let field = |part: &str| match part.split_once('=') {
        Some((name, value)) => (name.to_owned(), Json::from(value)),
        None => (part.to_owned(), Json::from(true)),
    };
    parts.map(str::trim).filter(|part| !part.is_empty()).map(field).collect()
}

fn aggregate(cx: &mut Context, args: &[String]) -> Result<Json, Fail> {
    let all = query::selected_flows(cx, args)?;
    let sum = |of: fn(&FlowStats) -> u64| {
        let known: Option<Vec<u64>> = all.iter().map(|f| counter(of(f))).collect();
        known.map(|list| list.iter().sum::<u64>())
    };
    Ok(json!({"flows": all.len(), "packets": sum(|f| f.packets), "bytes": sum(|f| f.bytes)}))
}

fn port_stats(cx: &mut Context, args: &[String]) -> Result<Json, Fail> {
    let chosen = match args.get(1) {
        Some(text) => ports::number(cx, &args[0], text)?,
        None => OfPort::NONE,
    };
    let names = cx.port_names(&args[0])?;
    let mut conn = Conn::open(cx, &args[0])?;
    let request = cx.message(conn.version, Body::PortStatsRequest(chosen));
    let mut list = Vec::new();
    for answer in conn.transact_all(&request)? {
        let Body::PortStatsReply(part) = answer.body else { return bad(&args[0]) };
        list.extend(part.iter().map(|s| stats(s, names.port_name(s.port))));
    }
    Ok(Json::Array(list))
}

fn stats(s: &PortStats, name: Option<String>) -> Json {
    let custom: serde_json::Map<String, Json> =
        s.custom.iter().map(|(name, n)| (name.clone(), counter(*n).into())).collect();
    json!({
        "port": number(s.port),
        "name": name,
        "duration": seconds(s.duration),
        "rx": {
            "packets": counter(s.rx_packets), "bytes": counter(s.rx_bytes), "dropped": counter(s.rx_dropped),
            "errors": counter(s.rx_errors), "frame_errors": counter(s.rx_frame_errors),
            "over_errors": counter(s.rx_over_errors), "crc_errors": counter(s.rx_crc_errors),
        },
        "tx": {
            "packets": counter(s.tx_packets), "bytes": counter(s.tx_bytes), "dropped": counter(s.tx_dropped),
            "errors": counter(s.tx_errors),
        },
        "collisions": counter(s.collisions),
        "custom": custom,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_objects() {
        assert_eq!(
            sorted_string(&fields("tcp,in_port=1,nw_dst=10.0.0.0/8,ct_state=+new-trk")),
            r#"{"ct_state":"+new-trk","in_port":"1","nw_dst":"10.0.0.0/8","tcp":true}"#
        );
        assert_eq!(sorted_string(&fields("")), "{}");
    }

    #[test]
    fn what_is_not_known_is_null() {
        let text = sorted_string(&stats(&PortStats { port: OfPort::LOCAL, ..PortStats::default() }, None));
        assert!(text.contains(r#""port":"LOCAL""#) && text.contains(r#""duration":null"#), "{text}");
        assert!(text.contains(r#""collisions":null"#), "{text}");
    }
}
