//! Start-up as a daemon: the options of all daemons, detaching, monitoring and the pidfile.
//!
//! `--detach` forks before any thread is started. Executing the program again instead would load and relocate it once
//! more, which takes about a millisecond of CPU time.
//!
//! The monitor executes the program again, so that a daemon that crashed is loaded at other addresses the next time.
//! `--detach` in a process that has threads also executes the program again, because forking without exec is unsafe
//! there. A hidden first argument tells the new process its role. (It is not an environment variable, because the
//! daemon's own children would inherit that.)
//!
//! The standard input of the child is the write end of a pipe. One byte in the pipe means that the child is ready; end of
//! file means that it has died. The parent exits with the child's result.

mod alias;
mod args;
mod log;
mod pidfile;
mod predecessor;
mod spawn;
mod user;

pub use alias::{Alias, remove_stale};
pub use args::{DaemonArgs, Role};
use log::{LOG, text};
pub use pidfile::{Pidfile, read_pidfile, written_pid};
pub use predecessor::await_end;
pub use rustix::thread::CapabilitySet as Capabilities;

use std::path::{Path, PathBuf};

/// A daemon between its start and its end; dropping it removes the pidfile.
#[derive(Debug)]
pub struct Daemon {
    detach: bool,
    chdir: bool,
    role: Role,
    pidfile: Option<Pidfile>,
    state: Option<PathBuf>,
}

/// Returns whether an argument is a hidden one, which the process that started this process has added.
pub fn is_own_argument(arg: &str) -> bool {
    [args::ROLE_MONITOR, args::ROLE_DAEMON].contains(&arg) || arg.starts_with(args::STATE)
}

/// Detaches, starts the monitor and creates the pidfile, as the options require. Returns only in the process that does
/// the work. The caller prints an error on standard error and exits with status 1. `keeps`: capabilities to keep with
/// `--user`.
pub fn start(args: &DaemonArgs, keeps: Capabilities) -> Result<Daemon, String> {
    let user = args.user.as_deref().map(user::User::parse).transpose()?;
    if args.role != Role::Foreground {
        spawn::set_process_name();
    }
    match args.role {
        Role::Foreground if args.detach => {
            if let Some(path) = args.pidfile.as_ref().filter(|_| !args.overwrite_pidfile) {
                pidfile::refuse_if_running(path)?;
            }
            let role = if args.monitor { Role::Monitor } else { Role::Daemon };
            spawn::detach(role)?;
            let args = DaemonArgs { role, ..args.clone() };
            args.open_log_file();
            return start(&args, keeps);
        }
        Role::Foreground if args.monitor => spawn::monitor(args),
        Role::Foreground => {}
        Role::Monitor => {
            let _ = rustix::process::setsid();
            spawn::monitor(args);
        }
        Role::Daemon => {
            if args.detach && !args.monitor {
                let _ = rustix::process::setsid();
            }
        }
    }
    crate::signals::make_faults_fatal();
    if let Some(user) = user {
        user.switch_to(keeps, args.log_file.as_deref())?;
    }
    if args.lock_memory {
        lock_memory();
    }
    let pidfile = match &args.pidfile {
        Some(path) => Some(Pidfile::take(path, args.overwrite_pidfile)?),
        None => None,
    };
    Ok(Daemon {
        detach: args.detach,
        chdir: !args.no_chdir,
        role: args.role,
        pidfile,
        state: args.state.clone(),
    })
}

impl Daemon {
    /// Notifies the parent that the daemon is ready, and detaches from the terminal.
    pub fn ready(&mut self) {
        self.ready_keep_stdio();
        if self.detach {
            spawn::null_stdio();
        }
    }

    /// Notifies the parent that the daemon is ready; standard output stays open.
    pub fn ready_keep_stdio(&mut self) {
        if self.role == Role::Daemon {
            spawn::notify_parent();
        }
        if self.detach && self.chdir {
            let _ = std::env::set_current_dir("/");
        }
    }

    /// A file that the monitor process keeps open: its content survives a crash of the daemon, and the next daemon can
    /// read it. `None` without a monitor.
    pub fn state(&self) -> Option<&Path> {
        self.state.as_deref()
    }

    /// The pidfile, if there is one.
    pub fn pidfile(&self) -> Option<&Pidfile> {
        self.pidfile.as_ref()
    }
}

/// `--mlockall`: locks present and future pages in memory, each at its first access.
fn lock_memory() {
    use rustix::mm::{MlockAllFlags, mlockall};
    if let Err(e) = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT) {
        crate::err!(LOG, "mlockall failed: {}", text(e));
    }
}
