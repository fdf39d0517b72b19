//! `<mutation>`s: `[<column>, <mutator>, <value>]` (RFC 7047 section 5.1).

use crate::Error;
use crate::database::Row;
use crate::schema::TableSchema;
use crate::types::{AtomicType, BaseType, Type};
use crate::value::{Atom, Datum, Real, Symbols};
use serde_json::Value as Json;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mutator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Insert,
    Delete,
}

impl Mutator {
    const ALL: [(Mutator, &'static str); 7] = [
        (Mutator::Add, "+="),
        (Mutator::Subtract, "-="),
        (Mutator::Multiply, "*="),
        (Mutator::Divide, "/="),
        (Mutator::Modulo, "%="),
        (Mutator::Insert, "insert"),
        (Mutator::Delete, "delete"),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(m, _)| *m == self).map_or("", |(_, name)| name)
    }
}

/// A mutation of a column.
pub struct Mutation {
    column: usize,
    mutator: Mutator,
    argument: Datum,
}

impl Mutation {
    /// Reads a `<mutation>`.
    pub fn from_json(table: &TableSchema, json: &Json, symbols: &mut Symbols) -> Result<Mutation, Error> {
        let parts = json.as_array().map(Vec::as_slice);
        let Some([Json::String(name), Json::String(mutator_name), value]) = parts else {
            return Err(Error::syntax(json, "Parse error in mutation."));
        };
        let Some(column) = table.column_index(name) else {
            let text = format!("No column {name} in table {}.", table.name);
            return Err(Error::quoting("unknown column", json, text));
        };
        if !table.columns[column].mutable {
            let text = format!("Cannot mutate immutable column {name} in table {}.", table.name);
            return Err(Error::quoting("constraint violation", json, text));
        }
        let Some((mutator, _)) = Mutator::ALL.into_iter().find(|(_, n)| n == mutator_name) else {
            return Err(Error::new("unknown mutator", format!("No mutator named {mutator_name}.")));
        };
        let ty = &table.columns[column].ty;
        let mismatch = || {
            let text = format!(
                "Type mismatch: \"{mutator_name}\" operator may not be applied to column {name} of type {}.",
                ty.english()
            );
            Error::syntax(json, text)
        };
        let argument = match mutator {
            Mutator::Insert | Mutator::Delete if ty.is_scalar() => return Err(mismatch()),
            Mutator::Insert => Datum::from_json(value, &Type { min: 0, ..ty.clone() }, Some(symbols))?,
            Mutator::Delete => delete_argument(value, ty, symbols)?,
            _ => {
                let integer = ty.key.kind == AtomicType::Integer;
                let real = ty.key.kind == AtomicType::Real && mutator != Mutator::Modulo;
                if ty.is_map() || !(integer || real) {
                    return Err(mismatch());
                }
                Datum::from_json(value, &Type::scalar(ty.key.kind), Some(symbols))?
            }
        };
        Ok(Mutation { column, mutator, argument })
    }

    /// The index of the column.
    pub fn column(&self) -> usize {
        self.column
    }

    /// Estimated memory of the argument as JSON, in bytes.
    pub(crate) fn argument_memory(&self) -> usize {
        self.argument.json_heap_memory()
    }

    /// Applies the mutation to `row`.
    pub fn apply(&self, table: &TableSchema, row: &mut Row) -> Result<(), Error> {
        let ty = &table.columns[self.column].ty;
        let field = row.field_mut(self.column);
        match self.mutator {
            Mutator::Insert => field.insert_all(&self.argument),
            Mutator::Delete => field.remove_all(&self.argument),
            _ => return self.calculate(&ty.key, field),
        }
        if ty.admits_len(field.len()) {
            return Ok(());
        }
        Err(Error::constraint(format!("Attempted to store {} elements in {}.", field.len(), ty.english())))
    }

    /// Applies an arithmetic mutation to all elements.
    fn calculate(&self, base: &BaseType, field: &mut Datum) -> Result<(), Error> {
        let (Datum::Set(atoms), Some(argument)) = (field, self.argument.first()) else {
            return Ok(());
        };
        for atom in atoms.iter_mut() {
            *atom = match (&*atom, argument) {
                (Atom::Integer(x), Atom::Integer(y)) => Atom::Integer(self.calculate_integer(*x, *y)?),
                (Atom::Real(x), Atom::Real(y)) => Atom::Real(self.calculate_real(x.get(), y.get())?),
                (other, _) => other.clone(),
            };
        }
        atoms.iter().try_for_each(|atom| base.check(atom))?;
        atoms.sort_unstable();
        if atoms.windows(2).any(|w| w[0] == w[1]) {
            let text = format!("Result of \"{}\" operation contains duplicates.", self.mutator.name());
            return Err(Error::constraint(text));
        }
        Ok(())
    }

    fn calculate_integer(&self, x: i64, y: i64) -> Result<i64, Error> {
        let result = match self.mutator {
            Mutator::Add => x.checked_add(y),
            Mutator::Subtract => x.checked_sub(y),
            Mutator::Multiply => x.checked_mul(y),
            _ if y == 0 => return Err(Error::new("domain error", "Division by zero.")),
            Mutator::Divide => x.checked_div(y),
            // `i64::MIN % -1` is 0, but the division would overflow.
            _ => Some(x.wrapping_rem(y)),
        };
        result.ok_or_else(|| self.range_error())
    }

    fn calculate_real(&self, x: f64, y: f64) -> Result<Real, Error> {
        let result = match self.mutator {
            Mutator::Add => x + y,
            Mutator::Subtract => x - y,
            Mutator::Multiply => x * y,
            _ if y == 0.0 => return Err(Error::new("domain error", "Division by zero.")),
            _ => x / y,
        };
        Real::new(result).ok_or_else(|| self.range_error())
    }

    fn range_error(&self) -> Error {
        Error::new("range error", format!("Result of \"{}\" operation is out of range.", self.mutator.name()))
    }
}

/// Parses the argument of `delete`: elements of a set; pairs of a map, or only their keys.
fn delete_argument(value: &Json, ty: &Type, symbols: &mut Symbols) -> Result<Datum, Error> {
    let any = Type { min: 0, max: u32::MAX, ..ty.clone() };
    let first = Datum::from_json(value, &any, Some(symbols));
    if first.is_err() && ty.is_map() {
        return Datum::from_json(value, &Type { value: None, ..any }, Some(symbols));
    }
    first
}
