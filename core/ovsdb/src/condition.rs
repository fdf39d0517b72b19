//! `where` clauses: `[<column>, <function>, <value>]` (RFC 7047 section 5.1), and the
//! `true`/`false` clauses that monitor conditions add.

use crate::Error;
use crate::database::Row;
use crate::schema::{TableSchema, UUID_COLUMN};
use crate::value::{Datum, Symbols};
use serde_json::Value as Json;
use uuid::Uuid;

/// How a clause compares a column with its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `>=`
    GreaterOrEqual,
    /// `>`
    Greater,
    /// `includes`
    Includes,
    /// `excludes`
    Excludes,
}

impl Function {
    const ALL: [(Function, &'static str); 8] = [
        (Function::Less, "<"),
        (Function::LessOrEqual, "<="),
        (Function::Equal, "=="),
        (Function::NotEqual, "!="),
        (Function::GreaterOrEqual, ">="),
        (Function::Greater, ">"),
        (Function::Includes, "includes"),
        (Function::Excludes, "excludes"),
    ];

    /// Its name in a clause.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(f, _)| *f == self).map_or("", |(_, name)| name)
    }

    fn from_name(name: &str) -> Option<Function> {
        Self::ALL.iter().find(|(_, n)| *n == name).map(|(f, _)| *f)
    }
}

/// One clause of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clause {
    /// `true` or `false`.
    Constant(bool),
    /// A comparison of the column with this index.
    Compare(usize, Function, Datum),
}

/// A list of clauses.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Condition(Vec<Clause>);

impl Condition {
    /// Reads a `where` array.
    pub fn from_json(
        table: &TableSchema,
        json: &Json,
        mut symbols: Option<&mut Symbols>,
    ) -> Result<Self, Error> {
        let clauses = json.as_array().map(Vec::as_slice).unwrap_or_default();
        let parse = |clause| Clause::from_json(table, clause, symbols.as_deref_mut());
        clauses.iter().map(parse).collect::<Result<_, _>>().map(Condition)
    }

    /// Whether the row meets all clauses, as `where` of an operation requires. An empty condition is met by every row.
    pub fn all(&self, row: &Row) -> bool {
        self.0.iter().all(|clause| clause.holds(row))
    }

    /// Whether the row meets at least one clause, as a monitor condition requires. An empty condition is met by every
    /// row. The tests compare the faster look-up of monitors with this function.
    #[cfg(test)]
    pub(crate) fn any(&self, row: &Row) -> bool {
        self.0.is_empty() || self.0.iter().any(|clause| clause.holds(row))
    }

    /// Whether there are no clauses.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value that a column must have because of a clause `column == value`, if there is such a clause.
    pub fn required(&self, column: usize) -> Option<&Datum> {
        self.0.iter().find_map(|clause| match clause {
            Clause::Compare(c, Function::Equal, datum) if *c == column => Some(datum),
            _ => None,
        })
    }

    /// The UUID that a clause `_uuid == X` requires, if there is one.
    pub fn only_uuid(&self) -> Option<Uuid> {
        self.required(UUID_COLUMN)?.uuids().next()
    }
}

impl Clause {
    /// Reads a clause.
    pub(crate) fn from_json(
        table: &TableSchema,
        json: &Json,
        symbols: Option<&mut Symbols>,
    ) -> Result<Clause, Error> {
        if let Some(constant) = json.as_bool() {
            return Ok(Clause::Constant(constant));
        }
        let parts = json.as_array().map(Vec::as_slice);
        let Some([Json::String(name), Json::String(function_name), value]) = parts else {
            return Err(Error::syntax(json, "Parse error in condition."));
        };
        let Some(column) = table.column_index(name) else {
            let text = format!("No column {name} in table {}.", table.name);
            return Err(Error::quoting("unknown column", json, text));
        };
        let Some(function) = Function::from_name(function_name) else {
            return Err(Error::new("unknown function", format!("No function named {function_name}.")));
        };
        let mut ty = table.columns[column].ty.clone();
        match function {
            Function::Less | Function::LessOrEqual | Function::Greater | Function::GreaterOrEqual => {
                use crate::types::AtomicType::{Integer, Real};
                let single = ty.is_scalar() || ty.is_optional();
                if !single || !matches!(ty.key.kind, Integer | Real) {
                    let text = format!(
                        "Type mismatch: \"{function_name}\" operator may not be applied to column {name} of type {}.",
                        ty.english()
                    );
                    return Err(Error::syntax(json, text));
                }
                ty.min = 1;
            }
            Function::Excludes if !ty.is_scalar() => (ty.min, ty.max) = (0, u32::MAX),
            Function::Includes if !ty.is_scalar() => ty.min = 0,
            _ => {}
        }
        Ok(Clause::Compare(column, function, Datum::from_json(value, &ty, symbols)?))
    }

    /// Whether the row meets the clause.
    pub(crate) fn holds(&self, row: &Row) -> bool {
        let (column, function, argument) = match self {
            Clause::Constant(constant) => return *constant,
            Clause::Compare(column, function, argument) => (*column, *function, argument),
        };
        let field = row.field(column);
        // A comparison with an empty optional column is false.
        let order = field.first().zip(argument.first()).map(|(a, b)| a.cmp(b));
        match function {
            Function::Equal => field == argument,
            Function::NotEqual => field != argument,
            Function::Less => order.is_some_and(|o| o.is_lt()),
            Function::LessOrEqual => order.is_some_and(|o| o.is_le()),
            Function::Greater => order.is_some_and(|o| o.is_gt()),
            Function::GreaterOrEqual => order.is_some_and(|o| o.is_ge()),
            Function::Includes => argument.is_subset_of(field),
            Function::Excludes => argument.is_disjoint_from(field),
        }
    }
}
