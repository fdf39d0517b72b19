//! The problems in the settings of each row, updated when rows change.

use config::check::{Checker, Finding, Problem, TYPE};
use ovsdb::replica::RowRef;
use ovsdb::{Replica, RowChange, Schema, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// By row: the text about settings without effect, for column `error` or `status`.
pub(crate) type IneffectiveSettings = BTreeMap<Uuid, String>;

/// The problems that were found in the rows.
#[derive(Default)]
pub(crate) struct Findings {
    checkers: BTreeMap<&'static str, Checker>,
    /// The schema with which the rows were checked. `None`: all rows must be checked.
    schema: Option<Arc<Schema>>,
    of_rows: BTreeMap<Uuid, Vec<Finding>>,
    /// The number of rows in which each problem occurs.
    rows_with: BTreeMap<Finding, usize>,
    /// Problems of rows that changed or disappeared since the last call of `follow`.
    forgotten: Vec<Finding>,
    /// The texts about settings without effect, by row.
    pub(crate) ineffective: IneffectiveSettings,
}

impl Findings {
    /// Requests a check of all rows, because conditions outside of the rows changed.
    pub(crate) fn check_all(&mut self) {
        self.schema = None;
    }

    /// Checks changed rows and returns new problems. `is_dummy`: see [`Checker::row`].
    pub(crate) fn follow(
        &mut self,
        db: &Replica,
        changes: &[RowChange],
        is_dummy: impl Fn(&str) -> bool,
    ) -> BTreeSet<Finding> {
        if self.checkers.is_empty() {
            self.checkers = Checker::of_all_tables().into_iter().map(|c| (c.table(), c)).collect();
        }
        let Some(schema) = db.schema() else { return BTreeSet::new() };
        let mut new = BTreeSet::new();
        match self.schema.as_ref().is_some_and(|known| Arc::ptr_eq(known, schema)) {
            true => {
                for change in changes {
                    let table = schema.tables.get(change.table).map_or("", |table| table.name.as_str());
                    let row = db.row(table, change.uuid);
                    self.check(table, (change.uuid, row), &is_dummy, &mut new);
                }
            }
            false => {
                self.schema = Some(Arc::clone(schema));
                let gone = std::mem::take(&mut self.of_rows);
                gone.into_values().flatten().for_each(|finding| self.forget(finding));
                self.ineffective.clear();
                for table in self.checkers.keys().copied().collect::<Vec<_>>() {
                    db.rows(table).for_each(|r| self.check(table, (r.uuid(), Some(r)), &is_dummy, &mut new));
                }
            }
        }
        // Problems that no row has any more are forgotten only now: a problem that disappeared from a row and was
        // found again by the same call, in any row, is not new.
        for finding in std::mem::take(&mut self.forgotten) {
            if self.rows_with.get(&finding) == Some(&0) {
                self.rows_with.remove(&finding);
            }
        }
        new
    }

    /// Checks a row. Adds to `new` the problems that no row had before.
    fn check(
        &mut self,
        table: &str,
        (uuid, row): (Uuid, Option<RowRef<'_>>),
        is_dummy: impl Fn(&str) -> bool,
        new: &mut BTreeSet<Finding>,
    ) {
        let Some(checker) = self.checkers.get(table) else { return };
        let mut found = row.map(|row| checker.row(|column| row.datum(column), is_dummy)).unwrap_or_default();
        // If the type of a port is not available, the port itself reports that. In dummy mode the type may be
        // available.
        found.retain(|finding| finding.name != TYPE);
        for finding in self.of_rows.remove(&uuid).unwrap_or_default() {
            self.forget(finding);
        }
        for finding in &found {
            let rows = self.rows_with.entry(finding.clone()).or_insert_with(|| {
                new.insert(finding.clone());
                0
            });
            *rows += 1;
        }
        match ineffective(&found) {
            Some(text) => drop(self.ineffective.insert(uuid, text)),
            None => drop(self.ineffective.remove(&uuid)),
        }
        if !found.is_empty() {
            self.of_rows.insert(uuid, found);
        }
    }

    fn forget(&mut self, finding: Finding) {
        if let Some(rows) = self.rows_with.get_mut(&finding) {
            *rows -= 1;
            self.forgotten.push(finding);
        }
    }
}

/// The text about the settings of a row that have no effect.
fn ineffective(found: &[Finding]) -> Option<String> {
    let of_parts = found.iter().filter(|finding| matches!(finding.problem, Problem::NotBuilt(_)));
    let texts: Vec<String> =
        of_parts.map(|finding| Finding { row: String::new(), ..finding.clone() }.to_string()).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}
