//! `sluice doctor`: reports problems of this host and its configuration, each with the command that fixes it.
//!
//! Works without a running switch: the configuration is read from the database server if it answers, else
//! from its file; without either, only the host is examined.

mod daemon;
mod database;
mod devices;
mod host;

use crate::getopt::{Opt, Takes, opt};
use crate::page::{Names, Page};
use crate::{Call, color, own};
use doctor::facts::Configuration;
use doctor::{Facts, Finding, Level};
use runtime::Dirs;
use std::io::Write;
use std::process::ExitCode;

const DB: Opt = opt("db", None, Takes::Value)
    .says("DATABASE", "reads the configuration only from this database server or file");

fn options() -> Vec<Opt> {
    own::FORMAT.into_iter().chain([DB]).chain(own::INFORMATIVE).collect()
}

/// The names of the tool.
pub const NAMES: Names = Names { tool: "doctor", peers: &[] };

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
            "Problems, warnings and advice, each with the command that mends it. It changes nothing by itself and \
             needs no switch that runs: where no database server answers at db.sock in OVS_RUNDIR, conf.db in \
             OVS_DBDIR is read. That no switch runs, or that there is no configuration, is a problem, too. It ends with \
             0 if nothing has to be done (advice does not count), else with 1."
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
    if let Some(word) = parsed.rest.first() {
        return own::no_such_argument(call, word);
    }
    let server = parsed.value("db").map(str::to_owned);
    let dirs = Dirs::from_env(&call.argv0);
    let (facts, source) = gather(&dirs, server);
    let found = doctor::diagnose(&facts);
    let text = if json { as_json(&found, &source) } else { as_text(&found, &source, color::is_wanted()) };
    // Ignore errors: the reader may have closed the pipe.
    let _ = std::io::stdout().write_all(text.as_bytes());
    if doctor::needs_care(&found) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Collects all facts; also returns the source of the configuration.
fn gather(dirs: &Dirs, server: Option<String>) -> (Facts, String) {
    let (daemon, counters) = daemon::find(dirs);
    let mut facts = Facts { daemon, counters, boot: host::boot(), ..Facts::default() };
    facts.cores = host::cores();
    facts.memory = host::memory(facts.pid());
    facts.drivers = devices::drivers();
    let source = match database::open(dirs, server) {
        Ok((rows, place)) => {
            database::read(&rows, dirs, &mut facts);
            place
        }
        Err(why) => {
            // The socket and the file were both tried, and the text names both.
            let denied = why.contains("Permission denied");
            facts.configuration = if denied { Configuration::Denied(why) } else { Configuration::None(why) };
            "none".to_owned()
        }
    };
    (facts, source)
}

fn as_text(found: &[Finding], source: &str, colored: bool) -> String {
    let mut out = format!("configuration: {source}\n");
    for f in found {
        let style = match f.level {
            Level::Problem => color::BAD,
            Level::Warning => color::WARN,
            Level::Advice => color::NAME,
        };
        let level = color::paint(colored, style, f.level.name());
        out += &format!("\n{level}: {} [{}]\n    {}\n", f.text, f.subject, f.mend);
    }
    let count = |level| found.iter().filter(|f| f.level == level).count();
    let [problems, warnings, advice] = [Level::Problem, Level::Warning, Level::Advice].map(count);
    out + &format!("\nproblems: {problems}, warnings: {warnings}, advice: {advice}\n")
}

fn as_json(found: &[Finding], source: &str) -> String {
    let finding = |f: &Finding| serde_json::json!({"level": f.level.name(), "subject": f.subject, "text": f.text, "mend": f.mend});
    let findings: Vec<_> = found.iter().map(finding).collect();
    format!("{}\n", serde_json::json!({"configuration": source, "findings": findings}))
}
