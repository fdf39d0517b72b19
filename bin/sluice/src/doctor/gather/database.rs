//! Reads the configuration from the database server, or from the database file.

use super::devices;
use crate::doctor::facts::{Configuration, Controller, Facts, Interface, SettingProblem};
use crate::doctor::finding::Level;
use crate::vsctl::connection::{Connection, ConnectionError};
use config::check::{Checker, Finding, Problem, TYPE};
use ovsdb::replica::Config;
use ovsdb::{Atom, Datum, Uuid};
use runtime::Dirs;
use settings::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// If the server does not answer within this time, the database file is read instead, unless the user named the server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// The column with the UUID, which every row has.
const UUID: &str = "_uuid";

/// Rows by table; a row is a map of columns.
pub type Rows = BTreeMap<String, Vec<BTreeMap<String, Datum>>>;

/// Whether the address of a database is the path of a file.
pub fn is_file(place: &str) -> bool {
    place.starts_with(['/', '.'])
}

/// Reads all rows; also returns a description of the source (server or file).
pub fn read_rows(dirs: &Dirs, server: Option<String>) -> Result<(Rows, String), String> {
    if let Some(file) = server.as_deref().filter(|place| is_file(place)) {
        return read_file(Path::new(file)).map(|rows| (rows, file.to_owned()));
    }
    let server_given = server.is_some();
    let remote = server.unwrap_or_else(|| format!("unix:{}", dirs.in_run("db.sock").display()));
    let why = match ask(dirs, &remote) {
        Ok(rows) => return Ok((rows, remote)),
        Err(why) => format!("{remote}: {why}"),
    };
    let file = dirs.db.join("conf.db");
    match server_given {
        true => Err(why),
        false => {
            read_file(&file).map(|rows| (rows, file.display().to_string())).map_err(|e| format!("{why}; {e}"))
        }
    }
}

fn ask(dirs: &Dirs, remote: &str) -> Result<Rows, String> {
    let schema = ovsdb::schema::open_vswitch();
    let tables: Vec<&str> = schema.tables.iter().map(|t| t.name.as_str()).collect();
    let deadline = Some(Instant::now() + ANSWER_TIMEOUT);
    let mut connection = Connection::new(remote, dirs, Config::open_vswitch(&tables), deadline);
    let before = connection.replica.seqno();
    connection.wait_for_change(before).map_err(|broken| match broken {
        ConnectionError::Connection(why) => why,
        ConnectionError::TimeOut => "no answer".to_owned(),
    })?;
    let replica = &connection.replica;
    let mut rows = Rows::new();
    for table in &schema.tables {
        let of_table = replica.rows(&table.name).map(|row| {
            let columns = table.columns.iter();
            let named = columns.filter_map(|c| Some((c.name.clone(), row.datum(&c.name)?.clone())));
            named.chain([(UUID.to_owned(), Datum::scalar(Atom::Uuid(row.uuid())))]).collect()
        });
        rows.insert(table.name.clone(), of_table.collect());
    }
    Ok(rows)
}

/// Reads a database file in the same way as the server, without writing to it.
fn read_file(path: &Path) -> Result<Rows, String> {
    let db = ovsdb_server::read(path).map_err(|e| e.to_string())?;
    let mut rows = Rows::new();
    for (table, content) in db.schema().tables.iter().zip(db.tables()) {
        let columns = || table.columns.iter().enumerate();
        let of_row = |(uuid, row): (&Uuid, &Arc<ovsdb::database::Row>)| {
            let named = columns().map(|(at, column)| (column.name.clone(), row.field(at).clone()));
            named.chain([(UUID.to_owned(), Datum::scalar(Atom::Uuid(*uuid)))]).collect()
        };
        rows.insert(table.name.clone(), content.rows().iter().map(of_row).collect());
    }
    Ok(rows)
}

fn map(row: &BTreeMap<String, Datum>, column: &str) -> BTreeMap<String, String> {
    let Some(datum) = row.get(column) else { return BTreeMap::new() };
    let pairs = datum.keys().zip(datum.values());
    pairs.filter_map(|(k, v)| Some((k.as_str()?.to_owned(), v.as_str()?.to_owned()))).collect()
}

fn text(row: &BTreeMap<String, Datum>, column: &str) -> String {
    let atom = row.get(column).and_then(Datum::first);
    atom.and_then(|a| a.as_str()).unwrap_or_default().to_owned()
}

/// A row of `Controller`; `None` if the target is passive, so that the switch waits for the controller to connect.
fn controller(row: &BTreeMap<String, Datum>) -> Option<Controller> {
    let target = text(row, "target");
    let connected = row.get("is_connected").and_then(Datum::first);
    let is_connected = connected.is_some_and(|a| matches!(a, Atom::Boolean(true)));
    let last_error = map(row, "status").remove("last_error");
    (!target.starts_with('p')).then_some(Controller { target, is_connected, last_error })
}

/// Sets the facts that are in the database.
pub fn read(rows: &Rows, dirs: &Dirs, facts: &mut Facts) {
    let of = |table: &str| rows.get(table).map(Vec::as_slice).unwrap_or_default();
    let is_empty = of("Bridge").is_empty();
    facts.configuration = if is_empty { Configuration::Empty } else { Configuration::Present };
    if let Some(root) = of("Open_vSwitch").first() {
        facts.other_config = map(root, "other_config");
    }
    facts.controllers = of("Controller").iter().filter_map(controller).collect();
    let mut found: Vec<(&str, Finding)> = Vec::new();
    for checker in Checker::of_all_tables() {
        let table = checker.table();
        for row in of(table) {
            let findings = checker.row(|column| row.get(column), |kind| kind.starts_with("dummy"));
            found.extend(findings.into_iter().map(|f| (table, f)));
        }
    }
    for row in of("Interface") {
        let mut interface =
            Interface { name: text(row, "name"), kind: text(row, "type"), ..Interface::default() };
        let egress = || map(row, "status").get("tunnel_egress_error").cloned();
        interface.error = remaining_error(text(row, "error"), &interface.name, &found);
        let ofport = row.get("ofport").and_then(Datum::first).and_then(Atom::as_integer);
        interface.forwards_despite_error = interface.error.is_some() && ofport.is_some_and(|port| port > 0);
        interface.error = interface.error.or_else(egress);
        interface.other_config = map(row, "other_config");
        interface.bridge =
            row.get(UUID).and_then(Datum::first).map_or_else(String::new, |u| bridge_of(rows, u));
        interface.mtu =
            row.get("mtu").and_then(Datum::first).and_then(Atom::as_integer).map(|mtu| mtu as u32);
        interface.egress = map(row, "status").remove("tunnel_egress_iface");
        interface.remote = map(row, "options").remove("remote_ip").unwrap_or_default();
        devices::fill_facts(&mut interface, &map(row, "options"), &facts.other_config, dirs);
        facts.interfaces.push(interface);
    }
    facts.settings.extend(found.iter().map(|(table, f)| setting(table, f)));
}

/// The name of the bridge that contains this interface; empty if there is none.
fn bridge_of(rows: &Rows, interface: &Atom) -> String {
    let row_with = |table: &str, column: &str, uuid: &Atom| {
        let has =
            |row: &&BTreeMap<String, Datum>| row.get(column).is_some_and(|d| d.keys().any(|k| k == uuid));
        rows.get(table).and_then(|of| of.iter().find(has))
    };
    let port = row_with("Port", "interfaces", interface).and_then(|port| port.get(UUID)?.first());
    port.and_then(|port| row_with("Bridge", "ports", port)).map_or_else(String::new, |b| text(b, "name"))
}

/// The error of an interface without the parts that the findings already report; `None` if nothing is left.
fn remaining_error(error: String, name: &str, found: &[(&str, Finding)]) -> Option<String> {
    let not_built = || found.iter().filter(|(_, f)| matches!(f.problem, Problem::NotBuilt(_)));
    let refused = |f: &Finding| f.name == TYPE && f.row == format!("Interface {name}");
    if not_built().any(|(_, f)| refused(f)) {
        return None;
    }
    let reported: Vec<String> =
        not_built().map(|(_, f)| Finding { row: String::new(), ..f.clone() }.to_string()).collect();
    let mut rest = error;
    reported.iter().for_each(|text| rest = rest.replace(text, ""));
    let rest = rest.split("; ").filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
    (!rest.is_empty()).then_some(rest)
}

/// The default of a column; `None` if its setting is not an integer or has no default.
fn default_number(table: &str, column: &str) -> Option<i64> {
    match settings::find(table, column, "", "")?.value {
        Value::Int { default, .. } => default,
        _ => None,
    }
}

/// The finding, with the command that corrects the setting or, if the user must decide, shows the row.
fn setting(table: &str, finding: &Finding) -> SettingProblem {
    let level = match finding.problem {
        Problem::NotBuilt(_) => Level::Problem,
        Problem::Unknown
        | Problem::IgnoredOnAccessPort
        | Problem::Invalid { .. }
        | Problem::Clamped { .. } => Level::Warning,
        Problem::NoEffect(_) => Level::Advice,
    };
    let text = finding.to_string();
    let row = match finding.row.split_once(' ') {
        Some((_, name)) => name,
        None if table == "Open_vSwitch" => ".",
        None => return SettingProblem { text, fix: format!("sluice vsctl list {table}"), level },
    };
    let fix = match finding.name.split_once(':') {
        None if finding.name == TYPE => format!("sluice vsctl del-port {row}"),
        // The user has to decide which interface of the port to keep, because a port must have one.
        None if finding.name == "interfaces" => format!("sluice vsctl list {table} {row}"),
        None if finding.value == "true" => format!("sluice vsctl set {table} {row} {}=false", finding.name),
        Some((column, key)) => format!("sluice vsctl remove {table} {row} {column} {key}"),
        None => match default_number(table, &finding.name) {
            Some(default) => format!("sluice vsctl set {table} {row} {}={default}", finding.name),
            None => format!("sluice vsctl clear {table} {row} {}", finding.name),
        },
    };
    SettingProblem { text, fix, level }
}
