//! Commands that send one request to a server, or wait for it.

use super::arguments;
use super::background::{Background, Next};
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

type Done = Result<(), Fail>;

/// Pause between two attempts of `wait`.
const RETRY: Duration = Duration::from_secs(1);

/// `list-dbs`
pub fn list_dbs(cx: &Context, args: &[String]) -> Done {
    let mut place = connect(cx, args, 0)?;
    print(&databases(&mut place.rpc)?.into_iter().map(|name| name + "\n").collect::<String>())
}

fn fetch(cx: &Context, args: &[String]) -> Result<Schema, Fail> {
    let mut place = connect_to_database(cx, args, 0)?;
    schema(&mut place.rpc, &place.database)
}

/// `get-schema`
pub fn get_schema(cx: &Context, args: &[String]) -> Done {
    print(&cx.json(&fetch(cx, args)?.to_json()))
}

/// `get-schema-version`
pub fn get_schema_version(cx: &Context, args: &[String]) -> Done {
    print(&(fetch(cx, args)?.version + "\n"))
}

/// `get-schema-cksum`
pub fn get_schema_cksum(cx: &Context, args: &[String]) -> Done {
    print(&(fetch(cx, args)?.cksum + "\n"))
}

/// `list-tables`
pub fn list_tables(cx: &Context, args: &[String]) -> Done {
    let rows = fetch(cx, args)?.tables.into_iter().map(|t| vec![Cell::Text(t.name)]).collect();
    let table = Table { headings: vec!["Table".into()], rows, ..Table::default() };
    print(&table.render(&cx.options.style, true))
}

/// `list-columns`
pub fn list_columns(cx: &Context, args: &[String]) -> Done {
    let mut place = connect_to_database(cx, args, 0)?;
    let schema = schema(&mut place.rpc, &place.database)?;
    let only = place.args.first();
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

fn run(cx: &Context, args: &[String], transaction: Json) -> Result<Json, Fail> {
    let database = transaction.get(0).and_then(Json::as_str).ok_or("not a valid OVSDB query")?.to_owned();
    // Detach first: a transaction with `wait` may take long.
    let mut daemon = runtime::daemon::start(&cx.options.daemon, runtime::daemon::Capabilities::empty())
        .map_err(Fail::Message)?;
    let mut place = connect_for(cx, args, 1, &database)?;
    if cx.options.change_aware == Some(true) {
        set_change_aware(cx, &mut place.rpc)?;
    }
    daemon.ready_to_print();
    Ok(place.rpc.ask("transact", transaction)?)
}

fn last(args: &[String]) -> &str {
    args.last().map_or("", String::as_str)
}

/// `transact`
pub fn transact(cx: &Context, args: &[String]) -> Done {
    let answer = run(cx, args, arguments::json(last(args))?)?;
    print(&cx.json(&answer))
}

/// `query`: a transaction that ends with `abort`, so it changes nothing.
pub fn query(cx: &Context, args: &[String]) -> Done {
    let Json::Array(mut items) = arguments::json(last(args))? else {
        return Err("not a valid OVSDB query".into());
    };
    let asked = items.len().saturating_sub(1);
    items.push(json!({"op": "abort"}));
    let mut answer = run(cx, args, Json::Array(items))?;
    if let Some(results) = answer.as_array_mut()
        && results.len() == asked + 1
        && results.last().and_then(|r| r.get("error")).and_then(Json::as_str) == Some("aborted")
    {
        results.pop();
    }
    print(&cx.json(&answer))
}

/// `convert`
pub fn convert(cx: &Context, args: &[String]) -> Done {
    let new = arguments::schema(Path::new(last(args)))?;
    let mut place = connect_for(cx, args, 1, &new.name)?;
    set_change_aware(cx, &mut place.rpc)?;
    place.rpc.ask("convert", json!([new.name, new.to_json()]))?;
    Ok(())
}

/// `needs-conversion`
pub fn needs_conversion(cx: &Context, args: &[String]) -> Done {
    let mut new = arguments::schema(Path::new(last(args)))?;
    let mut place = connect_for(cx, args, 1, &new.name)?;
    let model = describe(&mut place.rpc, &new.name).and_then(|row| row.get("model").cloned());
    if model.as_ref().and_then(Json::as_str) == Some("clustered") {
        // In a cluster every column is persistent.
        new.tables.iter_mut().flat_map(|t| &mut t.columns).for_each(|c| c.persistent = true);
    }
    let there = schema(&mut place.rpc, &new.name)?;
    print(if new == there { "no\n" } else { "yes\n" })
}

/// `wait`: connects again until the database has the wanted state.
pub fn wait(cx: &Context, args: &[String]) -> Done {
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
        let Ok(mut place) = connect(cx, args, 2) else {
            std::thread::sleep(RETRY);
            continue;
        };
        let name = place.rpc.name.clone();
        match place.rpc.call("set_db_change_aware", json!([true])) {
            Ok(Err(error)) => return Err(format!("{name}: set_db_change_aware failed ({error})").into()),
            Err(_) => continue,
            Ok(Ok(_)) => {}
        }
        if let Ok(Ok(answer)) = place.rpc.call("transact", json!(["_Server", condition])) {
            return check_results(&answer);
        }
        std::thread::sleep(RETRY);
    }
}

fn hold(cx: &Context, args: &[String], method: &str) -> Done {
    let mut background = Background::start(cx, &["lock", "steal", "unlock"])?;
    let mut place = connect(cx, args, 1)?;
    let name = place.rpc.name.clone();
    let lock = place.args.first().map_or("", String::as_str);
    let failed = |e: std::io::Error| Fail::Message(format!("{name}: receive failed ({})", error_text(&e)));
    // Requests are sent one at a time: each waits for the reply to the previous one.
    let mut waiting = VecDeque::from([(method.to_owned(), lock.to_owned())]);
    let mut asked = None;
    loop {
        if let Some((method, lock)) = waiting.pop_front_if(|_| asked.is_none()) {
            asked = Some(place.rpc.send(&method, json!([lock])).map_err(failed)?);
        }
        match background.next(&mut place.rpc, false).map_err(failed)? {
            Next::Message(Message::Reply { result: said, id } | Message::Error { error: said, id })
                if asked.as_ref() == Some(&id) =>
            {
                asked = None;
                print(&cx.json(&said))?;
                background.report_started();
            }
            Next::Message(Message::Notify { method, params }) => {
                print(&format!("{method}\n{}", cx.json(&params)))?;
            }
            Next::Message(_) => {}
            Next::Control(Request { id, method, args, .. }) => {
                waiting.extend(args.into_iter().map(|lock| (method.clone(), lock)));
                background.reply(id, Ok(String::new()));
            }
            Next::Exit => return Ok(()),
        }
    }
}

/// `lock`: requests the lock, and prints its notifications until the connection ends.
pub fn lock(cx: &Context, args: &[String]) -> Done {
    hold(cx, args, "lock")
}

/// `steal`
pub fn steal(cx: &Context, args: &[String]) -> Done {
    hold(cx, args, "steal")
}

/// `unlock`
pub fn unlock(cx: &Context, args: &[String]) -> Done {
    hold(cx, args, "unlock")
}
