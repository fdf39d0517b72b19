//! Commands for bridges.

use super::bridge_names::{check_conflicts, find_bridge, try_bridge};
use super::context::{CommandOutput, CommandStop, Context, NeededColumns};
use super::model::BridgeId;
use super::schema_names::ROOT;
use super::syntax::Command;
use crate::notation::leading_integer;
use ovsdb::{Atom, Datum, Json, Uuid};

type Done = Result<CommandOutput, CommandStop>;

/// Adds the columns that are needed to build the tree of bridges, ports and interfaces.
pub fn prepare(_: &Command, needs: &mut NeededColumns) -> Result<(), String> {
    needs.columns(ROOT, ["bridges"]);
    needs.columns("Bridge", ["name", "controller", "fail_mode", "ports"]);
    needs.columns("Port", ["name", "fake_bridge", "tag", "interfaces"]);
    needs.columns("Interface", ["name", "ofport", "error"]);
    Ok(())
}

/// Adds the columns of [`prepare`], and external IDs.
pub fn prepare_external_ids(command: &Command, needs: &mut NeededColumns) -> Result<(), String> {
    needs.columns("Bridge", ["external_ids"]);
    needs.columns("Port", ["external_ids"]);
    prepare(command, needs)
}

/// The integer at the beginning of an argument; 0 if there is none.
pub fn lenient_integer(text: &str) -> i64 {
    leading_integer(text).map_or(0, |(number, _)| number)
}

/// `add-br`
pub fn add(ctx: &mut Context<'_>, command: &Command) -> Done {
    let name = command.arg(0);
    if name.is_empty() {
        return Err("bridge name must not be empty string".into());
    }
    let fake = match command.args.as_slice() {
        [_] => None,
        [_, parent, vlan] => Some((parent.as_str(), lenient_integer(vlan))),
        _ => return Err("'add-br' command takes exactly 1 or 3 arguments".into()),
    };
    if fake.is_some_and(|(_, vlan)| !(0..=4095).contains(&vlan)) {
        return Err("add-br: vlan must be between 0 and 4095".into());
    }
    if command.has("--may-exist")
        && let Some(id) = try_bridge(ctx, name)
    {
        return check_existing(ctx, id, fake).map(|()| CommandOutput::NONE);
    }
    check_conflicts(ctx, name, &format!("cannot create a bridge named {name}"))?;
    let parent = fake.map(|(parent, vlan)| find_parent(ctx, parent, vlan)).transpose()?;

    let iface = ctx.tx.insert("Interface", None);
    ctx.tx.write("Interface", iface, "name", Datum::scalar(name));
    ctx.tx.write("Interface", iface, "type", Datum::scalar("internal"));
    let port = ctx.tx.insert("Port", None);
    ctx.tx.write("Port", port, "name", Datum::scalar(name));
    ctx.tx.write("Port", port, "interfaces", Datum::scalar(iface));
    match (parent, fake) {
        (Some(parent), Some((_, vlan))) => {
            ctx.tx.write("Port", port, "fake_bridge", Datum::scalar(true));
            ctx.tx.write("Port", port, "tag", Datum::scalar(vlan));
            ctx.tx.add_reference("Bridge", parent, "ports", port);
        }
        _ => {
            let bridge = ctx.tx.insert("Bridge", None);
            ctx.tx.write("Bridge", bridge, "name", Datum::scalar(name));
            ctx.tx.write("Bridge", bridge, "ports", Datum::scalar(port));
            ctx.tx.add_reference(ROOT, ctx.root, "bridges", bridge);
        }
    }
    ctx.new_interfaces.push(iface);
    ctx.invalidate_model();
    Ok(CommandOutput::NONE)
}

/// For `--may-exist`: checks that an existing bridge has the parent and VLAN of the bridge to be added.
fn check_existing(ctx: &mut Context<'_>, id: BridgeId, fake: Option<(&str, i64)>) -> Result<(), CommandStop> {
    let model = ctx.model();
    let Some(bridge) = model.bridges.get(id) else { return Ok(()) };
    let (name, has) = (&bridge.name, bridge.vlan);
    let parent = bridge.parent.map(|parent| model.bridge_name(parent));
    let but = match (fake, parent) {
        (None, None) => return Ok(()),
        (None, Some(_)) => {
            let text = format!("\"--may-exist add-br {name}\" but {name} is a VLAN bridge for VLAN {has}");
            return Err(text.into());
        }
        (Some(_), None) => "is not a VLAN bridge".to_owned(),
        (Some((wanted, _)), Some(parent)) if wanted != parent => format!("has the wrong parent {parent}"),
        (Some((_, vlan)), _) if vlan != has => format!("is a VLAN bridge for the wrong VLAN {has}"),
        _ => return Ok(()),
    };
    let (parent, vlan) = fake.unwrap_or_default();
    Err(format!("\"--may-exist add-br {name} {parent} {vlan}\" but {name} {but}").into())
}

/// The row of the parent bridge of a new fake bridge.
fn find_parent(ctx: &mut Context<'_>, name: &str, vlan: i64) -> Result<Uuid, CommandStop> {
    let id = try_bridge(ctx, name).ok_or_else(|| format!("parent bridge {name} does not exist"))?;
    let model = ctx.model();
    if model.real(id) != id {
        return Err("cannot create bridge with fake bridge as parent".into());
    }
    if let Some(child) = model.child(id, vlan) {
        let child = model.bridge_name(child);
        return Err(format!("bridge {name} already has a child VLAN bridge {child} on VLAN {vlan}").into());
    }
    Ok(model.real_row(id))
}

/// `del-br`
pub fn del(ctx: &mut Context<'_>, command: &Command) -> Done {
    let id = match command.has("--if-exists") {
        true => try_bridge(ctx, command.arg(0)),
        false => Some(find_bridge(ctx, command.arg(0))?),
    };
    let Some(id) = id else { return Ok(CommandOutput::NONE) };
    let model = ctx.model();
    let belongs =
        |bridge: BridgeId| bridge == id || model.bridges.get(bridge).is_some_and(|b| b.parent == Some(id));
    let row = model.real_row(id);
    for port in model.ports.iter().filter(|p| belongs(p.bridge)) {
        super::ports::delete(ctx, &model, port);
    }
    if model.real(id) == id {
        let collector_sets = ctx.tx.rows("Flow_Sample_Collector_Set");
        for set in collector_sets {
            if ctx.tx.references("Flow_Sample_Collector_Set", set, "bridge").contains(&row) {
                ctx.tx.delete("Flow_Sample_Collector_Set", set);
            }
        }
        ctx.tx.delete("Bridge", row);
        ctx.tx.drop_reference(ROOT, ctx.root, "bridges", row);
    }
    ctx.invalidate_model();
    Ok(CommandOutput::NONE)
}

/// `list-br`
pub fn list(ctx: &mut Context<'_>, command: &Command) -> Done {
    let (real, fake) = (command.has("--real"), command.has("--fake"));
    let model = ctx.model();
    // With neither or both options, list all bridges. A fake bridge has a parent.
    let wanted = model.bridges.iter().filter(|b| real == fake || fake == b.parent.is_some());
    Ok(CommandOutput::sorted(wanted.map(|b| b.name.clone()).collect()))
}

/// `br-exists`
pub fn exists(ctx: &mut Context<'_>, command: &Command) -> Done {
    try_bridge(ctx, command.arg(0)).map(|_| CommandOutput::NONE).ok_or(CommandStop::Exit(2))
}

/// `br-to-vlan`
pub fn to_vlan(ctx: &mut Context<'_>, command: &Command) -> Done {
    let id = find_bridge(ctx, command.arg(0))?;
    let vlan = ctx.model().bridges.get(id).map_or(0, |b| b.vlan);
    Ok(CommandOutput::Value(format!("{vlan}\n"), vlan.into()))
}

/// `br-to-parent`
pub fn to_parent(ctx: &mut Context<'_>, command: &Command) -> Done {
    let id = find_bridge(ctx, command.arg(0))?;
    let model = ctx.model();
    Ok(CommandOutput::word(model.bridge_name(model.real(id))))
}

/// Where a bridge's external IDs are stored: table, row, and the prefix of their keys.
fn external_ids_of(
    ctx: &mut Context<'_>,
    name: &str,
) -> Result<(&'static str, Uuid, &'static str), CommandStop> {
    let id = find_bridge(ctx, name)?;
    let model = ctx.model();
    let place = match model.bridges.get(id).and_then(|b| b.row) {
        Some(row) => ("Bridge", row, ""),
        None => ("Port", model.port(name).map_or_else(Uuid::nil, |p| p.row), "fake-bridge-"),
    };
    ctx.tx.verify(place.0, place.1, "external_ids");
    Ok(place)
}

/// `br-set-external-id`
pub fn set_external_id(ctx: &mut Context<'_>, command: &Command) -> Done {
    let (table, row, prefix) = external_ids_of(ctx, command.arg(0))?;
    let key = Atom::from(format!("{prefix}{}", command.arg(1)));
    let mut ids = ctx.tx.datum(table, row, "external_ids");
    ids.remove_all(&Datum::set([key.clone()]));
    if let Some(value) = command.args.get(2) {
        ids.insert_all(&Datum::map([(key, value.as_str())]));
    }
    ctx.tx.write(table, row, "external_ids", ids);
    Ok(CommandOutput::NONE)
}

/// `br-get-external-id`
pub fn get_external_id(ctx: &mut Context<'_>, command: &Command) -> Done {
    let (table, row, prefix) = external_ids_of(ctx, command.arg(0))?;
    let ids = ctx.tx.datum(table, row, "external_ids");
    if let Some(key) = command.args.get(1) {
        let value = ids.get_str(&format!("{prefix}{key}"));
        return Ok(value.map_or(CommandOutput::NONE, CommandOutput::word));
    }
    let pairs = ids.keys().zip(ids.values()).filter_map(|(k, v)| Some((k.as_str()?, v.as_str()?)));
    let own: Vec<_> = pairs.filter_map(|(k, v)| Some((k.strip_prefix(prefix)?, v))).collect();
    let json = own.iter().map(|(k, v)| ((*k).to_owned(), Json::from(*v))).collect();
    Ok(CommandOutput::Value(own.iter().map(|(k, v)| format!("{k}={v}\n")).collect(), json))
}
