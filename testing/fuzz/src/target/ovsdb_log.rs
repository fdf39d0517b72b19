//! Database files: the part of a damaged file before the first fault is a valid file. A schema is equal after it was written and
//! parsed again.

use super::ovsdb_sample::{assert_in_snapshot, counter};
use ovsdb::{Database, Json, Schema, Uuid, log};
use std::sync::Arc;

const LEN_MAX: usize = 8192;

/// The input is a file, or `+` and lines of JSON. The target builds records from these lines, because a search could not find the hashes
/// of records.
pub fn run(data: &[u8]) {
    if data.len() > LEN_MAX {
        return;
    }
    match data.strip_prefix(b"+") {
        Some(lines) => {
            let lines = lines.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
            let records: Vec<Json> = lines.collect();
            file(&records.iter().flat_map(log::record).collect::<Vec<u8>>());
        }
        None => file(data),
    }
}

fn file(bytes: &[u8]) {
    let Ok(found) = log::read(bytes) else { return };
    let good = log::read(&bytes[..found.good_len]).expect("the good part of a file");
    assert_eq!((&good.records, good.good_len, &good.tail_fault), (&found.records, found.good_len, &None));
    let Some(((_, first), transactions)) = found.records.split_first() else { return };
    let Ok(schema) = Schema::from_json(first) else { return };
    let again = Schema::from_json(&schema.to_json()).unwrap_or_else(|e| panic!("{e}: {}", schema.to_json()));
    assert_eq!(again, schema);
    let mut db = Database::new(Arc::new(schema), Uuid::nil());
    for (number, (_, record)) in transactions.iter().enumerate() {
        let Ok(commit) = log::replay(&db, record, &mut counter(1 << 64)) else { return };
        db.apply(commit, Uuid::from_u128(number as u128 + 1));
    }
    assert_in_snapshot(&db);
}
