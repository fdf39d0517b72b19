//! Starting this program again as its own child, and watching over it.

use super::args::{DaemonArgs, ROLE_DAEMON, ROLE_MONITOR, Role, STATE};
use super::log::{LOG, text};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Restarts are at least this far apart, but for the first.
const RESTART_INTERVAL: Duration = Duration::from_secs(10);
/// SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGPIPE, SIGSEGV, SIGXCPU, SIGXFSZ.
const CRASHES: [i32; 9] = [6, 14, 7, 8, 4, 13, 11, 24, 25];
/// Exit status of a Rust program whose main thread panicked, where no hook aborted it.
const PANICKED: i32 = 101;

pub(super) struct Launched {
    child: Child,
    pipe: OwnedFd,
}

/// Starts the next process of the chain; `state` is a file that is ours, for what outlives a crash of it.
pub(super) fn launch(role: Role, state: Option<&OwnedFd>) -> Result<Launched, String> {
    let (pipe, their_end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(text)?;
    let mut argv = std::env::args_os();
    let argv0 = argv.next().unwrap_or_default();
    let given = argv.filter(|a| a != ROLE_DAEMON && a != ROLE_MONITOR);
    let state = state.map(|fd| format!("{STATE}/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd()));
    let part = if role == Role::Monitor { ROLE_MONITOR } else { ROLE_DAEMON };
    let child = Command::new("/proc/self/exe")
        .arg0(argv0)
        .arg(part)
        .args(state)
        .args(given)
        .stdin(Stdio::from(their_end))
        .spawn()
        .map_err(|e| format!("fork failed ({})", text(e)))?;
    Ok(Launched { child, pipe })
}

/// What became of a child that was started.
enum Started {
    Ready,
    /// It ended before it was ready.
    Died(ExitStatus),
}

impl Launched {
    /// Waits until the child is ready. A child that ends with an error ends this process with
    /// the same status: it has said why on our common standard error.
    pub(super) fn wait_ready(self, failure: &str) -> Result<Child, String> {
        let (child, started) = self.wait_started()?;
        match started {
            Started::Ready => Ok(child),
            Started::Died(status) => {
                exit_with(status);
                Err(failure.to_string())
            }
        }
    }

    fn wait_started(self) -> Result<(Child, Started), String> {
        let Launched { mut child, pipe } = self;
        let mut byte = [0];
        if File::from(pipe).read_exact(&mut byte).is_ok() {
            return Ok((child, Started::Ready));
        }
        let status = child.wait().map_err(|e| format!("waitpid failed ({})", text(e)))?;
        Ok((child, Started::Died(status)))
    }
}

/// Ends this process as a child ended that exited with an error; returns if it ended otherwise.
fn exit_with(status: ExitStatus) {
    if let Some(code) = status.code().filter(|c| *c != 0) {
        std::process::exit(code);
    }
    let what = status_text(status);
    crate::err!(LOG, "fork child died before signaling startup ({what})");
}

/// The daemon did not end because it was told to, or because its configuration is wrong.
fn is_crash(status: ExitStatus) -> bool {
    status.signal().is_some_and(|s| CRASHES.contains(&s)) || status.code() == Some(PANICKED)
}

/// Tells the process that started this one that all is well.
pub(super) fn notify_parent() {
    write_one(rustix::stdio::stdin());
    if let Ok(null) = File::open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
    }
}

pub(super) fn null_stdio() {
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// Runs the daemon as a child for as long as it crashes; never returns.
pub(super) fn monitor(args: &DaemonArgs) -> ! {
    crate::log::set_thread_name("monitor");
    let failure = "could not initiate process monitoring";
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let state = rustix::fs::memfd_create("daemon-state", flags).ok();
    let first = launch(Role::Daemon, state.as_ref()).and_then(|l| l.wait_ready(failure));
    let mut child = match first {
        Ok(c) => c,
        Err(e) => {
            eprintln!("{}: {e}", progname());
            std::process::exit(1);
        }
    };
    if args.role == Role::Monitor {
        notify_parent();
    }
    if args.detach {
        null_stdio();
    }
    let mut restarts = Restarts::default();
    let mut started = Started::Ready;
    loop {
        let pid = child.id();
        let status = match started {
            Started::Ready => child.wait().unwrap_or_else(|_| std::process::exit(1)),
            // It crashed while it started: it is tried again, at the same rate.
            Started::Died(status) => status,
        };
        // The file is opened only to say something: it may have been rotated since.
        if let Some(f) = &args.log_file {
            let _ = crate::log::set_file(f);
        }
        restarts.after(pid, status);
        let _ = crate::log::command("vlog/close", &[]);
        let next = launch(Role::Daemon, state.as_ref()).and_then(Launched::wait_started);
        (child, started) = next.unwrap_or_else(|_| std::process::exit(1));
        if let Started::Died(status) = &started
            && !is_crash(*status)
        {
            exit_with(*status);
        }
    }
}

/// How often the daemon crashed, and when it was last started again.
#[derive(Default)]
struct Restarts {
    crashes: u32,
    last: Option<Instant>,
}

impl Restarts {
    /// The daemon ended: returns when it is to be started again, or ends this process with it.
    fn after(&mut self, pid: u32, status: ExitStatus) {
        let what = status_text(status);
        if !is_crash(status) {
            crate::info!(LOG, "pid {pid} died, {what}, exiting");
            std::process::exit(0);
        }
        self.crashes += 1;
        let what = format!("{} crashes: pid {pid} died, {what}", self.crashes);
        if status.core_dumped() {
            forbid_core_dumps();
        }
        if let Some(left) = self.last.and_then(|t| RESTART_INTERVAL.checked_sub(t.elapsed())) {
            crate::warn!(LOG, "{what}, waiting until 10 seconds since last restart");
            std::thread::sleep(left);
        }
        self.last = Some(Instant::now());
        crate::err!(LOG, "{what}, restarting");
    }
}

/// One core dump of a daemon that crashes over and over is enough: each may be as large as its memory.
fn forbid_core_dumps() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    if let Err(e) = setrlimit(Resource::Core, none) {
        crate::warn!(LOG, "failed to disable core dumps: {}", text(e));
    }
}

/// Gives the process the name that `ps` and `pidof` show: started by way of `/proc/self/exe` it would be `exe`.
pub(super) fn bear_own_name() {
    if let Ok(name) = std::ffi::CString::new(progname()) {
        let _ = rustix::thread::set_name(&name);
    }
}

fn progname() -> String {
    crate::dirs::Dirs::from_env(&std::env::args().next().unwrap_or_default()).progname
}

fn status_text(s: ExitStatus) -> String {
    match (s.code(), s.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(sig)) => {
            let name = signal_hook::low_level::signal_name(sig)
                .map_or_else(|| format!("signal {sig}"), |n| format!("signal {sig} ({n})"));
            let core = if s.core_dumped() { ", core dumped" } else { "" };
            format!("killed ({name}){core}")
        }
        _ => "ended".to_string(),
    }
}

fn write_one(fd: impl AsFd) {
    let _ = rustix::io::write(fd, &[0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crashes_and_panics_are_not_ends_that_were_asked_for() {
        let killed = |signal| is_crash(ExitStatus::from_raw(signal));
        let exited = |code: i32| is_crash(ExitStatus::from_raw(code << 8));
        // SIGABRT, SIGSEGV; SIGKILL, SIGTERM.
        assert!(killed(6) && killed(11) && !killed(9) && !killed(15));
        assert!(exited(PANICKED) && !exited(0) && !exited(1));
    }
}
