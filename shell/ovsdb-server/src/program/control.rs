//! The control commands of the program (`ovs-appctl -t ovsdb-server`).

use super::config::Configuration;
use crate::columns::{atoms, cells};
use crate::remotes::RemoteOptions;
use crate::server::Server;
use ctl::names;
use runtime::daemon::DaemonArgs;
use runtime::{Dirs, Module, WaitSet};
use std::collections::BTreeMap;
use std::path::Path;
use unixctl::{Reply, RequestId};

static LOG: Module = Module::new("ovsdb_server");

/// The control socket, and the configuration that control commands change.
pub struct Control {
    socket: unixctl::Server,
    configuration: Configuration,
    compactions: Vec<Compaction>,
}

/// A compaction command that is not answered yet.
struct Compaction {
    request: RequestId,
    /// The databases whose compaction has not ended.
    names: Vec<String>,
    errors: String,
}

impl Control {
    /// Opens the socket of `--unixctl`, or the one that `ovs-appctl` looks for.
    pub fn open(args: &DaemonArgs, dirs: &Dirs, configuration: Configuration) -> Result<Control, String> {
        let version = runtime::version_text(&dirs.progname);
        let path = match args.unixctl.as_deref() {
            Some("none") => None,
            Some(path) => Some(dirs.in_run(path)),
            None => Some(dirs.in_run(&format!("{}.{}.ctl", dirs.progname, std::process::id()))),
        };
        let commands: Vec<&str> = ctl::offered_by(ctl::OfferedBy::DATABASE).collect();
        let socket = match path {
            None => unixctl::Server::without_socket(&version, &commands),
            Some(path) => unixctl::Server::bind(&path, &version, &commands).map_err(|e| {
                let why = runtime::error_text(&e);
                format!("could not listen for control connections on {}: {why}", path.display())
            })?,
        };
        Ok(Control { socket, configuration, compactions: Vec::new() })
    }

    /// Executes received commands; returns true if the program must exit.
    pub fn run(&mut self, server: &mut Server) -> bool {
        for request in self.socket.run() {
            if request.method == names::EXIT {
                self.socket.reply(request.id, Ok(Reply::Text(String::new())));
                return true;
            }
            if request.method == names::OVSDB_SERVER_COMPACT {
                match begin_compaction(server, request.args.first().map(String::as_str)) {
                    Ok(names) => self.compactions.push(Compaction {
                        request: request.id,
                        names,
                        errors: String::new(),
                    }),
                    Err(text) => self.socket.reply(request.id, Err(text)),
                }
                continue;
            }
            let answer = self.execute(server, &request.method, &request.args);
            self.socket.reply(request.id, answer.map(Reply::Text));
        }
        false
    }

    /// Answers the compaction commands whose compactions have ended.
    pub fn answer_compactions(&mut self, server: &mut Server) {
        for compaction in &mut self.compactions {
            compaction.names.retain(|name| match server.take_compaction_result(name) {
                None => true,
                Some(Ok(())) => false,
                Some(Err(error)) => {
                    compaction.errors += &format!("{name}: {}\n", runtime::error_text(&error));
                    false
                }
            });
        }
        for done in self.compactions.extract_if(.., |c| c.names.is_empty()) {
            let answer = if done.errors.is_empty() { Ok(String::new()) } else { Err(done.errors) };
            self.socket.reply(done.request, answer.map(Reply::Text));
        }
    }

    /// Registers the events of the control socket.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>) {
        self.socket.wait(set);
    }

    fn execute(&mut self, server: &mut Server, name: &str, args: &[String]) -> Result<String, String> {
        let argument = args.first().map(String::as_str);
        match name {
            names::COVERAGE_SHOW => Ok(runtime::coverage::show()),
            names::COVERAGE_READ_COUNTER => {
                runtime::coverage::read_counter(argument.unwrap_or_default()).map_err(str::to_owned)
            }
            names::MEMORY_SHOW => Ok(format!("{}\n", runtime::memory::report(&usage(server)))),
            _ if name.starts_with("vlog/") => {
                runtime::log::command(name, args).unwrap_or_else(|| Err("no such command".to_owned()))
            }
            _ => match name.strip_prefix("ovsdb-server/").unwrap_or_default() {
                "list-dbs" => Ok(lines(server.databases().into_keys())),
                "list-remotes" => Ok(lines(server.remotes().keys().map(String::as_str))),
                "reconnect" => {
                    server.reconnect();
                    Ok(String::new())
                }
                "perf-counters-show" => {
                    Ok("Not supported: the processor's counters are not read by this version of Sluice\n"
                        .to_owned())
                }
                "perf-counters-clear" => Ok(String::new()),
                "memory-trim-on-compaction" => match argument {
                    // No effect: this server returns memory to the system whenever it is freed.
                    Some("on" | "off") => Ok(String::new()),
                    _ => Err("invalid argument".to_owned()),
                },
                // Replication is not implemented: there is no active server, and no table is excluded.
                "get-active-ovsdb-server" | "get-sync-exclude-tables" | "disconnect-active-ovsdb-server" => {
                    Ok(String::new())
                }
                "sync-status" => Ok("state: active\n".to_owned()),
                "reload" => self.reload(server),
                "add-db" | "remove-db" | "add-remote" | "remove-remote" => {
                    self.change(server, name, argument.unwrap_or_default())
                }
                _ => Err(super::options::NO_REPLICATION.to_owned()),
            },
        }
    }

    fn change(&mut self, server: &mut Server, name: &str, argument: &str) -> Result<String, String> {
        if let Some(file) = &self.configuration.file {
            return Err(format!("Update the {} and use ovsdb-server/reload instead", file.display()));
        }
        match name {
            names::OVSDB_SERVER_ADD_DB => {
                _ = server.add_database(Path::new(argument), None).map_err(|e| e.to_string())?
            }
            names::OVSDB_SERVER_REMOVE_DB => match server.remove_database(argument) {
                true => {}
                false => return Err("Failed to find the database.".to_owned()),
            },
            names::OVSDB_SERVER_ADD_REMOTE => {
                server.check_remote(argument)?;
                let options = || RemoteOptions::default_for(argument);
                server.remotes_mut().entry(argument.to_owned()).or_insert_with(options);
            }
            _ => {
                server.remotes_mut().remove(argument).ok_or("no such remote")?;
            }
        }
        self.configuration.save(server);
        Ok(String::new())
    }

    fn reload(&mut self, server: &mut Server) -> Result<String, String> {
        if self.configuration.file.is_none() {
            return Err("Configuration file was not specified on command line".to_owned());
        }
        let done = self.configuration.reread().and_then(|()| self.configuration.apply(server));
        done.map(|()| String::new())
            .map_err(|_| "Configuration failed.  See the log file for details.".to_owned())
    }
}

/// Starts to compact one database, or all databases; returns their names.
fn begin_compaction(server: &mut Server, name: Option<&str>) -> Result<Vec<String>, String> {
    if name.is_some_and(|name| name.starts_with('_')) {
        return Err("cannot compact built-in databases".to_owned());
    }
    let chosen = |database: &&str| name.map_or(!database.starts_with('_'), |name| name == *database);
    let names: Vec<String> = server.databases().into_keys().filter(chosen).map(str::to_owned).collect();
    if names.is_empty() {
        return Err("no database by that name".to_owned());
    }
    for name in &names {
        runtime::info!(LOG, "compacting {name} database by user request");
        server.compact(name);
    }
    Ok(names)
}

/// Object counts for `memory/show`.
pub fn usage(server: &mut Server) -> BTreeMap<String, u64> {
    let backlog = server.conns.values().map(|c| c.backlog() as u64).sum();
    let core = server.core();
    let sessions = core.sessions.values();
    let databases = core.databases.values();
    let history = databases.clone().map(|served| served.db.history_len() as u64);
    let all = [
        ("atoms", databases.clone().map(|served| atoms(&served.db)).sum()),
        ("backlog", backlog),
        ("cells", databases.clone().map(|served| cells(&served.db)).sum()),
        ("monitors", sessions.clone().map(|s| s.monitors.len() as u64).sum()),
        ("sessions", sessions.clone().count() as u64),
        ("triggers", sessions.map(|s| s.blocked.len() as u64).sum()),
        ("txn-history", history.sum()),
    ];
    all.into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| (name.to_owned(), n)).collect()
}

fn lines<'a>(items: impl Iterator<Item = &'a str>) -> String {
    items.map(|item| format!("{item}\n")).collect()
}
