//! `sluice host-ids`: records the host's identity in the database, unless it is already recorded.
//!
//! OVN and other controllers identify a host by `external_ids:system-id` and `external_ids:hostname`. For Open vSwitch,
//! `ovs-ctl start` records them. A random system-id is stored in `system-id.conf`, so that the host keeps it with a new
//! database.

use crate::call::Call;
use crate::getopt::{self, Opt, Order, Takes, opt};
use crate::page::{Names, Page};
use crate::{common, vsctl};
use ovsdb::Uuid;
use runtime::Dirs;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const OPTIONS: [Opt; 4] = [
    opt("db", None, Takes::Value)
        .described("DATABASE", "where the database is (default: unix:db.sock in the run directory)"),
    opt("system-id", None, Takes::Value).described(
        "ID",
        "the system-id to record if there is none (default: that of system-id.conf, or a new random one)",
    ),
    opt("hostname", None, Takes::Value)
        .described("NAME", "the hostname to record if there is none (default: the output of hostname -f)"),
    opt("timeout", Some('t'), Takes::Value).described("SECS", "gives up after SECS seconds (default: 20)"),
];
/// Time limit for `hostname -f`, which waits for name servers.
const HOSTNAME_LIMIT: Duration = Duration::from_secs(5);

/// The names of the tool.
pub const NAMES: Names = Names { tool: "host-ids", other_names: &[] };

/// The help page of the tool.
pub fn page() -> Page {
    Page {
        names: NAMES,
        title: "records the host's identity in the database",
        synopsis: "[OPTION...]",
        commands: Vec::new(),
        options: OPTIONS.into_iter().chain(common::INFORMATIVE).collect(),
        notes: vec![(
            "What it records",
            "external_ids:system-id and external_ids:hostname of table Open_vSwitch if they are not set, and \
             external_ids:rundir always. A random system-id is stored in openvswitch/system-id.conf below OVS_SYSCONFDIR \
             (default: /etc). The service file runs this command after each start of the switch."
                .into(),
        )],
    }
}

/// Runs the tool.
pub fn main(call: &Call) -> ExitCode {
    let known: Vec<Opt> = OPTIONS.into_iter().chain(common::INFORMATIVE).collect();
    let parsed = match getopt::parse(&known, Order::Anywhere, &call.args) {
        Ok(parsed) => parsed,
        Err(text) => return common::refuse(call, &text),
    };
    if let Some(code) = common::handle_informative(call, &parsed, page) {
        return code;
    }
    if let Some(word) = parsed.rest.first() {
        return common::no_such_argument(call, word);
    }
    let given = |option: &str| parsed.value(option).map(str::to_owned);
    let dirs = Dirs::from_env("ovs-vswitchd");
    let id = match given("system-id").map_or_else(|| system_id(&dirs.sysconf.join("openvswitch")), Ok) {
        Ok(id) => id,
        Err(text) => return common::refuse(call, &text),
    };
    let hostname = given("hostname").unwrap_or_else(hostname);
    let timeout = given("timeout").unwrap_or_else(|| "20".into());
    let mut args = vec!["--no-wait".to_owned(), format!("--timeout={timeout}")];
    args.extend(given("db").map(|db| format!("--db={db}")));
    args.extend(words(&["--", "add", "Open_vSwitch", ".", "external_ids"]));
    // `add` does not change an existing key.
    args.extend([pair("system-id", &id), pair("hostname", &hostname)]);
    args.extend(words(&["--", "set", "Open_vSwitch", "."]));
    args.push(format!("external_ids:{}", pair("rundir", &dirs.run.to_string_lossy())));
    vsctl::main(&Call { argv0: call.argv0.clone(), name: call.name.clone(), compat: call.compat, args })
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A key and a value in the notation of the database's command line.
fn pair(key: &str, value: &str) -> String {
    format!("{key}={}", ovsdb::json::quoted(value))
}

/// The system-id in `system-id.conf`. If the file has none, a new random system-id is stored in it.
fn system_id(folder: &Path) -> Result<String, String> {
    let path = folder.join("system-id.conf");
    let failed = |e: std::io::Error| format!("{}: {}", path.display(), runtime::error_text(&e));
    match std::fs::read_to_string(&path) {
        Ok(text) if !text.trim().is_empty() => return Ok(text.trim().to_owned()),
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(failed(e)),
        _ => {}
    }
    let id = Uuid::new_v4().to_string();
    std::fs::create_dir_all(folder).map_err(failed)?;
    // Write a temporary file and rename it: with a partly written system-id, controllers would see a different host.
    let fresh = folder.join(format!("system-id.conf.tmp{}", std::process::id()));
    let mut file = std::fs::File::create(&fresh).map_err(failed)?;
    writeln!(file, "{id}").and_then(|()| file.sync_all()).map_err(failed)?;
    std::fs::rename(&fresh, &path).map_err(failed)?;
    Ok(id)
}

/// The host's full name; the kernel's host name if `hostname -f` fails.
fn hostname() -> String {
    let full = Command::new("hostname")
        .arg("-f")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let full = full.ok().and_then(|mut child| {
        let limit = Instant::now() + HOSTNAME_LIMIT;
        while child.try_wait().ok()?.is_none() {
            if Instant::now() >= limit {
                let _ = child.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let output = child.wait_with_output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()).filter(|name| !name.is_empty())
    });
    let kernel =
        || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    full.unwrap_or_else(kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_made_once() {
        let folder = std::env::temp_dir().join(format!("host-ids-{}", std::process::id()));
        let first = system_id(&folder).unwrap();
        assert_eq!(system_id(&folder).unwrap(), first);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
