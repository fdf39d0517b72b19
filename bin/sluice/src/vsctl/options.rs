//! The options before the first command, and `--help`, `--commands` and `--options`.

use super::VSCTL;
use super::catalog;
use super::syntax::{self, COMMANDS, Command};
use super::table::Style;
use crate::Call;
use crate::getopt::{self, LOGGING, Opt, Order, Takes, opt};
use crate::remote::{Identity, TLS, TLS_HELP};
use runtime::Dirs;
use std::time::Duration;

/// Options of the tool itself, in the order in which `--options` lists them.
const BEFORE_LOGGING: [Opt; 13] = [
    opt("db", None, Takes::Value),
    opt("no-syslog", None, Takes::Nothing),
    opt("no-wait", None, Takes::Nothing),
    opt("dry-run", None, Takes::Nothing),
    opt("oneline", None, Takes::Nothing),
    opt("timeout", Some('t'), Takes::Value),
    opt("retry", None, Takes::Nothing),
    opt("help", Some('h'), Takes::Nothing),
    opt("commands", None, Takes::Nothing),
    opt("options", None, Takes::Nothing),
    opt("leader-only", None, Takes::Nothing),
    opt("no-leader-only", None, Takes::Nothing),
    opt("version", Some('V'), Takes::Nothing),
];
const AFTER_LOGGING: [Opt; 8] = [
    opt("shuffle-remotes", None, Takes::Nothing),
    opt("no-shuffle-remotes", None, Takes::Nothing),
    opt("format", Some('f'), Takes::Value),
    opt("data", Some('d'), Takes::Value),
    opt("no-headings", None, Takes::Nothing),
    opt("pretty", None, Takes::Nothing),
    opt("bare", None, Takes::Nothing),
    opt("max-column-width", None, Takes::Value),
];

/// What the command line asks for.
pub struct Options {
    /// Where the database is.
    pub db: String,
    /// Whether to wait until the switch has taken the change up.
    pub wait: bool,
    /// Whether to leave the database as it is.
    pub dry_run: bool,
    /// Whether each command prints one line.
    pub oneline: bool,
    /// Whether to go on trying to connect.
    pub retry: bool,
    /// How long all may take.
    pub timeout: Option<Duration>,
    /// How tables are printed.
    pub style: Style,
    /// The commands.
    pub commands: Vec<Command>,
}

/// What to do.
pub enum Task {
    /// Run commands.
    Run(Options),
    /// Print this.
    Print(String),
}

/// Why there is nothing to do.
pub enum Fault {
    /// The words of `getopt_long`, after the program as it was called.
    Usage(String),
    /// Words after the program's name.
    Fatal(String),
}

impl From<String> for Fault {
    fn from(text: String) -> Fault {
        Fault::Fatal(text)
    }
}

/// The options of single commands, which may also stand before the first `--`.
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

/// Takes the command line apart.
pub fn parse(call: &Call, dirs: &Dirs) -> Result<Task, Fault> {
    let own = command_options();
    let known: Vec<Opt> = BEFORE_LOGGING
        .into_iter()
        .chain(LOGGING)
        .chain(AFTER_LOGGING)
        .chain(TLS)
        .chain(own.iter().copied())
        .collect();
    let parsed = getopt::parse(&known, Order::First, &call.args).map_err(Fault::Usage)?;
    let mut options = Options {
        db: format!("unix:{}", dirs.in_run("db.sock").display()),
        wait: true,
        dry_run: false,
        oneline: false,
        retry: false,
        timeout: None,
        style: Style::DEFAULT,
        commands: Vec::new(),
    };
    let mut local = Vec::new();
    let mut identity = Identity::default();
    for (name, value) in parsed.options {
        if own.iter().any(|o| o.name == name) {
            // Given twice, the later one counts here; after a `--` it is refused.
            local.push((format!("--{name}"), value));
        } else if let Some(text) = informative(name, call, &options.db) {
            return Ok(Task::Print(text));
        } else if !identity.take(name, value.as_deref()) {
            options.apply(name, value, dirs)?;
        }
    }
    if options.timeout.is_none() {
        let seconds = std::env::var("OVS_CTL_TIMEOUT").ok().and_then(|t| t.parse().ok());
        options.timeout = seconds.filter(|n| *n > 0).map(Duration::from_secs);
    }
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
            "format" => self.style.set_layout(&text)?,
            "data" => self.style.set_cells(&text)?,
            "no-headings" => self.style.headings = false,
            "pretty" => self.style.pretty = true,
            "bare" => {
                self.style.set_layout("list")?;
                self.style.set_cells("bare")?;
                self.style.headings = false;
            }
            "max-column-width" => {
                self.style.max_width = text.parse().unwrap_or(0);
            }
            "no-syslog" => getopt::log_option("verbose", Some("vsctl:syslog:warn"), &dirs.logfile())?,
            // A single server is its own leader, and the order of remotes is as given.
            "leader-only" | "no-leader-only" | "shuffle-remotes" | "no-shuffle-remotes" => {
                runtime::debug!(VSCTL, "--{name} has no effect");
            }
            _ => getopt::log_option(name, value.as_deref(), &dirs.logfile())?,
        }
        Ok(())
    }
}

/// The text that an option asks for instead of any command.
fn informative(name: &str, call: &Call, db: &str) -> Option<String> {
    match name {
        "help" => Some(usage(&call.name, db)),
        "version" => {
            let version = runtime::version_text(&call.name);
            Some(format!("{version}\nDB Schema {}\n", catalog::schema().version))
        }
        "commands" => Some(COMMANDS.iter().map(completion).collect()),
        "options" => Some(
            BEFORE_LOGGING
                .iter()
                .chain(&LOGGING)
                .chain(&AFTER_LOGGING)
                .chain(&TLS)
                .map(option_lines)
                .collect(),
        ),
        _ => None,
    }
}

/// A command for the completion scripts of shells.
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

/// How the rows of each table can be named.
fn row_names() -> String {
    let mut out = String::new();
    for table in &catalog::schema().tables {
        out.push_str(&format!("  {}: UUID", table.name));
        if table.max_rows == 1 {
            out.push_str(", \".\"");
        }
        match catalog::row_name(&table.name) {
            Some(name) if name.reference.is_some() => {
                out.push_str(&format!(", {} of its {}", name.column, name.table))
            }
            Some(name) => out.push_str(&format!(", {}", name.column)),
            None => {}
        }
        out.push('\n');
    }
    out
}

fn usage(name: &str, db: &str) -> String {
    let commands: String = COMMANDS
        .iter()
        .map(|c| {
            let usage = c.usage.replace(['!', '*', '+'], "").replace("?:", "[:]");
            let options: String = c.options.iter().map(|o| format!("[{o}] ")).collect();
            format!("  {options}{} {usage}", c.name).trim_end().to_owned() + "\n"
        })
        .collect();
    let rows = row_names();
    format!(
        "{name}: reads and changes the configuration of the switch
usage: {name} [OPTIONS] COMMAND [ARG...] [-- [OPTIONS] COMMAND [ARG...]]...
Commands (\"?\" marks what may be left out):
{commands}Names of rows:
{rows}Options:
  --db=DATABASE           where the database is (default: {db})
  --no-wait               does not wait until the switch has taken the change up
  --retry                 goes on trying to connect
  -t, --timeout=SECS      takes at most SECS seconds
  --dry-run               does not change the database
  --oneline               prints one line per command
  -f, --format=FORMAT     table, list, html, csv or json
  -d, --data=FORMAT       string, bare or json
  --no-headings           no heading row
  --pretty                indents JSON
  --bare                  --format=list --data=bare --no-headings
  --max-column-width=N    cuts columns of --format=table
{TLS_HELP}  -v, --verbose=SPEC      log levels
  --log-file[=FILE]       logs to FILE
  -h, --help              prints this text
  -V, --version           prints the version
"
    )
}
