//! `sluice drops [PATTERN]`: why packets are dropped, by the names of the counters.

use crate::getopt::{Opt, Takes, opt};
use crate::page::{Names, Page};
use crate::{Call, own};
use dpif::DropReason;
use dpif::drop_reason::markdown;
use ovsdb::Json;
use std::process::ExitCode;

const MARKDOWN: Opt =
    opt("markdown", None, Takes::Nothing).says("", "prints docs/drop-reasons.md, all of it");

fn options() -> Vec<Opt> {
    own::FORMAT.into_iter().chain([MARKDOWN]).chain(own::INFORMATIVE).collect()
}

/// What it is called.
pub const NAMES: Names = Names { tool: "drops", peers: &[] };

/// All that there is to say about the tool.
pub fn page() -> Page {
    Page {
        names: NAMES,
        title: "says what the counters of dropped packets mean",
        synopsis: "[--json | --markdown] [PATTERN]",
        commands: Vec::new(),
        options: options(),
        notes: vec![(
            "What it prints",
            "Of each reason for which packets are dropped: the name of its counter, what it means, the stage of the path that \
             drops such packets, and, if a switch without problems has none, the command that shows more. PATTERN is a part of \
             a name, as in \"mtu\", or of a meaning. The numbers are in coverage/show and dpif/show-accounting \
             (sluice appctl); ofproto/trace --last-drop prints the packets that were dropped last."
                .into(),
        )],
    }
}

/// Runs the tool.
pub fn main(call: &Call) -> ExitCode {
    let (parsed, json) = match own::arguments(call, &options(), page) {
        Ok(known) => known,
        Err(code) => return code,
    };
    if parsed.has("markdown") {
        print!("{}", markdown());
        return ExitCode::SUCCESS;
    }
    own::print_matching(call, &parsed, |pattern| {
        let found: Vec<&DropReason> = DropReason::ALL.iter().filter(|r| matches(r, pattern)).collect();
        match json {
            true => (found.len(), format!("{}\n", Json::Array(found.iter().map(|r| entry(r)).collect()))),
            false => (found.len(), found.iter().map(|r| plain(r)).collect::<Vec<_>>().join("\n")),
        }
    })
}

/// Whether the pattern is a part of its name or of its meaning, ignoring case.
fn matches(reason: &DropReason, pattern: &str) -> bool {
    let pattern = pattern.to_lowercase();
    reason.name().contains(&pattern) || reason.help().to_lowercase().contains(&pattern)
}

fn plain(reason: &DropReason) -> String {
    let look = reason.look().map_or(String::new(), |look| format!("    see {look}\n"));
    format!("{}\n    {}\n    stage: {}\n{look}", reason.name(), reason.help(), reason.stage().name())
}

fn entry(reason: &DropReason) -> Json {
    serde_json::json!({
        "name": reason.name(),
        "help": reason.help(),
        "stage": reason.stage().name(),
        "look": reason.look(),
    })
}
