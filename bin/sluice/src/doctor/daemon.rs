//! The switch of the run directory: the process that holds its pid file, whether it answers, and its event counters.

use super::host::line;
use doctor::facts::Daemon;
use runtime::Dirs;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;
use unixctl::Client;

/// A switch that does not answer for so long has its main thread stuck.
const PATIENCE: Duration = Duration::from_secs(3);

/// Ours goes by its own name, or by the one of the daemon that it stands in for.
const NAMES: [&str; 2] = ["sluiced", "ovs-vswitchd"];

/// Event counters by name.
type Counters = BTreeMap<&'static str, u64>;

/// Looks for the switch, and asks it for its version and for its counters.
pub fn find(dirs: &Dirs) -> (Daemon, Counters) {
    // The lock on the file, not the file, says that the process lives.
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

/// The process runs our program, whatever its name.
fn is_ours(pid: u32) -> bool {
    let file = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let file = file.and_then(|f| Some(f.file_name()?.to_string_lossy().into_owned())).unwrap_or_default();
    // Another user's process does not show its file.
    file.starts_with("sluiced")
        || line(format!("/proc/{pid}/comm")).is_some_and(|name| name.starts_with("sluiced"))
}

fn ask(dirs: &Dirs, name: &str, pid: u32) -> Result<Counters, (ErrorKind, String)> {
    let places = [format!("{name}.{pid}.ctl"), format!("{name}.ctl")].map(|file| dirs.in_run(&file));
    // With --unixctl its socket is elsewhere: then it is taken to answer.
    let Some(place) = places.iter().find(|place| place.exists()) else { return Ok(Counters::new()) };
    ask_at(place).map_err(|e| (e.kind(), format!("{}: {}", place.display(), runtime::error_text(&e))))
}

fn ask_at(place: &Path) -> std::io::Result<Counters> {
    let mut client = Client::connect(place, Some(PATIENCE))?;
    // A reply that refuses the command is an answer, too.
    let _ = client.call("version", &[])?;
    let mut counters = Counters::new();
    for name in doctor::counters::names() {
        let reply = client.call("coverage/read-counter", &[name.to_owned()])?;
        let count = reply.ok().and_then(|reply| reply.as_str()?.trim().parse().ok());
        counters.extend(count.map(|count| (name, count)));
    }
    Ok(counters)
}
