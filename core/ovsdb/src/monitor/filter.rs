//! The condition of a monitored table: a row is visible if it meets at least one clause.
//!
//! ovn-controller sends thousands of clauses `column == value` and `column includes value`. Their values are kept in
//! sorted sets, so a row needs one look-up per column or element instead of one comparison per clause.

use crate::condition::{Clause, Function};
use crate::database::Row;
use crate::error::Error;
use crate::schema::TableSchema;
use crate::value::{Atom, Datum};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;

/// Estimated memory of an entry of a sorted set or list, and of one allocation of its value, in bytes.
const ENTRY_MEMORY: usize = 64;

/// What conditions cost; the cost of several conditions is the sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConditionCost {
    /// Estimated memory in bytes.
    pub memory: usize,
    /// Number of values in the clauses that are compared with each row, because no sorted set has them.
    pub compared: usize,
}

impl AddAssign for ConditionCost {
    fn add_assign(&mut self, other: ConditionCost) {
        self.memory = self.memory.saturating_add(other.memory);
        self.compared = self.compared.saturating_add(other.compared);
    }
}

/// The limits of one request that adds or changes a monitor.
pub struct MonitorLimits<'a> {
    /// The conditions may cost this much.
    pub conditions: ConditionCost,
    /// Whether to cancel the request because its client has disconnected.
    pub is_abandoned: &'a dyn Fn() -> bool,
}

impl Default for MonitorLimits<'_> {
    /// No limits.
    fn default() -> Self {
        let conditions = ConditionCost { memory: usize::MAX, compared: usize::MAX };
        MonitorLimits { conditions, is_abandoned: &|| false }
    }
}

impl MonitorLimits<'_> {
    /// An error if the conditions exceed a limit.
    pub(super) fn check(&self, cost: ConditionCost) -> Result<(), Error> {
        let ConditionCost { memory, compared } = self.conditions;
        let text = if cost.memory > memory {
            format!("conditions need {} bytes of memory, but {memory} are left", cost.memory)
        } else if cost.compared > compared {
            format!(
                "conditions have {} values to compare with each row, but {compared} are left",
                cost.compared
            )
        } else {
            return Ok(());
        };
        Err(Error::new("resources exhausted", text))
    }

    /// An error if the client has disconnected; `row`: number of rows read before. Checked every 256 rows, so
    /// that the check costs little.
    pub(super) fn check_abandoned(&self, row: usize) -> Result<(), Error> {
        match row.is_multiple_of(256) && (self.is_abandoned)() {
            true => Err(Error::new("canceled", "the client has gone")),
            false => Ok(()),
        }
    }
}

/// A condition. Without clauses, all rows are visible.
#[derive(Default)]
pub(super) struct Filter {
    /// Whether there are clauses, including `false`, which has no effect on other clauses.
    restricted: bool,
    /// A clause is `true`.
    always: bool,
    /// The values of the clauses `column == value`, by column.
    equal: BTreeMap<usize, BTreeSet<Datum>>,
    /// The elements of the clauses `column includes [element]`, by column.
    included: BTreeMap<usize, BTreeSet<Atom>>,
    /// The pairs of the clauses `column includes {key: value}`, by column.
    included_pairs: BTreeMap<usize, BTreeSet<(Atom, Atom)>>,
    /// All other clauses.
    others: Vec<Clause>,
    /// Number of values in `others`.
    compared: usize,
    memory: usize,
}

impl Filter {
    /// Reads a `where` array.
    pub(super) fn from_json(table: &TableSchema, json: Option<&Json>) -> Result<Filter, Error> {
        let mut filter = Filter::default();
        for clause in json.and_then(Json::as_array).into_iter().flatten() {
            filter.add(Clause::from_json(table, clause, None)?);
        }
        Ok(filter)
    }

    fn add(&mut self, clause: Clause) {
        self.restricted = true;
        let added = match &clause {
            Clause::Constant(_) => 0,
            Clause::Compare(_, _, value) => clause_memory(value),
        };
        let fresh = match clause {
            Clause::Constant(constant) => {
                self.always |= constant;
                false
            }
            Clause::Compare(column, Function::Equal, value) => {
                self.equal.entry(column).or_default().insert(value)
            }
            Clause::Compare(column, Function::Includes, Datum::Set(mut elements)) if elements.len() == 1 => {
                let set = self.included.entry(column).or_default();
                elements.pop().is_some_and(|element| set.insert(element))
            }
            Clause::Compare(column, Function::Includes, Datum::Map(mut pairs)) if pairs.len() == 1 => {
                let set = self.included_pairs.entry(column).or_default();
                pairs.pop().is_some_and(|pair| set.insert(pair))
            }
            other => {
                if let Clause::Compare(_, _, value) = &other {
                    self.compared += value.len().max(1);
                }
                self.others.push(other);
                true
            }
        };
        self.memory += if fresh { added } else { 0 };
    }

    /// Whether a row is visible.
    pub(super) fn matches(&self, row: &Row) -> bool {
        !self.restricted
            || self.always
            || self.equal.iter().any(|(column, values)| values.contains(row.field(*column)))
            || self.included.iter().any(|(column, set)| includes_any(row.field(*column).elements(), set))
            || self.included_pairs.iter().any(|(column, set)| includes_any(row.field(*column).pairs(), set))
            || self.others.iter().any(|clause| clause.holds(row))
    }

    /// What the condition costs.
    pub(super) fn cost(&self) -> ConditionCost {
        ConditionCost { memory: self.memory, compared: self.compared }
    }
}

/// Whether one of the sorted values of a column is in the set. Reads the smaller of both.
fn includes_any<T: Ord>(values: &[T], set: &BTreeSet<T>) -> bool {
    match values.len() <= set.len() {
        true => values.iter().any(|value| set.contains(value)),
        false => set.iter().any(|element| values.binary_search(element).is_ok()),
    }
}

/// Estimated memory of a clause with this value, in bytes.
fn clause_memory(value: &Datum) -> usize {
    let strings = value.keys().chain(value.values()).filter_map(Atom::as_str);
    let strings: usize = strings.map(|text| ENTRY_MEMORY + text.len()).sum();
    let atoms = value.keys().chain(value.values()).count();
    size_of::<Clause>() + ENTRY_MEMORY + atoms * size_of::<Atom>() + strings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Condition;
    use crate::schema::open_vswitch;
    use serde_json::json;
    use uuid::Uuid;

    fn table() -> TableSchema {
        let schema = open_vswitch();
        schema.tables[schema.table_index("Port").unwrap()].clone()
    }

    fn filter(json: Json) -> Filter {
        Filter::from_json(&table(), Some(&json)).unwrap()
    }

    #[test]
    fn clauses_of_single_values_are_looked_up() {
        let equal: Vec<Json> = (0..20_000).map(|at| json!(["name", "==", format!("p{at}")])).collect();
        let includes: Vec<Json> = (0..4000).map(|at| json!(["trunks", "includes", at])).collect();
        let many = filter([equal, includes, vec![json!(["tag", "<", 3]), json!(false)]].concat().into());
        assert_eq!(many.cost().compared, 1);
        assert_eq!(filter(json!([["trunks", "excludes", ["set", [1, 2, 3]]]])).cost().compared, 3);
        assert!(many.cost().memory > 24_000 * 100, "{:?}", many.cost());
        // The same clause again takes no memory.
        assert_eq!(
            filter(vec![json!(["tag", "==", 3]); 100].into()).cost(),
            filter(json!([["tag", "==", 3]])).cost()
        );
    }

    #[test]
    fn a_filter_agrees_with_its_clauses() {
        let table = table();
        let column = |name| table.column_index(name).unwrap();
        let row = |name: &str, tag: Option<i64>, trunks: &[i64]| {
            let mut row = Row::new(&table, Uuid::nil());
            row.set(column("name"), Datum::scalar(name));
            row.set(column("tag"), Datum::set(tag));
            row.set(column("trunks"), Datum::set(trunks.iter().copied()));
            row.set(
                column("other_config"),
                Datum::map(trunks.iter().map(|at| (["k", "l"][*at as usize % 2], "v"))),
            );
            row
        };
        let rows = [
            row("a", None, &[]),
            row("b", Some(3), &[1, 2]),
            row("c", Some(4), &[2]),
            row("d", None, &[1, 2, 3, 4]),
        ];
        let conditions = [
            json!([]),
            json!([true]),
            json!([false]),
            json!([["name", "==", "a"], ["name", "==", "b"], ["tag", "==", ["set", []]]]),
            json!([["trunks", "includes", 1], ["trunks", "includes", 4], ["tag", "==", 4]]),
            json!([["trunks", "includes", ["set", [1, 2]]]]),
            json!([["trunks", "includes", ["set", []]]]),
            json!([["name", "!=", "a"], ["tag", ">", 3]]),
            json!([
                ["other_config", "includes", ["map", [["k", "w"]]]],
                ["other_config", "includes", ["map", [["k", "v"]]]]
            ]),
            json!([["other_config", "includes", ["map", [["k", "v"], ["l", "v"]]]]]),
            json!([["other_config", "excludes", ["map", [["k", "v"]]]]]),
            json!([["name", "includes", "c"], ["trunks", "==", ["set", [1, 2]]]]),
        ];
        for json in conditions {
            let (fast, slow) = (filter(json.clone()), Condition::from_json(&table, &json, None).unwrap());
            for row in &rows {
                assert_eq!(fast.matches(row), slow.any(row), "{json} {row:?}");
            }
        }
    }
}
