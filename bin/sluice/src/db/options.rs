//! The options of the command line.

use crate::Call;
use crate::getopt::{self, LOGGING, Opt, Order, Parsed, Takes, opt};
use crate::remote::{Identity, TLS};
use crate::table::{Layout, Style, TABLE};
use runtime::Dirs;
use runtime::daemon::DaemonArgs;

const OWN: [Opt; 12] = [
    opt("timeout", Some('t'), Takes::Value).says("SECS", "gives up after SECS seconds"),
    opt("timestamp", None, Takes::Nothing).says("", "monitor says when"),
    opt("force", None, Takes::Nothing).says("", "restore goes on where schemas differ"),
    opt("more", Some('m'), Takes::Nothing).says("", "show-log prints more; twice: still more"),
    opt("leader-only", None, Takes::Nothing).says("", "of a cluster only the leader will do (default)"),
    opt("no-leader-only", None, Takes::Nothing).says("", "any member of a cluster will do"),
    opt("db-change-aware", None, Takes::Nothing),
    opt("no-db-change-aware", None, Takes::Nothing),
    opt("help", Some('h'), Takes::Nothing).says("", "prints this text"),
    opt("version", Some('V'), Takes::Nothing).says("", "prints the version"),
    opt("rbac-role", None, Takes::Value),
    opt("election-timer", None, Takes::Value),
];

/// For commands that go on: `monitor` and its like, `lock` and its like.
const DAEMON: [Opt; 8] = [
    opt("detach", None, Takes::Nothing)
        .says("", "monitor, lock, transact: in the background, once it has begun"),
    opt("monitor", None, Takes::Nothing).says("", "with --detach: starts it again when it crashes"),
    opt("no-chdir", None, Takes::Nothing).says("", "with --detach: stays in the present directory"),
    opt("pidfile", None, Takes::Maybe).says("FILE", "with --detach: writes its process ID to a file"),
    opt("overwrite-pidfile", None, Takes::Nothing).says("", "even if it is that of a running process"),
    // Nothing confines it.
    opt("no-self-confinement", None, Takes::Nothing),
    opt("daemon-role", None, Takes::Value),
    opt("daemon-state", None, Takes::Value),
];

/// All options.
pub fn all() -> Vec<Opt> {
    OWN.into_iter().chain(DAEMON).chain(TABLE).chain(TLS).chain(LOGGING).collect()
}

/// What the options say.
#[derive(Clone, Debug)]
pub struct Options {
    /// How tables are printed.
    pub style: Style,
    /// `--timestamp`
    pub timestamp: bool,
    /// `--force`
    pub force: bool,
    /// How often `-m` is there.
    pub more: u8,
    /// Whether a follower in a cluster will not do.
    pub leader_only: bool,
    /// Whether to stay connected when a database comes or goes; none: if the server can tell.
    pub change_aware: Option<bool>,
    /// `--detach` and what belongs to it.
    pub daemon: DaemonArgs,
    /// `--help`
    pub help: bool,
    /// `--version`
    pub version: bool,
    /// Seconds.
    pub timeout: Option<u32>,
}

/// Takes the command line apart.
pub fn parse(call: &Call) -> Result<Parsed, String> {
    let json = (!call.compat).then_some(crate::own::JSON);
    let known: Vec<Opt> = all().into_iter().chain(json).collect();
    getopt::parse(&known, Order::Anywhere, &call.args)
}

/// What the options say, and the arguments.
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
    let mut identity = Identity::default();
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
            _ if o.style.take(name, value.as_deref())? => {}
            _ if identity.take(name, value.as_deref()) => {}
            _ => getopt::log_option(name, value.as_deref(), &dirs.logfile())?,
        }
    }
    identity.settle();
    o.daemon = DaemonArgs::parse(&daemon, dirs)?;
    Ok((o, parsed.rest))
}
