//! Commands that change rows: `set`, `add`, `remove`, `clear`, `create`, `destroy`.

use super::context::{CommandOutput, CommandStop, Context, NeededColumns};
use super::lookup;
use super::read_rows::{DB_CTL, make_symbol, prepare_arguments};
use super::schema_names::{self, clause};
use super::syntax::Command;
use crate::notation;
use ovsdb::json::parse_uuid;
use ovsdb::schema::{Column, TableSchema};
use ovsdb::types::Type;
use ovsdb::{Datum, Uuid};

type Done = Result<CommandOutput, CommandStop>;

/// The row that a command's first two arguments name; `None` if it does not exist and `--if-exists` is given.
fn row_of(
    ctx: &mut Context<'_>,
    command: &Command,
) -> Result<(&'static TableSchema, Option<Uuid>), CommandStop> {
    let table = schema_names::table(command.arg(0))?;
    let row = match command.has("--if-exists") {
        true => lookup::try_find(ctx, table, command.arg(1))?,
        false => Some(lookup::find(ctx, table, command.arg(1))?),
    };
    Ok((table, row))
}

/// Returns an error if the column cannot be changed after the row was inserted.
fn check_mutable(
    ctx: &Context<'_>,
    table: &TableSchema,
    row: Uuid,
    column: &Column,
) -> Result<(), CommandStop> {
    if column.mutable || ctx.tx.is_new(row) {
        return Ok(());
    }
    Err(format!("cannot modify read-only column {} in table {}", column.name, table.name).into())
}

/// Executes one `COLUMN[:KEY]=VALUE`. `no_later_reads`: no later command reads the column, so a pair of a map may be
/// written by a mutation. Then the transaction does not depend on the other keys of the map, but later reads of the
/// transaction would not see the pair.
pub fn set_column(
    ctx: &mut Context<'_>,
    table: &str,
    row: Uuid,
    argument: &str,
    no_later_reads: bool,
) -> Result<(), CommandStop> {
    let table = schema_names::known_table(table);
    let clause = clause(table, argument, &["="])?;
    let column = clause.column;
    check_mutable(ctx, table, row, column)?;
    let Some(key) = &clause.key else {
        let datum = notation::datum(&column.ty, clause.value, &mut ctx.symbols)?;
        ctx.tx.write(&table.name, row, &column.name, datum);
        return Ok(());
    };
    let Some(value_type) = &column.ty.value else {
        return Err(format!("cannot specify key to set for non-map column {}", column.name).into());
    };
    let key = notation::atom(&column.ty.key, key, &mut ctx.symbols)?;
    let value = notation::atom(value_type, clause.value, &mut ctx.symbols)?;
    if no_later_reads {
        ctx.tx.write_pair(&table.name, row, &column.name, key, value);
        return Ok(());
    }
    let mut datum = Datum::map([(key, value)]);
    datum.insert_all(&ctx.tx.datum(&table.name, row, &column.name));
    ctx.tx.verify(&table.name, row, &column.name);
    ctx.tx.write(&table.name, row, &column.name, datum);
    Ok(())
}

/// Adds the columns that `set` reads.
pub fn prepare_set(command: &Command, needs: &mut NeededColumns) -> Result<(), String> {
    let table = schema_names::table(command.arg(0))?;
    lookup::prepare(table, needs);
    prepare_arguments(table, command.args_from(2), needs)
}

/// `set`
pub fn set(ctx: &mut Context<'_>, command: &Command) -> Done {
    let (table, Some(row)) = row_of(ctx, command)? else { return Ok(CommandOutput::NONE) };
    let no_later_reads = ctx.last && !ctx.tx.is_new(row);
    for argument in command.args_from(2) {
        set_column(ctx, &table.name, row, argument, no_later_reads)?;
    }
    ctx.invalidate_model();
    Ok(CommandOutput::NONE)
}

/// Adds the columns that `add` and `remove` read.
pub fn prepare_add_or_remove(command: &Command, needs: &mut NeededColumns) -> Result<(), String> {
    let table = schema_names::table(command.arg(0))?;
    lookup::prepare(table, needs);
    needs.columns(&table.name, [schema_names::column(table, command.arg(2))?.name.as_str()]);
    Ok(())
}

/// `add`
pub fn add(ctx: &mut Context<'_>, command: &Command) -> Done {
    change(ctx, command, "add")
}

/// `remove`
pub fn remove(ctx: &mut Context<'_>, command: &Command) -> Done {
    change(ctx, command, "remove")
}

/// Adds elements to a column (`verb` is "add") or removes them.
fn change(ctx: &mut Context<'_>, command: &Command, verb: &str) -> Done {
    let column = schema_names::column(schema_names::table(command.arg(0))?, command.arg(2))?;
    let (table, Some(row)) = row_of(ctx, command)? else { return Ok(CommandOutput::NONE) };
    check_mutable(ctx, table, row, column)?;
    let ty = &column.ty;
    let mut datum = ctx.tx.datum(&table.name, row, &column.name);
    for argument in command.args_from(3) {
        // The argument has one element or more. The column's own limits apply to the result, not to the argument.
        let one_or_more = Type { min: 1, max: u32::MAX, ..ty.clone() };
        if verb == "add" {
            datum.insert_all(&notation::datum(&one_or_more, argument, &mut ctx.symbols)?);
        } else {
            datum.remove_all(&removal(ctx, one_or_more, argument)?);
        }
    }
    let (bound, limit) = if verb == "add" { ("maximum", ty.max) } else { ("minimum", ty.min) };
    if !ty.admits_len(datum.len()) {
        let (count, what) = (datum.len(), if ty.is_map() { "pairs" } else { "values" });
        return Err(format!(
            "\"{verb}\" operation would put {count} {what} in column {} of table {} but the {bound} number is {limit}",
            column.name, table.name
        )
        .into());
    }
    ctx.tx.verify(&table.name, row, &column.name);
    ctx.tx.write(&table.name, row, &column.name, datum);
    ctx.invalidate_model();
    Ok(CommandOutput::NONE)
}

/// The elements to remove. For a map, the argument has either pairs or keys.
fn removal(ctx: &mut Context<'_>, ty: Type, argument: &str) -> Result<Datum, CommandStop> {
    match notation::datum(&ty, argument, &mut ctx.symbols) {
        Err(_) if ty.is_map() => {
            Ok(notation::datum(&Type { value: None, ..ty }, argument, &mut ctx.symbols)?)
        }
        read => Ok(read?),
    }
}

/// Adds the columns that `clear` reads.
pub fn prepare_clear(command: &Command, needs: &mut NeededColumns) -> Result<(), String> {
    let table = schema_names::table(command.arg(0))?;
    lookup::prepare(table, needs);
    for name in command.args_from(2) {
        needs.columns(&table.name, [schema_names::column(table, name)?.name.as_str()]);
    }
    Ok(())
}

/// `clear`
pub fn clear(ctx: &mut Context<'_>, command: &Command) -> Done {
    let (table, Some(row)) = row_of(ctx, command)? else { return Ok(CommandOutput::NONE) };
    for name in command.args_from(2) {
        let column = schema_names::column(table, name)?;
        check_mutable(ctx, table, row, column)?;
        if column.ty.min > 0 {
            return Err(format!(
                "\"clear\" operation cannot be applied to column {} of table {}, which is not allowed to be empty",
                column.name, table.name
            )
            .into());
        }
        ctx.tx.write(&table.name, row, &column.name, Datum::default_of(&column.ty));
    }
    ctx.invalidate_model();
    Ok(CommandOutput::NONE)
}

/// Warns if the row would be deleted at once, because no other row refers to it.
pub fn prepare_create(command: &Command, _: &mut NeededColumns) -> Result<(), String> {
    let table = schema_names::table(command.arg(0))?;
    if !command.has("--id") && !table.is_root {
        runtime::warn!(
            DB_CTL,
            "applying \"create\" command to table {} without --id option will have no effect",
            table.name
        );
    }
    Ok(())
}

/// `create`
pub fn create(ctx: &mut Context<'_>, command: &Command) -> Done {
    let table = schema_names::table(command.arg(0))?;
    let row = match command.option("--id").map(|id| (id, parse_uuid(id))) {
        None => ctx.tx.insert(&table.name, None),
        Some((_, Some(uuid))) => ctx.tx.insert(&table.name, Some(uuid)),
        Some((id, None)) => {
            let symbol = make_symbol(ctx, id)?;
            // Rows of root tables exist without a reference to them.
            symbol.strong |= table.is_root;
            let row = symbol.uuid;
            ctx.tx.insert_as(&table.name, row);
            row
        }
    };
    for argument in command.args_from(1) {
        set_column(ctx, &table.name, row, argument, false)?;
    }
    Ok(CommandOutput::Row(row))
}

/// Adds the columns that `destroy` reads.
pub fn prepare_destroy(command: &Command, needs: &mut NeededColumns) -> Result<(), String> {
    lookup::prepare(schema_names::table(command.arg(0))?, needs);
    Ok(())
}

/// `destroy`
pub fn destroy(ctx: &mut Context<'_>, command: &Command) -> Done {
    let table = schema_names::table(command.arg(0))?;
    let (all, lenient, given) = (command.has("--all"), command.has("--if-exists"), command.args_from(1));
    if all && !given.is_empty() {
        return Err("--all and records argument should not be specified together".into());
    }
    if all && lenient {
        return Err("--all and --if-exists should not be specified together".into());
    }
    if !all && given.is_empty() {
        runtime::warn!(DB_CTL, "either --all or records argument should be specified");
        return Ok(CommandOutput::NONE);
    }
    if all {
        ctx.tx.rows(&table.name).into_iter().for_each(|row| ctx.tx.delete(&table.name, row));
    }
    for given in given {
        let row = match lenient {
            true => lookup::try_find(ctx, table, given)?,
            false => Some(lookup::find(ctx, table, given)?),
        };
        row.into_iter().for_each(|row| ctx.tx.delete(&table.name, row));
    }
    ctx.invalidate_model();
    Ok(CommandOutput::NONE)
}
