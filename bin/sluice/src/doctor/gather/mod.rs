//! Collects the facts: from the host, the database and the running switch.

mod daemon;
mod database;
mod devices;
mod host;

use super::facts::{Configuration, Daemon, Facts};
use runtime::Dirs;

/// Collects all facts. Also returns where the configuration comes from.
pub fn all(dirs: &Dirs, server: Option<String>) -> (Facts, String) {
    let (daemon, counters) = daemon::find(dirs);
    let mut facts = Facts { daemon, counters, boot: host::boot(), ..Facts::default() };
    facts.cores = host::cores();
    facts.memory = host::memory(facts.pid());
    facts.drivers = devices::drivers();
    // A file is checked before it is used, as on the way from Open vSwitch: that switch, or none, may run.
    let of_file = server.as_deref().is_some_and(database::is_file);
    if of_file && matches!(facts.daemon, Daemon::OpenVswitch(_) | Daemon::None(_)) {
        facts.daemon = Daemon::Unknown;
    }
    let source = match database::open(dirs, server) {
        Ok((rows, place)) => {
            database::read(&rows, dirs, &mut facts);
            place
        }
        Err(why) => {
            // The socket and the file are tried one after the other, and the text names both.
            let denied = why.contains("Permission denied");
            facts.configuration = if denied { Configuration::Denied(why) } else { Configuration::None(why) };
            "none".to_owned()
        }
    };
    (facts, source)
}
