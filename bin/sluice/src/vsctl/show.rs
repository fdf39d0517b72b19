//! `show`: the configuration as a tree.

use super::context::{CommandOutput, CommandStop, Context, NeededColumns};
use super::schema_names::{self, ROOT, known_table};
use super::syntax::Command;
use crate::notation;
use ovsdb::{Json, Uuid};
use std::collections::{BTreeMap, BTreeSet};

/// A table whose rows are shown.
struct ShownTable {
    table: &'static str,
    /// The column in the heading of a row; `None`: the heading is the row's UUID.
    heading: Option<&'static str>,
    /// The columns below the heading.
    columns: &'static [&'static str],
}

const TABLES: [ShownTable; 6] = [
    ShownTable { table: ROOT, heading: None, columns: &["manager_options", "bridges", "ovs_version"] },
    ShownTable {
        table: "Bridge",
        heading: Some("name"),
        columns: &["controller", "fail_mode", "datapath_type", "ports"],
    },
    ShownTable { table: "Port", heading: Some("name"), columns: &["tag", "trunks", "interfaces"] },
    ShownTable {
        table: "Interface",
        heading: Some("name"),
        columns: &["type", "options", "error", "bfd_status"],
    },
    ShownTable { table: "Controller", heading: Some("target"), columns: &["is_connected"] },
    ShownTable { table: "Manager", heading: Some("target"), columns: &["is_connected"] },
];

fn shown(table: &str) -> Option<&'static ShownTable> {
    TABLES.iter().find(|s| s.table == table)
}

/// Adds the columns that `show` reads.
pub fn prepare(_: &Command, needs: &mut NeededColumns) -> Result<(), String> {
    TABLES
        .iter()
        .for_each(|s| needs.columns(s.table, s.heading.into_iter().chain(s.columns.iter().copied())));
    Ok(())
}

/// Words by table. A row of such a table is shown only if its text contains one of the words.
type Filters = BTreeMap<&'static str, BTreeSet<String>>;

fn filters(given: &str) -> Result<Filters, String> {
    let mut filters = Filters::new();
    for item in given.split(',').filter(|item| !item.is_empty()) {
        let (table, words) = match (item.split_once('('), item.strip_suffix(')')) {
            (None, _) => (ROOT, item),
            (Some((table, _)), Some(_)) => {
                let words = item.get(table.len() + 1..item.len() - 1).unwrap_or_default();
                (schema_names::table(table)?.name.as_str(), words)
            }
            (Some(_), None) => return Err("Malformed filter: missing closing ')'".to_owned()),
        };
        let words = words.split('|').filter(|word| !word.is_empty());
        filters.entry(table).or_default().extend(words.map(str::to_lowercase));
    }
    Ok(filters)
}

/// `show`
pub fn show(ctx: &mut Context<'_>, command: &Command) -> Result<CommandOutput, CommandStop> {
    let filters = filters(command.option("--filter").unwrap_or_default())?;
    let rows = ctx.tx.rows(ROOT);
    let Some(root) = shown(ROOT) else { return Ok(CommandOutput::NONE) };
    let text = rows.iter().map(|row| show_row(ctx, &filters, root, *row, 0)).collect();
    let json = rows.iter().filter_map(|row| object(ctx, &filters, root, *row)).collect();
    Ok(CommandOutput::Value(text, json))
}

/// The tree below a row as JSON: a row is an object of its columns; a reference is replaced by the row to which it refers. Columns
/// with default values are omitted, as in the text.
fn object(ctx: &Context<'_>, filters: &Filters, shown_table: &ShownTable, row: Uuid) -> Option<Json> {
    if show_row(ctx, filters, shown_table, row, 0).is_empty() {
        return None;
    }
    let mut members = serde_json::Map::new();
    members.insert("_uuid".to_owned(), row.to_string().into());
    for column in shown_table.heading.iter().chain(shown_table.columns) {
        let Some(schema) = known_table(shown_table.table).column(column) else { continue };
        let referred = schema.ty.key.refers_to.as_ref().and_then(|refers_to| shown(&refers_to.table));
        let datum = ctx.tx.datum(shown_table.table, row, column);
        let value = match referred {
            Some(below) => {
                let rows = ctx.tx.references(shown_table.table, row, column).into_iter();
                let rows = rows.filter(|r| ctx.tx.exists(below.table, *r));
                rows.filter_map(|r| object(ctx, filters, below, r)).collect()
            }
            None if datum.is_default(&schema.ty) => continue,
            None => datum.to_json(),
        };
        members.insert((*column).to_owned(), value);
    }
    Some(Json::Object(members))
}

/// The text of a row. References between tables have no cycles, so `level` stays small.
fn show_row(
    ctx: &Context<'_>,
    filters: &Filters,
    shown_table: &ShownTable,
    row: Uuid,
    level: usize,
) -> String {
    let heading = match shown_table.heading {
        Some(column) => format!("{} {}", shown_table.table, text(ctx, shown_table.table, row, column)),
        None => row.to_string(),
    };
    let mut out = format!("{}{heading}\n", "    ".repeat(level));
    for column in shown_table.columns {
        out.push_str(&show_column(ctx, filters, shown_table.table, row, column, level + 1));
    }
    let hidden = filters.get(shown_table.table).is_some_and(|words| {
        let lower = out.to_lowercase();
        !words.iter().any(|word| lower.contains(word))
    });
    if hidden { String::new() } else { out }
}

fn text(ctx: &Context<'_>, table: &str, row: Uuid, column: &str) -> String {
    let datum = ctx.tx.datum(table, row, column);
    known_table(table).column(column).map(|c| notation::text(&datum, &c.ty)).unwrap_or_default()
}

fn show_column(
    ctx: &Context<'_>,
    filters: &Filters,
    table: &str,
    row: Uuid,
    column: &str,
    level: usize,
) -> String {
    let Some(schema) = known_table(table).column(column) else { return String::new() };
    let referred = schema.ty.key.refers_to.as_ref().and_then(|refers_to| shown(&refers_to.table));
    if let Some(shown_table) = referred {
        let rows = ctx
            .tx
            .references(table, row, column)
            .into_iter()
            .filter(|r| ctx.tx.exists(shown_table.table, *r));
        return rows.map(|r| show_row(ctx, filters, shown_table, r, level)).collect();
    }
    match ctx.tx.datum(table, row, column).is_default(&schema.ty) {
        true => String::new(),
        false => format!("{}{column}: {}\n", "    ".repeat(level), text(ctx, table, row, column)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_shown_is_in_the_schema() {
        for shown in &TABLES {
            let table = known_table(shown.table);
            assert!(shown.columns.iter().chain(&shown.heading).all(|c| table.column(c).is_some()));
        }
    }

    #[test]
    fn filters_by_table() {
        let f = filters("Port(a|B),x,y").unwrap();
        assert_eq!(f["Port"], BTreeSet::from(["a".to_owned(), "b".to_owned()]));
        assert_eq!(f[ROOT].len(), 2);
        assert_eq!(filters("Port(a").unwrap_err(), "Malformed filter: missing closing ')'");
    }
}
