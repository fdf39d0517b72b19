//! `sluice settings [PATTERN]`: what can be set in the database, and what becomes of it.

use crate::Call;
use crate::getopt::{Opt, Takes, opt};
use crate::page::{Names, Page};
use config::settings::{self, Setting, text};
use ovsdb::Json;
use std::io::Write;
use std::process::ExitCode;

const OPTIONS: [Opt; 3] = [
    opt("json", None, Takes::Nothing).says("", "prints JSON"),
    opt("markdown", None, Takes::Nothing).says("", "prints docs/settings.md, all of it"),
    opt("help", Some('h'), Takes::Nothing).says("", "prints this text"),
];

/// What it is called.
pub const NAMES: Names = Names { tool: "settings", peers: &[] };

/// All that there is to say about the tool.
pub fn page() -> Page {
    Page {
        names: NAMES,
        title: "says what can be set in the database, and what becomes of it",
        synopsis: "[--json | --markdown] [PATTERN]",
        commands: Vec::new(),
        options: OPTIONS.to_vec(),
        notes: vec![(
            "What it prints",
            "Values, default, effect in this version, and whether a change is obeyed at once. PATTERN is a part of a name, as in \
             \"pmd\" or \"Interface.options\", or of a description."
                .into(),
        )],
    }
}

/// Runs the tool.
pub fn main(call: &Call) -> ExitCode {
    let mut json = false;
    let mut pattern = None;
    for arg in &call.args {
        match arg.as_str() {
            "-h" | "--help" => {
                print!("{}", page().help(&call.name));
                return ExitCode::SUCCESS;
            }
            "--json" | "--format=json" => json = true,
            "--markdown" => {
                print!("{}", text::markdown());
                return ExitCode::SUCCESS;
            }
            other if other.starts_with('-') || pattern.is_some() => {
                eprintln!("{}: no such argument \"{other}\" (use --help for help)", call.name);
                return ExitCode::FAILURE;
            }
            other => pattern = Some(other),
        }
    }
    let pattern = pattern.unwrap_or_default();
    let found: Vec<&Setting> = settings::all().filter(|s| text::matches(s, pattern)).collect();
    let out = match json {
        true => format!("{}\n", Json::Array(found.iter().map(|s| entry(s)).collect())),
        false => found.iter().map(|s| text::plain(s)).collect::<Vec<_>>().join("\n"),
    };
    // Who closes the pipe has seen enough.
    let _ = std::io::stdout().write_all(out.as_bytes());
    if found.is_empty() {
        eprintln!("{}: nothing is known of \"{pattern}\"", call.name);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn entry(s: &Setting) -> Json {
    serde_json::json!({
        "table": s.table,
        "column": s.column,
        "key": s.key,
        "kinds": s.kinds,
        "type": s.type_name(),
        "range": s.range(),
        "default": s.default_text(),
        "effect": s.effect.text(),
        "change": s.when.text(),
        "doc": s.doc,
    })
}
