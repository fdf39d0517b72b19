//! The rows, columns and kinds of changes of one table that a monitor watches.

use super::filter::Filter;
use crate::error::Error;
use crate::members::{Kinds, Members};
use serde_json::Value as Json;

/// Kinds of row changes, as a set of bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Select(pub(super) u8);

impl Select {
    pub(super) const INITIAL: Select = Select(1);
    pub(super) const INSERT: Select = Select(2);
    pub(super) const DELETE: Select = Select(4);
    pub(super) const MODIFY: Select = Select(8);
    pub(super) const ALL: Select = Select(15);

    pub(super) fn has(self, kind: Select) -> bool {
        self.0 & kind.0 != 0
    }

    pub(super) fn from_json(json: Option<&Json>, table: &str) -> Result<Select, Error> {
        let Some(json) = json else { return Ok(Select::ALL) };
        let mut members = Members::new(json, format!("table {table} select"));
        let mut bits = 0;
        let kinds = [
            ("initial", Select::INITIAL),
            ("insert", Select::INSERT),
            ("delete", Select::DELETE),
            ("modify", Select::MODIFY),
        ];
        for (name, kind) in kinds {
            if members.optional(name, Kinds::BOOLEAN).and_then(Json::as_bool).unwrap_or(true) {
                bits |= kind.0;
            }
        }
        members.finish()?;
        Ok(Select(bits))
    }
}

/// What a monitor watches in one table.
pub(super) struct Watch {
    /// The kinds of changes for which the monitor sends updates.
    pub(super) select: Select,
    /// The monitored columns, each with the kinds of change for which it is sent.
    pub(super) columns: Vec<(usize, Select)>,
    /// Only rows that match it are visible to the client.
    pub(super) filter: Filter,
}
