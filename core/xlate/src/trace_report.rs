//! The complete text of `ofproto/trace`: the packet, the walk, and the result.

use crate::outcome::Output;
use crate::snapshot::Snapshot;
use crate::translate::translate;
use crate::walk::Input;
use dpif::SlowReason;
use dpif::text::{DpPortNames, actions_text};
use flow::text::{NameMap, flow_text};
use flow::tlv::Tlv;
use flow::{Flow, Match};
use std::fmt::Write;

/// Maximum bytes of printed datapath actions: eight times the kernel's limit of 64 kB.
const ACTIONS_MAX: usize = 512 << 10;

/// Translates a packet; returns the text of `ofproto/trace`, and the result. `input.trace_format` must be set.
pub fn trace_report(
    snapshot: &Snapshot,
    input: &Input<'_>,
    names: &dyn NameMap,
    datapath_names: &dyn DpPortNames,
) -> (String, Box<Output>) {
    let output = translate(snapshot, input);
    let mut text = format!("Flow: {}\n", flow_text(&output.initial, names));
    if let Some(trace) = &output.trace {
        text.push_str(&trace.text());
    }
    let last = match output.flow == output.initial {
        true => "unchanged".to_owned(),
        false => flow_text(&output.flow, names),
    };
    let mut mask = output.mask;
    let arrives = input.packet.is_some() && output.initial.recirc_id == 0;
    if arrives && output.initial.tlv.present == 0 {
        // The trace of a received packet without options does not show matches on missing options.
        mask.tlv = Tlv::NONE;
    }
    // If the translation failed, bits of `actset_output` may still be in the mask; the trace then shows the value of the
    // input.
    let initial = Flow { actset_output: input.flow.actset_output, ..output.initial };
    let megaflow = Match::new(&initial, &mask).text(names);
    let mut actions = actions_text(&output.actions, datapath_names);
    if actions.len() > ACTIONS_MAX {
        actions.truncate(actions.floor_char_boundary(ACTIONS_MAX));
        actions.push_str("... (truncated)");
    }
    // Writing to a String cannot fail.
    let _ = write!(text, "\nFinal flow: {last}\nMegaflow: {megaflow}\nDatapath actions: {actions}");
    match output.error {
        Some(e) => {
            let _ = write!(text, "\nTranslation failed ({e}), packet is dropped.\n");
        }
        None => explain_slow_path(output.slow, &mut text),
    }
    (text, output)
}

fn explain_slow_path(slow: SlowReason, text: &mut String) {
    if slow.is_empty() {
        return;
    }
    text.push_str("\nThis flow is handled by the userspace slow path because it:");
    for (reason, _, explanation) in SlowReason::ALL {
        if slow.contains(reason) {
            let _ = write!(text, "\n  - {explanation}.");
        }
    }
}
