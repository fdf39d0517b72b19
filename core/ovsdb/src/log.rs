//! The standalone database file: records of `OVSDB JSON <length> <sha-1>\n<json>\n`.
//!
//! The first record is the schema. Each further record is a transaction: an object of tables, which are objects of rows
//! by UUID, which are objects of columns (`null` for a deleted row); plus `_date` (milliseconds) and `_comment`. With
//! `_is_diff`, columns of existing rows contain differences ([`Datum::diff_from`]). Length and hash cover the JSON and
//! its newline.
//!
//! After a crash the last record can be incomplete, and other bytes may follow it; [`read`] returns where the
//! valid part ends and what is wrong after it. Damage before a further record is an error, since ignoring it
//! would drop committed transactions. Blocks of zeros are not damage: a power loss leaves them where writes
//! were not synced.

use crate::Error;
use crate::database::{Changes, Commit, Database, Row, RowChange};
use crate::integrity::Draft;
use crate::json::parse_uuid;
use crate::schema::{FIRST_COLUMN, Schema, TableSchema};
use crate::value::Datum;
use crate::value::text::{push_list, push_string, push_uuid};
use serde_json::Value as Json;
use sha1::{Digest, Sha1};
use std::sync::Arc;
use uuid::Uuid;

/// The text with which each record begins.
const MAGIC: &str = "OVSDB JSON ";
const CLUSTER_MAGIC: &[u8] = b"OVSDB CLUSTER";
/// Maximum length of a header in bytes; a longer line is not a header.
const MAX_HEADER: usize = 128;

/// Reason why a file cannot be served as a database.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The file belongs to a cluster.
    #[error(
        "this is a member file of a clustered database; only standalone databases can be served here, see \"ovsdb-tool cluster-to-standalone\""
    )]
    Clustered,
    /// The file does not begin with the magic text.
    #[error("not a database file: it does not begin with \"OVSDB JSON\"")]
    Foreign,
    /// A record is damaged, and it is not merely an incomplete last record.
    #[error("record at byte {offset} is damaged: {cause}; the file was left as it is")]
    Damaged {
        /// Offset of the record in bytes.
        offset: usize,
        /// Description of the damage.
        cause: String,
    },
}

/// The records of a file.
#[derive(Debug)]
pub struct Records {
    /// The records, each with its offset in bytes.
    pub records: Vec<(usize, Json)>,
    /// Length of the valid part in bytes: the file's length, unless the last record is incomplete.
    pub good_len: usize,
    /// What is wrong after the valid part; `None` if nothing follows it.
    pub tail_fault: Option<String>,
}

/// Encodes a record.
pub fn record(json: &Json) -> Vec<u8> {
    record_of_text(&json.to_string())
}

/// Encodes a record. `body`: the encoded JSON.
pub fn record_of_text(body: &str) -> Vec<u8> {
    let data = format!("{body}\n");
    format!("{MAGIC}{} {}\n{data}", data.len(), hash(data.as_bytes())).into_bytes()
}

fn hash(data: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    Sha1::digest(data).iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
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
    let mut tail_fault = None;
    while offset < file.len() {
        let rest = &file[offset..];
        match read_record(rest) {
            Ok((json, len)) => {
                records.push((offset, json));
                offset += len;
            }
            // The file ends within the record. A wrong length that reaches beyond the end of the file looks the same if
            // no further record follows. The caller reports the dropped part.
            Err(Fault::Incomplete) => {
                tail_fault = Some(format!("the record at offset {offset} is cut off"));
                break;
            }
            // The record was not synced, so no later record was acknowledged as durable.
            Err(Fault::Unwritten) => {
                tail_fault = Some(unwritten(offset));
                break;
            }
            Err(Fault::Wrong(_)) if rest.ends_with(&[0]) => {
                tail_fault = Some(unwritten(offset));
                break;
            }
            Err(Fault::Wrong(cause)) if offset > 0 && !record_follows(rest) => {
                tail_fault = Some(format!("{cause} at offset {offset}{}", in_header(rest)));
                break;
            }
            Err(Fault::Wrong(cause)) => return Err(LogError::Damaged { offset, cause }),
        }
    }
    Ok(Records { records, good_len: offset, tail_fault })
}

fn unwritten(offset: usize) -> String {
    format!("bytes that were never written at offset {offset}")
}

/// Whether `rest` contains the header of a further record.
fn record_follows(rest: &[u8]) -> bool {
    let needle = b"\nOVSDB JSON ";
    rest.windows(needle.len()).any(|w| w == needle)
}

/// Quotes the first line of `rest`.
fn in_header(rest: &[u8]) -> String {
    let line = rest.split(|b| *b == b'\n').next().unwrap_or_default();
    let shown = line.get(..MAX_HEADER).unwrap_or(line);
    format!(" in header line \"{}\"", String::from_utf8_lossy(shown))
}

/// What is wrong with a record.
enum Fault {
    /// The file ends within the record.
    Incomplete,
    /// The record contains zeros: a block that the file system allocated but did not write before a power loss. No
    /// valid record contains zeros.
    Unwritten,
    /// The record is invalid for this reason.
    Wrong(String),
}

/// Reads the first record of `rest`; returns it and its length.
fn read_record(rest: &[u8]) -> Result<(Json, usize), Fault> {
    let window = &rest[..rest.len().min(MAX_HEADER)];
    let line = window.split(|b| *b == b'\n').next().unwrap_or_default();
    let wrong = |text: &str| match line.contains(&0) {
        true => Fault::Unwritten,
        false => Fault::Wrong(text.to_owned()),
    };
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
        // If a header follows, the length is wrong; otherwise the file is truncated.
        return Err(if record_follows(rest.get(start..).unwrap_or_default()) {
            wrong("length reaches beyond the end of the file")
        } else {
            Fault::Incomplete
        });
    };
    let actual = hash(data);
    if actual != sha1 {
        if data.contains(&0) {
            return Err(Fault::Unwritten);
        }
        return Err(Fault::Wrong(format!("its {len} bytes have SHA-1 hash {actual} but should have {sha1}")));
    }
    let json: Json =
        serde_json::from_slice(data).map_err(|e| Fault::Wrong(format!("not valid JSON: {e}")))?;
    if json.is_object() { Ok((json, stop)) } else { Err(wrong("not a JSON object")) }
}

/// The record body for a commit; `None` if nothing persistent changed. `changes` are sorted by table.
pub fn transaction_text(schema: &Schema, changes: &Changes, date_ms: i64, comment: &str) -> Option<String> {
    let mut out = String::from("{");
    let mut current = None;
    for change in changes {
        let before = out.len();
        if current == Some(change.table) {
            out.push(',');
        } else {
            out.push_str(if current.is_some() { "}," } else { "" });
            push_string(&mut out, &schema.tables[change.table].name);
            out.push_str(":{");
        }
        push_uuid(&mut out, change.uuid);
        out.push(':');
        match push_row(&mut out, &schema.tables[change.table], change) {
            true => current = Some(change.table),
            false => out.truncate(before),
        }
    }
    current?;
    out.push_str(&format!("}},\"_is_diff\":true,\"_date\":{date_ms}"));
    if !comment.is_empty() {
        out.push_str(",\"_comment\":");
        push_string(&mut out, comment);
    }
    out.push('}');
    Some(out)
}

/// Appends the change of a row to a record; returns false if there is nothing to write.
fn push_row(out: &mut String, table: &TableSchema, change: &RowChange) -> bool {
    let Some(new) = &change.new else {
        out.push_str("null");
        return true;
    };
    let old = change.old.as_ref();
    let persistent = table.columns.iter().enumerate().skip(FIRST_COLUMN).filter(|(_, c)| c.persistent);
    let changed = persistent.filter(|(column_index, column)| match old.map(|row| row.field(*column_index)) {
        Some(old) => old != new.field(*column_index),
        None => !new.field(*column_index).is_default(&column.ty),
    });
    let mut count = 0;
    push_list(out, ['{', '}'], changed, |out, (column_index, column)| {
        count += 1;
        push_string(out, &column.name);
        out.push(':');
        match old.map(|row| row.field(column_index)) {
            Some(old) => new.field(column_index).diff_from(old, &column.ty).push_text(out),
            None => new.field(column_index).push_text(out),
        }
    });
    count > 0 || old.is_none()
}

/// Encodes a database as the two records of a new file: schema and one transaction with all rows.
pub fn snapshot(db: &Database, date_ms: i64) -> Vec<u8> {
    let mut out = record(&db.schema().to_json());
    let rows = |(table, t): (usize, &crate::database::Table)| {
        let insert =
            |row: &Arc<Row>| RowChange { table, uuid: row.uuid(), old: None, new: Some(row.clone()) };
        t.rows().values().map(insert).collect::<Vec<_>>()
    };
    let changes: Changes = db.tables().iter().enumerate().flat_map(rows).collect();
    if let Some(body) = transaction_text(db.schema(), &changes, date_ms, "compacting database online") {
        out.extend(record_of_text(&body));
    }
    out
}

/// To estimate the length of a table's text, this many of its rows are encoded.
const SAMPLE: usize = 2048;

/// The approximate length of [`snapshot`] in bytes. Building the snapshot would take seconds for a million rows.
pub fn estimated_len(db: &Database) -> u64 {
    let of_table = |(table, t): (usize, &crate::database::Table)| {
        let rows = t.rows().values().take(SAMPLE);
        let insert =
            |row: &Arc<Row>| RowChange { table, uuid: row.uuid(), old: None, new: Some(row.clone()) };
        let text = transaction_text(db.schema(), &rows.map(insert).collect(), 0, "");
        let sampled = t.rows().size().clamp(1, SAMPLE) as u64;
        text.map_or(0, |text| text.len() as u64 * t.rows().size() as u64 / sampled)
    };
    let rows: u64 = db.tables().iter().enumerate().map(of_table).sum();
    record(&db.schema().to_json()).len() as u64 + rows
}

/// Converts the body of a record to a commit on `db`.
pub fn replay(db: &Database, body: &Json, new_uuid: &mut dyn FnMut() -> Uuid) -> Result<Commit, Error> {
    let object = body.as_object().ok_or_else(|| Error::syntax(body, "object expected"))?;
    let is_diff = object.get("_is_diff").and_then(Json::as_bool).unwrap_or(false);
    let mut draft = Draft::new(db.schema(), db.tables());
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
            row.field(column).apply_diff(&Datum::diff_from_json(value, ty)?, ty)?
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
