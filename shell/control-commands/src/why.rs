//! `ofproto/why port=NAME {packet=HEX | flow=FLOW}`: what the switch does with a packet that a port receives, and the state of the rule, ports and
//! connections that the packet uses. Sluice's own command with a JSON reply; `sluice why` presents it as text. `ofproto/why removed`: the ports that
//! were removed last.

use crate::capture::filter;
use crate::drops;
use crate::ingress_bridge::ingress_bridge;
use crate::last_drop::{deciding_rule, port_of, recent, trace_input};
use crate::names::DatapathNames;
use crate::trace::publish_all;
use crate::trace_run::run;
use bridge::vlan::{VlanConfig, VlanMode, VlanTags};
use conntrack::ConnectionSnapshot;
use datapath::last_drop::DropPort;
use dpif::text::DpPortNames;
use dpif::{DpAction, DropReason};
use flow::Flow;
use flow::flow::{VLAN_CFI, VLANS_MAX, ct_state};
use flow::text::{NoNames, flow_text};
use openflow_service::{BridgePort, RemovedPort};
use ovsdb::Json;
use packet::{ethertype, ipproto};
use serde_json::json;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use switch::{Backer, Switch};
use units::PortNo;
use unixctl::Reply;

/// The connections are not searched if there are more than this: a search would block the main thread for too long.
const SEARCHED_MAX: u32 = 50_000;
/// Number of `ct` actions of a trace, from the first one, that give the packet the state of its connection.
const CT_ACTIONS_MAX: usize = 8;
/// The longest packet in bytes.
const PACKET_MAX: usize = 1 << 16;
/// Maximum number of recent drops in a reply about a flow: each requires a trace in the main thread.
const DROPS_MAX: usize = 4;

/// What happens to the packets of a flow, without side effects: their recent drops with the rule that decided, and, if `port` is given, what the
/// current tables do with such a packet from that port.
pub fn explain_flow(switch: &mut Switch, port: Option<&str>, flow: &str) -> Result<Json, String> {
    publish_all(switch);
    let matching = filter(flow)?;
    let packet = packet_of(matching.flow);
    let at = port.map(|port| port_named(switch, port)).transpose()?;
    let tables = at.map(|at| received_by(switch, at, &packet));
    let packets = recent(switch, Some(matching));
    let packets: Vec<Json> = packets.iter().take(DROPS_MAX).map(|one| drops::packet(switch, one)).collect();
    Ok(json!({ "tables": tables, "recent-drops": packets }))
}

pub(crate) fn execute(switch: &Switch, args: &[String]) -> Result<Reply, String> {
    if args == ["removed"] {
        return Ok(Reply::Json(removed(switch)));
    }
    let (mut port, mut packet, mut text) = (None, None, None);
    for arg in args {
        match arg.split_once('=') {
            Some(("port", name)) => port = Some(name),
            Some(("packet", hex)) => {
                packet = Some(bytes_of(hex).ok_or("packet: not pairs of hexadecimal digits")?)
            }
            Some(("flow", flow)) => text = Some(flow),
            _ => return Err(format!("{arg}: none of port=NAME, packet=HEX and flow=FLOW")),
        }
    }
    let at = port_named(switch, port.ok_or("missing argument port=NAME")?)?;
    let packet = match (packet, text) {
        (Some(packet), _) => packet,
        (None, Some(text)) => packet_of(filter(text)?.flow),
        (None, None) => return Err("missing argument packet=HEX or flow=FLOW".to_owned()),
    };
    Ok(Reply::Json(received_by(switch, at, &packet)))
}

/// The datapath of a port, and its number there.
fn port_named<'s>(switch: &'s Switch, port: &str) -> Result<(&'s Backer, PortNo), String> {
    let found = switch.datapaths.all().find_map(|b| Some((b, DatapathNames(b).number(port)?)));
    found.ok_or_else(|| format!("{port}: no datapath has such a port"))
}

/// What the current tables do with a packet that a port receives.
fn received_by(switch: &Switch, (backer, number): (&Backer, PortNo), packet: &[u8]) -> Json {
    let mut key = Flow { in_port: number.0, ..Flow::ZERO };
    flow::extract::extract(packet, VLANS_MAX, &mut key);
    explain_packet(switch, backer, number, (&key, packet.len()))
}

/// A packet with the fields of a match. A match on a VLAN does not contain the type of the tag, so 802.1Q is assumed.
fn packet_of(mut fields: Flow) -> Vec<u8> {
    let tags = fields.vlans.iter_mut().filter(|tag| tag.tci & VLAN_CFI != 0 && tag.tpid == 0);
    tags.for_each(|tag| tag.tpid = ethertype::VLAN);
    flow::compose::compose(&fields, b"")
}

fn removed(switch: &Switch) -> Json {
    let now = switch.clock.now();
    let one = |bridge: &str, port: &RemovedPort| {
        json!({
            "bridge": bridge,
            "name": port.name,
            "ofport": port.ofport.0,
            "seconds": now.since(port.at).0 / 1000,
            "stations": port.stations.iter().map(|mac| mac.to_string()).collect::<Vec<_>>(),
        })
    };
    let bridges = switch.bridges.values();
    json!({ "removed": bridges.flat_map(|b| b.all_ports.removed.iter().map(|port| one(&b.name, port))).collect::<Vec<_>>() })
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| char::from(c).to_digit(16).map(|n| n as u8);
    let pair = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
    (hex.len().is_multiple_of(2) && hex.len() <= 2 * PACKET_MAX)
        .then(|| hex.as_bytes().chunks(2).map(pair).collect())?
}

fn explain_packet(switch: &Switch, backer: &Backer, number: PortNo, (key, len): (&Flow, usize)) -> Json {
    let (now, published) = (switch.clock.now(), backer.shared.published());
    let (connections, state) = connections(switch, backer, key);
    let mut out = json!({
        "datapath": backer.name(),
        "port": port(switch, backer, number, DropPort::In(number.0)),
        "flow": flow_text(&Flow { in_port: 0, ..*key }, &NoNames),
        "connections": connections,
    });
    let (bridge, flow_in_bridge) = match ingress_bridge(backer, &published, key) {
        Ok(received) => received,
        Err(why) => {
            out["problem"] = Json::from(why);
            return out;
        }
    };
    let mut request = trace_input(&published, bridge, flow_in_bridge, true);
    request.ct_next = vec![state; CT_ACTIONS_MAX];
    let result = run(backer, request, now);
    let by = deciding_rule(switch, &published, &result.outputs);
    let mut effects = Effects::default();
    result.outputs.iter().for_each(|output| effects.add(&output.actions));
    let error =
        result.outputs.iter().find_map(|output| output.error.as_ref()).map(|failure| failure.to_string());
    out["bridge"] = Json::from(by.bridge);
    out["drops"] = Json::from(by.drops);
    out["reason"] = Json::from(effects.reasons.first().map(|reason| reason.name()));
    out["error"] = Json::from(error);
    out["table"] = Json::from(by.table);
    out["cookie"] = Json::from(by.cookie);
    out["rule"] = Json::from(by.what);
    out["trace"] = Json::from(result.text);
    out["ct-state"] = Json::from(
        effects.tracks.then(|| flow::text::flags::format(flow::text::flags::ct_state, state.into(), '|')),
    );
    let ports = effects.ports.iter().map(|&no| {
        let mut one = port(switch, backer, no, DropPort::Out(no.0));
        // The MTU does not include the Ethernet header of 14 bytes.
        let mtu = one["mtu"].as_u64();
        one["too-long"] = Json::from(mtu.is_some_and(|mtu| len as u64 > mtu + 14));
        one
    });
    out["outputs"] = ports.collect();
    add_vlan_members(switch, number, &flow_in_bridge, &mut out);
    out["tunnels"] = effects.tunnels.iter().map(|no| Json::from(DatapathNames(backer).name(*no))).collect();
    out
}

/// Adds the VLAN in which NORMAL forwards the packet, the ports of the bridge that carry the VLAN, and the ports that do not.
fn add_vlan_members(switch: &Switch, number: PortNo, flow_in_bridge: &Flow, out: &mut Json) {
    let Some(bridge) = out["bridge"].as_str().and_then(|name| switch.bridges.get(name)) else { return };
    let config = |port: &BridgePort| bridge.config.ports.get(&port.port_row).map(|row| &row.vlan);
    let from = bridge.ports.values().find(|port| port.number() == Some(number));
    let Some(vlan) = from.and_then(config) else { return };
    let tags = vlan.input(VlanTags::of(flow_in_bridge));
    let others = || bridge.ports.values().filter(|port| port.number() != Some(number));
    let (in_it, out_of_it): (Vec<&BridgePort>, Vec<&BridgePort>) =
        others().partition(|port| config(port).is_none_or(|vlan| vlan.includes(&tags)));
    out["vlan"] = Json::from(tags.vid());
    out["vlan-of-port"] = Json::from(vlan_text(vlan));
    out["vlan-ports"] = in_it.iter().map(|port| Json::from(port.name.as_str())).collect();
    let other = |port: &&BridgePort| json!({ "name": port.name, "vlan": config(port).map(vlan_text) });
    out["other-vlan-ports"] = out_of_it.iter().map(other).collect();
}

fn vlan_text(vlan: &VlanConfig) -> String {
    let tag = vlan.tag;
    match vlan.mode {
        VlanMode::Access => format!("access port of VLAN {tag}"),
        VlanMode::Trunk => "trunk".to_owned(),
        VlanMode::NativeTagged | VlanMode::NativeUntagged => format!("trunk with native VLAN {tag}"),
        VlanMode::Dot1qTunnel => format!("tunnel port of service VLAN {tag}"),
    }
}

/// The effects of datapath actions.
#[derive(Default)]
struct Effects {
    ports: BTreeSet<PortNo>,
    tunnels: BTreeSet<PortNo>,
    reasons: Vec<DropReason>,
    tracks: bool,
}

impl Effects {
    fn add(&mut self, actions: &[DpAction]) {
        for action in actions {
            match action {
                DpAction::Output(port) => {
                    self.ports.insert(*port);
                }
                DpAction::TunnelPush(push) => {
                    self.ports.insert(push.out_port);
                    self.tunnels.insert(push.tunnel_port);
                }
                DpAction::Clone(list) => self.add(list),
                DpAction::Drop(reason) => self.reasons.push(*reason),
                DpAction::Ct(_) => self.tracks = true,
                _ => {}
            }
        }
    }
}

/// The state of a port, and its drops in one direction.
fn port(switch: &Switch, backer: &Backer, no: PortNo, drop_port: DropPort) -> Json {
    let bridge_port = port_of(switch, backer, no);
    let facts = bridge_port.and_then(|port| port.facts.as_ref());
    let stats = backer.datapath.port_stats(no).unwrap_or_default();
    let drops = backer.datapath.port_drops();
    let counts = drops
        .get(&drop_port)
        .into_iter()
        .flat_map(|counts| DropReason::ALL.iter().map(|r| (r.name(), counts[*r as usize])));
    let counts: serde_json::Map<String, Json> =
        counts.filter(|(_, n)| *n != 0).map(|(name, n)| (name.to_owned(), Json::from(n))).collect();
    json!({
        "name": DatapathNames(backer).name(no),
        "number": no.0,
        "logical-port": bridge_port.and_then(|port| switch.logical_name_of(port)),
        "up": facts.map(|f| f.admin_up),
        "link": facts.map(|f| f.link_up),
        "link-changes": facts.map(|f| f.link_resets),
        "mtu": facts.map(|f| f.mtu),
        "received": stats.rx_packets,
        "sent": stats.tx_packets,
        "dropped": counts,
    })
}

/// The connections of a packet, in all zones, as text; and the `ct_state` that the trace assumes: established if a connection matches (the first
/// one determines the direction), otherwise new.
fn connections(switch: &Switch, backer: &Backer, key: &Flow) -> (Json, u8) {
    let (table, fresh) = (backer.datapath.conntrack(), ct_state::TRACKED | ct_state::NEW);
    if table.count() > SEARCHED_MAX {
        return (json!({ "not-searched": table.count() }), fresh);
    }
    let (src, dst) = addresses(key);
    let ports = (key.tp_src, key.tp_dst);
    let is = |tuple: &conntrack::Key| {
        let same_ports = matches!(key.nw_proto, ipproto::ICMP | ipproto::ICMPV6) || tuple.ports() == ports;
        tuple.proto() == key.nw_proto && (tuple.src(), tuple.dst()) == (src, dst) && same_ports
    };
    let state_of = |e: &ConnectionSnapshot| match (is(&e.original), is(&e.reply)) {
        (true, _) => Some(ct_state::TRACKED | ct_state::ESTABLISHED),
        (false, true) => Some(ct_state::TRACKED | ct_state::ESTABLISHED | ct_state::REPLY_DIR),
        (false, false) => None,
    };
    let all = table.dump(None, switch.clock.now());
    let found: Vec<(&ConnectionSnapshot, u8)> = all.iter().filter_map(|e| Some((e, state_of(e)?))).collect();
    let state = found.first().map_or(fresh, |(_, state)| *state);
    (found.iter().map(|(e, _)| Json::from(e.text(false, false))).collect(), state)
}

fn addresses(key: &Flow) -> (IpAddr, IpAddr) {
    match key.dl_type {
        ethertype::IPV6 => (Ipv6Addr::from(key.ipv6_src).into(), Ipv6Addr::from(key.ipv6_dst).into()),
        _ => (Ipv4Addr::from(key.nw_src).into(), Ipv4Addr::from(key.nw_dst).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_a_vlan_have_its_tag() {
        let packet = packet_of(filter("icmp,dl_vlan=10,nw_src=10.1.1.1").unwrap().flow);
        assert_eq!(packet[12..18], [0x81, 0, 0, 10, 8, 0]);
    }

    #[test]
    fn packets_in_hexadecimal() {
        assert_eq!(bytes_of("00ffA1"), Some(vec![0, 255, 0xa1]));
        for wrong in ["0", "0g", "\u{fc}", "+1", "f "] {
            assert_eq!(bytes_of(wrong), None, "{wrong}");
        }
    }
}
