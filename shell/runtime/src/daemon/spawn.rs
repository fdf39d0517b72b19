//! Forks, or starts this program again as a child process, and monitors the child.

use super::args::{DaemonArgs, ROLE_DAEMON, ROLE_MONITOR, Role, STATE};
use super::log::{LOG, text};
use fork::ForkResult;
use rustix::process::{Pid, WaitOptions, waitpid};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Minimum time between restarts; the first restart is immediate.
const RESTART_INTERVAL: Duration = Duration::from_secs(10);
/// SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGPIPE, SIGSEGV, SIGXCPU, SIGXFSZ.
const CRASH_SIGNALS: [i32; 9] = [6, 14, 7, 8, 4, 13, 11, 24, 25];
/// Exit status of a Rust program whose main thread panicked without an aborting hook.
const PANIC_STATUS: i32 = 101;

const NOT_DETACHED: &str = "could not detach from foreground session";

/// Forks; returns in the child only, whose standard input is the pipe to its parent. The parent exits when the child is
/// ready, or with the child's error. A process with threads cannot fork: it starts the program again with `role`, and then
/// exits in the same way.
pub(super) fn detach(role: Role) -> Result<(), String> {
    let (pipe, child_end) = ready_pipe()?;
    match fork::fork().map_err(fork_failed)? {
        ForkResult::Child => {
            drop(pipe);
            rustix::stdio::dup2_stdin(&child_end).map_err(text)
        }
        ForkResult::Parent(pid) => {
            drop(child_end);
            if !wait_until_ready(pipe) {
                exit_with(wait_for(pid)?);
                return Err(NOT_DETACHED.to_string());
            }
            std::process::exit(0);
        }
        ForkResult::HasThreads => {
            launch(role, None)?.wait_ready(NOT_DETACHED)?;
            std::process::exit(0);
        }
    }
}

/// Waits until a child has ended.
fn wait_for(pid: i32) -> Result<ExitStatus, String> {
    let ended = waitpid(Pid::from_raw(pid), WaitOptions::empty())
        .map_err(|e| format!("waitpid failed ({})", text(e)))?;
    let (_, status) = ended.ok_or("waitpid failed")?;
    Ok(ExitStatus::from_raw(status.as_raw()))
}

fn fork_failed(e: std::io::Error) -> String {
    format!("fork failed ({})", text(e))
}

/// The pipe through which a child reports that it is ready.
fn ready_pipe() -> Result<(OwnedFd, OwnedFd), String> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(text)
}

/// Waits until the child is ready (true), or has ended before that (false).
fn wait_until_ready(pipe: OwnedFd) -> bool {
    File::from(pipe).read_exact(&mut [0]).is_ok()
}

/// A child process that may not be ready yet.
pub(super) struct StartingChild {
    child: Child,
    pipe: OwnedFd,
}

/// Starts this program again. `state`: a memory file that keeps the daemon's state across a crash.
pub(super) fn launch(role: Role, state: Option<&OwnedFd>) -> Result<StartingChild, String> {
    let (pipe, child_end) = ready_pipe()?;
    let mut argv = std::env::args_os();
    let argv0 = argv.next().unwrap_or_default();
    let given = argv.filter(|a| a != ROLE_DAEMON && a != ROLE_MONITOR);
    let state = state.map(|fd| format!("{STATE}/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd()));
    let role_argument = if role == Role::Monitor { ROLE_MONITOR } else { ROLE_DAEMON };
    let child = Command::new("/proc/self/exe")
        .arg0(argv0)
        .arg(role_argument)
        .args(state)
        .args(given)
        .stdin(Stdio::from(child_end))
        .spawn()
        .map_err(fork_failed)?;
    Ok(StartingChild { child, pipe })
}

/// The result of starting a child.
enum Started {
    Ready,
    /// The child ended before it was ready.
    Died(ExitStatus),
}

impl StartingChild {
    /// Waits until the child is ready. If the child exits with an error, this process exits with the same
    /// status; the child has printed the reason on the shared standard error.
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
        let StartingChild { mut child, pipe } = self;
        if wait_until_ready(pipe) {
            return Ok((child, Started::Ready));
        }
        let status = child.wait().map_err(|e| format!("waitpid failed ({})", text(e)))?;
        Ok((child, Started::Died(status)))
    }
}

/// Exits with the child's exit status if that is an error; returns otherwise.
fn exit_with(status: ExitStatus) {
    if let Some(code) = status.code().filter(|c| *c != 0) {
        std::process::exit(code);
    }
    let what = status_text(status);
    crate::err!(LOG, "fork child died before signaling startup ({what})");
}

/// Returns whether the daemon crashed: it was killed by a signal of a fault, or panicked.
fn is_crash(status: ExitStatus) -> bool {
    status.signal().is_some_and(|s| CRASH_SIGNALS.contains(&s)) || status.code() == Some(PANIC_STATUS)
}

/// Reports to the parent process that this process is ready.
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

/// Runs the daemon as a child and restarts it after each crash; never returns.
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
            // A crash during start-up counts, too: the next start waits for the same interval.
            Started::Died(status) => status,
        };
        // The log file is opened only while a crash is logged, because it may have been rotated since the start.
        if let Some(f) = &args.log_file {
            let _ = crate::log::set_file(f);
        }
        restarts.wait_before_restart(pid, status);
        let _ = crate::log::command("vlog/close", &[]);
        let next = launch(Role::Daemon, state.as_ref()).and_then(StartingChild::wait_started);
        (child, started) = next.unwrap_or_else(|_| std::process::exit(1));
        if let Started::Died(status) = &started
            && !is_crash(*status)
        {
            exit_with(*status);
        }
    }
}

/// The number of crashes, and the time of the last restart.
#[derive(Default)]
struct Restarts {
    crashes: u32,
    last: Option<Instant>,
}

impl Restarts {
    /// Handles the end of the daemon: after a crash returns when it is time to restart it, otherwise exits.
    fn wait_before_restart(&mut self, pid: u32, status: ExitStatus) {
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

/// Turns core dumps off after the first core dump, since each may be as large as the daemon's memory.
fn forbid_core_dumps() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    if let Err(e) = setrlimit(Resource::Core, none) {
        crate::warn!(LOG, "failed to disable core dumps: {}", text(e));
    }
}

/// Sets the process name that `ps` and `pidof` show. Without this it would be `exe`, since the program is started through
/// `/proc/self/exe`.
pub(super) fn set_process_name() {
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
        assert!(exited(PANIC_STATUS) && !exited(0) && !exited(1));
    }
}
