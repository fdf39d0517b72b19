//! Commands that send one request to a server, wait for a state of its database, or use locks.

use super::arguments;
use super::background::{Background, BackgroundEvent};
use super::context::{Context, Fail, print};
use super::server::{
    check_results, connect, connect_for, connect_to_database, databases, describe, schema, set_change_aware,
};
use crate::table::{Cell, Table};
use ovsdb::{Json, Message, Schema};
use runtime::error_text;
use serde_json::json;
use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;
use unixctl::Request;

type CommandResult = Result<(), Fail>;

/// Pause between two attempts of `wait`.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// `list-dbs`
pub fn list_dbs(cx: &Context, args: &[String]) -> CommandResult {
    let mut session = connect(cx, args, 0)?;
    print(&databases(&mut session.rpc)?.into_iter().map(|name| name + "\n").collect::<String>())
}

fn fetch_schema(cx: &Context, args: &[String]) -> Result<Schema, Fail> {
    let mut session = connect_to_database(cx, args, 0)?;
    schema(&mut session.rpc, &session.database)
}

/// `get-schema`
pub fn get_schema(cx: &Context, args: &[String]) -> CommandResult {
    print(&cx.json(&fetch_schema(cx, args)?.to_json()))
}

/// `get-schema-version`
pub fn get_schema_version(cx: &Context, args: &[String]) -> CommandResult {
    print(&(fetch_schema(cx, args)?.version + "\n"))
}

/// `get-schema-cksum`
pub fn get_schema_cksum(cx: &Context, args: &[String]) -> CommandResult {
    print(&(fetch_schema(cx, args)?.cksum + "\n"))
}

/// `list-tables`
pub fn list_tables(cx: &Context, args: &[String]) -> CommandResult {
    let rows = fetch_schema(cx, args)?.tables.into_iter().map(|t| vec![Cell::Text(t.name)]).collect();
    let table = Table { headings: vec!["Table".into()], rows, ..Table::default() };
    print(&table.render(&cx.options.style, true))
}

/// `list-columns`
pub fn list_columns(cx: &Context, args: &[String]) -> CommandResult {
    let mut session = connect_to_database(cx, args, 0)?;
    let schema = schema(&mut session.rpc, &session.database)?;
    let only = session.args.first();
    let mut headings = vec!["Column".to_owned(), "Type".to_owned()];
    if only.is_none() {
        headings.insert(0, "Table".into());
    }
    let mut table = Table { headings, ..Table::default() };
    for t in schema.tables.iter().filter(|t| only.is_none_or(|only| t.name == *only)) {
        for column in &t.columns {
            let mut row = vec![Cell::Text(column.name.clone()), Cell::Json(column.ty.to_json())];
            if only.is_none() {
                row.insert(0, Cell::Text(t.name.clone()));
            }
            table.rows.push(row);
        }
    }
    print(&table.render(&cx.options.style, true))
}

fn send_transaction(cx: &Context, args: &[String], transaction: Json) -> Result<Json, Fail> {
    let database = transaction.get(0).and_then(Json::as_str).ok_or("not a valid OVSDB query")?.to_owned();
    // Detach before the request, because a transaction with a `wait` operation may take long.
    let mut daemon = runtime::daemon::start(&cx.options.daemon, runtime::daemon::Capabilities::empty())
        .map_err(Fail::Message)?;
    let mut session = connect_for(cx, args, 1, &database)?;
    if cx.options.change_aware == Some(true) {
        set_change_aware(cx, &mut session.rpc)?;
    }
    daemon.ready_keep_stdio();
    Ok(session.rpc.ask("transact", transaction)?)
}

fn last_argument(args: &[String]) -> &str {
    args.last().map_or("", String::as_str)
}

/// `transact`
pub fn transact(cx: &Context, args: &[String]) -> CommandResult {
    let answer = send_transaction(cx, args, arguments::json(last_argument(args))?)?;
    print(&cx.json(&answer))
}

/// `query`: a transaction that ends with `abort`, so it changes nothing.
pub fn query(cx: &Context, args: &[String]) -> CommandResult {
    let Json::Array(mut items) = arguments::json(last_argument(args))? else {
        return Err("not a valid OVSDB query".into());
    };
    let operation_count = items.len().saturating_sub(1);
    items.push(json!({"op": "abort"}));
    let mut answer = send_transaction(cx, args, Json::Array(items))?;
    if let Some(results) = answer.as_array_mut()
        && results.len() == operation_count + 1
        && results.last().and_then(|r| r.get("error")).and_then(Json::as_str) == Some("aborted")
    {
        results.pop();
    }
    print(&cx.json(&answer))
}

/// `convert`
pub fn convert(cx: &Context, args: &[String]) -> CommandResult {
    let new = arguments::schema(Path::new(last_argument(args)))?;
    let mut session = connect_for(cx, args, 1, &new.name)?;
    set_change_aware(cx, &mut session.rpc)?;
    session.rpc.ask("convert", json!([new.name, new.to_json()]))?;
    Ok(())
}

/// `needs-conversion`
pub fn needs_conversion(cx: &Context, args: &[String]) -> CommandResult {
    let mut new = arguments::schema(Path::new(last_argument(args)))?;
    let mut session = connect_for(cx, args, 1, &new.name)?;
    let model = describe(&mut session.rpc, &new.name).and_then(|row| row.get("model").cloned());
    if model.as_ref().and_then(Json::as_str) == Some("clustered") {
        // The schema of a clustered database marks every column as persistent.
        new.tables.iter_mut().flat_map(|t| &mut t.columns).for_each(|c| c.persistent = true);
    }
    let server_schema = schema(&mut session.rpc, &new.name)?;
    print(if new == server_schema { "no\n" } else { "yes\n" })
}

/// `wait`: reconnects and retries until the database has the requested state.
pub fn wait(cx: &Context, args: &[String]) -> CommandResult {
    let [.., database, state] = args else { return Ok(()) };
    let (columns, rows) = match state.as_str() {
        "connected" => (json!(["connected"]), json!([{"connected": true}])),
        "added" => (json!([]), json!([{}])),
        "removed" => (json!([]), json!([])),
        _ => return Err(format!("{state}: unknown state").into()),
    };
    let condition = json!({"op": "wait", "table": "Database", "where": [["name", "==", database]],
        "columns": columns, "until": "==", "rows": rows});
    loop {
        let Ok(mut session) = connect(cx, args, 2) else {
            std::thread::sleep(RETRY_INTERVAL);
            continue;
        };
        let name = session.rpc.name.clone();
        match session.rpc.call("set_db_change_aware", json!([true])) {
            Ok(Err(error)) => return Err(format!("{name}: set_db_change_aware failed ({error})").into()),
            Err(_) => {
                std::thread::sleep(RETRY_INTERVAL);
                continue;
            }
            Ok(Ok(_)) => {}
        }
        if let Ok(Ok(answer)) = session.rpc.call("transact", json!(["_Server", condition])) {
            return check_results(&answer);
        }
        std::thread::sleep(RETRY_INTERVAL);
    }
}

fn run_lock_command(cx: &Context, args: &[String], method: &str) -> CommandResult {
    let mut background = Background::start(cx, &["lock", "steal", "unlock"])?;
    let mut session = connect(cx, args, 1)?;
    let name = session.rpc.name.clone();
    let lock = session.args.first().map_or("", String::as_str);
    let failed = |e: std::io::Error| Fail::Message(format!("{name}: receive failed ({})", error_text(&e)));
    // Requests are sent one at a time: each waits for the reply to the previous one.
    let mut waiting = VecDeque::from([(method.to_owned(), lock.to_owned())]);
    let mut request_id = None;
    loop {
        if let Some((method, lock)) = waiting.pop_front_if(|_| request_id.is_none()) {
            request_id = Some(session.rpc.send(&method, json!([lock])).map_err(failed)?);
        }
        match background.next(&mut session.rpc, false).map_err(failed)? {
            BackgroundEvent::Message(
                Message::Reply { result: reply, id } | Message::Error { error: reply, id },
            ) if request_id.as_ref() == Some(&id) => {
                request_id = None;
                print(&cx.json(&reply))?;
                background.report_started();
            }
            BackgroundEvent::Message(Message::Notify { method, params }) => {
                print(&format!("{method}\n{}", cx.json(&params)))?;
            }
            BackgroundEvent::Message(_) => {}
            BackgroundEvent::Control(Request { id, method, args, .. }) => {
                waiting.extend(args.into_iter().map(|lock| (method.clone(), lock)));
                background.reply(id, Ok(String::new()));
            }
            BackgroundEvent::Exit => return Ok(()),
        }
    }
}

/// `lock`: requests the lock, and prints its notifications until the connection ends.
pub fn lock(cx: &Context, args: &[String]) -> CommandResult {
    run_lock_command(cx, args, "lock")
}

/// `steal`
pub fn steal(cx: &Context, args: &[String]) -> CommandResult {
    run_lock_command(cx, args, "steal")
}

/// `unlock`
pub fn unlock(cx: &Context, args: &[String]) -> CommandResult {
    run_lock_command(cx, args, "unlock")
}
