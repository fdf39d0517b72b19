//! `sluice dpctl` (`ovs-dpctl`): shows and changes datapaths.
//!
//! A userspace datapath exists only in the daemon, so each command is sent with its options to the daemon, which has a
//! command of the same name after `dpctl/`. Exit status: 0 success, 1 failure.

use crate::appctl::{self, Failure};
use crate::call::Call;
use crate::getopt::{self, LOGGING, Opt, Order, Takes, opt};
use crate::page::{CommandEntry, Names, Page};
use crate::{common, suggest};
use runtime::Dirs;
use std::process::ExitCode;
use std::time::Duration;
use unixctl::Format;

const OWN: [Opt; 11] = [
    opt("statistics", Some('s'), Takes::Nothing).described("", "prints statistics, too"),
    opt("more", Some('m'), Takes::Nothing).described("", "prints more"),
    opt("names", None, Takes::Nothing).described("", "prints ports by name"),
    opt("no-names", None, Takes::Nothing).described("", "prints ports by number"),
    opt("clear", None, Takes::Nothing).described("", "mod-flow sets the flow's statistics to zero"),
    opt("may-create", None, Takes::Nothing).described("", "mod-flow adds a missing flow"),
    opt("read-only", None, Takes::Nothing).described("", "refuses commands that change something"),
    opt("target", Some('T'), Takes::Value)
        .described("TARGET", "name of the daemon, or absolute path of its control socket"),
    opt("timeout", Some('t'), Takes::Value).described("SECS", "gives up after SECS seconds"),
    opt("help", Some('h'), Takes::Nothing).described("", "prints this text"),
    opt("version", Some('V'), Takes::Nothing).described("", "prints the version"),
];

/// Returns whether a command changes nothing.
fn only_reads(command: &str) -> bool {
    [
        "dump-",
        "list-",
        "show",
        "get-",
        "cache-get",
        "ct-get",
        "ct-stats",
        "ct-bkts",
        "ipf-get",
        "offload-",
        "parse-",
    ]
    .iter()
    .any(|start| command.starts_with(start))
}

/// Runs the tool.
pub fn main(call: &Call) -> ExitCode {
    let json = common::FORMAT.into_iter().filter(|_| !call.compat);
    let options: Vec<Opt> = OWN.into_iter().chain(json).chain(LOGGING).collect();
    let (dirs, parsed) = match common::begin(call, || getopt::parse(&options, Order::Anywhere, &call.args)) {
        Ok(begun) => begun,
        Err(code) => return code,
    };
    match run(parsed, call, &dirs) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(Failure::Refused(text, _)) => {
            // Remove the daemon's name from the error text, because the text is printed after the tool's name.
            let daemon = ["ovs-vswitchd: ", "sluiced: "].iter().find_map(|name| text.strip_prefix(name));
            eprintln!("{}: {}", call.name, daemon.unwrap_or(&text).trim_end());
            ExitCode::FAILURE
        }
        Err(other) => {
            _ = appctl::report_failure(&call.name, other);
            ExitCode::FAILURE
        }
    }
}

fn run(parsed: getopt::Parsed, call: &Call, dirs: &Dirs) -> Result<String, Failure> {
    let fatal = |text: String| Failure::Fatal(text);
    let (mut args, mut target, mut read_only) = (Vec::new(), None, false);
    let seconds = std::env::var("OVS_CTL_TIMEOUT").ok().and_then(|t| t.parse::<u32>().ok());
    let mut timeout = seconds.filter(|n| *n > 0);
    let format = if common::wants_json(&parsed).map_err(fatal)? { Format::Json } else { Format::Text };
    for (name, value) in parsed.options {
        let text = value.clone().unwrap_or_default();
        match name {
            "help" => return Ok(page().help(&call.name)),
            "version" => return Ok(format!("{}\n", common::version(call, NAMES.other_names))),
            "timeout" => {
                let seconds = text.parse::<u32>().ok().filter(|n| *n > 0);
                let wrong = || fatal(format!("value {text} on -t or --timeout is invalid"));
                timeout = Some(seconds.ok_or_else(wrong)?);
            }
            "target" => target = value,
            "json" | "format" => {}
            "read-only" => read_only = true,
            "statistics" => args.push("-s".into()),
            "more" => args.push("-m".into()),
            "names" | "no-names" | "clear" | "may-create" => args.push(format!("--{name}")),
            _ => getopt::log_option(name, value.as_deref(), &dirs.logfile()).map_err(fatal)?,
        }
    }
    let (command, rest) =
        parsed.rest.split_first().ok_or_else(|| fatal("missing command name; use --help for help".into()))?;
    let known = ctl::find(&format!("dpctl/{command}"));
    let known = known.ok_or_else(|| {
        let hint = suggest::hint(command, commands().map(|(name, _)| name));
        fatal(format!("unknown command '{command}'{hint}; use --help for help"))
    })?;
    if read_only && !only_reads(command) {
        return Err(fatal(format!("'{command}' command does not work in read only mode")));
    }
    if rest.len() < known.min_args {
        let n = known.min_args;
        return Err(fatal(format!("'{command}' command requires at least {n} arguments")));
    }
    args.extend(rest.iter().cloned());
    let timeout = timeout.map(|n| Duration::from_secs(n.into()));
    appctl::ask(call, dirs, (target.as_deref(), timeout), format, (known.name, &args))
}

/// The daemon's commands `dpctl/…`, with their names without the prefix.
fn commands() -> impl Iterator<Item = (&'static str, &'static ctl::Command)> {
    let of_switch = ctl::all().iter().filter(|c| c.offered_by.intersects(ctl::OfferedBy::ANY_SWITCH));
    of_switch.filter_map(|c| Some((c.name.strip_prefix("dpctl/")?, c)))
}

/// The names of the tool.
pub const NAMES: Names = Names { tool: "dpctl", other_names: &["ovs-dpctl"] };

/// The help page of the tool.
pub fn page() -> Page {
    let entry = |(name, c): (&'static str, &ctl::Command)| CommandEntry {
        name: name.into(),
        usage: c.usage.into(),
        text: c.help,
    };
    Page {
        names: NAMES,
        title: "shows and changes datapaths, their ports and flows",
        synopsis: "[OPTION...] COMMAND [ARG...]",
        commands: commands().map(entry).collect(),
        options: OWN.into_iter().chain(common::FORMAT).chain(LOGGING).collect(),
        notes: vec![(
            "Datapaths",
            "A datapath is named TYPE@NAME, such as netdev@ovs-netdev; the name may be omitted if there is only one. \
             Datapaths exist in the daemon, which runs the commands, so it must be running. The switch manages the ports \
             and flows of its own datapath, and may undo manual changes to them."
                .into(),
        )],
    }
}
