//! The options of all daemons. Unknown options are returned, for the program.

use crate::dirs::Dirs;
use std::path::PathBuf;

pub(super) const ROLE_MONITOR: &str = "--daemon-role=monitor";
pub(super) const ROLE_DAEMON: &str = "--daemon-role=daemon";
pub(super) const STATE: &str = "--daemon-state=";

/// Which process of a detached daemon this is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Started by the user.
    #[default]
    Foreground,
    /// Watches the daemon.
    Monitor,
    /// Does the work; started by one of the other two.
    Daemon,
}

/// The daemon options of a command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaemonArgs {
    /// `--detach`
    pub detach: bool,
    /// `--monitor`
    pub monitor: bool,
    /// `--no-chdir`
    pub no_chdir: bool,
    /// `--pidfile[=FILE]`; the default path if no file is given.
    pub pidfile: Option<PathBuf>,
    /// `--overwrite-pidfile`
    pub overwrite_pidfile: bool,
    /// `--user`: the user to which the process that does the work changes.
    pub user: Option<String>,
    /// `--mlockall`
    pub lock_memory: bool,
    /// `--unixctl=PATH`
    pub unixctl: Option<String>,
    /// `--log-file[=FILE]`; the default path if no file is given.
    pub log_file: Option<PathBuf>,
    /// `--syslog-method`
    pub syslog_method: Option<String>,
    /// `--syslog-target`
    pub syslog_target: Option<String>,
    /// Each `-v`; `None` is a `-v` without a specification.
    pub verbose: Vec<Option<String>>,
    /// `--version`
    pub version: bool,
    /// `--help`
    pub help: bool,
    /// The remaining arguments for the program, options first.
    pub rest: Vec<String>,
    pub(super) role: Role,
    pub(super) state: Option<PathBuf>,
}

const LONG_OPTIONS: [(&str, Argument); 15] = [
    ("detach", Argument::No),
    ("monitor", Argument::No),
    ("no-chdir", Argument::No),
    ("no-self-confinement", Argument::No),
    ("pidfile", Argument::Optional),
    ("overwrite-pidfile", Argument::No),
    ("user", Argument::Required),
    ("unixctl", Argument::Required),
    ("log-file", Argument::Optional),
    ("syslog-method", Argument::Required),
    ("syslog-target", Argument::Required),
    ("verbose", Argument::Optional),
    ("version", Argument::No),
    ("help", Argument::No),
    ("mlockall", Argument::No),
];

/// Whether an option has an argument.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Argument {
    No,
    Optional,
    Required,
}

impl DaemonArgs {
    /// Parses `argv[1..]`; the error is for standard error.
    pub fn parse(argv: &[String], dirs: &Dirs) -> Result<DaemonArgs, String> {
        let mut a = DaemonArgs::default();
        let mut it = argv.iter();
        while let Some(arg) = it.next() {
            match arg.as_str() {
                ROLE_MONITOR => a.role = Role::Monitor,
                ROLE_DAEMON => a.role = Role::Daemon,
                _ if arg.starts_with(STATE) => a.state = arg.strip_prefix(STATE).map(PathBuf::from),
                "--" => {
                    a.rest.push("--".into());
                    a.rest.extend(it.by_ref().cloned());
                }
                "-V" => a.version = true,
                "-h" => a.help = true,
                _ if arg.starts_with("-v") => {
                    a.verbose.push(arg.get(2..).filter(|s| !s.is_empty()).map(str::to_string));
                }
                _ => a.parse_long_option(arg, &mut it, dirs)?,
            }
        }
        Ok(a)
    }

    fn parse_long_option(
        &mut self,
        arg: &str,
        it: &mut std::slice::Iter<'_, String>,
        dirs: &Dirs,
    ) -> Result<(), String> {
        let body = arg.strip_prefix("--").unwrap_or("");
        let (name, value) = match body.split_once('=') {
            Some((n, v)) => (n, Some(v.to_string())),
            None => (body, None),
        };
        let Some((_, argument)) = LONG_OPTIONS.iter().find(|(n, _)| *n == name) else {
            self.rest.push(arg.to_string());
            return Ok(());
        };
        let value = match (argument, value) {
            (Argument::No, Some(_)) => return Err(format!("option '--{name}' doesn't allow an argument")),
            (Argument::Required, None) => {
                let next = it.next().cloned();
                Some(next.ok_or(format!("option '--{name}' requires an argument"))?)
            }
            (_, v) => v,
        };
        match name {
            "detach" => self.detach = true,
            "monitor" => self.monitor = true,
            "no-chdir" => self.no_chdir = true,
            "pidfile" => {
                self.pidfile = Some(value.map_or_else(|| dirs.pidfile(), |v| dirs.in_run(&v)));
            }
            "overwrite-pidfile" => self.overwrite_pidfile = true,
            "user" => self.user = value,
            "unixctl" => self.unixctl = value,
            "log-file" => {
                self.log_file = Some(value.map_or_else(|| dirs.logfile(), PathBuf::from));
            }
            "syslog-method" => self.syslog_method = value,
            "syslog-target" => self.syslog_target = value,
            "verbose" => self.verbose.push(value),
            "version" => self.version = true,
            "help" => self.help = true,
            "mlockall" => self.lock_memory = true,
            // no-self-confinement: accepted without effect, since the process is not confined.
            _ => {}
        }
        Ok(())
    }

    /// Configures the log; the error is for standard error.
    pub fn apply_log(&self) -> Result<(), String> {
        if let Some(m) = &self.syslog_method {
            crate::log::set_syslog_method(m)?;
        }
        // As with Open vSwitch, a daemon in the foreground prints information on its console. A daemon that detaches only
        // prints warnings until it has detached.
        if !self.detach {
            crate::log::set("console:info")?;
        }
        for v in &self.verbose {
            match v {
                None => crate::log::set_max_verbosity(),
                Some(s) => {
                    crate::log::set(s).map_err(|e| format!("processing \"{s}\": {e}"))?;
                }
            }
        }
        self.open_log_file();
        if let Some(t) = &self.syslog_target {
            crate::log::set_syslog_target(t);
        }
        Ok(())
    }

    /// Opens the log file, if this process does the work. If a process that only waits for its child also logged to the
    /// file, lines would be duplicated.
    pub(super) fn open_log_file(&self) {
        if let Some(f) = self.log_file.as_ref().filter(|_| self.does_the_work()) {
            let _ = crate::log::set_file(f);
        }
    }

    fn does_the_work(&self) -> bool {
        match self.role {
            Role::Foreground => !self.detach && !self.monitor,
            Role::Monitor => false,
            Role::Daemon => true,
        }
    }

    /// The "Daemon options" and "Logging options" of `--help`.
    pub fn usage(dirs: &Dirs) -> String {
        format!(
            "\nDaemon options:
  --detach                run in background as daemon
  --monitor               creates a process to monitor this daemon
  --user=username[:group] changes the effective daemon user:group
  --no-chdir              do not chdir to '/'
  --pidfile[=FILE]        create pidfile (default: {})
  --overwrite-pidfile     with --pidfile, start even if already running

Logging options:
  -vSPEC, --verbose=SPEC   set logging levels
  -v, --verbose            set maximum verbosity level
  --log-file[=FILE]        enable logging to specified FILE
                           (default: {})
  --syslog-method=(libc|unix:file|udp:ip:port)
                           specify how to send messages to syslog daemon
  --syslog-target=HOST:PORT  also send syslog msgs to HOST:PORT via UDP
",
            dirs.pidfile().display(),
            dirs.logfile().display()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(s: &str) -> Result<DaemonArgs, String> {
        let argv: Vec<String> = s.split_whitespace().map(str::to_string).collect();
        DaemonArgs::parse(&argv, &Dirs::from_env("/usr/sbin/ovs-vswitchd"))
    }

    #[test]
    fn takes_its_own_and_leaves_the_rest() {
        let a = parse("--detach --pidfile=/x/y -vfile:dbg -v --enable-dummy=override unix:sock");
        let a = a.unwrap();
        assert!(a.detach);
        assert_eq!(a.pidfile, Some("/x/y".into()));
        assert_eq!(a.verbose, [Some("file:dbg".to_string()), None]);
        assert_eq!(a.rest, ["--enable-dummy=override", "unix:sock"]);
        assert!(parse("--unixctl").is_err());
        assert!(parse("--detach=1").is_err());
    }
}
