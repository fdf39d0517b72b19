//! The configuration: from the database's server, or from its file.

use super::devices;
use crate::vsctl::connection::{Broken, Connection};
use config::settings::check::{Checker, Finding, Problem};
use doctor::Facts;
use doctor::facts::{Interface, Setting};
use ovsdb::Datum;
use ovsdb::replica::Config;
use runtime::Dirs;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// A server that does not answer for so long is none.
const PATIENCE: Duration = Duration::from_secs(3);

/// Rows by table, each with its columns.
pub type Rows = BTreeMap<String, Vec<BTreeMap<String, Datum>>>;

/// All rows, and where they come from.
pub fn open(dirs: &Dirs, server: Option<String>) -> Result<(Rows, String), String> {
    let asked = server.is_some();
    let remote = server.unwrap_or_else(|| format!("unix:{}", dirs.in_run("db.sock").display()));
    let why = match ask(dirs, &remote) {
        Ok(rows) => return Ok((rows, remote)),
        Err(why) => format!("{remote}: {why}"),
    };
    let file = dirs.db.join("conf.db");
    match asked {
        true => Err(why),
        false => {
            read_file(&file).map(|rows| (rows, file.display().to_string())).map_err(|e| format!("{why}; {e}"))
        }
    }
}

fn ask(dirs: &Dirs, remote: &str) -> Result<Rows, String> {
    let schema = ovsdb::schema::open_vswitch();
    let tables: Vec<&str> = schema.tables.iter().map(|t| t.name.as_str()).collect();
    let deadline = Some(Instant::now() + PATIENCE);
    let mut connection = Connection::new(remote, dirs, Config::open_vswitch(&tables), deadline);
    let before = connection.replica.seqno();
    connection.wait_for_change(before).map_err(|broken| match broken {
        Broken::Connection(why) => why,
        Broken::TimeOut => "no answer".to_owned(),
    })?;
    let replica = &connection.replica;
    let mut rows = Rows::new();
    for table in &schema.tables {
        let of_table = replica.rows(&table.name).map(|row| {
            let columns = table.columns.iter();
            columns.filter_map(|c| Some((c.name.clone(), row.datum(&c.name)?.clone()))).collect()
        });
        rows.insert(table.name.clone(), of_table.collect());
    }
    Ok(rows)
}

/// The file as the server would read it; nothing is written.
fn read_file(path: &Path) -> Result<Rows, String> {
    let db = ovsdb_server::read(path).map_err(|e| e.to_string())?;
    let mut rows = Rows::new();
    for (table, content) in db.schema().tables.iter().zip(db.tables()) {
        let columns = || table.columns.iter().enumerate();
        let of_row = |row: &ovsdb::database::Row| {
            columns().map(|(at, column)| (column.name.clone(), row.field(at).clone())).collect()
        };
        rows.insert(table.name.clone(), content.rows().values().map(|row| of_row(row)).collect());
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

/// Fills in what the database says.
pub fn read(rows: &Rows, dirs: &Dirs, facts: &mut Facts) {
    let of = |table: &str| rows.get(table).map(Vec::as_slice).unwrap_or_default();
    if let Some(root) = of("Open_vSwitch").first() {
        facts.other_config = map(root, "other_config");
    }
    for row in of("Interface") {
        let mut interface =
            Interface { name: text(row, "name"), kind: text(row, "type"), ..Interface::default() };
        let error = text(row, "error");
        interface.error = (!error.is_empty()).then_some(error);
        devices::learn(&mut interface, &map(row, "options"), &facts.other_config, dirs);
        facts.interfaces.push(interface);
    }
    for checker in Checker::of_all_tables() {
        for row in of(checker.table()) {
            let findings = checker.row(|column| row.get(column), |kind| kind.starts_with("dummy"));
            facts.settings.extend(findings.iter().map(|f| setting(checker.table(), f)));
        }
    }
}

/// The finding with the command that takes the setting away.
fn setting(table: &str, finding: &Finding) -> Setting {
    let row = match finding.row.split_once(' ') {
        Some((_, name)) => name,
        None if table == "Open_vSwitch" => ".",
        None => {
            return Setting {
                text: finding.to_string(),
                mend: format!("sluice vsctl list {table}"),
                is_wrong: true,
            };
        }
    };
    let mend = match finding.name.split_once(':') {
        // A port has to have an interface; which one to leave is for the user to say.
        None if finding.name == "interfaces" => format!("sluice vsctl list {table} {row}"),
        None if finding.value == "true" => format!("sluice vsctl set {table} {row} {}=false", finding.name),
        Some((column, key)) => format!("sluice vsctl remove {table} {row} {column} {key}"),
        None => format!("sluice vsctl clear {table} {row} {}", finding.name),
    };
    let is_wrong =
        matches!(finding.problem, Problem::Unknown | Problem::Invalid { .. } | Problem::NotBuilt(_));
    Setting { text: finding.to_string(), mend, is_wrong }
}
