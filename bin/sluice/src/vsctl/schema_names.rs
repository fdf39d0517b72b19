//! The tables and columns that commands may name, abbreviated or in full, and how commands name rows.
//!
//! Commands are checked against the built-in schema, before a connection is made. Columns that only the
//! server's schema has are not shown; columns that the server lacks read as their default.

use crate::notation::token;
use crate::suggest;
use ovsdb::Schema;
use ovsdb::schema::{Column, FIRST_COLUMN, TableSchema};
use std::sync::{Arc, LazyLock};

/// The table whose only row is the root of the configuration.
pub const ROOT: &str = "Open_vSwitch";

/// The schema that is part of the program.
pub fn schema() -> &'static Schema {
    static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(ovsdb::schema::open_vswitch);
    &SCHEMA
}

/// The table with exactly this name.
pub fn known_table(name: &str) -> &'static TableSchema {
    // All names are constants of this program; a test looks them up in the schema.
    schema().table(name).expect("table of the built-in schema")
}

/// The columns that users see.
pub fn columns(table: &'static TableSchema) -> &'static [Column] {
    table.columns.get(FIRST_COLUMN..).unwrap_or_default()
}

/// A way to name a row other than by UUID.
#[derive(Clone, Copy, Debug)]
pub struct RowName {
    /// The table of the column compared with the name.
    pub table: &'static str,
    /// The column compared with the name.
    pub column: &'static str,
    /// The column of the row found by name that refers to the wanted row; `None`: the row found is the wanted row.
    pub reference: Option<&'static str>,
}

/// How rows of a table can be named.
pub fn row_name(table: &str) -> Option<RowName> {
    let own = |table, column| Some(RowName { table, column, reference: None });
    let of = |table, reference| Some(RowName { table, column: "name", reference: Some(reference) });
    match table {
        "Bridge" => own("Bridge", "name"),
        "Port" => own("Port", "name"),
        "Interface" => own("Interface", "name"),
        "Mirror" => own("Mirror", "name"),
        "Manager" => own("Manager", "target"),
        "Flow_Table" => own("Flow_Table", "name"),
        "Flow_Sample_Collector_Set" => own("Flow_Sample_Collector_Set", "id"),
        "Controller" => of("Bridge", "controller"),
        "NetFlow" => of("Bridge", "netflow"),
        "sFlow" => of("Bridge", "sflow"),
        "IPFIX" => of("Bridge", "ipfix"),
        "AutoAttach" => of("Bridge", "auto_attach"),
        "QoS" => of("Port", "qos"),
        _ => None,
    }
}

/// How well `given` matches `name`: 0 for no match; a higher value is a better match.
fn score(name: &str, given: &str) -> usize {
    if name == given {
        return usize::MAX;
    }
    let plain = |c: u8| if c == b'-' { b'_' } else { c.to_ascii_lowercase() };
    let same = name.bytes().zip(given.bytes()).take_while(|(a, b)| plain(*a) == plain(*b)).count();
    match same == given.len() {
        true if same == name.len() => usize::MAX - 1,
        true => same,
        false => 0,
    }
}

/// The items that `given` matches best.
fn best_matches<T>(items: &'static [T], name: impl Fn(&T) -> &str, given: &str) -> Vec<&'static T> {
    let scored: Vec<_> = items.iter().map(|item| (score(name(item), given), item)).collect();
    let top = scored.iter().map(|(score, _)| *score).max().unwrap_or(0);
    scored.into_iter().filter(|(score, _)| *score > 0 && *score == top).map(|(_, item)| item).collect()
}

/// The item that `given` names. `unknown` and `ambiguous` begin the errors.
fn unique_match<T>(
    items: &'static [T],
    name: impl Fn(&T) -> &str,
    given: &str,
    unknown: impl FnOnce() -> String,
    ambiguous: impl FnOnce() -> String,
) -> Result<&'static T, String> {
    match best_matches(items, &name, given).as_slice() {
        [] => Err(unknown() + &suggest::hint(given, items.iter().map(&name))),
        [one] => Ok(one),
        several => {
            let names: Vec<&str> = several.iter().map(|item| name(item)).collect();
            Err(format!("{}: {}", ambiguous(), names.join(", ")))
        }
    }
}

/// The table that `given` names.
pub fn table(given: &str) -> Result<&'static TableSchema, String> {
    let unknown = || format!("unknown table \"{given}\"");
    let ambiguous = || format!("\"{given}\" matches multiple table names");
    unique_match(&schema().tables, |t| &t.name, given, unknown, ambiguous)
}

/// The column of `table` that `given` names.
pub fn column(table: &'static TableSchema, given: &str) -> Result<&'static Column, String> {
    let unknown = || format!("{} does not contain a column whose name matches \"{given}\"", table.name);
    let ambiguous = || format!("{} contains more than one column whose name matches \"{given}\"", table.name);
    unique_match(columns(table), |c| &c.name, given, unknown, ambiguous)
}

/// Returns whether an argument names the UUID column.
pub fn is_uuid_column(given: &str) -> bool {
    given.eq_ignore_ascii_case("_uuid") || given.eq_ignore_ascii_case("-uuid")
}

/// The columns of a `--columns` list, where `None` is the UUID; without a list all columns.
pub fn column_list(
    table: &'static TableSchema,
    list: Option<&str>,
) -> Result<Vec<Option<&'static Column>>, String> {
    let Some(list) = list else {
        return Ok(std::iter::once(None).chain(columns(table).iter().map(Some)).collect());
    };
    let names = list.split([',', ' ']).filter(|name| !name.is_empty());
    let found = names.map(|name| match name.eq_ignore_ascii_case("_uuid") {
        true => Ok(None),
        false => column(table, name).map(Some),
    });
    let found = found.collect::<Result<Vec<_>, _>>()?;
    if found.is_empty() { Err("must specify at least one column name".into()) } else { Ok(found) }
}

/// Splits the column off an argument `COLUMN[:KEY]...`; also returns the rest.
pub fn leading_column<'a>(
    table: &'static TableSchema,
    argument: &'a str,
) -> Result<(&'static Column, &'a str), String> {
    let (name, rest) = token(argument)?;
    if name.is_empty() {
        return Err(format!("{argument}: missing column name"));
    }
    Ok((column(table, &name)?, rest))
}

fn key_of(rest: &str) -> Result<(Option<String>, &str), String> {
    match rest.strip_prefix(':') {
        Some(after) => token(after).map(|(key, rest)| (Some(key), rest)),
        None => Ok((None, rest)),
    }
}

/// Parses `COLUMN[:KEY]`.
pub fn column_key(
    table: &'static TableSchema,
    argument: &str,
) -> Result<(&'static Column, Option<String>), String> {
    let (column, rest) = leading_column(table, argument)?;
    let (key, rest) = key_of(rest)?;
    if !rest.is_empty() {
        return Err(format!("{argument}: trailing garbage \"{rest}\" in argument"));
    }
    Ok((column, key))
}

/// A parsed `COLUMN[:KEY]OPERATORVALUE`.
pub struct Clause<'a> {
    /// The column.
    pub column: &'static Column,
    /// The key, as written.
    pub key: Option<String>,
    /// The operator's text.
    pub operator: &'static str,
    /// The value, as written.
    pub value: &'a str,
}

/// Parses `COLUMN[:KEY]OPERATORVALUE`.
pub fn clause<'a>(
    table: &'static TableSchema,
    argument: &'a str,
    operators: &[&'static str],
) -> Result<Clause<'a>, String> {
    let (column, rest) = leading_column(table, argument)?;
    let (key, rest) = key_of(rest)?;
    let fitting = operators.iter().filter(|op| rest.len() > op.len() && rest.starts_with(**op));
    match fitting.max_by_key(|op| op.len()) {
        Some(operator) => {
            Ok(Clause { column, key, operator, value: rest.get(operator.len()..).unwrap_or_default() })
        }
        None => {
            Err(format!("{argument}: argument does not end in {} followed by a value.", choice(operators)))
        }
    }
}

/// `"a", "b", or "c"`.
fn choice(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match quoted.as_slice() {
        [one, two] => format!("{one} or {two}"),
        [most @ .., last] if !most.is_empty() => format!("{}, or {last}", most.join(", ")),
        _ => quoted.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abbreviations() {
        assert_eq!(table("br").unwrap().name, "Bridge");
        assert_eq!(table("open").unwrap().name, "Open_vSwitch");
        assert_eq!(table("ct-zone").unwrap().name, "CT_Zone");
        assert_eq!(table("zz").unwrap_err(), "unknown table \"zz\"");
        assert_eq!(
            table("Flow").unwrap_err(),
            "\"Flow\" matches multiple table names: Flow_Sample_Collector_Set, Flow_Table"
        );
        let bridge = known_table("Bridge");
        assert_eq!(column(bridge, "other").unwrap().name, "other_config");
        assert_eq!(
            column(bridge, "s").unwrap_err(),
            "Bridge contains more than one column whose name matches \"s\": sflow, status, stp_enable"
        );
        assert!(column(bridge, "_version").is_err());
    }

    #[test]
    fn clauses() {
        let bridge = known_table("Bridge");
        let c = clause(bridge, "other:hw=x=y", &["="]).unwrap();
        assert_eq!((c.column.name.as_str(), c.key.as_deref(), c.value), ("other_config", Some("hw"), "x=y"));
        let all = ["=", "!=", "<", "<="];
        assert_eq!(clause(bridge, "name<=3", &all).unwrap().operator, "<=");
        assert_eq!(
            clause(bridge, "name", &all).err().unwrap(),
            "name: argument does not end in \"=\", \"!=\", \"<\", or \"<=\" followed by a value."
        );
        assert_eq!(
            clause(bridge, "name=", &["="]).err().unwrap(),
            "name=: argument does not end in \"=\" followed by a value."
        );
        assert_eq!(
            column_key(bridge, "name=3").err().unwrap(),
            "name=3: trailing garbage \"=3\" in argument"
        );
    }

    #[test]
    fn rows_have_names_by_columns_of_the_schema() {
        for name in schema().tables.iter().filter_map(|t| row_name(&t.name)) {
            let table = known_table(name.table);
            assert!(table.column(name.column).is_some());
            assert!(name.reference.is_none_or(|r| table.column(r).is_some()));
        }
    }
}
