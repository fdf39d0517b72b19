//! `sluice bench`: measures parts of the switch in this process, without DPDK and without devices. `caches`
//! compares the flow caches; `path` measures the cost of each stage per packet.
//!
//! The complete packet path runs: mock ports generate and consume the packets, and the benchmark adds the
//! megaflows. Times are CPU time of the thread, so other load on the machine is not counted, but it can still
//! evict data from the processor's caches.

mod cells;
mod fixture;
mod path;
mod report;
mod traffic;

use crate::call::Call;
use crate::getopt::{self, Opt, Order, Parsed, Takes, opt};
use crate::page::{CommandEntry, Names, Page};
use crate::{common, suggest};
use cells::Experiment;
use ovsdb::Json;
use report::Row;
use std::path::PathBuf;
use std::process::ExitCode;

const OPTIONS: [Opt; 3] = [
    opt("out", Some('o'), Takes::Value).described("DIR", "writes caches.csv and caches.md there"),
    opt("only", None, Takes::Value)
        .described("LETTERS", "runs only the experiments with these letters, as in \"ab\""),
    opt("quick", Some('q'), Takes::Nothing)
        .described("", "shorter windows and fewer flows: to see that it runs"),
];

fn options() -> Vec<Opt> {
    common::options(OPTIONS)
}

/// The names of the tool.
pub const NAMES: Names = Names { tool: "bench", other_names: &[] };

/// The help page of the tool.
pub fn page() -> Page {
    Page {
        names: NAMES,
        title: "measures parts of the switch in this process",
        synopsis: "{caches [-o DIR] [--only LETTERS] | path} [--quick]",
        commands: vec![
            command("caches", "compares the flow caches"),
            command("path", "measures the cost of each stage per packet, by families of packets and actions"),
        ],
        options: options(),
        notes: vec![(
            "Experiments",
            "(a) misses of exact match caches with one and with two entry positions for a flow\n\
             (b) every cache by flows and subtables\n\
             (c) every cache by distribution, megaflows and churn\n\
             (d) the large caches at a million flows, and their memory in huge pages: run it with and without \
             GLIBC_TUNABLES=glibc.malloc.hugetlb=1"
                .into(),
        )],
    }
}

fn command(name: &'static str, text: &'static str) -> CommandEntry {
    CommandEntry { name: name.into(), usage: String::new(), text }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Command {
    Caches,
    Path,
}

#[derive(Debug)]
struct Arguments {
    command: Command,
    out: Option<PathBuf>,
    only: String,
    quick: bool,
    /// Whether to print one JSON array of rows instead of CSV lines.
    json: bool,
}

/// Runs the tool.
pub fn main(call: &Call) -> ExitCode {
    let parsed = match getopt::parse(&options(), Order::Anywhere, &call.args) {
        Ok(parsed) => parsed,
        Err(text) => return common::refuse(call, &text),
    };
    if let Some(code) = common::handle_informative(call, &parsed, page) {
        return code;
    }
    let done = parse_arguments(&parsed).and_then(|arguments| match arguments.command {
        Command::Caches => run(&arguments).map_err(|e| runtime::error_text(&e)),
        Command::Path => path::run(arguments.quick, arguments.json),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => common::refuse(call, &text),
    }
}

fn parse_arguments(parsed: &Parsed) -> Result<Arguments, String> {
    let command = match parsed.rest.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["caches"] => Command::Caches,
        ["path"] => Command::Path,
        ["caches" | "path", word, ..] => {
            return Err(format!("no such argument \"{word}\" (use --help for help)"));
        }
        [name, ..] => {
            let hint = suggest::hint(name, ["caches", "path"]);
            return Err(format!("unknown command '{name}'{hint}; use --help for help"));
        }
        [] => return Err("missing command name; use --help for help".into()),
    };
    if command == Command::Path
        && let Some(option) = ["out", "only"].into_iter().find(|option| parsed.value(option).is_some())
    {
        return Err(format!("path has no option --{option} (use --help for help)"));
    }
    Ok(Arguments {
        command,
        out: parsed.value("out").map(PathBuf::from),
        only: parsed.value("only").unwrap_or("abcd").to_owned(),
        quick: parsed.has("quick"),
        json: common::wants_json(parsed)?,
    })
}

fn run(arguments: &Arguments) -> std::io::Result<()> {
    let all = Experiment::all(arguments.quick);
    let wanted = all.into_iter().filter(|e| arguments.only.contains(e.letter));
    if !arguments.json {
        println!("{}", Row::HEADER);
    }
    let mut rows = Vec::new();
    for experiment in wanted {
        for cell in &experiment.cells {
            let row =
                Row { experiment: experiment.letter, cell: cell.clone(), result: fixture::measure(cell) };
            if !arguments.json {
                println!("{}", row.csv());
            }
            rows.push(row);
        }
    }
    if arguments.json {
        println!("{}", Json::Array(rows.iter().map(Row::json).collect()));
    }
    let Some(dir) = &arguments.out else { return Ok(()) };
    std::fs::create_dir_all(dir)?;
    let lines: String = rows.iter().map(|r| r.csv() + "\n").collect();
    std::fs::write(dir.join("caches.csv"), format!("{}\n{lines}", Row::HEADER))?;
    std::fs::write(dir.join("caches.md"), report::page(&rows))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        let parse = |line: &str| {
            let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            parse_arguments(&getopt::parse(&options(), Order::Anywhere, &args)?)
        };
        let some = parse("caches -q --only a -o x --json").unwrap();
        assert_eq!(
            (some.quick, some.only.as_str(), some.out, some.json),
            (true, "a", Some("x".into()), true)
        );
        assert_eq!(parse("path --quick").unwrap().command, Command::Path);
        for wrong in
            ["", "dogs", "path x", "path -o x", "path --only a", "caches x", "caches --only", "caches --fast"]
        {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
