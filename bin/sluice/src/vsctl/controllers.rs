//! Commands for controllers, managers and fail modes.

use super::bridge_names::{find_bridge, find_real_bridge};
use super::bridges::{self, lenient_integer};
use super::context::{CommandOutput, CommandStop, Context, NeededColumns};
use super::log::VSCTL;
use super::schema_names::ROOT;
use super::syntax::Command;
use ovsdb::{Datum, Uuid};

type Done = Result<CommandOutput, CommandStop>;

/// Adds the columns for commands about controllers.
pub fn prepare(command: &Command, needs: &mut NeededColumns) -> Result<(), String> {
    needs.columns("Controller", ["target", "inactivity_probe"]);
    bridges::prepare(command, needs)
}

/// Adds the columns for commands about managers.
pub fn prepare_managers(_: &Command, needs: &mut NeededColumns) -> Result<(), String> {
    needs.columns(ROOT, ["manager_options"]);
    needs.columns("Manager", ["target", "inactivity_probe"]);
    Ok(())
}

/// A list of targets: the controllers of a bridge, or the managers.
#[derive(Clone, Copy)]
struct TargetList {
    /// Table of the row that has the list.
    owner: &'static str,
    /// Row that has the list.
    row: Uuid,
    /// Column of `row` that refers to the rows with the targets.
    column: &'static str,
    /// Table of the rows with the targets.
    table: &'static str,
}

/// Prefixes of valid targets.
const METHODS: [&str; 6] = ["tcp:", "ssl:", "unix:", "ptcp:", "pssl:", "punix:"];

fn controllers(bridge: Uuid) -> TargetList {
    TargetList { owner: "Bridge", row: bridge, column: "controller", table: "Controller" }
}

fn managers(ctx: &Context<'_>) -> TargetList {
    TargetList { owner: ROOT, row: ctx.root, column: "manager_options", table: "Manager" }
}

/// The rows with the targets. The transaction fails if the list or a target has changed since.
fn verified(ctx: &mut Context<'_>, list: TargetList) -> Vec<Uuid> {
    ctx.tx.verify(list.owner, list.row, list.column);
    let rows = ctx.tx.references(list.owner, list.row, list.column);
    rows.iter().for_each(|row| ctx.tx.verify(list.table, *row, "target"));
    rows
}

fn targets(ctx: &mut Context<'_>, list: TargetList) -> Vec<String> {
    let rows = verified(ctx, list);
    rows.into_iter().map(|row| ctx.tx.string(list.table, row, "target")).collect()
}

fn remove(ctx: &mut Context<'_>, list: TargetList) {
    let rows = verified(ctx, list);
    rows.into_iter().for_each(|row| ctx.tx.delete(list.table, row));
    ctx.tx.write(list.owner, list.row, list.column, Datum::Set(Vec::new()));
}

fn replace(ctx: &mut Context<'_>, list: TargetList, targets: &[String], probe: Option<&str>) {
    remove(ctx, list);
    let mut rows = Vec::new();
    for target in targets {
        if !METHODS.iter().any(|method| target.starts_with(*method)) {
            runtime::warn!(VSCTL, "target type \"{target}\" is possibly erroneous");
        }
        let row = ctx.tx.insert(list.table, None);
        ctx.tx.write(list.table, row, "target", Datum::scalar(target.as_str()));
        if let Some(probe) = probe {
            ctx.tx.write(list.table, row, "inactivity_probe", Datum::scalar(lenient_integer(probe)));
        }
        rows.push(row);
    }
    ctx.tx.write(list.owner, list.row, list.column, Datum::set(rows));
}

/// `get-controller`
pub fn get(ctx: &mut Context<'_>, command: &Command) -> Done {
    let id = find_bridge(ctx, command.arg(0))?;
    let row = ctx.model().real_row(id);
    Ok(CommandOutput::sorted(targets(ctx, controllers(row))))
}

/// `del-controller`
pub fn del(ctx: &mut Context<'_>, command: &Command) -> Done {
    let row = find_real_bridge(ctx, command.arg(0))?;
    if !verified(ctx, controllers(row)).is_empty() {
        remove(ctx, controllers(row));
    }
    Ok(CommandOutput::NONE)
}

/// `set-controller`
pub fn set(ctx: &mut Context<'_>, command: &Command) -> Done {
    let row = find_real_bridge(ctx, command.arg(0))?;
    replace(ctx, controllers(row), command.args_from(1), command.option("--inactivity-probe"));
    Ok(CommandOutput::NONE)
}

/// `get-manager`
pub fn get_managers(ctx: &mut Context<'_>, _: &Command) -> Done {
    let mut targets = targets(ctx, managers(ctx));
    targets.sort_unstable();
    targets.dedup();
    Ok(CommandOutput::sorted(targets))
}

/// `del-manager`
pub fn del_managers(ctx: &mut Context<'_>, _: &Command) -> Done {
    remove(ctx, managers(ctx));
    Ok(CommandOutput::NONE)
}

/// `set-manager`
pub fn set_managers(ctx: &mut Context<'_>, command: &Command) -> Done {
    replace(ctx, managers(ctx), &command.args, command.option("--inactivity-probe"));
    Ok(CommandOutput::NONE)
}

/// `get-fail-mode`
pub fn get_fail_mode(ctx: &mut Context<'_>, command: &Command) -> Done {
    let id = find_bridge(ctx, command.arg(0))?;
    let row = ctx.model().real_row(id);
    ctx.tx.verify("Bridge", row, "fail_mode");
    let mode = ctx.tx.string("Bridge", row, "fail_mode");
    Ok(if mode.is_empty() { CommandOutput::NONE } else { CommandOutput::word(&mode) })
}

/// `del-fail-mode`
pub fn del_fail_mode(ctx: &mut Context<'_>, command: &Command) -> Done {
    let row = find_real_bridge(ctx, command.arg(0))?;
    ctx.tx.write("Bridge", row, "fail_mode", Datum::Set(Vec::new()));
    Ok(CommandOutput::NONE)
}

/// `set-fail-mode`
pub fn set_fail_mode(ctx: &mut Context<'_>, command: &Command) -> Done {
    let row = find_real_bridge(ctx, command.arg(0))?;
    let mode = command.arg(1);
    if !["standalone", "secure"].contains(&mode) {
        return Err("fail-mode must be \"standalone\" or \"secure\"".into());
    }
    ctx.tx.write("Bridge", row, "fail_mode", Datum::scalar(mode));
    Ok(CommandOutput::NONE)
}
