//! Start-up as a daemon: the command line that all daemons share, detaching, monitoring and
//! the pidfile.
//!
//! Nothing here forks, which could not be done safely: `--detach` starts this program again
//! with a hidden first argument that tells its part (an argument, so that grandchildren never
//! see it), and with the write end of a pipe as its standard input. One byte in the pipe
//! says "ready"; end of file says "dead". The parent then ends with the child's verdict.

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

/// Whether an argument was put in front of the others by the process that started this one.
pub fn is_own_argument(arg: &str) -> bool {
    [args::ROLE_MONITOR, args::ROLE_DAEMON].contains(&arg) || arg.starts_with(args::STATE)
}

/// Detaches, monitors and takes the pidfile as the command line says. Returns in the process
/// that is to do the work; the error is for standard error, with exit status 1. `keeps`: of root's rights under `--user`.
pub fn start(args: &DaemonArgs, keeps: Capabilities) -> Result<Daemon, String> {
    let user = args.user.as_deref().map(user::User::parse).transpose()?;
    if args.role != Role::Foreground {
        spawn::bear_own_name();
    }
    match args.role {
        Role::Foreground if args.detach => {
            if let Some(path) = args.pidfile.as_ref().filter(|_| !args.overwrite_pidfile) {
                pidfile::refuse_if_running(path)?;
            }
            let next = if args.monitor { Role::Monitor } else { Role::Daemon };
            spawn::launch(next, None)?.wait_ready("could not detach from foreground session")?;
            std::process::exit(0);
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
        user.become_it(keeps, args.log_file.as_deref())?;
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
    /// Tells the parent that the daemon is up, and leaves the terminal behind.
    pub fn ready(&mut self) {
        self.ready_to_print();
        if self.detach {
            spawn::null_stdio();
        }
    }

    /// The same for a program that goes on printing where it was started.
    pub fn ready_to_print(&mut self) {
        if self.role == Role::Daemon {
            spawn::notify_parent();
        }
        if self.detach && self.chdir {
            let _ = std::env::set_current_dir("/");
        }
    }

    /// A file of the process that watches this one: what is written there, a successor of this process finds after a
    /// crash. Nobody watches, no file.
    pub fn state(&self) -> Option<&Path> {
        self.state.as_deref()
    }

    /// The pidfile's path, if there is one.
    pub fn pidfile(&self) -> Option<&Pidfile> {
        self.pidfile.as_ref()
    }
}

/// `--mlockall`: pages stay in memory once they are there, those of later as well.
fn lock_memory() {
    use rustix::mm::{MlockAllFlags, mlockall};
    if let Err(e) = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT) {
        crate::err!(LOG, "mlockall failed: {}", text(e));
    }
}
