//! The configured databases and remotes: from the command line, from the configuration file, or from the state that a
//! crashed predecessor had saved. Configuration file and saved state are JSON.

use super::options::Options;
use crate::databases::AddError;
use crate::file::OpenError;
use crate::remotes::{RemoteNames, RemoteOptions};
use crate::server::Server;
use ovsdb::json::as_integer;
use ovsdb::members::{Kinds, Members};
use ovsdb::{Error, Json, log::LogError};
use runtime::Module;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

static LOG: Module = Module::new("ovsdb_server");

/// Maximum length of a configuration file, in bytes.
const MAX_LEN: u64 = 1 << 20;
const MODELS: [&str; 4] = ["standalone", "clustered", "relay", "active-backup"];

/// The configured databases and remotes.
pub struct Configuration {
    /// The files, as the user named them, each with the requested service model; `None`: any.
    databases: BTreeMap<String, Option<String>>,
    remotes: RemoteNames,
    /// The configuration file, if there is one.
    pub file: Option<PathBuf>,
    /// The file in which the configuration is saved, for the process that replaces this one after a crash.
    state: Option<PathBuf>,
    /// The directory to which relative names refer, if the program changes its current directory.
    base: PathBuf,
}

impl Configuration {
    /// The configuration at start.
    pub fn at_start(
        options: &Options,
        state: Option<&Path>,
        changes_directory: bool,
    ) -> Result<Configuration, String> {
        let names = options.databases.iter().map(|path| (path.display().to_string(), None));
        let mut configuration = Configuration {
            databases: names.collect(),
            remotes: options.remotes.clone(),
            file: options.config_file.clone(),
            state: state.map(Path::to_owned),
            base: if changes_directory {
                std::env::current_dir().unwrap_or_default()
            } else {
                PathBuf::new()
            },
        };
        if configuration.file.is_some() {
            configuration.reread()?;
        } else if let Some(left) = state.and_then(|path| read(path).ok()) {
            // At the first start the file is empty and `read` fails.
            configuration.set_from_json(&left)?;
        }
        Ok(configuration)
    }

    /// Reads the configuration file again.
    pub fn reread(&mut self) -> Result<(), String> {
        let Some(path) = self.file.clone() else { return Ok(()) };
        let shown = path.display();
        let failed = || "server configuration failed".to_owned();
        let text = std::fs::read_to_string(&path).map_err(|e| {
            runtime::err!(LOG, "failed to open configuration file '{shown}': {}", runtime::error_text(&e));
            failed()
        })?;
        runtime::info!(LOG, "loading configuration from '{shown}'");
        let taken = parse(&text).and_then(|json| self.set_from_json(&json));
        taken.map_err(|complaint| {
            runtime::warn!(LOG, "{complaint}");
            runtime::warn!(LOG, "failed to load configuration from {shown}");
            failed()
        })
    }

    fn set_from_json(&mut self, json: &Json) -> Result<(), String> {
        let Json::Object(_) = json else {
            return Err("configuration in a file must be a JSON object".to_owned());
        };
        let part = |name: &str| match json.get(name) {
            None | Some(Json::Null) => Ok(Vec::new()),
            Some(Json::Object(map)) => Ok(map.iter().collect()),
            Some(_) => Err(format!("config: '{name}' is not a JSON object")),
        };
        let remotes = part("remotes")?.into_iter();
        let remotes: RemoteNames =
            remotes.map(|(name, json)| (name.clone(), remote_options(name, json))).collect();
        let mut databases = BTreeMap::new();
        for (name, json) in part("databases")? {
            let model = service_model(name, json).map_err(|error| {
                runtime::warn!(LOG, "{error}");
                "config: failed to parse 'databases'"
            })?;
            databases.insert(name.clone(), model);
        }
        (self.remotes, self.databases) = (remotes, databases);
        Ok(())
    }

    /// Applies the configuration to the server. Parts that fail are logged; all other parts are applied.
    pub fn apply(&mut self, server: &mut Server) -> Result<(), String> {
        let mut fine = true;
        let keep: Vec<PathBuf> =
            self.databases.keys().filter_map(|name| real(&self.base.join(name))).collect();
        let gone: Vec<String> = {
            let others = server.databases().into_iter();
            let unwanted = |path: &Path| real(path).is_none_or(|path| !keep.contains(&path));
            others.filter(|(_, path)| path.is_some_and(unwanted)).map(|(name, _)| name.to_owned()).collect()
        };
        gone.iter().for_each(|name| _ = server.remove_database(name));
        let open: Vec<PathBuf> =
            server.databases().values().flatten().filter_map(|path| real(path)).collect();
        for (name, model) in &self.databases {
            let path = self.base.join(name);
            if real(&path).is_some_and(|path| open.contains(&path)) {
                continue;
            }
            if let Err(error) = add(server, name, &path, model.as_deref()) {
                runtime::warn!(LOG, "failed to open database '{name}': {error}");
                fine = false;
            }
        }
        if !fine {
            runtime::warn!(LOG, "failed to configure databases");
        }
        *server.remotes_mut() = self.remotes.clone();
        for complaint in self.remotes.keys().filter_map(|name| server.check_remote(name).err()) {
            // Without a configuration file the server itself logs the error, and waits until the database is added.
            if self.file.is_some() {
                runtime::warn!(LOG, "failed to configure remotes: {complaint}");
                fine = false;
            }
        }
        if fine { Ok(()) } else { Err("some databases or remotes cannot be opened".to_owned()) }
    }

    /// Saves the served databases and remotes for a successor, after a control command changed them.
    pub fn save(&self, server: &mut Server) {
        let Some(path) = &self.state else { return };
        let databases: serde_json::Map<String, Json> = server
            .databases()
            .values()
            .flatten()
            .map(|path| (path.display().to_string(), Json::Null))
            .collect();
        let remotes: serde_json::Map<String, Json> =
            server.remotes().keys().map(|name| (name.clone(), Json::Null)).collect();
        let text = json!({"databases": databases, "remotes": remotes}).to_string();
        if let Err(error) = std::fs::write(path, text) {
            runtime::warn!(LOG, "failed to save the configuration: {}", runtime::error_text(&error));
        }
    }
}

/// Adds a database, unless its file does not have the requested service model.
fn add(server: &mut Server, name: &str, path: &Path, model: Option<&str>) -> Result<(), String> {
    if let Some(model @ ("relay" | "active-backup")) = model {
        return Err(format!("service model {model}: {}", super::options::NO_REPLICATION));
    }
    match server.add_database(path, None) {
        Ok(database) if model == Some("clustered") => {
            server.remove_database(&database);
            Err(format!("ovsdb error: {name}: database is standalone and not clustered"))
        }
        Ok(_) => Ok(()),
        Err(AddError::Open(OpenError::Log { cause: LogError::Clustered, .. }))
            if model == Some("standalone") =>
        {
            Err(format!("ovsdb error: {name}: database is clustered and not standalone"))
        }
        Err(error) => Err(error.to_string()),
    }
}

fn real(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}

fn read(path: &Path) -> Result<Json, String> {
    let text = std::fs::read_to_string(path).map_err(|e| runtime::error_text(&e))?;
    parse(&text)
}

fn parse(text: &str) -> Result<Json, String> {
    if text.len() as u64 > MAX_LEN {
        return Err(format!("config: longer than {MAX_LEN} bytes"));
    }
    serde_json::from_str(text).map_err(|e| format!("config: reading JSON failed ({e})"))
}

fn remote_options(name: &str, json: &Json) -> RemoteOptions {
    let mut options = RemoteOptions::default_for(name);
    if json.is_null() {
        return options;
    }
    let mut members = Members::new(json, "JSON-RPC options");
    let mut number = |name: &'static str| {
        members.optional(name, Kinds::INTEGER).and_then(as_integer).and_then(|n| u64::try_from(n).ok())
    };
    options.max_backoff_ms = number("max-backoff").unwrap_or(options.max_backoff_ms);
    options.probe_interval_ms = number("inactivity-probe").unwrap_or(options.probe_interval_ms);
    // Ignored: the DSCP field of packets is left to the system.
    let _dscp = number("dscp");
    options.read_only =
        members.optional("read-only", Kinds::BOOLEAN).and_then(Json::as_bool).unwrap_or(false);
    let role = members.optional("role", Kinds::STRING).and_then(Json::as_str);
    options.role = role.unwrap_or_default().to_owned();
    if let Err(error) = members.finish() {
        runtime::warn!(LOG, "{error}");
    }
    options
}

/// The requested service model of a database; `None` if any is accepted.
fn service_model(name: &str, json: &Json) -> Result<Option<String>, Error> {
    if json.is_null() {
        return Ok(None);
    }
    let mut members = Members::new(json, format!("database {name}"));
    let model = members.optional("service-model", Kinds::STRING).and_then(Json::as_str);
    if let Some(model) = model.filter(|model| !MODELS.contains(model)) {
        runtime::warn!(LOG, "Unrecognized database service model: '{model}'");
        members.raise(&format!("'{model}' is not a valid service model"));
    }
    let mut replicates = model == Some("relay");
    if model == Some("active-backup") {
        replicates = members.optional("backup", Kinds::BOOLEAN).and_then(Json::as_bool).unwrap_or(false);
        members.optional("exclude-tables", Kinds::ARRAY);
    }
    match replicates {
        true => _ = members.required("source", Kinds::OBJECT),
        false => _ = members.optional("source", Kinds::OBJECT),
    }
    members.finish()?;
    // Model active-backup: unless this server is the backup, it is the active server, which works like a standalone
    // server.
    Ok(model.filter(|model| replicates || *model != "active-backup").map(str::to_owned))
}
