//! The switch of the run directory: who holds its pid file, and whether it answers.

use super::host::line;
use doctor::facts::Daemon;
use runtime::Dirs;
use std::time::Duration;
use unixctl::Client;

/// A switch that does not answer for so long has its main thread stuck.
const PATIENCE: Duration = Duration::from_secs(3);

/// Ours goes by its own name, or by the one of the daemon that it stands in for.
const NAMES: [&str; 2] = ["sluiced", "ovs-vswitchd"];

/// Looks for the switch, and asks it for its version.
pub fn find(dirs: &Dirs) -> Daemon {
    // The lock on the file, not the file, says that the process lives.
    let holder = |name| {
        runtime::daemon::read_pidfile(&dirs.in_run(&format!("{name}.pid"))).ok().map(|pid| (name, pid))
    };
    match NAMES.into_iter().find_map(holder) {
        None => Daemon::None(dirs.run.display().to_string()),
        Some((_, pid)) if !is_ours(pid) => Daemon::OpenVswitch(pid),
        Some((name, pid)) => match ask(dirs, name, pid) {
            Ok(()) => Daemon::Answers(pid),
            Err(why) => Daemon::Silent(pid, why),
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

fn ask(dirs: &Dirs, name: &str, pid: u32) -> Result<(), String> {
    let places = [format!("{name}.{pid}.ctl"), format!("{name}.ctl")].map(|file| dirs.in_run(&file));
    // Its socket may be in a place of its own (--unixctl): then nothing can be said against it.
    let Some(place) = places.iter().find(|place| place.exists()) else { return Ok(()) };
    let failed = |e: std::io::Error| format!("{}: {}", place.display(), runtime::error_text(&e));
    let mut client = Client::connect(place, Some(PATIENCE)).map_err(failed)?;
    client.call("version", &[]).map_err(failed).map(|_| ())
}
