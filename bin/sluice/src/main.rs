//! One program for every tool: `sluice appctl …`, or under the name `ovs-appctl`, and so on.
//!
//! Under an Open vSwitch name a tool behaves as the tool of that name, down to its messages.

mod appctl;
mod getopt;
mod ofctl;
mod remote;
mod settings;
mod vsctl;

use std::path::Path;
use std::process::ExitCode;

/// How a tool was called.
pub struct Call {
    /// The program as it was called, for complaints about options.
    pub argv0: String,
    /// What the tool calls itself.
    pub name: String,
    /// Whether it goes by its Open vSwitch name.
    pub compat: bool,
    /// The arguments after the tool's name.
    pub args: Vec<String>,
}

type Tool = fn(&Call) -> ExitCode;

fn tool(name: &str) -> Option<Tool> {
    match name {
        "appctl" => Some(appctl::main),
        "ofctl" => Some(ofctl::main),
        "settings" => Some(settings::main),
        "vsctl" => Some(vsctl::main),
        _ => None,
    }
}

const TOOLS: &str = "appctl, ofctl, settings, vsctl";

fn main() -> ExitCode {
    let mut args = std::env::args_os().map(|a| a.to_string_lossy().into_owned());
    let argv0 = args.next().unwrap_or_else(|| "sluice".into());
    let args: Vec<String> = args.collect();
    let base = Path::new(&argv0).file_name().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(run) = base.strip_prefix("ovs-").and_then(tool) {
        return run(&Call { argv0, name: base, compat: true, args });
    }
    match args.split_first() {
        Some((first, rest)) => {
            if let Some(run) = tool(first) {
                let name = format!("sluice {first}");
                return run(&Call { argv0: name.clone(), name, compat: false, args: rest.to_vec() });
            }
            match first.as_str() {
                "-V" | "--version" => println!("{}", runtime::version_text("sluice")),
                "-h" | "--help" => println!("{}", usage()),
                _ => {
                    eprintln!("sluice: no tool \"{first}\" (there are: {TOOLS})");
                    return ExitCode::FAILURE;
                }
            }
            ExitCode::SUCCESS
        }
        None => {
            eprintln!("{}", usage());
            ExitCode::FAILURE
        }
    }
}

const fn usage() -> &'static str {
    "usage: sluice TOOL [ARG...]
Tools (each has --help):
  vsctl   reads and changes the configuration: bridges, ports, the database
  ofctl   asks an OpenFlow switch, or tells it what to do: flows, groups, ports
  appctl  asks a running daemon, or tells it what to do: traces, tables, logs
  settings  says what can be set in the database, and what becomes of it
They look for the switch in OVS_RUNDIR, else in /var/run/openvswitch, and mostly need root."
}
