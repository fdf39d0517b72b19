//! The text of `show-log`: the records of a database file.

use super::context::Fail;
use crate::notation;
use ovsdb::json::sorted_string;
use ovsdb::log::Records;
use ovsdb::{Datum, Json, Schema};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Names of rows, by UUID.
type Names = BTreeMap<String, String>;

/// All records as text; `more` is the number of times that `-m` is given.
pub fn text(records: &Records, more: u8) -> Result<String, Fail> {
    let mut out = String::new();
    let mut schema = None;
    let mut names = Names::new();
    for (at, (_, json)) in records.records.iter().enumerate() {
        let _ = write!(out, "record {at}:");
        match &schema {
            None => {
                let s = Schema::from_json(json)?;
                let _ =
                    writeln!(out, " \"{}\" schema, version=\"{}\", cksum=\"{}\"", s.name, s.version, s.cksum);
                schema = Some(s);
            }
            Some(schema) => change(&mut out, json, schema, &mut names, more),
        }
        out.push('\n');
    }
    Ok(out)
}

fn change(out: &mut String, json: &Json, schema: &Schema, names: &mut Names, more: u8) {
    if let Some(date) = json.get("_date").and_then(Json::as_u64) {
        // Old files have times in seconds instead of milliseconds.
        let ms = if date < i32::MAX as u64 { date * 1000 } else { date };
        let _ = write!(out, " {}", runtime::log::moment_text(ms));
    }
    if let Some(comment) = json.get("_comment").and_then(Json::as_str) {
        let _ = write!(out, " \"{comment}\"");
    }
    let Some(tables) = json.as_object().filter(|_| more > 0) else { return };
    let is_diff = json.get("_is_diff").and_then(Json::as_bool).unwrap_or(false);
    let mut any = false;
    for (table, rows) in tables {
        let Some(rows) = rows.as_object().filter(|_| !table.starts_with('_')) else { continue };
        if !std::mem::replace(&mut any, true) {
            out.push('\n');
        }
        for (uuid, columns) in rows {
            row(out, (schema, table), (uuid, columns), names, (is_diff, more));
        }
    }
}

fn row(
    out: &mut String,
    (schema, table): (&Schema, &str),
    (uuid, columns): (&str, &Json),
    names: &mut Names,
    (is_diff, more): (bool, u8),
) {
    let short = uuid.get(..8).unwrap_or(uuid).to_owned();
    let old = names.get(uuid).cloned();
    let new = columns.get("name").map(sorted_string);
    let diff = if is_diff { " diff" } else { "" };
    let _ = match (&old, &new) {
        (None, Some(name)) => writeln!(out, "  table {table} insert row {name} ({short}):"),
        (None, None) => writeln!(out, "  table {table} insert row {short}:"),
        (Some(name), _) => writeln!(out, "  table {table} row {name} ({short}){diff}:"),
    };
    let Some(columns) = columns.as_object() else {
        if columns.is_null() {
            out.push_str("    delete row\n");
            names.remove(uuid);
        }
        return;
    };
    if more > 1 {
        for (column, value) in columns {
            let ty = schema.table(table).and_then(|t| t.column(column)).map(|c| &c.ty);
            let datum = ty.and_then(|ty| Some((Datum::from_json(value, ty, None).ok()?, ty)));
            let text = datum.map_or_else(|| sorted_string(value), |(datum, ty)| notation::text(&datum, ty));
            let _ = writeln!(out, "    {column}={text}");
        }
    }
    if new.is_some() || old.is_none() {
        names.insert(uuid.to_owned(), new.unwrap_or(short));
    }
}
