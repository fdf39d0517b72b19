//! `sluice bench caches`: the flow caches beside each other, in this process, without DPDK and without devices.
//!
//! The whole path of the datapath runs: mock ports make packets and take them, megaflows are put by hand. Time is the
//! thread's own, so that other load on the machine is not counted, though it empties the processor's caches.

mod bed;
mod cells;
mod plot;
mod report;
mod traffic;

use crate::Call;
use crate::getopt::{Opt, Takes, opt};
use crate::page::{Line, Names, Page};
use cells::Experiment;
use report::Row;
use std::path::PathBuf;
use std::process::ExitCode;

const OPTIONS: [Opt; 4] = [
    opt("out", Some('o'), Takes::Value).says("DIR", "writes caches.csv, caches.md and SVG plots there"),
    opt("only", None, Takes::Value).says("LETTERS", "of the experiments, as in \"ab\""),
    opt("quick", Some('q'), Takes::Nothing).says("", "shorter windows and fewer flows: to see that it runs"),
    opt("help", Some('h'), Takes::Nothing).says("", "prints this text"),
];

/// What it is called.
pub const NAMES: Names = Names { tool: "bench", peers: &[] };

/// All that there is to say about the tool.
pub fn page() -> Page {
    Page {
        names: NAMES,
        title: "measures parts of the switch in this process",
        synopsis: "caches [-o DIR] [--only LETTERS] [--quick]",
        commands: vec![Line {
            name: "caches".into(),
            usage: String::new(),
            text: "the flow caches beside each other",
        }],
        options: OPTIONS.to_vec(),
        notes: vec![(
            "Experiments",
            "(a) misses of exact match caches with one and with two places for a flow\n\
             (b) every cache by flows and subtables\n\
             (c) every cache by distribution, megaflows and churn\n\
             (d) the large caches at a million flows, and how much memory lies in huge pages: run it with and without \
             GLIBC_TUNABLES=glibc.malloc.hugetlb=1"
                .into(),
        )],
    }
}

struct Asked {
    out: Option<PathBuf>,
    only: String,
    quick: bool,
}

/// Runs the tool.
pub fn main(call: &Call) -> ExitCode {
    match asked(&call.args) {
        Ok(None) => {
            print!("{}", page().help(&call.name));
            ExitCode::SUCCESS
        }
        Ok(Some(asked)) => match run(&asked) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{}: {error}", call.name);
                ExitCode::FAILURE
            }
        },
        Err(text) => {
            eprintln!("{}: {text} (use --help for help)", call.name);
            ExitCode::FAILURE
        }
    }
}

/// `None`: help.
fn asked(args: &[String]) -> Result<Option<Asked>, String> {
    let mut asked = Asked { out: None, only: "abcd".into(), quick: false };
    let mut what = None;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().cloned().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "-h" | "--help" => return Ok(None),
            "-q" | "--quick" => asked.quick = true,
            "-o" | "--out" => asked.out = Some(value()?.into()),
            "--only" => asked.only = value()?,
            other if other.starts_with('-') || what.is_some() => {
                return Err(format!("no such argument \"{other}\""));
            }
            other => what = Some(other.to_owned()),
        }
    }
    match what.as_deref() {
        Some("caches") => Ok(Some(asked)),
        Some(other) => Err(format!("nothing here is called \"{other}\"")),
        None => Err("say what to measure: caches".into()),
    }
}

fn run(asked: &Asked) -> std::io::Result<()> {
    let all = Experiment::all(asked.quick);
    let wanted = all.into_iter().filter(|e| asked.only.contains(e.letter));
    println!("{}", Row::HEADER);
    let mut rows = Vec::new();
    for experiment in wanted {
        for cell in &experiment.cells {
            let row = Row { experiment: experiment.letter, cell: cell.clone(), result: bed::measure(cell) };
            println!("{}", row.csv());
            rows.push(row);
        }
    }
    let Some(dir) = &asked.out else { return Ok(()) };
    std::fs::create_dir_all(dir)?;
    let lines: String = rows.iter().map(|r| r.csv() + "\n").collect();
    std::fs::write(dir.join("caches.csv"), format!("{}\n{lines}", Row::HEADER))?;
    std::fs::write(dir.join("caches.md"), report::page(&rows))?;
    for (name, svg) in plot::all(&rows) {
        std::fs::write(dir.join(name), svg)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        let parse = |words: &[&str]| asked(&words.iter().map(|w| w.to_string()).collect::<Vec<_>>());
        let some = parse(&["caches", "-q", "--only", "a", "-o", "x"]).unwrap().unwrap();
        assert_eq!((some.quick, some.only.as_str(), some.out), (true, "a", Some("x".into())));
        assert!(parse(&["caches", "--help"]).unwrap().is_none());
        for wrong in [&[][..], &["dogs"], &["caches", "x"], &["caches", "--only"], &["caches", "--fast"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
