//! Commands that read rows: `get`, `list`, `find`, `wait-until`.

use super::condition;
use super::context::{CommandOutput, CommandStop, Context, NeededColumns};
use super::lookup;
use super::schema_names::{self, column_key, column_list, is_uuid_column, leading_column};
use super::syntax::Command;
use crate::notation;
use crate::table::{Cell, Table};
use ovsdb::schema::{Column, TableSchema};
use ovsdb::types::{AtomicType, Type};
use ovsdb::{Datum, Json, Uuid};
use runtime::Module;
use std::io::IsTerminal;

/// The module of log lines about commands on any table; it has the name of the module of Open vSwitch.
pub static DB_CTL: Module = Module::new("db_ctl_base");

type Done = Result<CommandOutput, CommandStop>;

/// Adds the columns whose names the arguments begin with.
pub fn prepare_arguments(
    table: &'static TableSchema,
    arguments: &[String],
    needs: &mut NeededColumns,
) -> Result<(), String> {
    for argument in arguments {
        let (column, _) = leading_column(table, argument)?;
        needs.columns(&table.name, [column.name.as_str()]);
    }
    Ok(())
}

/// Adds the columns that `get` reads.
pub fn prepare_get(command: &Command, needs: &mut NeededColumns) -> Result<(), String> {
    // Without columns the command prints nothing. On a terminal, warn that they may have been forgotten.
    if !command.has("--id") && command.args.len() <= 2 && std::io::stdout().is_terminal() {
        runtime::warn!(DB_CTL, "\"get\" command without row arguments or \"--id\" is possibly erroneous");
    }
    let table = schema_names::table(command.arg(0))?;
    lookup::prepare(table, needs);
    let columns = command.args_from(2).iter().filter(|arg| !is_uuid_column(arg)).cloned();
    prepare_arguments(table, &columns.collect::<Vec<_>>(), needs)
}

/// `get`
pub fn get(ctx: &mut Context<'_>, command: &Command) -> Done {
    let must_exist = !command.has("--if-exists");
    let id = command.option("--id");
    if id.is_some() && !must_exist {
        return Err("--if-exists and --id may not be specified together".into());
    }
    let table = schema_names::table(command.arg(0))?;
    let row = match must_exist {
        true => lookup::find(ctx, table, command.arg(1))?,
        false => match lookup::try_find(ctx, table, command.arg(1))? {
            Some(row) => row,
            None => return Ok(CommandOutput::NONE),
        },
    };
    if let Some(id) = id {
        name_row(ctx, id, row)?;
    }
    let (mut out, mut values) = (String::new(), Vec::new());
    for argument in command.args_from(2) {
        let (text, json) = match is_uuid_column(argument) {
            true => (row.to_string(), row.to_string().into()),
            false => get_one(ctx, command, table, row, argument)?,
        };
        out.push_str(&(text + "\n"));
        values.push(json);
    }
    let json = match values.len() {
        1 => values.remove(0),
        _ => Json::Array(values),
    };
    Ok(CommandOutput::Value(out, json))
}

/// Assigns a symbol to an existing row.
fn name_row(ctx: &mut Context<'_>, id: &str, row: Uuid) -> Result<(), CommandStop> {
    let new = !ctx.symbols.0.contains_key(id);
    let symbol = make_symbol(ctx, id)?;
    if !new {
        return Err(
            format!("row id \"{id}\" specified on \"get\" command was used before it was defined").into()
        );
    }
    symbol.uuid = row;
    // An existing row needs no further reference.
    symbol.strong = true;
    Ok(())
}

/// The symbol that a command with `--id` defines.
pub fn make_symbol<'c>(ctx: &'c mut Context<'_>, id: &str) -> Result<&'c mut notation::Symbol, CommandStop> {
    if !id.starts_with('@') {
        return Err(format!("row id \"{id}\" does not begin with \"@\"").into());
    }
    let symbol = ctx.symbols.get_or_create(id);
    if std::mem::replace(&mut symbol.created, true) {
        return Err(format!("row id \"{id}\" may only be specified on one --id option").into());
    }
    Ok(symbol)
}

fn get_one(
    ctx: &mut Context<'_>,
    command: &Command,
    table: &'static TableSchema,
    row: Uuid,
    argument: &str,
) -> Result<(String, Json), CommandStop> {
    let (column, key) = column_key(table, argument)?;
    ctx.tx.verify(&table.name, row, &column.name);
    let datum = ctx.tx.datum(&table.name, row, &column.name);
    let Some(key) = key else { return Ok((notation::text(&datum, &column.ty), datum.to_json())) };
    if !column.ty.is_map() {
        return Err(format!("cannot specify key to get for non-map column {}", column.name).into());
    }
    let atom = notation::atom(&column.ty.key, &key, &mut ctx.symbols)?;
    match datum.get(&atom) {
        Some(value) => Ok((value.to_string(), value.to_json())),
        None if command.has("--if-exists") => Ok((String::new(), Json::Null)),
        None => {
            let (table, row, column) = (&table.name, command.arg(1), &column.name);
            Err(format!("no key \"{key}\" in {table} record \"{row}\" column {column}").into())
        }
    }
}

/// Adds the columns that `list` reads.
pub fn prepare_list(command: &Command, needs: &mut NeededColumns) -> Result<(), String> {
    let table = schema_names::table(command.arg(0))?;
    lookup::prepare(table, needs);
    let columns = column_list(table, command.option("--columns"))?;
    needs.columns(&table.name, columns.into_iter().flatten().map(|c| c.name.as_str()));
    Ok(())
}

/// Adds the columns that `find` reads.
pub fn prepare_find(command: &Command, needs: &mut NeededColumns) -> Result<(), String> {
    prepare_list(command, needs)?;
    prepare_arguments(schema_names::table(command.arg(0))?, command.args_from(1), needs)
}

/// The output table of `list` and `find`.
struct Listing {
    table: &'static TableSchema,
    columns: Vec<Option<&'static Column>>,
    output: Table,
}

impl Listing {
    fn start(command: &Command) -> Result<Listing, CommandStop> {
        let table = schema_names::table(command.arg(0))?;
        let columns = column_list(table, command.option("--columns"))?;
        let heading = |c: &Option<&Column>| c.map_or("_uuid", |c| &c.name).to_owned();
        let output = Table { headings: columns.iter().map(heading).collect(), ..Table::default() };
        Ok(Listing { table, columns, output })
    }

    fn add(&mut self, ctx: &Context<'_>, row: Uuid) {
        let cell = |column: &Option<&Column>| match column {
            None => Cell::Value(Datum::scalar(row), Type::scalar(AtomicType::Uuid).into()),
            Some(column) => {
                Cell::Value(ctx.tx.datum(&self.table.name, row, &column.name), column.ty.clone().into())
            }
        };
        self.output.rows.push(self.columns.iter().map(cell).collect());
    }
}

/// `list`
pub fn list(ctx: &mut Context<'_>, command: &Command) -> Done {
    let mut listing = Listing::start(command)?;
    if command.args.len() < 2 {
        ctx.tx.rows(&listing.table.name).into_iter().for_each(|row| listing.add(ctx, row));
    }
    for given in command.args_from(1) {
        let row = match command.has("--if-exists") {
            true => lookup::try_find(ctx, listing.table, given)?,
            false => Some(lookup::find(ctx, listing.table, given)?),
        };
        row.into_iter().for_each(|row| listing.add(ctx, row));
    }
    Ok(CommandOutput::Table(listing.output))
}

fn all_hold(
    ctx: &mut Context<'_>,
    table: &'static TableSchema,
    row: Uuid,
    conditions: &[String],
) -> Result<bool, CommandStop> {
    for argument in conditions {
        if !condition::holds(ctx, table, row, argument)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `find`
pub fn find(ctx: &mut Context<'_>, command: &Command) -> Done {
    let mut listing = Listing::start(command)?;
    for row in ctx.tx.rows(&listing.table.name) {
        if all_hold(ctx, listing.table, row, command.args_from(1))? {
            listing.add(ctx, row);
        }
    }
    Ok(CommandOutput::Table(listing.output))
}

/// Adds the columns that `wait-until` reads.
pub fn prepare_wait(command: &Command, needs: &mut NeededColumns) -> Result<(), String> {
    let table = schema_names::table(command.arg(0))?;
    lookup::prepare(table, needs);
    prepare_arguments(table, command.args_from(2), needs)
}

/// `wait-until`
pub fn wait_until(ctx: &mut Context<'_>, command: &Command) -> Done {
    let table = schema_names::table(command.arg(0))?;
    let row = lookup::try_find(ctx, table, command.arg(1))?.ok_or(CommandStop::Again)?;
    match all_hold(ctx, table, row, command.args_from(2))? {
        true => Ok(CommandOutput::NONE),
        false => Err(CommandStop::Again),
    }
}
