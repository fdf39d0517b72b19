//! The running switch: the process that holds the pid file of the run directory, whether it answers, and its
//! event counters.

use super::host::read_trimmed;
use crate::doctor::check::counters;
use crate::doctor::facts::Daemon;
use runtime::Dirs;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;
use unixctl::Client;

/// If the switch does not answer within this time, its main thread is considered stuck.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Names that our daemon may have in the run directory: its own, and the name of the daemon that it replaces.
const NAMES: [&str; 2] = ["sluiced", "ovs-vswitchd"];

/// Event counters by name.
type Counters = BTreeMap<&'static str, u64>;

/// Finds the switch, checks whether it answers, and reads its counters.
pub fn find(dirs: &Dirs) -> (Daemon, Counters) {
    // A pid file may be left over. Only a lock on the file shows that the process lives.
    let holder = |name| {
        runtime::daemon::read_pidfile(&dirs.in_run(&format!("{name}.pid"))).ok().map(|pid| (name, pid))
    };
    match NAMES.into_iter().find_map(holder) {
        None => (Daemon::None(dirs.run.display().to_string()), Counters::new()),
        Some((_, pid)) if !is_ours(pid) => (Daemon::OpenVswitch(pid), Counters::new()),
        Some((name, pid)) => match ask(dirs, name, pid) {
            Ok(counters) => (Daemon::Answers(pid), counters),
            Err((ErrorKind::PermissionDenied, why)) => (Daemon::Denied(pid, why), Counters::new()),
            Err((_, why)) => (Daemon::Silent(pid, why), Counters::new()),
        },
    }
}

/// Returns whether the process runs our program, under any name.
fn is_ours(pid: u32) -> bool {
    let file = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let file = file.and_then(|f| Some(f.file_name()?.to_string_lossy().into_owned())).unwrap_or_default();
    // The executable of another user's process cannot be read; compare its name instead.
    file.starts_with("sluiced")
        || read_trimmed(format!("/proc/{pid}/comm")).is_some_and(|name| name.starts_with("sluiced"))
}

fn ask(dirs: &Dirs, name: &str, pid: u32) -> Result<Counters, (ErrorKind, String)> {
    let sockets = [format!("{name}.{pid}.ctl"), format!("{name}.ctl")].map(|file| dirs.in_run(&file));
    // With --unixctl the socket has another path; assume that the daemon answers.
    let Some(socket) = sockets.iter().find(|socket| socket.exists()) else { return Ok(Counters::new()) };
    ask_at(socket).map_err(|e| (e.kind(), format!("{}: {}", socket.display(), runtime::error_text(&e))))
}

fn ask_at(socket: &Path) -> std::io::Result<Counters> {
    let mut client = Client::connect(socket, Some(ANSWER_TIMEOUT))?;
    // An error reply to the command is an answer, too.
    let _ = client.call("version", &[])?;
    let mut counters = Counters::new();
    for name in counters::names() {
        let reply = client.call("coverage/read-counter", &[name.to_owned()])?;
        let count = reply.ok().and_then(|reply| reply.as_str()?.trim().parse().ok());
        counters.extend(count.map(|count| (name, count)));
    }
    Ok(counters)
}
