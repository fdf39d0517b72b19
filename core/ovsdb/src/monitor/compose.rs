//! One row's part of an update: `<row-update>` and `<row-update2>`.

use super::{Select, Version, Watch};
use crate::database::Row;
use crate::schema::TableSchema;
use crate::{Error, Json};
use serde_json::Map;

impl Watch {
    pub(super) fn watch_column(
        &mut self,
        column: usize,
        select: Select,
        table: &TableSchema,
        request: &Json,
    ) -> Result<(), Error> {
        if self.columns.iter().any(|(known, _)| *known == column) {
            let text = format!("column {} mentioned more than once", table.columns[column].name);
            return Err(Error::syntax(request, text));
        }
        self.columns.push((column, select));
        Ok(())
    }

    /// What to tell about a row that was `old` and is `new`, as far as the client sees it.
    pub(super) fn compose(
        &self,
        version: Version,
        table: &TableSchema,
        old: Option<&Row>,
        new: Option<&Row>,
        initial: bool,
    ) -> Option<Json> {
        let kind = match (old, new) {
            (None, None) => return None,
            (None, Some(_)) if initial => Select::INITIAL,
            (None, Some(_)) => Select::INSERT,
            (Some(_), None) => Select::DELETE,
            (Some(_), Some(_)) => Select::MODIFY,
        };
        if !self.select.has(kind) {
            return None;
        }
        let same = |(old, new): (&Row, &Row)| self.columns.iter().all(|&(c, _)| old.field(c) == new.field(c));
        if old.zip(new).is_some_and(same) {
            return None;
        }
        let columns = self.columns.iter().filter(|(_, select)| select.has(kind)).map(|(c, _)| *c);
        let columns: Vec<usize> = columns.collect();
        Some(match version {
            Version::Plain => compose_plain(&columns, table, old, new),
            _ => compose_difference(&columns, table, old, new, initial),
        })
    }
}

/// `{"old": ..., "new": ...}`: of an old row that lives on only the columns that changed.
fn compose_plain(columns: &[usize], table: &TableSchema, old: Option<&Row>, new: Option<&Row>) -> Json {
    let mut update = Map::new();
    if let Some(old) = old {
        let told = |c: usize| new.is_none_or(|new| new.field(c) != old.field(c));
        update.insert("old".into(), pick(columns.iter().copied().filter(|&c| told(c)), table, old));
    }
    if let Some(new) = new {
        update.insert("new".into(), pick(columns.iter().copied(), table, new));
    }
    Json::Object(update)
}

/// `{"insert": ...}` without defaults, `{"modify": ...}` with differences, `{"delete": null}`.
fn compose_difference(
    columns: &[usize],
    table: &TableSchema,
    old: Option<&Row>,
    new: Option<&Row>,
    initial: bool,
) -> Json {
    let (name, value) = match (old, new) {
        (Some(old), Some(new)) => {
            let changed = columns.iter().filter(|&&c| old.field(c) != new.field(c));
            let difference = |&c: &usize| {
                let column = &table.columns[c];
                (column.name.clone(), new.field(c).diff_from(old.field(c), &column.ty).to_json())
            };
            ("modify", Json::Object(changed.map(difference).collect()))
        }
        (None, Some(new)) => {
            let told = |&c: &usize| !new.field(c).is_default(&table.columns[c].ty);
            let name = if initial { "initial" } else { "insert" };
            (name, pick(columns.iter().copied().filter(told), table, new))
        }
        _ => ("delete", Json::Null),
    };
    let mut update = Map::new();
    update.insert(name.into(), value);
    Json::Object(update)
}

fn pick(columns: impl Iterator<Item = usize>, table: &TableSchema, row: &Row) -> Json {
    Json::Object(columns.map(|c| (table.columns[c].name.clone(), row.field(c).to_json())).collect())
}
