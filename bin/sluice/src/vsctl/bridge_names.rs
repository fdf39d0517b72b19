//! Finds bridges by name, and checks whether a name is in use.

use super::context::{CommandStop, Context};
use super::model::BridgeId;
use super::schema_names::ROOT;
use ovsdb::Uuid;

/// The bridge of this name.
pub fn find_bridge(ctx: &mut Context<'_>, name: &str) -> Result<BridgeId, CommandStop> {
    try_bridge(ctx, name).ok_or_else(|| format!("no bridge named {name}").into())
}

/// The bridge of this name, if there is one.
pub fn try_bridge(ctx: &mut Context<'_>, name: &str) -> Option<BridgeId> {
    let found = ctx.model().bridge(name);
    ctx.tx.verify(ROOT, ctx.root, "bridges");
    found
}

/// The row of the bridge of this name. An error if it is a fake bridge.
pub fn find_real_bridge(ctx: &mut Context<'_>, name: &str) -> Result<Uuid, CommandStop> {
    let id = find_bridge(ctx, name)?;
    let model = ctx.model();
    match model.real(id) == id {
        true => Ok(model.real_row(id)),
        false => Err(format!("{name} is a fake bridge").into()),
    }
}

/// Returns an error if a bridge, a port or an interface has the name; `what` begins the error text.
pub fn check_conflicts(ctx: &mut Context<'_>, name: &str, what: &str) -> Result<(), CommandStop> {
    let model = ctx.model();
    ctx.verify_ports();
    if model.bridge(name).is_some() {
        return Err(format!("{what} because a bridge named {name} already exists").into());
    }
    let on = |bridge| format!("named {name} already exists on bridge {}", model.bridge_name(bridge));
    if let Some(port) = model.port(name) {
        return Err(format!("{what} because a port {}", on(port.bridge)).into());
    }
    if let Some(iface) = model.iface(name) {
        return Err(format!("{what} because an interface {}", on(iface.bridge)).into());
    }
    Ok(())
}
