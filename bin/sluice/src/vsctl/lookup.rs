//! Finds rows by the names that users may give for them.

use super::context::{CommandStop, Context, NeededColumns};
use super::schema_names::{RowName, known_table, row_name};
use ovsdb::json::parse_uuid;
use ovsdb::schema::TableSchema;
use ovsdb::types::AtomicType;
use ovsdb::{Atom, Uuid};

/// Adds the columns that are needed to find rows of a table.
pub fn prepare(table: &'static TableSchema, needs: &mut NeededColumns) {
    needs.table(&table.name);
    if let Some(name) = row_name(&table.name) {
        needs.columns(name.table, std::iter::once(name.column).chain(name.reference));
    }
}

/// The row that `given` names; an error if there is none.
pub fn find(ctx: &mut Context<'_>, table: &'static TableSchema, given: &str) -> Result<Uuid, CommandStop> {
    let none = || format!("no row \"{given}\" in table {}", table.name);
    try_find(ctx, table, given)?.ok_or_else(|| none().into())
}

/// The row that `given` names, if there is one.
pub fn try_find(
    ctx: &mut Context<'_>,
    table: &'static TableSchema,
    given: &str,
) -> Result<Option<Uuid>, CommandStop> {
    if let Some(row) = parse_uuid(given).filter(|row| ctx.tx.exists(&table.name, *row)) {
        return Ok(Some(row));
    }
    let rows = ctx.tx.rows(&table.name);
    if given == "."
        && let [only] = rows.as_slice()
    {
        return Ok(Some(*only));
    }
    if let Some(name) = row_name(&table.name)
        && let Some(row) = by_name(ctx, name, given)?
    {
        return Ok(Some(row));
    }
    if !is_uuid_beginning(given) {
        return Ok(None);
    }
    let mut fitting = rows.into_iter().filter(|row| row.to_string().starts_with(given));
    match (fitting.next(), fitting.next()) {
        (Some(one), Some(other)) => Err(format!(
            "{} contains 2 or more rows whose UUIDs begin with {given}: at least {one} and {other}",
            table.name
        )
        .into()),
        (one, _) => Ok(one),
    }
}

fn by_name(ctx: &mut Context<'_>, name: RowName, given: &str) -> Result<Option<Uuid>, CommandStop> {
    let kind = known_table(name.table).column(name.column).map(|c| c.ty.key.kind);
    let digits = !given.is_empty() && given.bytes().all(|c| c.is_ascii_digit());
    if kind == Some(AtomicType::Integer) && !digits {
        return Ok(None);
    }
    let rows = ctx.tx.rows(name.table).into_iter();
    let mut fitting = rows.filter(|row| {
        let datum = ctx.tx.datum(name.table, *row, name.column);
        datum.len() == 1 && datum.first().is_some_and(|atom| is_named(atom, given))
    });
    let (first, second) = (fitting.next(), fitting.next());
    if second.is_some() {
        return Err(format!("multiple rows in {} match \"{given}\"", name.table).into());
    }
    let (Some(row), Some(reference)) = (first, name.reference) else { return Ok(first) };
    ctx.tx.verify(name.table, row, reference);
    match ctx.tx.references(name.table, row, reference).as_slice() {
        [one] => Ok(Some(*one)),
        _ => Ok(None),
    }
}

fn is_named(atom: &Atom, given: &str) -> bool {
    match atom {
        // A name that has the form of a UUID may be abbreviated like a UUID.
        Atom::String(name) => {
            &**name == given || (given.len() >= 4 && parse_uuid(name).is_some() && name.starts_with(given))
        }
        Atom::Integer(number) => given.parse() == Ok(*number),
        Atom::Uuid(uuid) => parse_uuid(given) == Some(*uuid),
        _ => false,
    }
}

/// Returns whether `text` has the form of the beginning of a UUID.
fn is_uuid_beginning(text: &str) -> bool {
    let fits = |(at, c): (usize, u8)| match at {
        8 | 13 | 18 | 23 => c == b'-',
        _ => c.is_ascii_hexdigit(),
    };
    (4..=36).contains(&text.len()) && text.bytes().enumerate().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings() {
        assert!(is_uuid_beginning("12ab"));
        assert!(is_uuid_beginning("12345678-"));
        assert!(!is_uuid_beginning("123"));
        assert!(!is_uuid_beginning("123456789"));
        assert!(!is_uuid_beginning("12g4"));
    }
}
