//! Settings in columns of the database: for any text the value is in the setting's range, or the text is reported as wrong.

use config::bridge::parse_datapath_id;
use config::check::Checker;

use ovsdb::{Datum, Json, schema};
use settings::{Fault, Value, all};
use std::collections::BTreeMap;
use std::str::from_utf8;

const LEN_MAX: usize = 1024;

/// If the input is a JSON object, it contains the columns of a row. Any other text is used as the value of every setting.
pub fn run(data: &[u8]) {
    let Some(text) = from_utf8(data).ok().filter(|t| t.len() <= LEN_MAX) else { return };
    match serde_json::from_str(text) {
        Ok(Json::Object(columns)) => check_row(&columns),
        _ => check_all_settings(text),
    }
}

fn check_all_settings(text: &str) {
    parse_datapath_id(text);
    for setting in all() {
        let map = BTreeMap::from([(setting.key.to_owned(), text.to_owned())]);
        let (number, fault) = (setting.opt_number(&map), setting.fault(text));
        setting.flag_of(&map);
        setting.word(&map);
        if let (Value::Int { min, max, .. }, Some(Fault::OutOfRange(held))) = (setting.value, fault) {
            assert!((min..=max).contains(&held), "{}: {held}", setting.name());
            assert_eq!(number, Some(held), "{}", setting.name());
        }
    }
}

fn check_row(columns: &serde_json::Map<String, Json>) {
    let schema = schema::open_vswitch();
    for checker in Checker::of_all_tables() {
        let Some(table) = schema.table(checker.table()) else { continue };
        let values: BTreeMap<&str, Datum> = table
            .columns
            .iter()
            .filter_map(|c| {
                Some((c.name.as_str(), Datum::from_json(columns.get(&c.name)?, &c.ty, None).ok()?))
            })
            .collect();
        for finding in checker.row(|column| values.get(column), |kind| kind == "dummy") {
            finding.to_string();
        }
    }
}
