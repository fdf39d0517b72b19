//! `ofproto/trace` and `ofproto/trace-packet-out`: parses the arguments and selects the packet to trace.

use crate::answer::{Answer, unknown};
use crate::ingress_bridge::ingress_bridge;
use crate::last_drop;
use crate::names::DatapathNames;
use crate::trace_args::{Args, Data};
use crate::trace_run::{TraceInput, run};
use ctl::names;
use dpif::text::parse_key;
use flow::text::{NoNames, parse_exact_flow};
use flow::{Flow, Mac, Match, Vlan};
use openflow::Version;
use openflow::action::Action;
use openflow::wire::check::{Limits, consistency};
use std::sync::Arc;
use switch::{Backer, Switch, publish};
use translation::PublishedState;
use translation::trace_text::BridgePortNames;
use units::OfPort;
use xlate::BridgeId;

pub(crate) fn execute(switch: &mut Switch, name: &str, args: &[String]) -> Answer {
    publish_all(switch);
    match name {
        names::OFPROTO_TRACE => trace(switch, args).into(),
        names::OFPROTO_TRACE_PACKET_OUT => packet_out(switch, args).into(),
        _ => unknown(name),
    }
}

/// `ofproto/trace` for clients that may not change anything: options that have side effects are refused.
pub fn read_only(switch: &mut Switch, args: &[String]) -> Result<String, String> {
    if args.iter().any(|arg| arg.trim_start_matches('-').starts_with("generate") && arg.starts_with('-')) {
        return Err("this trace has no effects: the option is not accepted".to_owned());
    }
    publish_all(switch);
    trace(switch, args)
}

/// Publishes pending changes, so that a trace uses the current configuration.
pub(crate) fn publish_all(switch: &mut Switch) {
    for backer in switch.datapaths.with_bridges_mut().filter(|b| !b.changes.is_empty()) {
        publish(backer, &mut switch.bridges, &switch.underlay);
    }
}

fn trace(switch: &Switch, args: &[String]) -> Result<String, String> {
    if let Some(at) = args.iter().position(|a| a == "--last-drop") {
        return last_drop::trace(switch, &[&args[..at], &args[at + 1..]].concat());
    }
    let args = Args::parse(args, false)?;
    let (backer, input) = trace_input(switch, args, None)?;
    Ok(run(backer, input, switch.clock.now()).text)
}

fn packet_out(switch: &Switch, args: &[String]) -> Result<String, String> {
    let (actions, args) = args.split_last().ok_or("Syntax error")?;
    let actions = openflow::text::parse_actions(actions, &NoNames).map_err(|e| e.to_string())?;
    if let Some(name) = actions.iter().find_map(instruction) {
        return Err(format!("{name} instruction not allowed here"));
    }
    let args = Args::parse(args, true)?;
    let consistent = args.consistent;
    let (backer, input) = trace_input(switch, args, Some(actions))?;
    check(switch, &input, consistent).map_err(|e| format!("Bad actions: {e}"))?;
    Ok(run(backer, input, switch.clock.now()).text)
}

/// The name of the action if it is an instruction, which a packet-out cannot have.
fn instruction(action: &Action) -> Option<&'static str> {
    match action {
        Action::ClearActions => Some("clear_actions"),
        Action::WriteActions(_) => Some("write_actions"),
        Action::WriteMetadata { .. } => Some("write_metadata"),
        Action::GotoTable(_) => Some("goto_table"),
        _ => None,
    }
}

/// Checks that the actions are consistent with the packet and the switch, and that their groups and meters exist.
fn check(switch: &Switch, input: &TraceInput, consistent: bool) -> Result<(), openflow::OfError> {
    let actions = input.actions.as_deref().unwrap_or_default();
    let matching = Match::new(&input.flow, &flow::text::exact_mask(&input.flow));
    let limits = Limits { max_port: OfPort::MAX, table: 0, n_tables: u8::MAX };
    // In OpenFlow 1.0, actions that do not fit the packet are allowed and have no effect.
    let version = if consistent { Version::V13 } else { Version::V10 };
    consistency(actions, &matching, limits, version)?;
    let bridge = switch.bridges.values().find(|b| b.id == input.bridge);
    bridge.map_or(Ok(()), |b| b.ofproto.check_actions(actions))
}

/// The datapath to use if the arguments name no bridge.
fn backer_for<'a>(switch: &'a Switch, plain: &[String]) -> Option<&'a Backer> {
    match plain {
        [name, _] => switch.datapaths.of(name.strip_prefix("ovs-").unwrap_or(name)),
        _ => switch.datapaths.only(),
    }
}

/// The packet to trace and its datapath.
fn trace_input(
    switch: &Switch,
    mut args: Args,
    actions: Option<Vec<Action>>,
) -> Result<(&Backer, TraceInput), String> {
    let packet = args.take_packet()?;
    let (text, name) = match args.plain.as_slice() {
        [text] => (text, None),
        [name, text] => (text, Some(name)),
        _ => return Err("Syntax error".to_owned()),
    };
    let default = backer_for(switch, &args.plain);
    let key = match default {
        Some(backer) => parse_key(text, &DatapathNames(backer)),
        None => parse_key(text, &dpif::text::NoNames),
    };
    let (backer, published, bridge, flow) = match (key, name) {
        (Ok((mut key, _)), _) => {
            limit_tags(&mut key, switch.limits.vlans);
            let backer = default.ok_or("Cannot find the datapath")?;
            let published = backer.shared.published();
            let (bridge, flow) = ingress_bridge(backer, &published, &key)?;
            (backer, published, bridge, flow)
        }
        (Err(e), None) => return Err(format!("{e} (or the bridge name was omitted)")),
        (Err(_), Some(name)) => of_bridge(switch, name, text)?,
    };
    let (flow, packet) = with_packet(flow, packet, &args, switch.limits.vlans);
    let Args { names, ct_next, .. } = args;
    Ok((backer, TraceInput { published, bridge, flow, packet, actions, names, ct_next }))
}

/// Removes the VLAN tags that the datapath does not parse because of the VLAN limit, and all fields behind them.
fn limit_tags(key: &mut Flow, limit: u8) {
    let parsed_tags = usize::from(limit);
    let Some(next) = key.vlans.get(parsed_tags).filter(|v| v.tci & flow::VLAN_CFI != 0).copied() else {
        return;
    };
    let kept = Flow { dl_type: next.tpid, ..*key };
    let l2 = Flow {
        dl_src: Mac::BROADCAST,
        dl_dst: Mac::BROADCAST,
        dl_type: u16::MAX,
        vlans: std::array::from_fn(|i| {
            if i < parsed_tags { Vlan { tpid: u16::MAX, tci: u16::MAX } } else { Vlan::default() }
        }),
        ..Flow::ZERO
    };
    let mut mask = flow::text::exact_mask(&Flow { dl_type: 0, ..kept });
    mask.or_assign(&l2);
    mask.vlans = l2.vlans;
    *key = kept.masked(&mask);
}

/// A datapath, its published state, a bridge of it, and a flow in that bridge.
type FlowInBridge<'a> = (&'a Backer, Arc<PublishedState>, BridgeId, Flow);

/// Parses a flow in the syntax of ovs-ofctl(8), with the ports of the named bridge.
fn of_bridge<'a>(switch: &'a Switch, name: &str, text: &str) -> Result<FlowInBridge<'a>, String> {
    let no_bridge = || format!("{name}: unknown bridge");
    let bridge = switch.bridges.get(name).ok_or_else(no_bridge)?;
    let backer = switch.datapaths.of_bridge(bridge).ok_or_else(no_bridge)?;
    let published = backer.shared.published();
    let view = published.snapshot.bridge(bridge.id).ok_or_else(no_bridge)?;
    let parsed = parse_exact_flow(text, &BridgePortNames(view), view.tables.tlv().layout());
    let (flow, _) = parsed.map_err(|e| format!("Bad openflow flow syntax: {e}"))?;
    let id = view.id;
    Ok((backer, published, id, flow))
}

/// If a packet is given, its header fields replace those of the flow. Metadata of the flow stay, but registers become
/// zero, as for a received packet. With `--generate`, a packet is composed from the flow.
fn with_packet(flow: Flow, packet: Option<Vec<u8>>, args: &Args, vlans: u8) -> (Flow, Option<Vec<u8>>) {
    match packet {
        Some(packet) => {
            let mut fresh = Flow {
                recirc_id: flow.recirc_id,
                dp_hash: flow.dp_hash,
                skb_priority: flow.skb_priority,
                pkt_mark: flow.pkt_mark,
                in_port: flow.in_port,
                packet_type: flow.packet_type,
                tunnel: flow.tunnel,
                tlv: flow.tlv,
                layout: flow.layout,
                ct_state: flow.ct_state,
                ct_zone: flow.ct_zone,
                ct_mark: flow.ct_mark,
                ct_label: flow.ct_label,
                ..Flow::ZERO
            };
            flow::extract::extract(&packet, usize::from(vlans), &mut fresh);
            (fresh, Some(packet))
        }
        None if args.generate => {
            let packet = match &args.data {
                Data::Bytes(bytes) => flow::compose::compose(&flow, bytes),
                Data::Len(len) => flow::compose::compose_len(&flow, *len),
            };
            (flow, Some(packet))
        }
        None => (flow, None),
    }
}
