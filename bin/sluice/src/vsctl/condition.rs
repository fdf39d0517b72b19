//! Conditions of `find` and `wait-until`: `COLUMN[:KEY]OPERATORVALUE`.

use super::context::{CommandStop, Context};
use super::schema_names::clause;
use crate::notation;
use ovsdb::schema::TableSchema;
use ovsdb::types::Type;
use ovsdb::{Datum, Uuid};
use std::cmp::Ordering;

const OPERATORS: [&str; 14] =
    ["=", "!=", "<", ">", "<=", ">=", "{=}", "{!=}", "{<}", "{>}", "{<=}", "{>=}", "{in}", "{not-in}"];

/// Returns whether a row meets a condition.
pub fn holds(
    ctx: &mut Context<'_>,
    table: &'static TableSchema,
    row: Uuid,
    argument: &str,
) -> Result<bool, CommandStop> {
    let clause = clause(table, argument, &OPERATORS)?;
    let column = clause.column;
    let have = ctx.tx.datum(&table.name, row, &column.name);
    let Some(key) = &clause.key else {
        let want = notation::datum(&column.ty, clause.value, &mut ctx.symbols)?;
        return Ok(compare(&have, &want, clause.operator));
    };
    let Some(value_type) = column.ty.value.clone() else {
        return Err(format!("cannot specify key to check for non-map column {}", column.name).into());
    };
    let key = notation::atom(&column.ty.key, key, &mut ctx.symbols)?;
    let ty = Type { key: value_type, value: None, min: column.ty.min, max: u32::MAX };
    let want = notation::datum(&ty, clause.value, &mut ctx.symbols)?;
    let have = have.get(&key);
    let by_sets = clause.operator.starts_with('{');
    let have = Datum::set(have.cloned());
    Ok((by_sets || !have.is_empty()) && compare(&have, &want, clause.operator))
}

/// Orders two values by number of elements, then by keys, then by values.
fn order(a: &Datum, b: &Datum) -> Ordering {
    let keys = || a.keys().cmp(b.keys());
    a.len().cmp(&b.len()).then_with(keys).then_with(|| a.values().cmp(b.values()))
}

fn compare(a: &Datum, b: &Datum, operator: &str) -> bool {
    match operator {
        "=" | "{=}" => order(a, b).is_eq(),
        "!=" | "{!=}" => order(a, b).is_ne(),
        "<" => order(a, b).is_lt(),
        ">" => order(a, b).is_gt(),
        "<=" => order(a, b).is_le(),
        ">=" => order(a, b).is_ge(),
        "{<}" => b.len() > a.len() && a.is_subset_of(b),
        "{>}" => a.len() > b.len() && b.is_subset_of(a),
        "{<=}" | "{in}" => a.is_subset_of(b),
        "{>=}" => b.is_subset_of(a),
        _ => a.is_disjoint_from(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators() {
        let set = |items: &[i64]| Datum::set(items.iter().copied());
        let holds = |a: &[i64], op: &str, b: &[i64]| compare(&set(a), &set(b), op);
        assert!(holds(&[9], "<", &[1, 2]));
        assert!(holds(&[1, 3], ">", &[1, 2]));
        assert!(holds(&[1], "{<}", &[1, 2]) && !holds(&[1, 2], "{<}", &[1, 2]));
        assert!(holds(&[1, 2], "{in}", &[1, 2]) && !holds(&[3], "{in}", &[1, 2]));
        assert!(holds(&[3], "{not-in}", &[1, 2]) && holds(&[], "{in}", &[1]));
        assert!(holds(&[1, 2], "{>=}", &[2]));
        let map = |v: &str| Datum::map([("k", v)]);
        assert!(compare(&map("1"), &map("2"), "<"));
    }
}
