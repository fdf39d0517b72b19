//! Commands that copy the contents of a database: `dump`, `backup`, `restore`.

use super::context::{Context, Fail, print};
use super::server::{check_results, connect_to_database, schema};
use crate::suggest;
use crate::table::{Cell, Table};
use ovsdb::database::Row;
use ovsdb::json::{parse_uuid, sorted_string};
use ovsdb::schema::{Column, TableSchema};
use ovsdb::types::AtomicType;
use ovsdb::{Database, Datum, Json, Schema, Uuid, log};
use serde_json::{Map, json};
use std::cmp::Ordering;
use std::io::{IsTerminal, Read, Write};
use std::sync::Arc;

type CommandResult = Result<(), Fail>;

/// A transaction that selects the given columns of all rows of the tables.
fn select(database: &str, tables: &[(&TableSchema, Vec<&Column>)]) -> Json {
    let operation = |(table, columns): &(&TableSchema, Vec<&Column>)| {
        let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
        json!({"op": "select", "table": table.name, "where": [], "columns": names})
    };
    Json::Array(std::iter::once(database.into()).chain(tables.iter().map(operation)).collect())
}

/// The rows of each table in the reply.
fn rows<'a>(answer: &'a Json, tables: &[(&TableSchema, Vec<&Column>)]) -> Result<Vec<&'a Vec<Json>>, Fail> {
    let results = answer.as_array().filter(|list| list.len() == tables.len());
    let results = results.ok_or_else(|| {
        format!("reply is not array of {} elements: {}", tables.len(), sorted_string(answer))
    })?;
    let of = |(result, (table, _)): (&'a Json, &(&TableSchema, Vec<&Column>))| {
        result.get("rows").and_then(Json::as_array).ok_or_else(|| {
            let (name, text) = (&table.name, sorted_string(result));
            Fail::Message(format!("{name} table reply is not an object with a \"rows\" member array: {text}"))
        })
    };
    results.iter().zip(tables).map(of).collect()
}

/// `dump`
pub fn dump(cx: &Context, args: &[String]) -> CommandResult {
    let mut session = connect_to_database(cx, args, 0)?;
    let schema = schema(&mut session.rpc, &session.database)?;
    let visible = |t: &TableSchema| -> Vec<usize> {
        (0..t.columns.len()).filter(|at| t.columns[*at].name != "_version").collect()
    };
    let mut chosen: Vec<(&TableSchema, Vec<&Column>)> = Vec::new();
    match session.args.split_first() {
        None => {
            chosen.extend(
                schema.tables.iter().map(|t| (t, visible(t).iter().map(|at| &t.columns[*at]).collect())),
            );
        }
        Some((name, names)) => {
            let unknown = || {
                let hint = suggest::hint(name, schema.tables.iter().map(|t| t.name.as_str()));
                format!("No table \"{name}\" found.{hint}")
            };
            let table = schema.table(name).ok_or_else(unknown)?;
            let mut columns = Vec::new();
            for column in names {
                let missing = || {
                    let hint = suggest::hint(column, table.columns.iter().map(|c| c.name.as_str()));
                    format!("Table \"{name}\" has no column {column}.{hint}")
                };
                columns.push(table.column(column).ok_or_else(missing)?);
            }
            if columns.is_empty() {
                columns = visible(table).iter().map(|at| &table.columns[*at]).collect();
            }
            chosen.push((table, columns));
        }
    }
    chosen.iter_mut().for_each(|(_, columns)| columns.sort_by(|a, b| a.name.cmp(&b.name)));
    let answer = session.rpc.ask("transact", select(&session.database, &chosen))?;
    for (at, (rows, (table, columns))) in rows(&answer, &chosen)?.into_iter().zip(&chosen).enumerate() {
        print(&table_of(table, columns, rows)?.render(&cx.options.style, at == 0))?;
    }
    Ok(())
}

fn table_of(table: &TableSchema, columns: &[&Column], rows: &[Json]) -> Result<Table, Fail> {
    let mut data: Vec<Vec<Datum>> = Vec::new();
    for (y, row) in rows.iter().enumerate() {
        let mut values = Vec::new();
        for column in columns {
            let lacks = || format!("row {y} in table {} response lacks {} column", table.name, column.name);
            let json = row.get(&column.name).ok_or_else(lacks)?;
            values.push(Datum::from_json(json, &column.ty, None)?);
        }
        data.push(values);
    }
    // Sort by UUID columns last: UUIDs are random, so the order would differ between databases of equal content.
    let is_uuid = |x: &usize| columns.get(*x).is_some_and(|c| c.ty.key.kind == AtomicType::Uuid);
    let (uuid_columns, other_columns): (Vec<usize>, Vec<usize>) = (0..columns.len()).partition(is_uuid);
    data.sort_by(|a, b| {
        let by = |x: &usize| a.get(*x).zip(b.get(*x)).map_or(Ordering::Equal, |(a, b)| compare(a, b));
        other_columns.iter().chain(&uuid_columns).map(by).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    });
    let cells = |values: Vec<Datum>| {
        values.into_iter().zip(columns).map(|(d, c)| Cell::Value(d, c.ty.clone().into())).collect()
    };
    Ok(Table {
        headings: columns.iter().map(|c| c.name.clone()).collect(),
        rows: data.into_iter().map(cells).collect(),
        caption: Some(format!("{} table", table.name)),
        time: None,
    })
}

/// Orders two values by number of elements, then by keys, then by values.
fn compare(a: &Datum, b: &Datum) -> Ordering {
    let keys = || a.keys().cmp(b.keys());
    a.len().cmp(&b.len()).then_with(keys).then_with(|| a.values().cmp(b.values()))
}

/// `backup`
pub fn backup(cx: &Context, args: &[String]) -> CommandResult {
    if std::io::stdout().is_terminal() {
        return Err("not writing backup to a terminal; please redirect stdout to a file".into());
    }
    let mut session = connect_to_database(cx, args, 0)?;
    let schema = schema(&mut session.rpc, &session.database)?;
    let is_backed_up =
        |t: &TableSchema, c: &Column| c.persistent && c.name != "_version" || t.columns[0].name == c.name;
    let all: Vec<(&TableSchema, Vec<&Column>)> = schema
        .tables
        .iter()
        .map(|t| (t, t.columns.iter().filter(|c| is_backed_up(t, c)).collect()))
        .collect();
    let answer = session.rpc.ask("transact", select(&session.database, &all))?;
    let mut body = Map::new();
    for (rows, (table, _)) in rows(&answer, &all)?.into_iter().zip(&all) {
        let mut kept = Map::new();
        for row in rows {
            let lacks =
                || format!("{} table reply row lacks _uuid member: {}", table.name, sorted_string(row));
            let mut row = row.as_object().cloned().ok_or_else(lacks)?;
            let uuid = row.remove("_uuid");
            let uuid = uuid.as_ref().and_then(|u| u.get(1)).and_then(Json::as_str).ok_or_else(lacks)?;
            kept.insert(uuid.to_owned(), Json::Object(row));
        }
        if !kept.is_empty() {
            body.insert(table.name.clone(), Json::Object(kept));
        }
    }
    body.insert("_date".into(), ovsdb_server::now_ms().into());
    body.insert("_comment".into(), "produced by \"ovsdb-client backup\"".into());
    let mut out = std::io::stdout().lock();
    let written = out
        .write_all(&log::record(&schema.to_json()))
        .and_then(|()| out.write_all(&log::record(&Json::Object(body))))
        .and_then(|()| out.flush());
    written.map_err(|e| Fail::Message(format!("write to stdout failed ({})", runtime::error_text(&e))))
}

/// Parses the content of a database file.
fn read(bytes: &[u8]) -> Result<Database, Fail> {
    let records = log::read(bytes).map_err(|e| Fail::Message(format!("/dev/stdin: {e}")))?;
    let mut bodies = records.records.iter();
    let (_, first) = bodies.next().ok_or("/dev/stdin: the file holds no schema")?;
    let mut db = Database::new(Arc::new(Schema::from_json(first)?), Uuid::new_v4());
    for (_, body) in bodies {
        let commit = log::replay(&db, body, &mut Uuid::new_v4)?;
        db.apply(commit, Uuid::new_v4());
    }
    Ok(db)
}

/// `restore`: deletes all rows, and inserts the rows of the backup with new UUIDs.
pub fn restore(cx: &Context, args: &[String]) -> CommandResult {
    let mut stdin = std::io::stdin();
    if stdin.is_terminal() {
        return Err("not reading backup from a terminal; please redirect stdin from a file".into());
    }
    let mut session = connect_to_database(cx, args, 0)?;
    let mut bytes = Vec::new();
    stdin.read_to_end(&mut bytes).map_err(|e| runtime::error_text(&e))?;
    let backup = read(&bytes)?;
    let server_schema = schema(&mut session.rpc, &session.database)?;
    if *backup.schema().as_ref() != server_schema && !cx.options.force {
        let (ours, theirs) = (&backup.schema().version, &server_schema.version);
        let differ = match ours == theirs {
            true => format!("backup schema and database schema are both version {ours} but still differ"),
            false => {
                format!("backup schema has version \"{ours}\" but database schema has version \"{theirs}\"")
            }
        };
        let hint = "(use --force to override differences, or \"ovsdb-client convert\" to change the schema)";
        return Err(format!("{differ} {hint}").into());
    }
    let mut transaction = vec![Json::from(backup.schema().name.as_str())];
    for (table, content) in backup.schema().tables.iter().zip(backup.tables()) {
        transaction.push(json!({"op": "delete", "table": table.name, "where": []}));
        transaction.extend(content.rows().values().map(|row| insertion(table, row)));
    }
    check_results(&session.rpc.ask("transact", Json::Array(transaction))?)
}

fn insertion(table: &TableSchema, row: &Row) -> Json {
    let mut columns = Map::new();
    for (at, column) in table.columns.iter().enumerate().skip(ovsdb::schema::FIRST_COLUMN) {
        let datum = row.field(at);
        if column.persistent && !datum.is_default(&column.ty) {
            columns.insert(column.name.clone(), by_name(datum.to_json()));
        }
    }
    json!({"op": "insert", "table": table.name, "uuid-name": row_name(row.uuid()), "row": columns})
}

/// The name of a row within the transaction.
fn row_name(uuid: Uuid) -> String {
    format!("row{}", uuid.to_string().replace('-', "_"))
}

/// Replaces the UUIDs in a value by the row names within the transaction.
fn by_name(json: Json) -> Json {
    let Json::Array(items) = json else { return json };
    if let [Json::String(kind), Json::String(uuid)] = items.as_slice()
        && kind == "uuid"
        && let Some(uuid) = parse_uuid(uuid)
    {
        return json!(["named-uuid", row_name(uuid)]);
    }
    Json::Array(items.into_iter().map(by_name).collect())
}
