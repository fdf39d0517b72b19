//! `sluice doctor`: reports problems of the host and of the configuration that cost performance or break features of a
//! polling switch, each with a command that fixes it or, if there is none, a command that shows more.
//!
//! [`gather`] collects facts, [`check`] derives findings from them, this file prints the findings. No running switch is needed:
//! if the database server does not answer, the database file is read; without a file only the host is checked.

mod check;
mod facts;
mod finding;
mod gather;

use crate::call::Call;
use crate::getopt::{Opt, Takes, opt};
use crate::page::{Names, Page};
use crate::{color, common};
use finding::{Finding, Level};
use runtime::Dirs;
use std::io::Write;
use std::process::ExitCode;

const DB: Opt = opt("db", None, Takes::Value)
    .described("DATABASE", "reads the configuration only from this database server or file");

fn options() -> Vec<Opt> {
    common::FORMAT.into_iter().chain([DB]).chain(common::INFORMATIVE).collect()
}

/// The names of the tool.
pub const NAMES: Names = Names { tool: "doctor", other_names: &[] };

/// The help page of the tool.
pub fn page() -> Page {
    Page {
        names: NAMES,
        title: "reports problems of this host and of the switch's configuration",
        synopsis: "[--json] [--db=DATABASE]",
        commands: Vec::new(),
        options: options(),
        notes: vec![(
            "What it prints",
            "Problems, warnings and advice, each with the command that fixes it. doctor changes nothing and does not \
             need a running switch: if no database server answers at db.sock in OVS_RUNDIR, it reads conf.db in \
             OVS_DBDIR. A switch that is not running and a missing configuration are problems, too. Exit status: 0 if \
             there are no problems and no warnings, else 1."
                .into(),
        )],
    }
}

/// Runs the tool.
pub fn main(call: &Call) -> ExitCode {
    let (parsed, json) = match common::options_only(call, &options(), page) {
        Ok(known) => known,
        Err(code) => return code,
    };
    let server = parsed.value("db").map(str::to_owned);
    let dirs = Dirs::from_env(&call.argv0);
    let (facts, source) = gather::all(&dirs, server);
    let found = check::diagnose(&facts);
    let text = if json { as_json(&found, &source) } else { as_text(&found, &source, color::is_wanted()) };
    // Ignore errors: the reader may have closed the pipe.
    let _ = std::io::stdout().write_all(text.as_bytes());
    if check::has_problems_or_warnings(&found) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn as_text(found: &[Finding], source: &str, colored: bool) -> String {
    let mut out = format!("configuration: {source}\n");
    for f in found {
        let style = match f.level {
            Level::Problem => color::BAD,
            Level::Warning => color::WARN,
            Level::Advice => color::ADVICE,
        };
        let level = color::paint(colored, style, f.level.name());
        out += &format!("\n{level}: {} [{}]\n    {}\n", f.text, f.subject, f.fix);
    }
    let count = |level| found.iter().filter(|f| f.level == level).count();
    let [problems, warnings, advice] = [Level::Problem, Level::Warning, Level::Advice].map(count);
    out + &format!("\nproblems: {problems}, warnings: {warnings}, advice: {advice}\n")
}

fn as_json(found: &[Finding], source: &str) -> String {
    let finding = |f: &Finding| serde_json::json!({"level": f.level.name(), "subject": f.subject, "text": f.text, "fix": f.fix});
    let findings: Vec<_> = found.iter().map(finding).collect();
    format!("{}\n", serde_json::json!({"configuration": source, "findings": findings}))
}
