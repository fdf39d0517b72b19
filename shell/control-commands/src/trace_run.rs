//! Traces a packet through the tables: once, and again for each recirculation.

use crate::names::DatapathNames;
use dpif::DpAction;
use dpif::text::DpPortNames;
use flow::Flow;
use flow::flow::ct_state;
use flow::text::{NameMap, NoNames, flags};
use openflow::action::{Action, Nat, NatRange};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;
use switch::Backer;
use translation::published::PublishedState;
use translation::trace_text::{BridgePortNames, TraceText};
use units::{Millis, OfPort, PortNo};
use xlate::{BridgeId, Fork, Input, Output, Start, trace_report};

/// Maximum number of recirculations in a trace.
const MAX_RECIRCULATIONS: usize = 4096;
/// If the text has more than this number of bytes, no further recirculation is traced. The text of each single translation
/// has the same limit (crate `xlate`).
const TEXT_MAX: usize = 1 << 20;

/// The packet to trace.
pub(crate) struct TraceInput {
    /// The snapshot to use.
    pub(crate) published: Arc<PublishedState>,
    /// The bridge where the trace begins.
    pub(crate) bridge: BridgeId,
    /// The packet's fields.
    pub(crate) flow: Flow,
    /// The packet's bytes, if side effects must be carried out.
    pub(crate) packet: Option<Vec<u8>>,
    /// Actions to execute instead of the tables.
    pub(crate) actions: Option<Vec<Action>>,
    /// Show ports by name.
    pub(crate) names: bool,
    /// Results of connection tracking, in order.
    pub(crate) ct_next: Vec<u8>,
}

/// The result of a trace.
pub(crate) struct TraceResult {
    /// The complete text.
    pub(crate) text: String,
    /// The outputs of all translations, without effects and recirculations.
    pub(crate) outputs: Vec<Output>,
}

/// Runs a trace.
pub(crate) fn run(backer: &Backer, trace_input: TraceInput, now: Millis) -> TraceResult {
    let mut ct_next = VecDeque::from(trace_input.ct_next.clone());
    let mut queue = VecDeque::new();
    let (mut text, output) = translate_once(backer, &trace_input, &trace_input.flow, now, &mut queue);
    let mut outputs = vec![output];
    let mut recirculations = 0;
    while let Some(mut again) = queue.pop_front() {
        let line = "=".repeat(79);
        if text.len() > TEXT_MAX {
            text += &format!(
                "\n\n{line}\nThe trace is truncated after {} KiB.\n\
                 Queued but not processed: {} recirculations.",
                TEXT_MAX >> 10,
                queue.len() + 1
            );
            break;
        }
        if recirculations > MAX_RECIRCULATIONS {
            text += &format!(
                "\n\n{line}\nTrace reached the recirculation limit.  Sopping the trace here.\n\
                 Queued but not processed: {} recirculations.",
                queue.len() + 1
            );
            break;
        }
        recirculations += 1;
        let mut why = resume(&mut again.flow, ct_next.pop_front());
        if let Some(nat) = &again.nat {
            why += &simulate_nat(&mut again.flow, nat);
        }
        text += &format!("\n\n{line}\nrecirc({:#x}){why}\n{line}\n\n", again.flow.recirc_id);
        let (more, output) = translate_once(backer, &trace_input, &again.flow, now, &mut queue);
        text += &more;
        outputs.push(output);
    }
    // The frozen states of all recirculations are released after the last of them was traced.
    outputs.iter().for_each(|o| backer.shared.release(&o.recircs));
    TraceResult { text, outputs }
}

/// Sets the result of connection tracking in the flow. Returns the text about it.
fn resume(flow: &mut Flow, next: Option<u8>) -> String {
    flow.ct_state = next.unwrap_or(ct_state::TRACKED | ct_state::NEW);
    match next {
        None => " - resume conntrack with default ct_state=trk|new (use --ct-next to customize)".to_owned(),
        Some(state) => {
            let state = flags::format(flags::ct_state, state.into(), '|');
            format!(" - resume conntrack with ct_state={state}")
        }
    }
}

/// Translates the flow once. Adds the recirculations of the packet to `queue`.
fn translate_once(
    backer: &Backer,
    trace_input: &TraceInput,
    flow: &Flow,
    now: Millis,
    queue: &mut VecDeque<Fork>,
) -> (String, Output) {
    let snapshot = &trace_input.published.snapshot;
    let words = TraceText { names: trace_input.names };
    let input = Input {
        bridge: trace_input.bridge,
        flow,
        packet: trace_input.packet.as_deref(),
        start: trace_input.actions.as_deref().map_or(Start::Tables, Start::Actions),
        packet_out: false,
        returns_side_effects: trace_input.packet.is_some(),
        dry_run: trace_input.packet.is_none(),
        recirc: &*backer.shared,
        trace_format: Some(&words),
    };
    let view = snapshot.bridge(trace_input.bridge).filter(|_| trace_input.names);
    let view = view.map(BridgePortNames);
    let names: &dyn NameMap = view.as_ref().map_or(&NoNames, |v| v);
    let datapath_names = DatapathNames(backer);
    let datapath_names: &dyn DpPortNames =
        if trace_input.names { &datapath_names } else { &dpif::text::NoNames };
    let (text, mut output) = trace_report(snapshot, &input, names, datapath_names);
    // The text already contains the trace.
    output.trace = None;
    let packet = trace_input.packet.as_deref().unwrap_or_default();
    backer.upcall_translator.carry_out(
        &trace_input.published,
        std::mem::take(&mut output.effects),
        packet,
        now,
    );
    if let Some(packet) = trace_input.packet.as_deref().filter(|_| output.error.is_none()) {
        execute_side_effects(backer, trace_input, packet, &output, now);
    }
    queue.extend(output.forks.drain(..));
    (text, *output)
}

/// Executes the actions that have side effects (such as packet-ins), without the output actions.
fn execute_side_effects(
    backer: &Backer,
    trace_input: &TraceInput,
    packet: &[u8],
    output: &Output,
    now: Millis,
) {
    let actions = without_outputs(&output.actions);
    if !has_userspace(&actions) {
        return;
    }
    let bridge = trace_input.published.snapshot.bridge(trace_input.bridge);
    let port = bridge.and_then(|b| b.datapath_port(OfPort(output.initial.in_port as u16)));
    let flow = Flow { in_port: port.unwrap_or(PortNo::NONE).0, ..output.initial };
    backer.datapath.execute(packet, &flow, &actions, now);
}

fn without_outputs(actions: &[DpAction]) -> Vec<DpAction> {
    let kept = actions.iter().filter(|a| !matches!(a, DpAction::Output(_) | DpAction::Recirc(_)));
    kept.map(|a| match a {
        DpAction::Clone(list) => DpAction::Clone(without_outputs(list)),
        other => other.clone(),
    })
    .collect()
}

fn has_userspace(actions: &[DpAction]) -> bool {
    actions.iter().any(|a| match a {
        DpAction::Userspace(_) => true,
        DpAction::Clone(list) => has_userspace(list),
        _ => false,
    })
}

/// Simulates NAT: replaces addresses and ports by the first ones of the NAT range. Returns the text about it.
fn simulate_nat(flow: &mut Flow, nat: &Nat) -> String {
    let before = addresses(flow, nat.range);
    let (low, _) = nat.ports;
    match nat.range {
        NatRange::None => {}
        NatRange::V4(min, _) if nat.src => flow.nw_src = min.into(),
        NatRange::V4(min, _) if nat.dst => flow.nw_dst = min.into(),
        NatRange::V6(min, _) if nat.src => flow.ipv6_src = min.octets(),
        NatRange::V6(min, _) if nat.dst => flow.ipv6_dst = min.octets(),
        NatRange::V4(..) | NatRange::V6(..) => {}
    }
    if nat.range != NatRange::None && low != 0 {
        match nat.src {
            true => flow.tp_src = low,
            false if nat.dst => flow.tp_dst = low,
            false => {}
        }
    }
    let after = addresses(flow, nat.range);
    format!("\nReplacing src/dst IP/ports to simulate NAT:\n Initial flow: {before}\n Modified flow: {after}")
}

fn addresses(flow: &Flow, range: NatRange) -> String {
    let (sport, dport) = (flow.tp_src, flow.tp_dst);
    match range {
        NatRange::None => String::new(),
        NatRange::V4(..) => {
            let (from, to) = (Ipv4Addr::from(flow.nw_src), Ipv4Addr::from(flow.nw_dst));
            format!("nw_src={from},tp_src={sport},nw_dst={to},tp_dst={dport}")
        }
        NatRange::V6(..) => {
            let text = |a: [u8; 16]| flow::text::address::ipv6_addr(u128::from_be_bytes(a));
            let (from, to) = (text(flow.ipv6_src), text(flow.ipv6_dst));
            format!("ipv6_src=[{from}],tp_src={sport},ipv6_dst=[{to}],tp_dst={dport}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nat_uses_the_first_address_and_port() {
        let mut flow = Flow { nw_src: 0x0101_0101, nw_dst: 0x0202_0202, tp_src: 7, tp_dst: 8, ..Flow::ZERO };
        let range = NatRange::V4([10, 0, 0, 1].into(), [10, 0, 0, 9].into());
        let text = simulate_nat(&mut flow, &Nat { src: true, range, ports: (1000, 1001), ..Nat::default() });
        assert_eq!((flow.nw_src, flow.tp_src), (0x0a00_0001, 1000));
        assert!(
            text.ends_with(" Modified flow: nw_src=10.0.0.1,tp_src=1000,nw_dst=2.2.2.2,tp_dst=8"),
            "{text}"
        );
        let actions = [DpAction::Clone(vec![DpAction::Recirc(3)]), DpAction::Output(PortNo(1))];
        assert_eq!(without_outputs(&actions), [DpAction::Clone(Vec::new())]);
    }

    #[test]
    fn results_of_connection_tracking_are_shown() {
        let mut flow = Flow::ZERO;
        let text = resume(&mut flow, None);
        assert!(text.contains("default ct_state=trk|new") && flow.ct_state == 0x21);
        assert_eq!(resume(&mut flow, Some(0x22)), " - resume conntrack with ct_state=est|trk");
    }
}
