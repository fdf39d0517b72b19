//! `sluice drops [PATTERN]`: which packets are dropped, at which port, why, and by which rule.
//!
//! With `--list` the tool explains the drop reasons; this needs no switch.

mod live;

use crate::appctl::report_failure;
use crate::call::Call;
use crate::common;
use crate::getopt::{Opt, Takes, opt};
use crate::page::{Names, Page};
use dpif::DropReason;
use dpif::drop_reason::markdown;
use ovsdb::Json;
use std::process::ExitCode;

const OPTIONS: [Opt; 5] = [
    opt("target", Some('t'), Takes::Value)
        .described("TARGET", "name of the daemon, or absolute path of its socket"),
    opt("flow", None, Takes::Value)
        .described("FLOW", "shows only recent packets that match FLOW, as in tcp,tp_dst=80"),
    opt("recent", Some('n'), Takes::Value)
        .described("N", "recent packets that are shown (default: 10, at most 64)"),
    opt("list", Some('l'), Takes::Nothing).described("", "explains the reasons; needs no switch"),
    opt("markdown", None, Takes::Nothing).described("", "prints docs/drop-reasons.md, all of it"),
];

fn options() -> Vec<Opt> {
    common::FORMAT.into_iter().chain(OPTIONS).chain(common::INFORMATIVE).collect()
}

/// The names of the tool.
pub const NAMES: Names = Names { tool: "drops", other_names: &[] };

/// The help page of the tool.
pub fn page() -> Page {
    Page {
        names: NAMES,
        title: "shows which packets are dropped, where and why",
        synopsis: "[--json] [--flow FLOW] [-n N] [PATTERN] | --list [--json] [PATTERN] | --markdown",
        commands: Vec::new(),
        options: options(),
        notes: vec![(
            "What it prints",
            "For each port, the drops of packets that it received or that were to leave by it, by reason, since the switch has \
             started; then recent packets of different flows, the newest first, each with the rule that it would match \
             now. PATTERN is a part of a reason's name, as in \"mtu\"; with --list also of its meaning. With --list: each reason, what it \
             means, the stage of the path that drops such packets, and the command to run next for reasons that should not occur. sluice capture --drops shows all dropped packets as they come, ofproto/trace --last-drop traces the last one."
                .into(),
        )],
    }
}

/// Runs the tool.
pub fn main(call: &Call) -> ExitCode {
    let (parsed, json) = match common::arguments_or_markdown(call, &options(), page, markdown) {
        Ok(known) => known,
        Err(code) => return code,
    };
    if !parsed.has("list") {
        return match live::show(call, &parsed, json) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => report_failure(&call.name, failure),
        };
    }
    common::print_matching(call, &parsed, |pattern| {
        common::entries(DropReason::ALL.iter().filter(|r| matches(r, pattern)), json, entry, plain)
    })
}

/// Whether the reason's name or meaning contains the pattern, ignoring case.
fn matches(reason: &DropReason, pattern: &str) -> bool {
    let pattern = pattern.to_lowercase();
    reason.name().contains(&pattern) || reason.help().to_lowercase().contains(&pattern)
}

fn plain(reason: &DropReason) -> String {
    let look = reason.diagnostic_command().map_or(String::new(), |look| format!("    see {look}\n"));
    format!("{}\n    {}\n    stage: {}\n{look}", reason.name(), reason.help(), reason.stage().name())
}

fn entry(reason: &DropReason) -> Json {
    serde_json::json!({
        "name": reason.name(),
        "help": reason.help(),
        "stage": reason.stage().name(),
        "command": reason.diagnostic_command(),
    })
}
