//! Collects the facts: from the host, the database and the running switch.

mod daemon;
mod database;
mod devices;
mod host;

use super::facts::{Configuration, Daemon, Facts};
use runtime::Dirs;

/// Collects all facts. Also returns a description of the source of the configuration.
pub fn all(dirs: &Dirs, server: Option<String>) -> (Facts, String) {
    let (daemon, counters) = daemon::find(dirs);
    let mut facts = Facts { daemon, counters, boot: host::boot(), ..Facts::default() };
    facts.cores = host::cores();
    facts.memory = host::memory(facts.pid());
    facts.drivers = devices::drivers();
    // A database file may be checked before Sluice uses it, for example before a migration from Open vSwitch. Then it is no problem if
    // no switch runs, or if Open vSwitch runs.
    let of_file = server.as_deref().is_some_and(database::is_file);
    if of_file && matches!(facts.daemon, Daemon::OpenVswitch(_) | Daemon::None(_)) {
        facts.daemon = Daemon::Unknown;
    }
    let source = match database::read_rows(dirs, server) {
        Ok((rows, place)) => {
            database::read(&rows, dirs, &mut facts);
            place
        }
        Err(why) => {
            // `why` contains the error of each attempt: with the server, and with the database file if it was tried.
            let denied = why.contains("Permission denied");
            facts.configuration = if denied { Configuration::Denied(why) } else { Configuration::None(why) };
            "none".to_owned()
        }
    };
    (facts, source)
}
