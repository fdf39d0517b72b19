//! The standalone database file: records of `OVSDB JSON <length> <sha-1>\n<json>\n`.
//!
//! The first record is the schema, each further one a transaction: table to row UUID to
//! columns, `null` for a deleted row, plus `_date` (milliseconds) and `_comment`. With
//! `_is_diff` the columns of rows that existed before hold differences ([`Datum::diff_from`]).
//! The length and hash cover the JSON and its newline.
//!
//! A crash can leave the last record incomplete, and bytes can come to stand behind it; [`read`] then says where the good
//! part ends and what is wrong with the rest. Damage before a record is an error: going on would drop transactions
//! that were answered.

use crate::database::{Changes, Commit, Database, Row};
use crate::integrity::{Draft, Touched};
use crate::json::parse_uuid;
use crate::schema::{FIRST_COLUMN, Schema};
use crate::value::Datum;
use crate::{Error, Json, Uuid};
use serde_json::Map;
use sha1::{Digest, Sha1};
use std::sync::Arc;

const MAGIC: &str = "OVSDB JSON ";
const CLUSTER_MAGIC: &[u8] = b"OVSDB CLUSTER";
/// A header is short; whatever has no newline in so many bytes is none.
const MAX_HEADER: usize = 128;

/// Why a file is no database this program can serve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The file belongs to a cluster.
    #[error(
        "this is a member file of a clustered database; only standalone databases can be served here, see \"ovsdb-tool cluster-to-standalone\""
    )]
    Clustered,
    /// The file starts with something else.
    #[error("not a database file: it does not begin with \"OVSDB JSON\"")]
    Foreign,
    /// A record other than an incomplete last one is damaged.
    #[error("record at byte {offset} is damaged: {cause}; the file was left as it is")]
    Damaged {
        /// Where the record begins.
        offset: usize,
        /// What is wrong.
        cause: String,
    },
}

/// The records of a file.
#[derive(Debug)]
pub struct Records {
    /// Each record, with the offset at which it begins.
    pub records: Vec<(usize, Json)>,
    /// Where the good part ends: the file's length, unless its last record is incomplete.
    pub good_len: usize,
    /// What is wrong behind the good part, unless the writer just died within its last record.
    pub rest_is: Option<String>,
}

/// One record, ready to be appended.
pub fn record(json: &Json) -> Vec<u8> {
    let data = format!("{json}\n");
    let mut out = format!("{MAGIC}{} {}\n", data.len(), hash(data.as_bytes())).into_bytes();
    out.extend_from_slice(data.as_bytes());
    out
}

fn hash(data: &[u8]) -> String {
    Sha1::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads all records of a file.
pub fn read(file: &[u8]) -> Result<Records, LogError> {
    if file.starts_with(CLUSTER_MAGIC) {
        return Err(LogError::Clustered);
    }
    let head = &file[..file.len().min(MAGIC.len())];
    if !MAGIC.as_bytes().starts_with(head) {
        return Err(LogError::Foreign);
    }
    let mut records = Vec::new();
    let mut offset = 0;
    let mut rest_is = None;
    while offset < file.len() {
        let rest = &file[offset..];
        match read_one(rest) {
            Ok((json, len)) => {
                records.push((offset, json));
                offset += len;
            }
            Err(Fault::Incomplete) => break,
            // A block that the file system had allotted but not written reads as zeros.
            Err(Fault::Wrong(_)) if rest.ends_with(&[0]) => break,
            Err(Fault::Wrong(cause)) if offset > 0 && !record_follows(rest) => {
                rest_is = Some(format!("{cause} at offset {offset}{}", in_header(rest)));
                break;
            }
            Err(Fault::Wrong(cause)) => return Err(LogError::Damaged { offset, cause }),
        }
    }
    Ok(Records { records, good_len: offset, rest_is })
}

/// Whether a header stands behind the beginning of `rest`.
fn record_follows(rest: &[u8]) -> bool {
    let needle = b"\nOVSDB JSON ";
    rest.windows(needle.len()).any(|w| w == needle)
}

/// Quotes the line that `rest` begins with.
fn in_header(rest: &[u8]) -> String {
    let line = rest.split(|b| *b == b'\n').next().unwrap_or_default();
    let shown = line.get(..MAX_HEADER).unwrap_or(line);
    format!(" in header line \"{}\"", String::from_utf8_lossy(shown))
}

enum Fault {
    Incomplete,
    Wrong(String),
}

fn read_one(rest: &[u8]) -> Result<(Json, usize), Fault> {
    let wrong = |text: &str| Fault::Wrong(text.to_owned());
    let window = &rest[..rest.len().min(MAX_HEADER)];
    let Some(end) = window.iter().position(|b| *b == b'\n') else {
        let cut_short = window.len() < MAX_HEADER
            && MAGIC.as_bytes().starts_with(&window[..window.len().min(MAGIC.len())]);
        return Err(if cut_short { Fault::Incomplete } else { wrong("parse error") });
    };
    let header = std::str::from_utf8(&window[..end]).map_err(|_| wrong("header is not text"))?;
    let fields = header.strip_prefix(MAGIC).and_then(|fields| fields.split_once(' '));
    let (len, sha1) = fields.ok_or_else(|| wrong("parse error"))?;
    let len: usize = len.parse().map_err(|_| wrong("length is not a number"))?;
    let start = end + 1;
    let stop = start.checked_add(len).ok_or_else(|| wrong("length is out of range"))?;
    let Some(data) = rest.get(start..stop) else {
        // A header further on proves that the length is wrong, not the file short.
        return Err(if record_follows(rest.get(start..).unwrap_or_default()) {
            wrong("length reaches beyond the end of the file")
        } else {
            Fault::Incomplete
        });
    };
    let actual = hash(data);
    if actual != sha1 {
        return Err(Fault::Wrong(format!("its {len} bytes have SHA-1 hash {actual} but should have {sha1}")));
    }
    let json: Json =
        serde_json::from_slice(data).map_err(|e| Fault::Wrong(format!("not valid JSON: {e}")))?;
    if json.is_object() { Ok((json, stop)) } else { Err(wrong("not a JSON object")) }
}

/// The record body for a commit, or `None` when nothing persistent changed.
pub fn transaction_json(schema: &Schema, changes: &Changes, date_ms: i64, comment: &str) -> Option<Json> {
    let mut body: Map<String, Json> = Map::new();
    for change in changes {
        let table = &schema.tables[change.table];
        let mut columns = Map::new();
        for (place, column) in
            table.columns.iter().enumerate().skip(FIRST_COLUMN).filter(|(_, c)| c.persistent)
        {
            let Some(new) = change.new.as_ref().map(|row| row.field(place)) else { break };
            let value = match change.old.as_ref().map(|row| row.field(place)) {
                Some(old) if old == new => continue,
                Some(old) => new.diff_from(old, &column.ty),
                None if new.is_default(&column.ty) => continue,
                None => new.clone(),
            };
            columns.insert(column.name.clone(), value.to_json());
        }
        let row = match (&change.old, &change.new) {
            (_, None) => Json::Null,
            (Some(_), Some(_)) if columns.is_empty() => continue,
            _ => Json::Object(columns),
        };
        let rows = body.entry(table.name.clone()).or_insert_with(|| Json::Object(Map::new()));
        if let Json::Object(rows) = rows {
            rows.insert(change.uuid.to_string(), row);
        }
    }
    if body.is_empty() {
        return None;
    }
    body.insert("_is_diff".into(), true.into());
    body.insert("_date".into(), date_ms.into());
    if !comment.is_empty() {
        body.insert("_comment".into(), comment.into());
    }
    Some(Json::Object(body))
}

/// A whole database as the two records of a fresh file.
pub fn snapshot(db: &Database, date_ms: i64) -> Vec<u8> {
    let mut out = record(&db.schema().to_json());
    let rows = |(table, t): (usize, &crate::database::Table)| {
        let insert =
            |row: &Arc<Row>| crate::Change { table, uuid: row.uuid(), old: None, new: Some(row.clone()) };
        t.rows().values().map(insert).collect::<Vec<_>>()
    };
    let changes: Changes = db.tables().iter().enumerate().flat_map(rows).collect();
    if let Some(json) = transaction_json(db.schema(), &changes, date_ms, "compacting database online") {
        out.extend(record(&json));
    }
    out
}

/// Turns the body of a record back into a commit on `db`.
pub fn replay(db: &Database, body: &Json, new_uuid: &mut dyn FnMut() -> Uuid) -> Result<Commit, Error> {
    let object = body.as_object().ok_or_else(|| Error::syntax(body, "object expected"))?;
    let is_diff = object.get("_is_diff").and_then(Json::as_bool).unwrap_or(false);
    let mut draft = Draft { schema: db.schema(), tables: db.tables().to_vec(), touched: Touched::new() };
    for (name, rows) in object {
        let Some(table) = db.schema().table_index(name) else {
            if name.starts_with('_') {
                continue;
            }
            return Err(Error::quoting("unknown table", body, format!("No table named {name}.")));
        };
        for (uuid, json) in rows.as_object().ok_or_else(|| Error::syntax(rows, "object expected"))? {
            let uuid = parse_uuid(uuid)
                .ok_or_else(|| Error::syntax(rows, format!("\"{uuid}\" is not a valid UUID")))?;
            replay_row(&mut draft, (table, uuid), json, is_diff)?;
        }
    }
    draft.finish(new_uuid)
}

fn replay_row(draft: &mut Draft, id: (usize, Uuid), json: &Json, is_diff: bool) -> Result<(), Error> {
    let table = &draft.schema.tables[id.0];
    let old = draft.get(id).cloned();
    if json.is_null() {
        if old.is_none() {
            return Err(Error::bare_syntax(format!("transaction deletes row {} that does not exist", id.1)));
        }
        draft.put(id, None);
        return Ok(());
    }
    let is_diff = is_diff && old.is_some();
    let mut row = old.map_or_else(|| Row::new(table, id.1), |old| (*old).clone());
    for (name, value) in json.as_object().ok_or_else(|| Error::syntax(json, "row must be JSON object"))? {
        let Some(column) = table.column_index(name) else {
            let text = format!("No column {name} in table {}.", table.name);
            return Err(Error::quoting("unknown column", json, text));
        };
        let ty = &table.columns[column].ty;
        let value = if is_diff {
            row.field(column).apply_diff(&Datum::difference_from_json(value, ty)?, ty)?
        } else {
            Datum::from_json(value, ty, None)?
        };
        row.set(column, value);
    }
    draft.put(id, Some(Arc::new(row)));
    Ok(())
}

#[cfg(test)]
mod tests;
