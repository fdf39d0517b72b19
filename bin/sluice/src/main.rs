//! One program for all tools. A tool is called as `sluice vsctl`, or by a link to the program with the name `ovs-vsctl`.
//!
//! A tool that is called by a name of Open vSwitch behaves like the program of that name, including its messages.

mod alarm;
mod appctl;
mod bench;
mod call;
mod capture;
mod color;
mod common;
mod completion;
mod db;
mod doctor;
mod dpctl;
mod drops;
mod getopt;
mod host_ids;
mod metrics;
mod notation;
mod ofctl;
mod page;
mod pmd;
mod pool;
mod reference;
mod remote;
mod settings;
mod suggest;
mod table;
mod top;
mod vsctl;
mod why;

use call::Call;
use page::{CommandEntry, Names, Page};
use std::path::Path;
use std::process::ExitCode;

/// The allocator is mimalloc, because tools read and write flow tables of a million rules.
#[global_allocator]
static HEAP: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A tool.
struct Tool {
    names: Names,
    run: fn(&Call) -> ExitCode,
    page: fn() -> Page,
}

/// All tools, the most used first.
static TOOLS: [Tool; 16] = [
    Tool { names: vsctl::NAMES, run: vsctl::main, page: vsctl::page },
    Tool { names: ofctl::NAMES, run: ofctl::main, page: ofctl::page },
    Tool { names: appctl::NAMES, run: appctl::main, page: appctl::page },
    Tool { names: dpctl::NAMES, run: dpctl::main, page: dpctl::page },
    Tool { names: db::NAMES, run: db::main, page: db::page },
    Tool { names: settings::NAMES, run: settings::main, page: settings::page },
    Tool { names: doctor::NAMES, run: doctor::main, page: doctor::page },
    Tool { names: drops::NAMES, run: drops::main, page: drops::page },
    Tool { names: metrics::NAMES, run: metrics::main, page: metrics::page },
    Tool { names: why::NAMES, run: why::main, page: why::page },
    Tool { names: capture::NAMES, run: capture::main, page: capture::page },
    Tool { names: host_ids::NAMES, run: host_ids::main, page: host_ids::page },
    Tool { names: bench::NAMES, run: bench::main, page: bench::page },
    Tool { names: top::NAMES, run: top::main, page: top::page },
    Tool { names: pmd::NAMES, run: pmd::main, page: pmd::page },
    Tool { names: pool::NAMES, run: pool::main, page: pool::page },
];

/// The help pages of all tools.
fn pages() -> Vec<Page> {
    TOOLS.iter().map(|tool| (tool.page)()).collect()
}

fn tool(fits: impl Fn(Names) -> bool) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| fits(tool.names))
}

fn main() -> ExitCode {
    let mut args = std::env::args_os().map(|a| a.to_string_lossy().into_owned());
    let argv0 = args.next().unwrap_or_else(|| "sluice".into());
    let mut args: Vec<String> = args.collect();
    let base = Path::new(&argv0).file_name().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(tool) = tool(|names| names.other_names.contains(&base.as_str())) {
        suggest::set_compat();
        return (tool.run)(&Call { argv0, name: base, compat: true, args });
    }
    // Arguments that `runtime::daemon` adds for the background process precede the tool's name; move them behind it.
    let own = args.iter().take_while(|arg| runtime::daemon::is_own_argument(arg)).count();
    args.get_mut(..=own).unwrap_or_default().rotate_left(own);
    let Some((first, rest)) = args.split_first() else {
        eprint!("{}", overview().help("sluice"));
        return ExitCode::FAILURE;
    };
    if let Some(tool) = tool(|names| names.tool == first) {
        let name = format!("sluice {first}");
        return (tool.run)(&Call { argv0: name.clone(), name, compat: false, args: rest.to_vec() });
    }
    match builtin_command(first, rest) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("sluice: {text}");
            ExitCode::FAILURE
        }
    }
}

/// Handles `help`, `man` and `completion`, and the options `--help` and `--version`.
fn builtin_command(subcommand: &str, args: &[String]) -> Result<String, String> {
    let subject = args.first().map(String::as_str);
    let page = |name: Option<&str>| match name {
        None | Some("sluice") => Ok(overview()),
        Some(name) => {
            let tool = tool(|names| names.include(name)).ok_or_else(|| no_tool(name))?;
            Ok((tool.page)())
        }
    };
    match subcommand {
        "-V" | "--version" => Ok(format!(
            "sluice (Sluice) {}, in place of the tools of Open vSwitch {}\n",
            env!("CARGO_PKG_VERSION"),
            runtime::COMPAT_VERSION
        )),
        "help" if subject == Some("--markdown") => Ok(reference::markdown(&pages())),
        "-h" | "--help" | "help" => page(subject).map(|page| match page.names.tool {
            "" => page.help("sluice"),
            tool => page.help(&format!("sluice {tool}")),
        }),
        "man" => page(subject).map(|page| page.man(env!("CARGO_PKG_VERSION"))),
        "completion" => completion::script(subject.unwrap_or_default(), &overview(), &pages()),
        _ => Err(no_tool(subcommand)),
    }
}

fn no_tool(name: &str) -> String {
    let all: Vec<&str> = TOOLS.iter().map(|tool| tool.names.tool).collect();
    let hint = suggest::hint(name, all.iter().copied());
    format!("no tool \"{name}\"{hint} (there are: {}; see sluice --help)", all.join(", "))
}

/// The help page of the program itself.
fn overview() -> Page {
    let tool =
        |page: Page| CommandEntry { name: page.names.tool.into(), usage: String::new(), text: page.title };
    let own = [
        ("help", "[TOOL]", "prints this text, or the help of a tool"),
        ("man", "[TOOL]", "prints a manual page: sluice man vsctl | man -l -"),
        ("completion", "bash|zsh|fish", "prints the completion script for a shell"),
    ];
    let own = own.map(|(name, usage, text)| CommandEntry { name: name.into(), usage: usage.into(), text });
    Page {
        names: Names { tool: "", other_names: &[] },
        title: "the tools of a virtual switch",
        synopsis: "TOOL [ARG...]",
        commands: pages().into_iter().map(tool).chain(own).collect(),
        options: Vec::new(),
        notes: vec![
            (
                "First steps",
                "Add a bridge with two devices, show the configuration and the flows, and trace a packet:\n  \
                 sluice vsctl add-br br0\n  \
                 sluice vsctl add-port br0 eth1 -- add-port br0 eth2\n  \
                 sluice vsctl show\n  \
                 sluice ofctl dump-flows br0\n  \
                 sluice appctl ofproto/trace br0 in_port=eth1,icmp"
                    .into(),
            ),
            (
                "More help",
                "sluice TOOL --help lists the commands and options of a tool; sluice man TOOL prints the same as a manual page. \
                 vsctl, ofctl, appctl, dpctl and db replace ovs-vsctl, ovs-ofctl, ovs-appctl, ovs-dpctl, ovsdb-client and \
                 ovsdb-tool: they take the same arguments, and print the same messages when they are called by those names, \
                 so the documentation of Open vSwitch applies to them."
                    .into(),
            ),
            (
                "Environment",
                "The tools look for the switch in the directory OVS_RUNDIR, else in /var/run/openvswitch, and most of them need root. The \
                 switch itself is sluiced."
                    .into(),
            ),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_and_option_has_a_sentence() {
        for page in pages().into_iter().chain([overview()]) {
            for command in &page.commands {
                assert!(!command.text.is_empty(), "{} {}", page.man_name(), command.name);
            }
            for option in page.options.iter().filter(|o| !o.text.is_empty()) {
                let named = option.takes == getopt::Takes::Nothing || !option.arg.is_empty();
                assert!(named, "{}: the value of --{} has no name", page.man_name(), option.name);
            }
        }
    }

    #[test]
    fn names_lead_to_tools() {
        for name in ["ovs-vsctl", "ovs-ofctl", "ovs-appctl", "ovs-dpctl", "ovsdb-client", "ovsdb-tool"] {
            assert!(tool(|names| names.other_names.contains(&name)).is_some(), "{name}");
            assert!(builtin_command("man", &[name.into()]).unwrap().starts_with(".TH SLUICE"));
        }
        assert!(
            builtin_command("nonsense", &[])
                .unwrap_err()
                .contains("vsctl, ofctl, appctl, dpctl, db, settings, doctor, drops")
        );
    }
}
