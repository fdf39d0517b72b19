//! Settings that are read from columns of a database (`db:DATABASE,TABLE,COLUMN`): remotes and TLS files. Also writes the
//! status of remotes to the database.

use crate::remotes::{RemoteNames, RemoteOptions, RemoteSocket};
use crate::server::Server;
use crate::tls_names::TlsNames;
use ovsdb::database::Table;
use ovsdb::schema::TableSchema;
use ovsdb::types::AtomicType;
use ovsdb::{Atom, Database, Datum, Operation, Row, Schema};
use runtime::Module;
use std::collections::BTreeMap;
use std::sync::Arc;
use transport::tls::{self, Files};
use units::Millis;

static LOG: Module = Module::new("ovsdb_server");

/// Time between two updates of the remotes' status, in ms.
const STATUS_INTERVAL_MS: u64 = 2_500;

/// A column of a database.
pub(crate) struct ColumnRef<'a> {
    db: &'a Database,
    table: usize,
    column: usize,
}

/// The string in a column; the first one if the column is a set.
pub(crate) fn text<'r>(schema: &Schema, table: &str, row: &'r Row, column: &str) -> Option<&'r str> {
    value(schema, table, row, column)?.first()?.as_str()
}

fn value<'r>(schema: &Schema, table: &str, row: &'r Row, column: &str) -> Option<&'r Datum> {
    Some(row.field(schema.table(table)?.column_index(column)?))
}

impl ColumnRef<'_> {
    fn rows(&self) -> impl Iterator<Item = &Arc<Row>> {
        self.db.tables()[self.table].rows().values()
    }

    fn values(&self) -> impl Iterator<Item = &Atom> {
        self.rows().flat_map(|row| row.field(self.column).keys())
    }

    /// The table to which references in the column point.
    fn refers_to(&self) -> Option<usize> {
        let ty = &self.db.schema().tables[self.table].columns[self.column].ty;
        ty.key.refers_to.as_ref().filter(|_| ty.value.is_none()).map(|to| to.index)
    }

    fn holds_strings(&self) -> bool {
        let ty = &self.db.schema().tables[self.table].columns[self.column].ty;
        ty.value.is_none() && ty.key.kind == AtomicType::String
    }
}

impl Server {
    /// Finds the column with the name `db:DATABASE,TABLE,COLUMN`.
    pub(crate) fn find_column(&self, name: &str) -> Result<ColumnRef<'_>, String> {
        let mut parts =
            name.strip_prefix("db:").unwrap_or_default().split(',').filter(|part| !part.is_empty());
        let (Some(db), Some(table), Some(column)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(format!("\"{name}\": invalid syntax"));
        };
        let served =
            self.core.databases.get(db).ok_or_else(|| format!("\"{name}\": no database named {db}"))?;
        let schema = served.db.schema();
        let index = schema.table_index(table).ok_or_else(|| format!("\"{name}\": no table named {table}"))?;
        let column = schema.tables[index]
            .column_index(column)
            .ok_or_else(|| format!("\"{name}\": table \"{table}\" has no column \"{column}\""))?;
        Ok(ColumnRef { db: &served.db, table: index, column })
    }

    /// Returns an error if `name` is a `db:` name and its column does not exist.
    pub fn check_remote(&mut self, name: &str) -> Result<(), String> {
        _ = self.core();
        if name.starts_with("db:") { self.find_column(name).map(drop) } else { Ok(()) }
    }

    /// Sets the names of the TLS files.
    pub fn set_tls(&mut self, names: TlsNames) {
        self.tls = names;
        _ = self.remotes_mut();
    }

    /// Returns whether any setting is read from a column.
    pub(crate) fn reads_settings(&self) -> bool {
        let files = [&self.tls.private_key, &self.tls.certificate, &self.tls.ca_cert];
        let choices = [&self.tls.protocols, &self.tls.ciphers, &self.tls.ciphersuites];
        let names = files.into_iter().chain(choices).chain(self.remotes.configured.keys());
        names.into_iter().any(|name| name.starts_with("db:"))
    }

    /// Returns the configured targets and configuration errors. Also configures TLS.
    pub(crate) fn resolve_settings(&self) -> (RemoteNames, Vec<String>) {
        let mut targets = RemoteNames::new();
        let mut errors = Vec::new();
        for (name, options) in &self.remotes.configured {
            if !name.starts_with("db:") {
                targets.entry(name.clone()).or_insert_with(|| options.clone());
                continue;
            }
            match self.find_column(name) {
                Ok(column) => add_targets(&column, &mut targets),
                Err(error) => errors.push(error),
            }
        }
        self.set_up_tls(&mut errors);
        (targets, errors)
    }

    fn set_up_tls(&self, errors: &mut Vec<String>) {
        if self.tls == TlsNames::default() {
            return;
        }
        let mut read = |name: &str| -> String {
            if !name.starts_with("db:") {
                return name.to_owned();
            }
            match self.find_column(name) {
                Ok(column) if column.holds_strings() => {
                    let found = column.values().filter_map(Atom::as_str).find(|text| !text.is_empty());
                    found.unwrap_or_default().to_owned()
                }
                Ok(_) => {
                    errors.push(format!("\"{name}\": not string or set of strings"));
                    String::new()
                }
                Err(error) => {
                    errors.push(error);
                    String::new()
                }
            }
        };
        let files = Files {
            private_key: read(&self.tls.private_key).into(),
            certificate: read(&self.tls.certificate).into(),
            ca_cert: read(&self.tls.ca_cert).into(),
            bootstrap: self.tls.bootstrap,
            protocols: read(&self.tls.protocols),
            ciphers: read(&self.tls.ciphers),
            ciphersuites: read(&self.tls.ciphersuites),
        };
        let incomplete =
            [&files.private_key, &files.certificate, &files.ca_cert].iter().any(|f| f.as_os_str().is_empty());
        match tls::configure(&files) {
            // No error while columns are empty: they may be set later. Until then no TLS connection can be made.
            Err(error) if !incomplete => errors.push(error),
            _ => {}
        }
    }

    /// Logs configuration errors that are new since the last call.
    pub(crate) fn log_errors(&mut self, errors: Vec<String>) {
        let new = errors.iter().filter(|text| !self.errors.contains(text));
        new.for_each(|text| runtime::warn!(LOG, "{text}"));
        self.errors = errors;
    }

    /// Writes the status of remotes to the rows that configure them, every 2.5 s.
    pub(crate) fn write_status(&mut self, now: Millis) {
        let names: Vec<_> =
            self.remotes.configured.keys().filter(|name| name.starts_with("db:")).cloned().collect();
        if names.is_empty() {
            self.status_due = None;
            return;
        }
        if self.status_due.is_some_and(|due| now < due) {
            return;
        }
        self.status_due = Some(Millis(now.0 + STATUS_INTERVAL_MS));
        let mut writes: BTreeMap<String, Vec<Operation>> = BTreeMap::new();
        for name in names {
            let Ok(column) = self.find_column(&name) else { continue };
            let Some(to) = column.refers_to() else { continue };
            let schema = column.db.schema();
            for row in column
                .values()
                .filter_map(Atom::as_uuid)
                .filter_map(|uuid| column.db.tables()[to].rows().get(&uuid))
            {
                let update = self.status_of(schema, &schema.tables[to].name, row, now);
                writes.entry(schema.name.clone()).or_default().extend(update);
            }
        }
        for (name, operations) in writes {
            let Some(served) = self.core.databases.get_mut(&name) else { continue };
            if let Err(error) = served.add_server_transaction(&operations) {
                runtime::err!(LOG, "Failed to update remote status: {error}");
            }
        }
    }

    fn status_of(&self, schema: &Schema, table: &str, row: &Row, now: Millis) -> Option<Operation> {
        let target = text(schema, table, row, "target")?;
        let columns = schema.table(table)?;
        let (connected, status) = self.remote_status(target, now);
        let mut update = Operation::update(table, row.uuid());
        if columns.column("is_connected").is_some() {
            update = update.set("is_connected", connected);
        }
        if columns.column("status").is_some() {
            update = update.set("status", Datum::map(status));
        }
        Some(update)
    }

    /// Returns whether the remote has a connection, and the values of column `status`.
    fn remote_status(&self, target: &str, now: Millis) -> (bool, BTreeMap<String, String>) {
        let mut status = BTreeMap::new();
        let mut put = |key: &str, value: Option<String>| {
            if let Some(value) = value.filter(|v| !v.is_empty()) {
                status.insert(key.to_owned(), value);
            }
        };
        let sessions: Vec<_> = self.conns.iter().filter(|(_, s)| s.remote == target && !s.closed).collect();
        let socket = self.remotes.active.get(target).map(|remote| &remote.socket);
        let link = match (sessions.first(), socket) {
            (Some((_, session)), _) => Some(&session.link),
            (None, Some(RemoteSocket::Outbound { link: Some(link), .. })) => Some(&**link),
            _ => None,
        };
        if let Some(link) = link {
            put("state", Some(link.state().name().to_owned()));
            put("sec_since_connect", link.sec_since_connect(now).map(|s| s.to_string()));
            put("sec_since_disconnect", link.sec_since_disconnect(now).map(|s| s.to_string()));
            put("last_error", link.last_error().map(str::to_owned));
        }
        if let Some((id, _)) = sessions.first() {
            let [held, waiting, lost] = self.core.locks.of_session(**id).map(|names| names.join(" "));
            put("locks_held", Some(held));
            put("locks_waiting", Some(waiting));
            put("locks_lost", Some(lost));
        }
        put("n_connections", (sessions.len() > 1).then(|| sessions.len().to_string()));
        if let Some(RemoteSocket::Listening(listener)) = socket {
            put("bound_port", listener.local_addr().map(|address| address.port().to_string()));
        }
        (!sessions.is_empty(), status)
    }
}

/// Adds the targets that a column contains: strings, or references to rows like those of table Manager.
fn add_targets(column: &ColumnRef, targets: &mut RemoteNames) {
    if column.holds_strings() {
        for target in column.values().filter_map(Atom::as_str) {
            let options = || RemoteOptions::default_for(target);
            targets.entry(target.to_owned()).or_insert_with(options);
        }
        return;
    }
    let Some(to) = column.refers_to() else { return };
    let schema = column.db.schema();
    let table = &schema.tables[to].name;
    let rows = column.db.tables()[to].rows();
    for row in column.values().filter_map(Atom::as_uuid).filter_map(|uuid| rows.get(&uuid)) {
        let Some(target) = text(schema, table, row, "target").filter(|target| !target.is_empty()) else {
            continue;
        };
        let value = |column| value(schema, table, row, column).and_then(Datum::first);
        let number = |column| value(column).and_then(Atom::as_integer).and_then(|n| u64::try_from(n).ok());
        let mut options = RemoteOptions::default_for(target);
        options.max_backoff_ms = number("max_backoff").unwrap_or(options.max_backoff_ms);
        options.probe_interval_ms = number("inactivity_probe").unwrap_or(options.probe_interval_ms);
        options.read_only = value("read_only").and_then(Atom::as_bool).unwrap_or(false);
        options.role = value("role").and_then(Atom::as_str).unwrap_or_default().to_owned();
        targets.insert(target.to_owned(), options);
    }
}

/// For a report, the values in this many rows of a table are counted, and the sum is extrapolated to all rows.
const SAMPLE: usize = 4096;

/// Estimated number of values in a database, for reports.
pub(crate) fn atoms(db: &Database) -> u64 {
    let of = |row: &Arc<Row>, columns: usize| -> u64 {
        (0..columns).map(|c| (row.field(c).keys().count() + row.field(c).values().count()) as u64).sum()
    };
    let tables = db.schema().tables.iter().zip(db.tables());
    let of_table = |(schema, table): (&TableSchema, &Table)| {
        let (rows, sample) = (table.rows().size(), table.rows().values().take(SAMPLE));
        let counted: u64 = sample.map(|row| of(row, schema.columns.len())).sum();
        counted * rows as u64 / rows.clamp(1, SAMPLE) as u64
    };
    tables.map(of_table).sum()
}

/// Number of fields in a database, for reports.
pub(crate) fn cells(db: &Database) -> u64 {
    let tables = db.schema().tables.iter().zip(db.tables());
    tables.map(|(schema, t)| (t.rows().size() * schema.columns.len()) as u64).sum()
}
