//! The options of the command line.

use crate::call::Call;
use crate::getopt::{self, LOGGING, Opt, Order, Parsed, Takes, opt};
use crate::remote::{TLS, TlsOptions};
use crate::table::{Layout, Style, TABLE};
use runtime::Dirs;
use runtime::daemon::DaemonArgs;

const OWN: [Opt; 12] = [
    opt("timeout", Some('t'), Takes::Value).described("SECS", "gives up after SECS seconds"),
    opt("timestamp", None, Takes::Nothing).described("", "monitor prints the time of each change"),
    opt("force", None, Takes::Nothing).described("", "restore continues although schemas differ"),
    opt("more", Some('m'), Takes::Nothing).described("", "show-log prints rows; twice: columns, too"),
    opt("leader-only", None, Takes::Nothing)
        .described("", "connects only to the leader of a cluster (default)"),
    opt("no-leader-only", None, Takes::Nothing).described("", "connects to any member of a cluster"),
    opt("db-change-aware", None, Takes::Nothing),
    opt("no-db-change-aware", None, Takes::Nothing),
    opt("help", Some('h'), Takes::Nothing).described("", "prints this text"),
    opt("version", Some('V'), Takes::Nothing).described("", "prints the version"),
    opt("rbac-role", None, Takes::Value),
    opt("election-timer", None, Takes::Value),
];

/// Options of commands that can run in the background: `monitor`, `lock`, `transact`.
const DAEMON: [Opt; 8] = [
    opt("detach", None, Takes::Nothing)
        .described("", "monitor, lock, transact: continue in the background after the first reply"),
    opt("monitor", None, Takes::Nothing).described("", "with --detach: restarts the process when it crashes"),
    opt("no-chdir", None, Takes::Nothing).described("", "with --detach: keeps the current directory"),
    opt("pidfile", None, Takes::Maybe).described("FILE", "with --detach: writes its process ID to a file"),
    opt("overwrite-pidfile", None, Takes::Nothing)
        .described("", "with --pidfile: even if the file belongs to a running process"),
    // Accepted without effect: the process does not confine itself.
    opt("no-self-confinement", None, Takes::Nothing),
    // Internal: the process passes these options to the processes that it starts in the background.
    opt("daemon-role", None, Takes::Value),
    opt("daemon-state", None, Takes::Value),
];

/// All options.
pub fn all() -> Vec<Opt> {
    OWN.into_iter().chain(DAEMON).chain(TABLE).chain(TLS).chain(LOGGING).collect()
}

/// The parsed options.
#[derive(Clone, Debug)]
pub struct Options {
    /// How tables are printed.
    pub style: Style,
    /// `--timestamp`
    pub timestamp: bool,
    /// `--force`
    pub force: bool,
    /// Number of times that `-m` is given.
    pub more: u8,
    /// Whether to connect only to the leader of a cluster.
    pub leader_only: bool,
    /// Whether the connection stays open when a database is added or removed; `None`: if the server supports that.
    pub change_aware: Option<bool>,
    /// `--detach` and related options.
    pub daemon: DaemonArgs,
    /// `--help`
    pub help: bool,
    /// `--version`
    pub version: bool,
    /// `--timeout`, in seconds.
    pub timeout: Option<u32>,
}

/// Parses the command line.
pub fn parse(call: &Call) -> Result<Parsed, String> {
    let json = (!call.compat).then_some(crate::common::JSON);
    let known: Vec<Opt> = all().into_iter().chain(json).collect();
    getopt::parse(&known, Order::Anywhere, &call.args)
}

/// Returns the parsed options and the other arguments.
pub fn settings(parsed: Parsed, dirs: &Dirs) -> Result<(Options, Vec<String>), String> {
    let mut o = Options {
        style: Style { layout: Layout::Table, ..Style::DEFAULT },
        timestamp: false,
        force: false,
        more: 0,
        leader_only: true,
        change_aware: None,
        daemon: DaemonArgs::default(),
        help: false,
        version: false,
        timeout: std::env::var("OVS_CTL_TIMEOUT").ok().and_then(|t| t.parse().ok()).filter(|n| *n > 0),
    };
    let mut tls_options = TlsOptions::default();
    let mut daemon = Vec::new();
    for (name, value) in parsed.options {
        let text = value.as_deref().unwrap_or("");
        match name {
            "timeout" => {
                let seconds = text.parse::<u32>().ok().filter(|n| *n > 0);
                let wrong = || format!("value {text} on -t or --timeout is invalid");
                o.timeout = Some(seconds.ok_or_else(wrong)?);
            }
            "timestamp" => o.timestamp = true,
            "force" => o.force = true,
            "more" => o.more = o.more.saturating_add(1),
            "leader-only" => o.leader_only = true,
            "no-leader-only" => o.leader_only = false,
            "db-change-aware" => o.change_aware = Some(true),
            "no-db-change-aware" => o.change_aware = Some(false),
            "help" => o.help = true,
            "version" => o.version = true,
            "rbac-role" | "election-timer" => return Err(format!("--{name} is not supported")),
            _ if DAEMON.iter().any(|o| o.name == name) => daemon.push(match value {
                Some(value) => format!("--{name}={value}"),
                None => format!("--{name}"),
            }),
            _ if o.style.handle_option(name, value.as_deref())? => {}
            _ if tls_options.handle_option(name, value.as_deref()) => {}
            _ => getopt::log_option(name, value.as_deref(), &dirs.logfile())?,
        }
    }
    tls_options.configure();
    o.daemon = DaemonArgs::parse(&daemon, dirs)?;
    Ok((o, parsed.rest))
}
