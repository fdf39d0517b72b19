//! `dpif/show`, `dpif/dump-dps`, `dpif/dump-flows`: datapaths with their bridges. Also dispatches the other `dpif/*` commands.

use crate::answer::{Answer, unknown};
use crate::names::{DatapathNames, DatapathNumbers};
use ctl::names;
use dpif::text::DpPortNames;
use openflow_service::Bridge;
use openflow_service::{Backing, BridgePort};
use ovsdb::Json;
use std::collections::BTreeMap;
use switch::Switch;
use translation::flow_text::{Style, flow_line};
use unixctl::{Format, Reply};
use xlate::BridgeId;

pub(crate) fn execute(switch: &mut Switch, name: &str, args: &[String], format: Format) -> Answer {
    match name {
        names::DPIF_SHOW => show(switch, format).into(),
        names::DPIF_SHOW_ACCOUNTING => crate::packet_accounting::show(switch, format).into(),
        names::DPIF_SHOW_DROPS => crate::drops::show(switch, args).into(),
        names::DPIF_TOP => crate::top::show(switch, args).into(),
        names::DPIF_SHOW_SHADOW => crate::shadow::show(switch, format),
        names::DPIF_SHOW_CACHES => crate::caches::show(switch, format).into(),
        names::DPIF_DUMP_DPS => dump_dps(switch).into(),
        names::DPIF_DUMP_FLOWS => dump_flows(switch, args).into(),
        _ => unknown(name),
    }
}

fn dump_dps(switch: &Switch) -> String {
    let mut names: Vec<String> =
        switch.bridges.values().map(|b| format!("{}@{}\n", b.config.datapath_type, b.name)).collect();
    names.sort();
    names.concat()
}

/// A port in the form of `dpif/show`.
struct ShownPort {
    name: String,
    ofport: u16,
    number: Option<u32>,
    kind: String,
    config: BTreeMap<String, String>,
}

fn shown_port(port: &BridgePort) -> ShownPort {
    let (number, kind, config) = match &port.backing {
        Backing::Device { netdev, number } => (Some(number.0), netdev.kind().to_owned(), netdev.options()),
        Backing::Tunnel { config, number } => (Some(number.0), config.kind.clone(), config.options()),
        Backing::Patch { peer } => {
            (None, "patch".to_owned(), BTreeMap::from([("peer".to_owned(), peer.clone())]))
        }
    };
    ShownPort { name: port.name.clone(), ofport: port.ofport.0, number, kind, config }
}

/// The ports of a bridge by name.
fn ports(bridge: &Bridge) -> Vec<ShownPort> {
    let mut all: Vec<ShownPort> = bridge.ports.values().map(shown_port).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// The configuration of a port as text after the port's type, for example `: n_rxq=1, n_txq=1`. The text is empty if
/// the port has no configuration.
pub(crate) fn config_text(config: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = config.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if pairs.is_empty() { String::new() } else { format!(": {}", pairs.join(", ")) }
}

fn port_line(p: &ShownPort) -> String {
    let number = p.number.map_or("none".to_owned(), |n| n.to_string());
    format!("    {} {}/{number}: ({}{})\n", p.name, p.ofport, p.kind, config_text(&p.config))
}

fn port_object(p: &ShownPort) -> Json {
    let text = |s: &str| Json::from(s);
    let mut pairs = vec![
        ("ofport".to_owned(), text(&p.ofport.to_string())),
        ("port_no".to_owned(), text(&p.number.map_or("none".to_owned(), |n| n.to_string()))),
        ("type".to_owned(), text(&p.kind)),
    ];
    if !p.config.is_empty() {
        pairs.push(("config".to_owned(), p.config.iter().map(|(k, v)| (k.clone(), text(v))).collect()));
    }
    pairs.into_iter().collect()
}

fn show(switch: &Switch, format: Format) -> Reply {
    let bridges_of =
        |kind: &str| switch.bridges.values().filter(|b| b.config.datapath_type == *kind).collect::<Vec<_>>();
    match format {
        Format::Text => {
            let mut text = String::new();
            for backer in switch.datapaths.with_bridges() {
                let stats =
                    backer.datapath.stats(&backer.upcall_translator.command_settings.counts_when_cleared());
                text += &format!("{}: hit:{} missed:{}\n", backer.name(), stats.hit, stats.missed);
                for bridge in bridges_of(&backer.datapath_type) {
                    text += &format!("  {}:\n", bridge.name);
                    text.extend(ports(bridge).iter().map(port_line));
                }
            }
            Reply::Text(text)
        }
        Format::Json => {
            let datapath = |backer: &switch::Backer| -> Json {
                let stats =
                    backer.datapath.stats(&backer.upcall_translator.command_settings.counts_when_cleared());
                let count = |n: u64| Json::from(n.to_string());
                let stats: Json = [("hit", count(stats.hit)), ("missed", count(stats.missed))]
                    .into_iter()
                    .map(|(k, v)| (k.to_owned(), v))
                    .collect();
                let bridges: Json = bridges_of(&backer.datapath_type)
                    .into_iter()
                    .map(|b| {
                        let all: Json = ports(b).iter().map(|p| (p.name.clone(), port_object(p))).collect();
                        (b.name.clone(), all)
                    })
                    .collect();
                [("stats".to_owned(), stats), ("bridges".to_owned(), bridges)].into_iter().collect()
            };
            Reply::Json(switch.datapaths.with_bridges().map(|b| (b.name(), datapath(b))).collect())
        }
    }
}

fn dump_flows(switch: &mut Switch, args: &[String]) -> Result<String, String> {
    let (name, options) = args.split_last().ok_or("no such bridge")?;
    let bridge = switch.bridges.get(name).ok_or("no such bridge")?;
    let Some(backer) = switch.datapaths.of_bridge(bridge) else { return Ok(String::new()) };
    let verbose = options.iter().any(|o| o == "-m");
    let named = options.iter().rev().find_map(|o| match o.as_str() {
        "--names" => Some(true),
        "--no-names" => Some(false),
        _ => None,
    });
    let now = switch.clock.now();
    backer.datapath.maintain(now);
    let (all, numbers) = (DatapathNames(backer), DatapathNumbers(backer));
    let names: &dyn DpPortNames = if named.unwrap_or(verbose) { &all } else { &numbers };
    let style = Style { verbose, names: Some(names), after_ufid: " ", before_actions: "", now };
    let mut flows = backer.datapath.flow_dump(now);
    flows.retain(|f| bridge_of(backer, &f.key) == Some(bridge.id));
    Ok(flows.iter().map(|f| flow_line(f, style) + "\n").collect())
}

/// The bridge that translates the packets of a datapath flow.
pub(crate) fn bridge_of(backer: &switch::Backer, key: &flow::Flow) -> Option<BridgeId> {
    use xlate::Recirc;
    if key.recirc_id != 0 {
        return backer.shared.state(key.recirc_id).map(|state| state.bridge);
    }
    backer.shared.published().snapshot.receive(key).map(|(bridge, _)| bridge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_as_scripts_read_them() {
        let config = BTreeMap::from([("n_rxq", "1"), ("n_txq", "2")]);
        let config = config.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        let mut p =
            ShownPort { name: "p2".into(), ofport: 2, number: Some(7), kind: "dummy-pmd".into(), config };
        assert_eq!(port_line(&p), "    p2 2/7: (dummy-pmd: n_rxq=1, n_txq=2)\n");
        p.config.clear();
        p.number = None;
        assert_eq!(port_line(&p), "    p2 2/none: (dummy-pmd)\n");
        assert_eq!(
            ovsdb::json::sorted_string(&port_object(&p)),
            r#"{"ofport":"2","port_no":"none","type":"dummy-pmd"}"#
        );
    }
}
