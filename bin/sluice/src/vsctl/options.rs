//! The options before the first command.

use super::log::VSCTL;
use super::syntax::Command;
use crate::getopt::{self, LOGGING, Opt, Takes, opt};
use crate::remote::TLS;
use crate::table::{Style, TABLE};
use runtime::Dirs;
use std::time::Duration;

/// Options of the tool itself, in the order in which `--options` lists them.
const BEFORE_LOGGING: [Opt; 13] = [
    opt("db", None, Takes::Value)
        .described("DATABASE", "where the database is (default: unix:db.sock in the run directory)"),
    opt("no-syslog", None, Takes::Nothing).described("", "does not log the call to the system's log"),
    opt("no-wait", None, Takes::Nothing)
        .described("", "does not wait until the switch has applied the change"),
    opt("dry-run", None, Takes::Nothing).described("", "does not change the database"),
    opt("oneline", None, Takes::Nothing).described("", "prints one line per command"),
    opt("timeout", Some('t'), Takes::Value).described("SECS", "gives up after SECS seconds"),
    opt("retry", None, Takes::Nothing).described("", "retries until it is connected"),
    opt("help", Some('h'), Takes::Nothing).described("", "prints this text"),
    opt("commands", None, Takes::Nothing).described("", "lists the commands, for completion scripts"),
    opt("options", None, Takes::Nothing).described("", "lists the options, for completion scripts"),
    opt("leader-only", None, Takes::Nothing).described("", "connects only to the leader of a cluster"),
    opt("no-leader-only", None, Takes::Nothing).described("", "connects to any member of a cluster"),
    opt("version", Some('V'), Takes::Nothing).described("", "prints the version"),
];
const AFTER_LOGGING: [Opt; 2] = [
    opt("shuffle-remotes", None, Takes::Nothing).described("", "tries the members of a cluster in any order"),
    opt("no-shuffle-remotes", None, Takes::Nothing)
        .described("", "tries the members of a cluster in the order given"),
];

/// All options except those of single commands.
pub fn all() -> Vec<Opt> {
    BEFORE_LOGGING.into_iter().chain(LOGGING).chain(AFTER_LOGGING).chain(TABLE).chain(TLS).collect()
}

/// The parsed command line.
pub struct Options {
    /// Address of the database server.
    pub db: String,
    /// Whether to wait until the switch has applied the change.
    pub wait: bool,
    /// Whether to leave the database unchanged.
    pub dry_run: bool,
    /// Whether the output of each command is one line.
    pub oneline: bool,
    /// Whether to retry if the connection cannot be established or is lost.
    pub retry: bool,
    /// Time limit of the whole call.
    pub timeout: Option<Duration>,
    /// How tables are printed.
    pub style: Style,
    /// Whether answers other than tables are JSON, too. If the tool is called as `ovs-vsctl`, they are text.
    pub json: bool,
    /// The commands.
    pub commands: Vec<Command>,
}

impl Options {
    /// Applies one option.
    pub fn apply(&mut self, name: &'static str, value: Option<String>, dirs: &Dirs) -> Result<(), String> {
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
            _ if self.style.handle_option(name, value.as_deref())? => {}
            _ => getopt::log_option(name, value.as_deref(), &dirs.logfile())?,
        }
        Ok(())
    }
}
