//! `sluice pmd plan`: what a rebalance would do, without doing it.

use crate::Call;
use crate::appctl::{Asking, complain};
use crate::getopt::{self, Opt, Order, Takes, opt};
use crate::page::{Line, Names, Page};
use std::process::ExitCode;

const OPTIONS: [Opt; 3] = [
    opt("target", Some('t'), Takes::Value)
        .says("TARGET", "name of the daemon, or absolute path of its socket"),
    opt("json", None, Takes::Nothing).says("", "prints JSON"),
    opt("help", Some('h'), Takes::Nothing).says("", "prints this text"),
];

/// What it is called.
pub const NAMES: Names = Names { tool: "pmd", peers: &[] };

/// All that there is to say about the tool.
pub fn page() -> Page {
    let line = |name: &str, text| Line { name: name.into(), usage: String::new(), text };
    Page {
        names: NAMES,
        title: "says what is decided about poll threads",
        synopsis: "[--json] COMMAND",
        commands: vec![
            line(
                "plan",
                "which queues would move: to even loads by forecast, and by dpif-netdev/pmd-rxq-rebalance",
            ),
            line("state", "all counters of poll threads and queues, as JSON"),
        ],
        options: OPTIONS.to_vec(),
        notes: Vec::new(),
    }
}

/// Runs the tool.
pub fn main(call: &Call) -> ExitCode {
    let parsed = match getopt::parse(&OPTIONS, Order::Anywhere, &call.args) {
        Ok(parsed) => parsed,
        Err(e) => {
            eprintln!("{}: {e}", call.argv0);
            return ExitCode::FAILURE;
        }
    };
    let given = |option: &str| parsed.options.iter().find(|(name, _)| *name == option);
    if given("help").is_some() {
        print!("{}", page().help(&call.name));
        return ExitCode::SUCCESS;
    }
    let words: Vec<&str> = parsed.rest.iter().map(String::as_str).collect();
    let (command, json) = match words[..] {
        ["plan"] => ("dpif-netdev/pmd-plan", given("json").is_some()),
        ["state"] => ("dpif-netdev/pmd-state", true),
        _ => {
            eprint!("{}", page().help(&call.name));
            return ExitCode::FAILURE;
        }
    };
    let target = given("target").and_then(|(_, value)| value.as_deref());
    let answer = Asking::new(call, target).and_then(|mut asking| match json {
        true => asking.ask(command).map(|answer| format!("{answer}\n")),
        false => asking.ask_text(command),
    });
    match answer {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(failure) => complain(&call.name, failure),
    }
}
