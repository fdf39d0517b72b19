//! `sluice settings [PATTERN]`: lists the settings in the database, and how the switch uses them.

use crate::call::Call;
use crate::common;
use crate::getopt::{Opt, Takes, opt};
use crate::page::{Names, Page};
use ovsdb::Json;
use settings::{self, Setting, text};
use std::process::ExitCode;

const MARKDOWN: Opt =
    opt("markdown", None, Takes::Nothing).described("", "prints the whole of docs/settings.md");

const NOT_BUILT: Opt = opt("not-built", None, Takes::Nothing)
    .described("", "prints the parts of Open vSwitch that are not implemented (docs/not-built.md)");

fn options() -> Vec<Opt> {
    common::FORMAT.into_iter().chain([MARKDOWN, NOT_BUILT]).chain(common::INFORMATIVE).collect()
}

/// The names of the tool.
pub const NAMES: Names = Names { tool: "settings", other_names: &[] };

/// The help page of the tool.
pub fn page() -> Page {
    Page {
        names: NAMES,
        title: "lists the settings in the database, and how the switch uses them",
        synopsis: "[--json | --markdown | --not-built] [PATTERN]",
        commands: Vec::new(),
        options: options(),
        notes: vec![(
            "What it prints",
            "Values, default, effect in this version, and whether a change takes effect at once. PATTERN is a part of a name, \
             such as \"pmd\" or \"Interface.options\", or of a description."
                .into(),
        )],
    }
}

/// Runs the tool.
pub fn main(call: &Call) -> ExitCode {
    let (parsed, json) = match common::arguments(call, &options(), page) {
        Ok(known) => known,
        Err(code) => return code,
    };
    for (option, page) in
        [("markdown", text::markdown as fn() -> String), ("not-built", text::not_built_markdown)]
    {
        if parsed.has(option) {
            print!("{}", page());
            return ExitCode::SUCCESS;
        }
    }
    common::print_matching(call, &parsed, |pattern| {
        common::entries(settings::all().filter(|s| text::matches(s, pattern)), json, entry, text::plain)
    })
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
