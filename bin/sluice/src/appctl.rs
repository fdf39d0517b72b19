//! `sluice appctl` (`ovs-appctl`): sends a command to a daemon and prints its reply.
//!
//! Exit status: 0 the command succeeded, 1 the daemon could not be reached, 2 the daemon replied with an
//! error.

use crate::call::Call;
use crate::getopt::{self, LOGGING, Opt, Order, Takes, opt};
use crate::page::{CommandEntry, Names, Page};
use crate::{common, suggest};
use ctl::OfferedBy;
use ovsdb::Json;
use ovsdb::json::{quoted, sorted_string};
use runtime::Dirs;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use unixctl::{Client, Format};

const OPTIONS: [Opt; 7] = [
    opt("target", Some('t'), Takes::Value)
        .described("TARGET", "name of the daemon, or absolute path of its socket"),
    opt("execute", Some('e'), Takes::Nothing),
    opt("format", Some('f'), Takes::Value).described("FORMAT", "text or json (default: text)"),
    opt("help", Some('h'), Takes::Nothing).described("", "prints this text"),
    opt("pretty", None, Takes::Nothing).described("", "indents JSON; needs --format=json"),
    opt("version", Some('V'), Takes::Nothing).described("", "prints the version"),
    opt("timeout", Some('T'), Takes::Value).described("SECS", "waits at most SECS seconds for the reply"),
];

/// The parsed command line.
struct Invocation {
    target: Option<String>,
    timeout: Option<Duration>,
    format: Format,
    pretty: bool,
    command: String,
    args: Vec<String>,
}

/// Why there is no reply to print.
pub enum Failure {
    /// No reply was received.
    Fatal(String),
    /// The daemon refused the command: its error text, and the target as the user named it.
    Refused(String, String),
    /// The reply has an unexpected JSON type.
    Unexpected(String),
    /// The timeout has passed.
    TimeOut,
}

/// Runs the tool.
pub fn main(call: &Call) -> ExitCode {
    let json = (!call.compat).then_some(common::JSON);
    let known: Vec<Opt> = OPTIONS.into_iter().chain(json).chain(LOGGING).collect();
    let (dirs, parsed) = match common::begin(call, || getopt::parse(&known, Order::First, &call.args)) {
        Ok(begun) => begun,
        Err(code) => return code,
    };
    if parsed.options.iter().any(|(name, _)| *name == "help") {
        print!("{}", page().help(&call.name));
        return ExitCode::SUCCESS;
    }
    if parsed.options.iter().any(|(name, _)| *name == "version") {
        println!("{}", common::version(call, NAMES.other_names));
        return ExitCode::SUCCESS;
    }
    let done = parse_invocation(parsed, &dirs)
        .map_err(Failure::Fatal)
        .and_then(|invocation| perform(&invocation, call, &dirs));
    match done {
        Ok(text) => match io::stdout().write_all(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(failure) => report_failure(&call.name, failure),
    }
}

/// Prints why there is no reply, and returns the exit status.
pub fn report_failure(name: &str, failure: Failure) -> ExitCode {
    match failure {
        Failure::Fatal(text) => {
            eprintln!("{name}: {text}");
            ExitCode::FAILURE
        }
        Failure::Refused(text, target) => {
            eprint!("{text}");
            eprintln!("{name}: {target}: server returned an error");
            ExitCode::from(2)
        }
        Failure::Unexpected(text) => {
            eprintln!("{name}: {text}");
            ExitCode::from(2)
        }
        Failure::TimeOut => crate::alarm::expire(),
    }
}

fn parse_invocation(parsed: getopt::Parsed, dirs: &Dirs) -> Result<Invocation, String> {
    let (mut target, mut timeout, mut format, mut pretty) = (None, None, Format::Text, false);
    let mut executes = 0;
    for (name, value) in parsed.options {
        let text = value.clone().unwrap_or_default();
        match name {
            "target" if target.is_some() => {
                return Err("-t or --target may be specified only once".into());
            }
            "target" => target = value,
            // Older form: `--execute` before the command. Scripts still use it.
            "execute" => executes += 1,
            "format" => {
                format = Format::from_name(&text)
                    .ok_or_else(|| format!("value {text} on -f or --format is invalid"))?;
            }
            "json" => format = Format::Json,
            "pretty" => pretty = true,
            "timeout" => {
                let seconds = text.parse::<u32>().ok().filter(|n| *n > 0);
                timeout = Some(seconds.ok_or_else(|| format!("value {text} on -T or --timeout is invalid"))?);
            }
            _ => getopt::log_option(name, value.as_deref(), &dirs.logfile())?,
        }
    }
    if executes > 1 {
        return Err("-e or --execute may be specified only once".into());
    }
    let mut rest = parsed.rest.into_iter();
    let command = rest.next().ok_or("at least one non-option argument is required (use --help for help)")?;
    if pretty && format != Format::Json {
        return Err("--pretty is supported with --format json only".into());
    }
    let seconds = timeout
        .or_else(|| std::env::var("OVS_CTL_TIMEOUT").ok().and_then(|t| t.parse().ok()).filter(|n| *n > 0));
    let timeout = seconds.map(|n| Duration::from_secs(n.into()));
    Ok(Invocation { target, timeout, format, pretty, command, args: rest.collect() })
}

/// Sends a command with its arguments to the daemon and returns the reply.
pub fn ask(
    call: &Call,
    dirs: &Dirs,
    (target, timeout): (Option<&str>, Option<Duration>),
    format: Format,
    (command, args): (&str, &[String]),
) -> Result<String, Failure> {
    let invocation = Invocation {
        target: target.map(str::to_owned),
        timeout,
        format,
        pretty: false,
        command: command.to_owned(),
        args: args.to_vec(),
    };
    perform(&invocation, call, dirs)
}

/// A connection to the daemon, for tools that send more than one command.
pub struct ControlSession {
    client: Client,
    target: String,
    format: Format,
}

impl ControlSession {
    /// Connects to the daemon of `target`, or to the switch.
    pub fn new(call: &Call, target: Option<&str>) -> Result<ControlSession, Failure> {
        ControlSession::within(call, target, &Dirs::from_env(&call.argv0), None)
    }

    fn within(
        call: &Call,
        target: Option<&str>,
        dirs: &Dirs,
        timeout: Option<Duration>,
    ) -> Result<ControlSession, Failure> {
        let (target, path) = locate(target, call, dirs).map_err(Failure::Fatal)?;
        let client = Client::connect(&path, timeout).map_err(|e| {
            let why = runtime::error_text(&e);
            match e.kind() {
                ErrorKind::TimedOut => Failure::TimeOut,
                _ => {
                    let hint = common::hint_about(&why, "");
                    Failure::Fatal(format!("cannot connect to \"{}\" ({why}){hint}", path.display()))
                }
            }
        })?;
        Ok(ControlSession { client, target, format: Format::Text })
    }

    /// Sends a command without arguments and returns the reply as JSON.
    pub fn ask(&mut self, command: &str) -> Result<Json, Failure> {
        self.transact(Format::Json, command, &[])
    }

    /// Sends a command with arguments and returns the reply as JSON.
    pub fn ask_with_args(&mut self, command: &str, args: &[String]) -> Result<Json, Failure> {
        self.transact(Format::Json, command, args)
    }

    /// Sends a command without arguments and returns the reply as text.
    pub fn ask_text(&mut self, command: &str) -> Result<String, Failure> {
        self.ask_text_with_args(command, &[])
    }

    /// Sends a command with arguments and returns the reply as text.
    pub fn ask_text_with_args(&mut self, command: &str, args: &[String]) -> Result<String, Failure> {
        match self.transact(Format::Text, command, args)? {
            Json::String(text) => Ok(with_newline(text)),
            other => Err(unexpected_reply(&other)),
        }
    }

    /// If the daemon does not know the command, adds the most similar command of the daemon to the error text.
    fn with_hint(&mut self, failure: Failure, command: &str) -> Failure {
        match failure {
            Failure::Refused(text, target)
                if text.contains("is not a valid command") && !suggest::is_compat() =>
            {
                let known = self.ask("list-commands").unwrap_or_default();
                let names = known.as_object().into_iter().flat_map(|all| all.keys().map(String::as_str));
                let hint = suggest::hint(command, names);
                Failure::Refused(with_newline(format!("{}{hint}", text.trim_end())), target)
            }
            other => other,
        }
    }

    fn transact(&mut self, format: Format, command: &str, args: &[String]) -> Result<Json, Failure> {
        if self.format != format {
            let name = if format == Format::Json { "json" } else { "text" };
            transact(&mut self.client, &self.target, "set-options", &["--format".into(), name.into()])?;
            self.format = format;
        }
        transact(&mut self.client, &self.target, command, args)
    }
}

fn perform(invocation: &Invocation, call: &Call, dirs: &Dirs) -> Result<String, Failure> {
    let mut session = ControlSession::within(call, invocation.target.as_deref(), dirs, invocation.timeout)?;
    let answer = session.transact(invocation.format, &invocation.command, &invocation.args);
    let answer = answer.map_err(|failure| session.with_hint(failure, &invocation.command))?;
    render(answer, invocation).map(with_newline)
}

fn transact(client: &mut Client, target: &str, command: &str, args: &[String]) -> Result<Json, Failure> {
    match client.call(command, args) {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(Json::String(text))) => Err(Failure::Refused(with_newline(text), target.into())),
        Ok(Err(other)) => Err(unexpected_reply(&other)),
        Err(e) if e.kind() == ErrorKind::TimedOut => Err(Failure::TimeOut),
        Err(e) => {
            let why = runtime::error_text(&e);
            Err(Failure::Fatal(format!("{target}: transaction error ({why})")))
        }
    }
}

fn render(answer: Json, invocation: &Invocation) -> Result<String, Failure> {
    match (invocation.format, answer) {
        (Format::Text, Json::String(text)) => Ok(text),
        (Format::Text, other) => Err(unexpected_reply(&other)),
        (Format::Json, value) if invocation.pretty => {
            let mut text = String::new();
            indented(&value, 1, &mut text);
            Ok(text)
        }
        (Format::Json, value) => Ok(sorted_string(&value)),
    }
}

/// Pretty-prints JSON as ovs-appctl does: sorted members, closing brackets without a new line.
pub fn indented(value: &Json, depth: usize, out: &mut String) {
    let line = |out: &mut String, first: bool| {
        out.push_str(if first { "\n" } else { ",\n" });
        out.push_str(&"  ".repeat(depth));
    };
    match value {
        Json::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            out.push('{');
            if members.is_empty() {
                line(out, true);
            }
            for (i, (name, member)) in members.into_iter().enumerate() {
                line(out, i == 0);
                out.push_str(&quoted(name));
                out.push_str(": ");
                indented(member, depth + 1, out);
            }
            out.push('}');
        }
        Json::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                line(out, i == 0);
                indented(item, depth + 1, out);
            }
            out.push(']');
        }
        leaf => out.push_str(&leaf.to_string()),
    }
}

fn unexpected_reply(answer: &Json) -> Failure {
    let kind = match answer {
        Json::Null => "null",
        Json::Bool(false) => "false",
        Json::Bool(true) => "true",
        Json::Number(n) if n.is_f64() => "real",
        Json::Number(_) => "integer",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    };
    Failure::Unexpected(format!("Unexpected reply type in JSON rpc reply: {kind}"))
}

/// Appends a newline to a text that is not empty and does not end with one.
fn with_newline(mut text: String) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Returns the target's name for messages, and the path of its socket.
fn locate(given: Option<&str>, call: &Call, dirs: &Dirs) -> Result<(String, PathBuf), String> {
    let Some(name) = given else {
        // The pid file of our daemon is named `sluiced.pid` or `ovs-vswitchd.pid`.
        if !call.compat && dirs.in_run("sluiced.pid").exists() {
            return by_name("sluiced", dirs).or_else(|why| by_name("ovs-vswitchd", dirs).map_err(|_| why));
        }
        return by_name("ovs-vswitchd", dirs);
    };
    if name.starts_with('/') { Ok((name.into(), name.into())) } else { by_name(name, dirs) }
}

fn by_name(name: &str, dirs: &Dirs) -> Result<(String, PathBuf), String> {
    let pidfile = dirs.in_run(&format!("{name}.pid"));
    let pid = runtime::daemon::read_pidfile(&pidfile).map_err(|e| {
        let why = runtime::error_text(&e);
        let hint = common::hint_about(&why, "; is the switch running, and OVS_RUNDIR its directory?");
        format!("cannot read pidfile \"{}\" ({why}){hint}", pidfile.display())
    })?;
    Ok((name.into(), dirs.in_run(&format!("{name}.{pid}.ctl"))))
}

/// The names of the tool.
pub const NAMES: Names = Names { tool: "appctl", other_names: &["ovs-appctl"] };

/// The help page of the tool.
pub fn page() -> Page {
    let commands = ctl::all().iter().filter(|c| c.common && c.offered_by.intersects(OfferedBy::ANY_SWITCH));
    let entry = |c: &ctl::Command| CommandEntry { name: c.name.into(), usage: c.usage.into(), text: c.help };
    Page {
        names: NAMES,
        title: "sends a command to a running daemon",
        synopsis: "[OPTION...] COMMAND [ARG...]",
        commands: commands.map(entry).collect(),
        options: OPTIONS.into_iter().chain([common::JSON]).chain(LOGGING).collect(),
        notes: vec![
            (
                "Commands",
                "These are the most used commands; list-commands prints all commands of the daemon. Options must precede the \
                 command; all that follows it is sent to the daemon."
                    .into(),
            ),
            (
                "Why was it dropped?",
                "ofproto/trace --last-drop [BRIDGE|DATAPATH [PORT]] [--names] explains the last packet that was dropped after \
                 it was received from the port, or when it was to be sent to the port; without PORT, any port of the bridge \
                 or datapath. The command prints the time and the reason of the drop. A received packet is traced \
                 through the present tables, without side effects; the last line names the flow that decides. For a packet \
                 that the device did not accept (longer than the MTU, queue full, no such port) it prints the state of that \
                 port; without options, packets flooded to a port that is down are considered last. \
                 The packet is shown as it was when it was dropped, including modifications by actions. \
                 Each thread keeps 128 packets: for each flow, port and reason the newest one. \
                 --list prints one line for each packet, newest first; --filter FLOW selects packets by a match \
                 (as for dump-flows: --filter tcp,tp_dst=80; a packet that was to be sent has no in_port), and \
                 --reason TEXT those that were counted as something with TEXT in its name (--reason mtu). \
                 dpif/show-accounting counts all drops by reason, and sluice drops says what each means."
                    .into(),
            ),
        ],
    }
}
