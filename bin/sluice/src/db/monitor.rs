//! `monitor`, `monitor-cond`, `monitor-cond-since`: print changes as they happen.

use super::arguments;
use super::background::{Background, BackgroundEvent};
use super::context::{Context, Fail, print};
use super::server::{Session, connect_to_database, schema, set_change_aware};
use crate::table::{Cell, Table};
use ovsdb::json::parse_uuid;
use ovsdb::schema::{Column, TableSchema};
use ovsdb::{Datum, Json, Message, Schema, Uuid};
use runtime::error_text;
use serde_json::json;
use unixctl::Request;

type CommandResult = Result<(), Fail>;

/// Control commands of the background process.
const CONTROL: [&str; 3] = ["ovsdb-client/block", "ovsdb-client/unblock", "ovsdb-client/cond_change"];

/// The format of updates that the server sends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UpdateFormat {
    /// `update`: old and new values.
    Update,
    /// `update2`: differences.
    Update2,
    /// `update3`: differences, and the ID of the transaction.
    Update3,
}

impl UpdateFormat {
    fn methods(self) -> (&'static str, &'static str) {
        match self {
            UpdateFormat::Update => ("monitor", "update"),
            UpdateFormat::Update2 => ("monitor_cond", "update2"),
            UpdateFormat::Update3 => ("monitor_cond_since", "update3"),
        }
    }
}

/// A monitored table, and its columns in the order in which they are printed.
struct MonitoredTable<'a> {
    table: &'a TableSchema,
    columns: Vec<&'a Column>,
}

/// `monitor`
pub fn monitor(cx: &Context, args: &[String]) -> CommandResult {
    let background = Background::start(cx, &CONTROL)?;
    let session = connect_to_database(cx, args, 1)?;
    watch(cx, background, session, UpdateFormat::Update, None, None)
}

/// `monitor-cond`
pub fn monitor_cond(cx: &Context, args: &[String]) -> CommandResult {
    conditional(cx, args, UpdateFormat::Update2)
}

/// `monitor-cond-since`
pub fn monitor_cond_since(cx: &Context, args: &[String]) -> CommandResult {
    conditional(cx, args, UpdateFormat::Update3)
}

fn conditional(cx: &Context, args: &[String], update_format: UpdateFormat) -> CommandResult {
    let background = Background::start(cx, &CONTROL)?;
    let mut session = connect_to_database(cx, args, 2)?;
    let mut since = None;
    if update_format == UpdateFormat::Update3
        && let Some((first, rest)) = session.args.split_first()
    {
        since = parse_uuid(first);
        if since.is_some() {
            session.args = rest;
        }
    }
    let Some((condition, rest)) = session.args.split_first().filter(|(_, rest)| !rest.is_empty()) else {
        return Err("a condition and a table are needed (use --help for help)".into());
    };
    let condition = arguments::json(condition)?;
    session.args = rest;
    watch(cx, background, session, update_format, Some(condition), since)
}

fn watch(
    cx: &Context,
    mut background: Background,
    mut session: Session<'_>,
    update_format: UpdateFormat,
    condition: Option<Json>,
    since: Option<Uuid>,
) -> CommandResult {
    let schema = schema(&mut session.rpc, &session.database)?;
    let (watched, requests) = tables(&session, &schema, condition.as_ref())?;
    set_change_aware(cx, &mut session.rpc)?;
    let mut params = vec![Json::from(session.database.as_str()), Json::Null, requests];
    if update_format == UpdateFormat::Update3 {
        params.push(since.unwrap_or_default().to_string().into());
    }
    let server = session.rpc.name.clone();
    let failed = |e: std::io::Error| Fail::Message(format!("{server}: receive failed ({})", error_text(&e)));
    let request_id = session.rpc.send(update_format.methods().0, Json::Array(params)).map_err(failed)?;
    let mut printer = Printer { cx, watched, update_format, first: true };
    let mut blocked = false;
    loop {
        match background.next(&mut session.rpc, blocked).map_err(failed)? {
            BackgroundEvent::Message(message) => {
                if print_updates(&mut printer, &session, message, &request_id)? {
                    background.report_started();
                }
            }
            BackgroundEvent::Control(Request { id, method, args, .. }) => {
                let answer = match method.as_str() {
                    "ovsdb-client/cond_change" => change_condition(&mut session, &args),
                    name => Ok(block(&mut blocked, name == "ovsdb-client/block").to_owned()),
                };
                background.reply(id, answer);
            }
            BackgroundEvent::Exit => return Ok(()),
        }
    }
}

/// Prints the updates in a message of the server. Returns true if the message is the reply to the monitor request.
fn print_updates(
    printer: &mut Printer<'_>,
    session: &Session<'_>,
    message: Message,
    request_id: &Json,
) -> Result<bool, Fail> {
    let (server, database) = (&session.rpc.name, &session.database);
    match message {
        Message::Reply { result, id } if id == *request_id => {
            printer.initial(&result)?;
            return Ok(true);
        }
        Message::Error { error, id } if id == *request_id => {
            return Err(format!("{server}: {}", ovsdb::json::sorted_string(&error)).into());
        }
        Message::Notify { method, params } if method == printer.update_format.methods().1 => {
            match params.as_array().map(Vec::as_slice) {
                Some([Json::Null, updates]) => printer.updates(updates, false)?,
                Some([Json::Null, last, updates]) => {
                    print(&format!("\nlast_id: {}", last.as_str().unwrap_or_default()))?;
                    printer.updates(updates, false)?;
                }
                _ => {}
            }
        }
        Message::Notify { method, .. } if method == "monitor_canceled" => {
            return Err(format!("{server}: {database} database was removed").into());
        }
        _ => {}
    }
    Ok(false)
}

/// `ovsdb-client/block` and `unblock`: while blocked, the process does not read messages of the server.
fn block(blocked: &mut bool, wanted: bool) -> &'static str {
    match (std::mem::replace(blocked, wanted), wanted) {
        (true, true) => "already blocking",
        (false, false) => "already unblocked",
        _ => "",
    }
}

/// `ovsdb-client/cond_change TABLE CONDITION`
fn change_condition(session: &mut Session<'_>, args: &[String]) -> Result<String, String> {
    let [table, condition] = args else { return Err("a table and a condition are needed".to_owned()) };
    let condition = condition.parse::<Json>().map_err(|e| e.to_string())?;
    let requests = json!({ table: [{ "where": condition }] });
    let sent = session.rpc.send("monitor_cond_change", json!([null, null, requests]));
    sent.map(|_| "condition changed".to_owned()).map_err(|e| error_text(&e))
}

/// The tables and columns that the arguments name, and the monitor requests for them.
fn tables<'s>(
    session: &Session<'_>,
    schema: &'s Schema,
    condition: Option<&Json>,
) -> Result<(Vec<MonitoredTable<'s>>, Json), Fail> {
    let (server, database) = (&session.rpc.name, &session.database);
    let (name, columns) = session.args.split_first().ok_or("missing argument TABLE")?;
    let mut watched = Vec::new();
    let mut requests = serde_json::Map::new();
    if name == "ALL" {
        if condition.is_some() {
            return Err("ALL tables are not allowed with condition".into());
        }
        for table in &schema.tables {
            let columns = default_columns(table);
            requests.insert(table.name.clone(), json!([request(&columns, [true; 4], None)]));
            watched.push(MonitoredTable { table, columns });
        }
        return Ok((watched, Json::Object(requests)));
    }
    let missing = || format!("{server}: {database} does not have a table named \"{name}\"");
    let table = schema.table(name).ok_or_else(missing)?;
    let none = [String::new()];
    let groups = if columns.is_empty() { &none } else { columns };
    let mut shown: Vec<&Column> = Vec::new();
    let mut list = Vec::new();
    for (at, text) in groups.iter().enumerate() {
        let (columns, kinds) = group(table, text, server, database)?;
        if let Some(twice) = columns.iter().find(|c| shown.iter().any(|s| s.name == c.name)) {
            return Err(format!("{server}: column \"{}\" mentioned multiple times", twice.name).into());
        }
        list.push(request(&columns, kinds, condition.filter(|_| at == 0)));
        shown.extend(columns);
    }
    requests.insert(table.name.clone(), Json::Array(list));
    watched.push(MonitoredTable { table, columns: shown });
    Ok((watched, Json::Object(requests)))
}

/// All columns that the schema lists for a table, and `_version`.
fn default_columns(table: &TableSchema) -> Vec<&Column> {
    let own = table.columns.iter().skip(ovsdb::schema::FIRST_COLUMN);
    own.chain(table.columns.get(ovsdb::schema::VERSION_COLUMN)).collect()
}

/// Parses one argument: names of columns, and `!initial`, `!insert`, `!delete`, `!modify`.
fn group<'a>(
    table: &'a TableSchema,
    text: &str,
    server: &str,
    database: &str,
) -> Result<(Vec<&'a Column>, [bool; 4]), Fail> {
    let mut kinds = [true; 4];
    let mut columns = Vec::new();
    for word in text.split(',').filter(|w| !w.is_empty()) {
        match KINDS.iter().position(|kind| word.strip_prefix('!') == Some(kind)) {
            Some(at) => kinds[at] = false,
            None => columns.push(table.column(word).ok_or_else(|| {
                let name = &table.name;
                format!("{server}: table \"{name}\" in {database} does not have a column named \"{word}\"")
            })?),
        }
    }
    if columns.is_empty() {
        columns = default_columns(table);
    }
    Ok((columns, kinds))
}

/// Kinds of changes that an argument may exclude.
const KINDS: [&str; 4] = ["initial", "insert", "delete", "modify"];

fn request(columns: &[&Column], kinds: [bool; 4], condition: Option<&Json>) -> Json {
    let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
    let mut request = json!({ "columns": names });
    if kinds != [true; 4] {
        request["select"] = Json::from_iter(KINDS.into_iter().zip(kinds));
    }
    if let Some(condition) = condition {
        request["where"] = condition.clone();
    }
    request
}

struct Printer<'a> {
    cx: &'a Context,
    watched: Vec<MonitoredTable<'a>>,
    update_format: UpdateFormat,
    first: bool,
}

impl Printer<'_> {
    /// Prints the reply to the monitor request.
    fn initial(&mut self, result: &Json) -> CommandResult {
        if self.update_format != UpdateFormat::Update3 {
            return self.updates(result, true);
        }
        let Some([found, last, updates]) = result.as_array().map(Vec::as_slice) else {
            return Err("<result> is not array of 3 elements".into());
        };
        print(&format!("found: {found}, last_id: {}\n", last.as_str().unwrap_or_default()))?;
        self.updates(updates, true)
    }

    fn updates(&mut self, updates: &Json, initial: bool) -> CommandResult {
        let mut out = String::new();
        for watched in &self.watched {
            let Some(update) = updates.get(&watched.table.name).and_then(Json::as_object) else { continue };
            let headings = ["row", "action"].into_iter().map(str::to_owned);
            let mut table = Table {
                headings: headings.chain(watched.columns.iter().map(|c| c.name.clone())).collect(),
                caption: (self.watched.len() > 1).then(|| watched.table.name.clone()),
                time: self.cx.options.timestamp.then(now),
                ..Table::default()
            };
            let mut rows: Vec<_> = update.iter().collect();
            rows.sort_by_key(|(uuid, _)| *uuid);
            for (uuid, change) in rows {
                for (uuid, action, row) in self.lines(uuid, change, initial) {
                    table.rows.push(cells(watched, uuid, action, row));
                }
            }
            out.push_str(&table.render(&self.cx.options.style, std::mem::take(&mut self.first)));
        }
        print(&out)
    }

    /// The lines for one row: its UUID, the kind of change, the values.
    fn lines<'a>(
        &self,
        uuid: &'a str,
        change: &'a Json,
        initial: bool,
    ) -> Vec<(&'a str, &'static str, Option<&'a Json>)> {
        if self.update_format != UpdateFormat::Update {
            let kinds = ["delete", "initial", "modify", "insert"].into_iter();
            let found = kinds.filter_map(|kind| Some((uuid, kind, Some(change.get(kind)?))));
            return found.take(1).collect();
        }
        match (change.get("old"), change.get("new")) {
            (_, new) if initial => vec![(uuid, "initial", new)],
            (None, new) => vec![(uuid, "insert", new)],
            (old, None) => vec![(uuid, "delete", old)],
            (old, new) => vec![(uuid, "old", old), ("", "new", new)],
        }
    }
}

fn cells(watched: &MonitoredTable<'_>, uuid: &str, action: &str, row: Option<&Json>) -> Vec<Cell> {
    let value = |column: &&Column| match row.and_then(|row| row.get(&column.name)) {
        None => Cell::Empty,
        Some(json) => match Datum::diff_from_json(json, &column.ty) {
            Ok(datum) => Cell::Value(datum, column.ty.clone().into()),
            Err(_) => Cell::Json(json.clone()),
        },
    };
    let start = [uuid, action].map(|text| Cell::Text(text.to_owned()));
    start.into_iter().chain(watched.columns.iter().map(value)).collect()
}

fn now() -> String {
    runtime::log::moment_text(u64::try_from(ovsdb_server::now_ms()).unwrap_or_default())
}
