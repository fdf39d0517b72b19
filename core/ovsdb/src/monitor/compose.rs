//! Builds the text of updates: `<table-updates>` and `<table-updates2>` with their row updates.

use super::method::MonitorMethod;
use super::watch::{Select, Watch};
use crate::Error;
use crate::database::Row;
use crate::schema::TableSchema;
use crate::value::text::{push_list, push_string, push_uuid};
use serde_json::Value as Json;
use uuid::Uuid;

/// An update under construction: an object of tables, which are objects of rows.
#[derive(Default)]
pub(super) struct Updates {
    text: String,
    table: Option<usize>,
}

impl Updates {
    /// Adds a row's update. All rows of a table must be added consecutively.
    pub fn add(&mut self, table: usize, name: &str, uuid: Uuid, update: &RowUpdate) {
        if self.table == Some(table) {
            self.text.push(',');
        } else {
            self.text.push_str(if self.table.is_some() { "}," } else { "{" });
            push_string(&mut self.text, name);
            self.text.push_str(":{");
            self.table = Some(table);
        }
        push_uuid(&mut self.text, uuid);
        self.text.push(':');
        update.push_text(&mut self.text);
    }

    /// The text; `None` if no row was added.
    pub fn finish(mut self) -> Option<String> {
        self.table?;
        self.text.push_str("}}");
        Some(self.text)
    }
}

/// The update of a row from `old` to `new`. A row that the client may not see is `None`.
pub(super) struct RowUpdate<'a> {
    method: MonitorMethod,
    schema: &'a TableSchema,
    columns: Vec<usize>,
    old: Option<&'a Row>,
    new: Option<&'a Row>,
    initial: bool,
}

impl Watch {
    /// Adds a column to the monitored columns.
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

    /// The update of a row; `None` if there is nothing to send.
    pub(super) fn compose<'a>(
        &self,
        method: MonitorMethod,
        schema: &'a TableSchema,
        old: Option<&'a Row>,
        new: Option<&'a Row>,
        initial: bool,
    ) -> Option<RowUpdate<'a>> {
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
        let columns = self.columns.iter().filter(|(_, select)| select.has(kind)).map(|(c, _)| *c).collect();
        Some(RowUpdate { method, schema, columns, old, new, initial })
    }
}

impl RowUpdate<'_> {
    fn push_text(&self, out: &mut String) {
        match self.method {
            MonitorMethod::Plain => self.push_plain(out),
            _ => self.push_difference(out),
        }
    }

    /// `{"old": ..., "new": ...}`; `old` has only the changed columns unless the row was deleted.
    fn push_plain(&self, out: &mut String) {
        out.push('{');
        if let Some(old) = self.old {
            let included = |c: &usize| self.new.is_none_or(|new| new.field(*c) != old.field(*c));
            self.push_row(out, "old", old, included);
        }
        if let Some(new) = self.new {
            if self.old.is_some() {
                out.push(',');
            }
            self.push_row(out, "new", new, |_| true);
        }
        out.push('}');
    }

    /// `{"insert": ...}` without defaults, `{"modify": ...}` with differences, `{"delete": null}`.
    fn push_difference(&self, out: &mut String) {
        out.push('{');
        match (self.old, self.new) {
            (Some(old), Some(new)) => {
                push_string(out, "modify");
                out.push(':');
                let changed = self.columns.iter().filter(|&&c| old.field(c) != new.field(c));
                push_list(out, ['{', '}'], changed, |out, &c| {
                    let column = &self.schema.columns[c];
                    push_string(out, &column.name);
                    out.push(':');
                    new.field(c).diff_from(old.field(c), &column.ty).push_text(out);
                });
            }
            (None, Some(new)) => {
                let included = |c: &usize| !new.field(*c).is_default(&self.schema.columns[*c].ty);
                self.push_row(out, if self.initial { "initial" } else { "insert" }, new, included);
            }
            _ => out.push_str("\"delete\":null"),
        }
        out.push('}');
    }

    /// Appends a member `name` with the columns of `row` for which `included` returns true.
    fn push_row(&self, out: &mut String, name: &str, row: &Row, included: impl Fn(&usize) -> bool) {
        push_string(out, name);
        out.push(':');
        push_list(out, ['{', '}'], self.columns.iter().filter(|c| included(c)), |out, &c| {
            push_string(out, &self.schema.columns[c].name);
            out.push(':');
            row.field(c).push_text(out);
        });
    }
}
