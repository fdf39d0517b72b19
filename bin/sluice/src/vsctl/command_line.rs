//! Parses the command line, and answers `--help`, `--version`, `--commands` and `--options`.

use super::commands::{self, COMMANDS};
use super::options::{Options, all};
use super::page::{NAMES, page};
use super::{schema_names, syntax};
use crate::call::Call;
use crate::common;
use crate::getopt::{self, Opt, Order, Takes, opt};
use crate::remote::TlsOptions;
use crate::table::{Layout, Style};
use runtime::Dirs;
use std::time::Duration;

/// The task that the command line requests.
pub enum Task {
    /// Run commands.
    Run(Options),
    /// Print this text.
    Print(String),
}

/// Why the command line is refused.
pub enum CommandLineError {
    /// The error text of `getopt_long`; printed after `argv[0]`.
    Usage(String),
    /// An error text; printed after the tool's name.
    Fatal(String),
}

impl From<String> for CommandLineError {
    fn from(text: String) -> CommandLineError {
        CommandLineError::Fatal(text)
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

/// Parses the command line.
pub fn parse(call: &Call, dirs: &Dirs) -> Result<Task, CommandLineError> {
    let own = command_options();
    let json = (!call.compat).then_some(common::JSON);
    let known: Vec<Opt> = all().into_iter().chain(own.iter().copied()).chain(json).collect();
    let parsed = getopt::parse(&known, Order::First, &call.args).map_err(CommandLineError::Usage)?;
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
    let mut tls_options = TlsOptions::default();
    for (name, value) in parsed.options {
        if own.iter().any(|o| o.name == name) {
            // If such an option is given twice here, the later one counts. After a `--`, a second one is an error.
            local.push((format!("--{name}"), value));
        } else if let Some(text) = informative(name, call) {
            return Ok(Task::Print(text));
        } else if !tls_options.handle_option(name, value.as_deref()) {
            options.apply(name, value, dirs)?;
        }
    }
    if options.timeout.is_none() {
        let seconds = std::env::var("OVS_CTL_TIMEOUT").ok().and_then(|t| t.parse().ok());
        options.timeout = seconds.filter(|n| *n > 0).map(Duration::from_secs);
    }
    options.json = !call.compat && options.style.layout == Layout::Json;
    tls_options.configure();
    options.commands = commands::parse(&parsed.rest, local)?;
    Ok(Task::Run(options))
}

/// The text of an option that is printed instead of running commands.
fn informative(name: &str, call: &Call) -> Option<String> {
    match name {
        "help" => Some(page().help(&call.name)),
        "version" => {
            let version = common::version(call, NAMES.other_names);
            Some(format!("{version}\nDB Schema {}\n", schema_names::schema().version))
        }
        "commands" => Some(COMMANDS.iter().map(completion).collect()),
        "options" => Some(all().iter().map(option_lines).collect()),
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
