//! Commands for controllers, managers and fail modes.

use super::bridges::{self, lenient_integer};
use super::catalog::ROOT;
use super::context::{Answer, Context, Needs, Stop};
use super::find::{find_bridge, find_real_bridge};
use super::log::VSCTL;
use super::syntax::Command;
use ovsdb::{Datum, Uuid};

type Done = Result<Answer, Stop>;

/// Columns for commands about controllers.
pub fn prepare(command: &Command, needs: &mut Needs) -> Result<(), String> {
    needs.columns("Controller", ["target", "inactivity_probe"]);
    bridges::prepare(command, needs)
}

/// Columns for commands about managers.
pub fn prepare_managers(_: &Command, needs: &mut Needs) -> Result<(), String> {
    needs.columns(ROOT, ["manager_options"]);
    needs.columns("Manager", ["target", "inactivity_probe"]);
    Ok(())
}

/// The row and the column that refer to rows with a target.
#[derive(Clone, Copy)]
struct Place {
    owner: &'static str,
    row: Uuid,
    column: &'static str,
    table: &'static str,
}

/// Prefixes of valid targets.
const METHODS: [&str; 6] = ["tcp:", "ssl:", "unix:", "ptcp:", "pssl:", "punix:"];

fn controllers(bridge: Uuid) -> Place {
    Place { owner: "Bridge", row: bridge, column: "controller", table: "Controller" }
}

fn managers(ctx: &Context<'_>) -> Place {
    Place { owner: ROOT, row: ctx.root, column: "manager_options", table: "Manager" }
}

/// The referenced rows; the transaction depends on the present values.
fn verified(ctx: &mut Context<'_>, place: Place) -> Vec<Uuid> {
    ctx.tx.verify(place.owner, place.row, place.column);
    let rows = ctx.tx.references(place.owner, place.row, place.column);
    rows.iter().for_each(|row| ctx.tx.verify(place.table, *row, "target"));
    rows
}

fn targets(ctx: &mut Context<'_>, place: Place) -> Vec<String> {
    let rows = verified(ctx, place);
    rows.into_iter().map(|row| ctx.tx.string(place.table, row, "target")).collect()
}

fn remove(ctx: &mut Context<'_>, place: Place) {
    let rows = verified(ctx, place);
    rows.into_iter().for_each(|row| ctx.tx.delete(place.table, row));
    ctx.tx.write(place.owner, place.row, place.column, Datum::Set(Vec::new()));
}

fn replace(ctx: &mut Context<'_>, place: Place, targets: &[String], probe: Option<&str>) {
    remove(ctx, place);
    let mut rows = Vec::new();
    for target in targets {
        if !METHODS.iter().any(|method| target.starts_with(*method)) {
            runtime::warn!(VSCTL, "target type \"{target}\" is possibly erroneous");
        }
        let row = ctx.tx.insert(place.table, None);
        ctx.tx.write(place.table, row, "target", Datum::scalar(target.as_str()));
        if let Some(probe) = probe {
            ctx.tx.write(place.table, row, "inactivity_probe", Datum::scalar(lenient_integer(probe)));
        }
        rows.push(row);
    }
    ctx.tx.write(place.owner, place.row, place.column, Datum::set(rows));
}

/// `get-controller`
pub fn get(ctx: &mut Context<'_>, command: &Command) -> Done {
    let id = find_bridge(ctx, command.arg(0))?;
    let row = ctx.model().real_row(id);
    Ok(Answer::sorted(targets(ctx, controllers(row))))
}

/// `del-controller`
pub fn del(ctx: &mut Context<'_>, command: &Command) -> Done {
    let row = find_real_bridge(ctx, command.arg(0))?;
    if !verified(ctx, controllers(row)).is_empty() {
        remove(ctx, controllers(row));
    }
    Ok(Answer::NONE)
}

/// `set-controller`
pub fn set(ctx: &mut Context<'_>, command: &Command) -> Done {
    let row = find_real_bridge(ctx, command.arg(0))?;
    replace(ctx, controllers(row), command.args_from(1), command.option("--inactivity-probe"));
    Ok(Answer::NONE)
}

/// `get-manager`
pub fn get_managers(ctx: &mut Context<'_>, _: &Command) -> Done {
    let mut targets = targets(ctx, managers(ctx));
    targets.sort_unstable();
    targets.dedup();
    Ok(Answer::sorted(targets))
}

/// `del-manager`
pub fn del_managers(ctx: &mut Context<'_>, _: &Command) -> Done {
    remove(ctx, managers(ctx));
    Ok(Answer::NONE)
}

/// `set-manager`
pub fn set_managers(ctx: &mut Context<'_>, command: &Command) -> Done {
    replace(ctx, managers(ctx), &command.args, command.option("--inactivity-probe"));
    Ok(Answer::NONE)
}

/// `get-fail-mode`
pub fn get_fail_mode(ctx: &mut Context<'_>, command: &Command) -> Done {
    let id = find_bridge(ctx, command.arg(0))?;
    let row = ctx.model().real_row(id);
    ctx.tx.verify("Bridge", row, "fail_mode");
    let mode = ctx.tx.string("Bridge", row, "fail_mode");
    Ok(if mode.is_empty() { Answer::NONE } else { Answer::word(&mode) })
}

/// `del-fail-mode`
pub fn del_fail_mode(ctx: &mut Context<'_>, command: &Command) -> Done {
    let row = find_real_bridge(ctx, command.arg(0))?;
    ctx.tx.write("Bridge", row, "fail_mode", Datum::Set(Vec::new()));
    Ok(Answer::NONE)
}

/// `set-fail-mode`
pub fn set_fail_mode(ctx: &mut Context<'_>, command: &Command) -> Done {
    let row = find_real_bridge(ctx, command.arg(0))?;
    let mode = command.arg(1);
    if !["standalone", "secure"].contains(&mode) {
        return Err("fail-mode must be \"standalone\" or \"secure\"".into());
    }
    ctx.tx.write("Bridge", row, "fail_mode", Datum::scalar(mode));
    Ok(Answer::NONE)
}
