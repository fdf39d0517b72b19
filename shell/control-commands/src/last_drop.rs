//! `ofproto/trace --last-drop [BRIDGE|DATAPATH [PORT]]`: explains why a packet was dropped recently.
//!
//! Sluice's own command. For each flow, port and drop reason, each worker keeps the newest packet that was dropped
//! (`datapath::last_drop`); options select among these packets. A received packet is traced through the current tables,
//! without side effects; the tables may have changed since the drop. A packet that the device of an output port did not
//! accept has already passed the tables, so the state of that port is shown instead.

use crate::bridge::rule_line;
use crate::ingress_bridge::ingress_bridge;
use crate::names::DatapathNames;
use crate::trace_run::{TraceInput, run};
use datapath::last_drop::{DropPort, LastDrop};
use dpif::text::DpPortNames;
use dpif::{DpAction, DropReason, UserspaceCookie};
use flow::text::{NoNames, flow_text};
use flow::{Flow, Match};
use ofproto::Rule;
use openflow::stats::FlowStatsRequest;
use openflow::text::parse_flow_filter;
use openflow_service::BridgePort;
use std::sync::Arc;
use switch::{Backer, Switch};
use translation::PublishedState;
use units::PortNo;
use xlate::{BridgeId, Output, StatsTarget};

/// The selected ports.
struct Selection<'a> {
    /// Description of the selection, for messages.
    description: String,
    ports: Vec<(&'a Backer, PortNo)>,
    /// No port was named: packets of all ports are selected, also of ports that no longer exist.
    all_ports: bool,
}

/// Options that select packets and the format.
#[derive(Default)]
struct Options {
    names: bool,
    /// Only packets that match.
    filter: Option<Match>,
    /// Only packets whose drop reason has a name that contains this text.
    reason: Option<String>,
    /// Print one line for each packet, instead of explaining the newest packet only.
    list: bool,
}

impl Options {
    /// Separates options from arguments.
    fn parse(args: &[String]) -> Result<(Options, Vec<&String>), String> {
        let (mut options, mut plain, mut args) = (Options::default(), Vec::new(), args.iter());
        while let Some(arg) = args.next() {
            let (name, value) = match arg.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
                _ => (arg.as_str(), None),
            };
            let mut value = || value.clone().or_else(|| args.next().cloned());
            match name {
                "--names" | "-names" => options.names = true,
                "--list" => options.list = true,
                "--filter" => options.filter = Some(filter(&value().ok_or("--filter: needs a flow")?)?),
                "--reason" => {
                    options.reason = Some(value().ok_or("--reason: needs a part of a counter's name")?)
                }
                _ if arg.starts_with('-') => return Err(format!("{arg}: not an option of --last-drop")),
                _ => plain.push(arg),
            }
        }
        Ok((options, plain))
    }

    fn selects(&self, drop: &LastDrop, fields: &Flow) -> bool {
        let reason = self.reason.as_ref().is_none_or(|part| drop.reason.name().contains(part.as_str()));
        // If no bytes of the packet are known, its fields are unknown.
        let fits = |m: &Match| drop.len != 0 && m.flow.masked(&m.mask) == fields.masked(&m.mask);
        reason && self.filter.as_ref().is_none_or(fits)
    }

    /// Whether options restrict the selection.
    fn is_restricted(&self) -> bool {
        self.filter.is_some() || self.reason.is_some()
    }
}

/// Parses a match in the syntax of flows.
fn filter(text: &str) -> Result<Match, String> {
    let (request, _) = parse_flow_filter(text, &NoNames).map_err(|e| format!("--filter: {e}"))?;
    let plain = FlowStatsRequest { matching: request.matching, ..FlowStatsRequest::default() };
    if request != plain {
        return Err("--filter: packets have no table, cookie, out_port or out_group".to_owned());
    }
    Ok(request.matching)
}

/// A packet that was dropped in a datapath.
pub(crate) struct DroppedPacket<'a> {
    pub(crate) backer: &'a Backer,
    pub(crate) drop: LastDrop,
    /// The fields of the packet; `in_port` is an OpenFlow port number if the port belongs to a bridge.
    pub(crate) fields: Flow,
}

/// Executes the command. `args`: the arguments without `--last-drop`.
pub(crate) fn trace(switch: &Switch, args: &[String]) -> Result<String, String> {
    let (options, args) = Options::parse(args)?;
    let selection = selection(switch, &args)?;
    let found = find(switch, &selection, &options);
    if found.is_empty() {
        let such = if options.is_restricted() { "no such packet" } else { "no packet" };
        return Err(format!("{such} of {} was dropped", selection.description));
    }
    if options.list {
        return Ok(found.iter().map(|one| line(switch, one)).collect());
    }
    // A port that is down drops all flooded packets, so other drops are preferred.
    let preferred = |one: &&DroppedPacket<'_>| !is_to_port_that_is_down(switch, one);
    describe(switch, found.iter().find(preferred).unwrap_or(&found[0]), options.names)
}

/// All packets that were dropped recently and match the filter, the newest first.
pub(crate) fn recent(switch: &Switch, filter: Option<Match>) -> Vec<DroppedPacket<'_>> {
    let selection = Selection { description: String::new(), ports: Vec::new(), all_ports: true };
    find(switch, &selection, &Options { filter, ..Options::default() })
}

/// The selected packets, the newest first.
fn find<'a>(switch: &'a Switch, selection: &Selection<'a>, options: &Options) -> Vec<DroppedPacket<'a>> {
    let mut found = Vec::new();
    for backer in switch.datapaths.with_bridges() {
        let is_selected = |port: u32| {
            let here = |(b, no): &(&Backer, PortNo)| std::ptr::eq(*b, backer) && no.0 == port;
            selection.all_ports || selection.ports.iter().any(here)
        };
        let published = backer.shared.published();
        for drop in backer.datapath.last_drops() {
            if !is_selected(drop.port.port()) {
                continue;
            }
            let flow = drop.flow();
            let fields = ingress_bridge(backer, &published, &flow).map_or(flow, |(_, flow)| flow);
            if options.selects(&drop, &fields) {
                found.push(DroppedPacket { backer, drop, fields });
            }
        }
    }
    found.sort_by_key(|one| std::cmp::Reverse(one.drop.at));
    found
}

/// The full text about one packet.
fn describe(switch: &Switch, found: &DroppedPacket<'_>, names: bool) -> Result<String, String> {
    let DroppedPacket { backer, drop, .. } = found;
    let head = header_text(switch, found);
    if drop.len == 0 {
        return Ok(format!(
            "{head}The device had the packet and could not deliver it; its bytes are not known.\n"
        ));
    }
    if let DropPort::Out(port) = drop.port {
        return Ok(format!("{head}{}\n", unsent_text(switch, found, PortNo(port))));
    }
    let published = backer.shared.published();
    let (bridge, flow) =
        ingress_bridge(backer, &published, &drop.flow()).map_err(|e| format!("{head}{e}"))?;
    let result = run(backer, trace_input(&published, bridge, flow, names), switch.clock.now());
    Ok(format!("{head}{}\n{}", result.text, verdict(switch, &published, &result.outputs)))
}

/// One line about a packet.
fn line(switch: &Switch, found: &DroppedPacket<'_>) -> String {
    let packet = match found.drop.len {
        0 => "unknown packet".to_owned(),
        n => format!("{n} bytes, {}", flow_text(&found.fields, &NoNames)),
    };
    format!("{}: {packet}\n", place_and_time(switch, found))
}

fn place_and_time(switch: &Switch, found: &DroppedPacket<'_>) -> String {
    let (backer, drop) = (found.backer, &found.drop);
    let port = drop.port.port();
    let name = DatapathNames(backer).name(PortNo(port)).unwrap_or_default();
    let ago = switch.clock.now().since(drop.at).0;
    let way = if matches!(drop.port, DropPort::Out(_)) { "Output by port" } else { "Port" };
    let name = if name.is_empty() { String::new() } else { format!(" {name}") };
    let dp = backer.name();
    format!("{way}{name} ({port} of {dp}), {}.{:03} s ago: {}", ago / 1000, ago % 1000, drop.reason.name())
}

fn header_text(switch: &Switch, found: &DroppedPacket<'_>) -> String {
    let drop = &found.drop;
    let hex: String = drop.bytes.iter().map(|b| format!("{b:02x}")).collect();
    let packet = match drop.len {
        0 => String::new(),
        len if len > drop.bytes.len() => {
            format!("Packet, {len} bytes, the first {} as they were then: {hex}\n\n", drop.bytes.len())
        }
        len => format!("Packet, {len} bytes, as it was then: {hex}\n\n"),
    };
    format!("{}\n{}\n{packet}", place_and_time(switch, found), drop.reason.help())
}

/// Text about a packet that a port did not send: the packet as it was to be sent, and the current state of the port.
fn unsent_text(switch: &Switch, found: &DroppedPacket<'_>, no: PortNo) -> String {
    let flow = flow_text(&Flow { in_port: 0, ..found.fields }, &NoNames);
    let port = port_of(switch, found.backer, no);
    let facts = port.and_then(|p| p.facts.as_ref());
    let why = match (found.drop.reason, facts) {
        (DropReason::InvalidPort, None) => String::new(),
        (_, None) => " The port is not there any more.".to_owned(),
        (DropReason::TxTooLong, Some(f)) => {
            format!(" The port's MTU is {} bytes now, without the Ethernet header.", f.mtu)
        }
        (DropReason::TxFailed, Some(f)) if !f.admin_up => " The port is down.".to_owned(),
        (DropReason::TxFailed, Some(f)) if !f.link_up => " The port has no link.".to_owned(),
        (DropReason::TxFailed, Some(_)) => " The port is up.".to_owned(),
        _ => String::new(),
    };
    format!("Flow as it was to be sent: {flow}\nThe tables sent it to this port, which did not send it.{why}")
}

fn is_to_port_that_is_down(switch: &Switch, found: &DroppedPacket<'_>) -> bool {
    let DropPort::Out(port) = found.drop.port else { return false };
    let port = port_of(switch, found.backer, PortNo(port));
    found.drop.reason == DropReason::TxFailed && port.is_some_and(|p| !p.is_up())
}

/// The bridge's port with this datapath port number.
pub(crate) fn port_of<'a>(switch: &'a Switch, backer: &Backer, no: PortNo) -> Option<&'a BridgePort> {
    let bridges = switch.bridges.values().filter(|b| b.config.datapath_type == backer.datapath_type);
    bridges.flat_map(|b| b.ports.values()).find(|p| p.number() == Some(no))
}

/// The ports that the arguments select.
fn selection<'a>(switch: &'a Switch, args: &[&String]) -> Result<Selection<'a>, String> {
    let (place, port) = match args {
        [] => (None, None),
        [place] => (Some(place.as_str()), None),
        [place, port] => (Some(place.as_str()), Some(port.as_str())),
        _ => return Err("too many arguments".to_owned()),
    };
    let Some(place) = place else {
        let description = "any port".to_owned();
        return Ok(Selection { description, ports: Vec::new(), all_ports: true });
    };
    if let Some(bridge) = switch.bridges.get(place)
        && let Some(backer) = switch.datapaths.of_bridge(bridge)
    {
        let wanted = |p: &openflow_service::BridgePort| match port {
            Some(port) => p.name == port || port.parse() == Ok(p.ofport.0),
            None => true,
        };
        let ports = bridge.ports.values().filter(|p| wanted(p)).filter_map(|p| Some((backer, p.number()?)));
        return selection_of(place, port, ports.collect());
    }
    let short = place.rsplit('@').next().unwrap_or(place);
    let backer = switch.datapaths.with_bridges().find(|b| b.dp_name == short);
    let backer = backer.ok_or_else(|| format!("{place}: unknown bridge or datapath"))?;
    let wanted = |no: PortNo| match port {
        Some(port) => port.parse() == Ok(no.0) || DatapathNames(backer).number(port) == Some(no),
        None => true,
    };
    let ports = backer.ports.keys().copied().filter(|no| wanted(*no));
    selection_of(place, port, ports.map(|no| (backer, no)).collect())
}

fn selection_of<'a>(
    place: &str,
    port: Option<&str>,
    ports: Vec<(&'a Backer, PortNo)>,
) -> Result<Selection<'a>, String> {
    match port {
        Some(port) if ports.is_empty() => Err(format!("{place} has no port {port} that receives packets")),
        Some(port) => {
            Ok(Selection { description: format!("port {port} of {place}"), ports, all_ports: false })
        }
        None => Ok(Selection { description: place.to_owned(), ports, all_ports: false }),
    }
}

/// The last line of the explanation: whether the current tables drop the packet, and the rule that decides.
fn verdict(switch: &Switch, published: &PublishedState, outputs: &[Output]) -> String {
    let DecidingRule { drops, bridge, what, .. } = deciding_rule(switch, published, outputs);
    let again = if drops { "Dropped" } else { "Not dropped" };
    format!("{again} by the tables as they are now. Deciding rule, bridge {bridge}: {what}\n")
}

/// The last rule that a packet matches in the current tables.
pub(crate) struct DecidingRule {
    /// The packet would be dropped again.
    pub(crate) drops: bool,
    pub(crate) bridge: String,
    /// The last table that was looked up.
    pub(crate) table: Option<u8>,
    /// The cookie of the rule that matched in that table.
    pub(crate) cookie: Option<u64>,
    /// The text of the rule, or of what happened instead.
    pub(crate) what: String,
}

/// Whether the packet would be dropped again, and the last rule that it matched. `outputs`: the results of its trace.
pub(crate) fn deciding_rule(switch: &Switch, published: &PublishedState, outputs: &[Output]) -> DecidingRule {
    let drops = outputs.iter().all(|o| drops(&o.actions));
    let targets = outputs.last().map(|o| o.stats_targets.as_slice()).unwrap_or_default();
    let now = switch.clock.now();
    let name = |id: Option<BridgeId>| {
        id.and_then(|id| published.snapshot.bridge(id)).map_or("none".to_owned(), |b| b.name.clone())
    };
    let of_rule = |bridge: Option<BridgeId>, rule: &Rule| DecidingRule {
        drops,
        bridge: name(bridge),
        table: Some(rule.table),
        cookie: Some(rule.cookie),
        what: rule_line(rule, false, now),
    };
    let in_tables = targets.iter().rev().find_map(|c| match c {
        StatsTarget::Match { bridge, rule } => Some(of_rule(Some(*bridge), rule)),
        StatsTarget::Miss { bridge, table } => Some(DecidingRule {
            drops,
            bridge: name(Some(*bridge)),
            table: Some(*table),
            cookie: None,
            what: format!("no flow of table {table} matches"),
        }),
        _ => None,
    });
    let before_them = || {
        targets.iter().find_map(|c| match c {
            StatsTarget::InternalRule(rule) => Some(of_rule(None, rule)),
            _ => None,
        })
    };
    let nothing = || DecidingRule {
        drops,
        bridge: name(None),
        table: None,
        cookie: None,
        what: "no table was looked up".to_owned(),
    };
    in_tables.or_else(before_them).unwrap_or_else(nothing)
}

/// The last rule that a dropped packet would match in the current tables. `None`: the packet was not dropped where it
/// was received, or no bridge receives it now.
pub(crate) fn deciding_rule_of(switch: &Switch, found: &DroppedPacket<'_>) -> Option<DecidingRule> {
    let DropPort::In(_) = found.drop.port else { return None };
    let backer = found.backer;
    let published = backer.shared.published();
    let (bridge, flow) = ingress_bridge(backer, &published, &found.drop.flow()).ok()?;
    let input = trace_input(&published, bridge, flow, false);
    let result = run(backer, input, switch.clock.now());
    Some(deciding_rule(switch, &published, &result.outputs))
}

/// The input of a trace of a flow through the current tables.
pub(crate) fn trace_input(
    published: &Arc<PublishedState>,
    bridge: BridgeId,
    flow: Flow,
    names: bool,
) -> TraceInput {
    let published = Arc::clone(published);
    TraceInput { published, bridge, flow, packet: None, actions: None, names, ct_next: Vec::new() }
}

/// Whether the actions neither send the packet nor recirculate it nor pass it to a controller. Copies that are only sampled do not count.
fn drops(actions: &[DpAction]) -> bool {
    actions.iter().all(|a| match a {
        DpAction::Output(_) | DpAction::LbOutput(_) | DpAction::TunnelPop(_) | DpAction::Recirc(_) => false,
        DpAction::Userspace(request) => {
            !matches!(request.cookie, UserspaceCookie::Slow { .. } | UserspaceCookie::Controller { .. })
        }
        DpAction::Clone(list) => drops(list),
        DpAction::Sample(sample) => drops(&sample.actions),
        // Which branch a packet takes depends on its length.
        DpAction::CheckPktLen(check) => drops(&check.greater) && drops(&check.less_equal),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpif::{CheckPktLen, LbOutput, Sample, Userspace};
    use units::PortNo;

    #[test]
    fn what_sends_a_packet_does_not_drop_it() {
        let output = || vec![DpAction::Output(PortNo(1))];
        let sample = Userspace {
            pid: 0,
            cookie: UserspaceCookie::Ipfix { output_port: PortNo(1) },
            include_actions: false,
            tunnel_out_port: None,
            userdata: Vec::new(),
            sample_data: None,
        };
        let sample = DpAction::Userspace(Box::new(sample));
        let sampled = |actions| DpAction::Sample(Box::new(Sample { probability: 5, actions }));
        let by_length = |greater, less_equal| {
            DpAction::CheckPktLen(Box::new(CheckPktLen { pkt_len: 100, greater, less_equal }))
        };
        assert!(drops(&[DpAction::PopVlan, sampled(vec![sample.clone()]), by_length(vec![], vec![sample])]));
        for sends in [
            DpAction::LbOutput(LbOutput { bond_id: 1 }),
            DpAction::TunnelPop(PortNo(3)),
            sampled(output()),
            by_length(vec![], output()),
            DpAction::Clone(output()),
        ] {
            assert!(!drops(std::slice::from_ref(&sends)), "{sends:?}");
        }
    }
}
