//! The options before the first command; `--help`, `--commands` and `--options`.

use super::VSCTL;
use super::catalog;
use super::syntax::{self, COMMANDS, Command};
use crate::Call;
use crate::getopt::{self, LOGGING, Opt, Order, Takes, opt};
use crate::own;
use crate::remote::{Identity, TLS};
use crate::table::{Layout, Style, TABLE};
use runtime::Dirs;
use std::time::Duration;

/// Options of the tool itself, in the order in which `--options` lists them.
const BEFORE_LOGGING: [Opt; 13] = [
    opt("db", None, Takes::Value)
        .says("DATABASE", "where the database is (default: unix:db.sock in the run directory)"),
    opt("no-syslog", None, Takes::Nothing).says("", "does not log the call to the system's log"),
    opt("no-wait", None, Takes::Nothing).says("", "does not wait until the switch has applied the change"),
    opt("dry-run", None, Takes::Nothing).says("", "does not change the database"),
    opt("oneline", None, Takes::Nothing).says("", "prints one line per command"),
    opt("timeout", Some('t'), Takes::Value).says("SECS", "gives up after SECS seconds"),
    opt("retry", None, Takes::Nothing).says("", "retries until it is connected"),
    opt("help", Some('h'), Takes::Nothing).says("", "prints this text"),
    opt("commands", None, Takes::Nothing).says("", "lists the commands, for completion scripts"),
    opt("options", None, Takes::Nothing).says("", "lists the options, for completion scripts"),
    opt("leader-only", None, Takes::Nothing).says("", "connects only to the leader of a cluster"),
    opt("no-leader-only", None, Takes::Nothing).says("", "connects to any member of a cluster"),
    opt("version", Some('V'), Takes::Nothing).says("", "prints the version"),
];
const AFTER_LOGGING: [Opt; 2] = [
    opt("shuffle-remotes", None, Takes::Nothing).says("", "tries the members of a cluster in any order"),
    opt("no-shuffle-remotes", None, Takes::Nothing)
        .says("", "tries the members of a cluster in the order given"),
];

/// All options except those of single commands.
pub fn all() -> Vec<Opt> {
    BEFORE_LOGGING.into_iter().chain(LOGGING).chain(AFTER_LOGGING).chain(TABLE).chain(TLS).collect()
}

/// The parsed command line.
pub struct Options {
    /// Where the database is.
    pub db: String,
    /// Whether to wait until the switch has applied the change.
    pub wait: bool,
    /// Whether to leave the database unchanged.
    pub dry_run: bool,
    /// Whether the output of each command is one line.
    pub oneline: bool,
    /// Whether to retry connecting.
    pub retry: bool,
    /// Time limit of the whole call.
    pub timeout: Option<Duration>,
    /// How tables are printed.
    pub style: Style,
    /// Whether answers other than tables are JSON, too; under the peer's name they stay text.
    pub json: bool,
    /// The commands.
    pub commands: Vec<Command>,
}

/// What to do.
pub enum Task {
    /// Run commands.
    Run(Options),
    /// Print this text.
    Print(String),
}

/// Why the command line is wrong.
pub enum Fault {
    /// A message of `getopt_long`, printed after `argv[0]`.
    Usage(String),
    /// A message printed after the tool's name.
    Fatal(String),
}

impl From<String> for Fault {
    fn from(text: String) -> Fault {
        Fault::Fatal(text)
    }
}

/// The options of single commands, which may also precede the first `--`.
fn command_options() -> Vec<Opt> {
    let mut known: Vec<Opt> = Vec::new();
    for option in COMMANDS.iter().flat_map(|c| c.options) {
        let name = option.trim_start_matches("--");
        let (name, takes) = match name.strip_suffix('=') {
            Some(name) => (name, Takes::Value),
            None => (name, Takes::Nothing),
        };
        if known.iter().all(|o| o.name != name) {
            known.push(opt(name, None, takes));
        }
    }
    known
}

/// Parses the command line.
pub fn parse(call: &Call, dirs: &Dirs) -> Result<Task, Fault> {
    let own = command_options();
    let json = (!call.compat).then_some(own::JSON);
    let known: Vec<Opt> = all().into_iter().chain(own.iter().copied()).chain(json).collect();
    let parsed = getopt::parse(&known, Order::First, &call.args).map_err(Fault::Usage)?;
    let mut options = Options {
        db: format!("unix:{}", dirs.in_run("db.sock").display()),
        wait: true,
        dry_run: false,
        oneline: false,
        retry: false,
        timeout: None,
        style: Style::DEFAULT,
        json: false,
        commands: Vec::new(),
    };
    let mut local = Vec::new();
    let mut identity = Identity::default();
    for (name, value) in parsed.options {
        if own.iter().any(|o| o.name == name) {
            // Given twice here, the later one counts; after a `--` it is an error.
            local.push((format!("--{name}"), value));
        } else if let Some(text) = informative(name, call) {
            return Ok(Task::Print(text));
        } else if !identity.take(name, value.as_deref()) {
            options.apply(name, value, dirs)?;
        }
    }
    if options.timeout.is_none() {
        let seconds = std::env::var("OVS_CTL_TIMEOUT").ok().and_then(|t| t.parse().ok());
        options.timeout = seconds.filter(|n| *n > 0).map(Duration::from_secs);
    }
    options.json = !call.compat && options.style.layout == Layout::Json;
    identity.settle();
    options.commands = syntax::parse(&parsed.rest, local)?;
    Ok(Task::Run(options))
}

impl Options {
    fn apply(&mut self, name: &'static str, value: Option<String>, dirs: &Dirs) -> Result<(), Fault> {
        let text = value.clone().unwrap_or_default();
        match name {
            "db" => self.db = text,
            "no-wait" => self.wait = false,
            "dry-run" => self.dry_run = true,
            "oneline" => self.oneline = true,
            "retry" => self.retry = true,
            "timeout" => {
                let seconds = text.parse::<u32>().ok().filter(|n| *n > 0);
                let wrong = || format!("value {text} on -t or --timeout is invalid");
                self.timeout = Some(Duration::from_secs(seconds.ok_or_else(wrong)?.into()));
            }
            "no-syslog" => getopt::log_option("verbose", Some("vsctl:syslog:warn"), &dirs.logfile())?,
            // A single server is its own leader, and remotes are tried in the given order.
            "leader-only" | "no-leader-only" | "shuffle-remotes" | "no-shuffle-remotes" => {
                runtime::debug!(VSCTL, "--{name} has no effect");
            }
            _ if self.style.take(name, value.as_deref())? => {}
            _ => getopt::log_option(name, value.as_deref(), &dirs.logfile())?,
        }
        Ok(())
    }
}

/// The text for `--help`, `--commands`, `--options` and `--version`.
fn informative(name: &str, call: &Call) -> Option<String> {
    match name {
        "help" => Some(super::page().help(&call.name)),
        "version" => {
            let version = own::version(call, super::NAMES.peers);
            Some(format!("{version}\nDB Schema {}\n", catalog::schema().version))
        }
        "commands" => Some(COMMANDS.iter().map(completion).collect()),
        "options" => Some(all().iter().map(option_lines).collect()),
        _ => None,
    }
}

/// The line of a command for shell completion scripts.
fn completion(command: &syntax::Syntax) -> String {
    let options: String = command.options.iter().map(|o| format!("[{o}] ")).collect();
    format!("{options},{},{}\n", command.name, command.usage)
}

fn option_lines(option: &Opt) -> String {
    let takes = option.takes != Takes::Nothing;
    let mut lines = format!("--{}{}\n", option.name, if takes { "=ARG" } else { "" });
    if let Some(short) = option.short {
        lines.push_str(&format!("-{short}{}\n", if takes { " ARG" } else { "" }));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_all_kinds_are_known() {
        let line = "--no-wait -f json --bare -p key --ca-cert=x -vconsole:off -t 3 --may-exist add-br br0";
        let args = line.split(' ').map(str::to_owned).collect();
        let call = Call { argv0: "x".into(), name: "x".into(), compat: false, args };
        let Ok(Task::Run(options)) = parse(&call, &Dirs::from_env("x")) else { panic!("refused") };
        assert!(!options.wait && !options.style.headings);
        assert!(options.commands.iter().all(|c| c.has("--may-exist")));
    }
}
