//! `sluice pmd plan`: shows the result of an rxq reassignment without applying it.

use crate::appctl::{ControlSession, report_failure};
use crate::call::Call;
use crate::getopt::{Opt, Takes, opt};
use crate::page::{CommandEntry, Names, Page};
use crate::{common, suggest};
use std::process::ExitCode;

/// `--target`.
pub const TARGET: Opt = opt("target", Some('t'), Takes::Value)
    .described("TARGET", "name of the daemon, or absolute path of its socket");

fn options() -> Vec<Opt> {
    common::options([TARGET])
}

/// The names of the tool.
pub const NAMES: Names = Names { tool: "pmd", other_names: &[] };

/// The help page of the tool.
pub fn page() -> Page {
    let entry = |name: &str, text| CommandEntry { name: name.into(), usage: String::new(), text };
    Page {
        names: NAMES,
        title: "shows the assignment of rx queues to poll threads",
        synopsis: "[--json] COMMAND",
        commands: vec![
            entry("plan", "the queues that auto load balance and dpif-netdev/pmd-rxq-rebalance would move"),
            entry("state", "all counters of poll threads and queues, as JSON"),
        ],
        options: options(),
        notes: Vec::new(),
    }
}

/// Runs the tool.
pub fn main(call: &Call) -> ExitCode {
    let (parsed, json) = match common::arguments(call, &options(), page) {
        Ok(known) => known,
        Err(code) => return code,
    };
    let words: Vec<&str> = parsed.rest.iter().map(String::as_str).collect();
    let (command, json) = match words[..] {
        ["plan"] => ("dpif-netdev/pmd-plan", json),
        ["state"] => ("dpif-netdev/pmd-state", true),
        [] => return common::refuse(call, "missing command name; use --help for help"),
        [name, ..] => {
            let hint = suggest::hint(name, ["plan", "state"]);
            return common::refuse(call, &format!("unknown command '{name}'{hint}; use --help for help"));
        }
    };
    print_reply(call, parsed.value("target"), command, json)
}

/// Sends a command to the switch and prints the reply.
pub fn print_reply(call: &Call, target: Option<&str>, command: &str, json: bool) -> ExitCode {
    let answer = ControlSession::new(call, target).and_then(|mut session| match json {
        true => session.ask(command).map(|answer| format!("{answer}\n")),
        false => session.ask_text(command),
    });
    match answer {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(failure) => report_failure(&call.name, failure),
    }
}
