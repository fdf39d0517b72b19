//! Starting this program again as its own child, and watching over it.

use super::args::{DaemonArgs, ROLE_DAEMON, ROLE_MONITOR, STATE};
use super::{LOG, Role, text, write_one};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const RESTART_INTERVAL: Duration = Duration::from_secs(10);
/// SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGPIPE, SIGSEGV, SIGXCPU, SIGXFSZ.
const CRASHES: [i32; 9] = [6, 14, 7, 8, 4, 13, 11, 24, 25];

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

impl Launched {
    /// Waits until the child is ready. A child that ends with an error ends this process with
    /// the same status: it has said why on our common standard error.
    pub(super) fn wait_ready(self, failure: &str) -> Result<Child, String> {
        let Launched { mut child, pipe } = self;
        let mut byte = [0];
        if File::from(pipe).read_exact(&mut byte).is_ok() {
            return Ok(child);
        }
        let status = child.wait().map_err(|e| format!("waitpid failed ({})", text(e)))?;
        if let Some(code) = status.code().filter(|c| *c != 0) {
            std::process::exit(code);
        }
        let what = status_text(status);
        crate::err!(LOG, "fork child died before signaling startup ({what})");
        Err(failure.to_string())
    }
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
    let mut crashes = 0;
    let mut last_restart: Option<Instant> = None;
    loop {
        let pid = child.id();
        let Ok(status) = child.wait() else { std::process::exit(1) };
        // The file is opened only to say something: it may have been rotated since.
        if let Some(f) = &args.log_file {
            let _ = crate::log::set_file(f);
        }
        let what = status_text(status);
        if !status.signal().is_some_and(|s| CRASHES.contains(&s)) {
            crate::info!(LOG, "pid {pid} died, {what}, exiting");
            std::process::exit(0);
        }
        crashes += 1;
        let what = format!("{crashes} crashes: pid {pid} died, {what}");
        if let Some(left) = last_restart.and_then(|t| RESTART_INTERVAL.checked_sub(t.elapsed())) {
            crate::warn!(LOG, "{what}, waiting until 10 seconds since last restart");
            std::thread::sleep(left);
        }
        last_restart = Some(Instant::now());
        crate::err!(LOG, "{what}, restarting");
        let _ = crate::log::command("vlog/close", &[]);
        match launch(Role::Daemon, state.as_ref()).and_then(|l| l.wait_ready(failure)) {
            Ok(c) => child = c,
            Err(_) => std::process::exit(1),
        }
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
