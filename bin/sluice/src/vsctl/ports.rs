//! Commands for ports, bonds and interfaces.

use super::bridge_names::{check_conflicts, find_bridge, try_bridge};
use super::change_rows::set_column;
use super::context::{CommandOutput, CommandStop, Context};
use super::model::{Iface, Model, Port};
use super::syntax::Command;
use ovsdb::{Datum, Uuid};
use std::rc::Rc;

type Done = Result<CommandOutput, CommandStop>;

/// The port of this name, unless it is a bridge's local port.
fn try_port<'m>(ctx: &mut Context<'_>, model: &'m Model, name: &str) -> Option<&'m Port> {
    ctx.verify_ports();
    model.port(name).filter(|p| model.bridge_name(p.bridge) != name)
}

fn find_port<'m>(ctx: &mut Context<'_>, model: &'m Model, name: &str) -> Result<&'m Port, CommandStop> {
    try_port(ctx, model, name).ok_or_else(|| format!("no port named {name}").into())
}

/// The interface of this name, unless it is a bridge's local interface.
fn try_iface<'m>(ctx: &mut Context<'_>, model: &'m Model, name: &str) -> Option<&'m Iface> {
    ctx.verify_ports();
    model.iface(name).filter(|i| model.bridge_name(i.bridge) != name)
}

fn find_iface<'m>(ctx: &mut Context<'_>, model: &'m Model, name: &str) -> Result<&'m Iface, CommandStop> {
    try_iface(ctx, model, name).ok_or_else(|| format!("no interface named {name}").into())
}

fn port_name(model: &Model, row: Uuid) -> &str {
    model.ports.iter().find(|p| p.row == row).map_or("", |p| &p.name)
}

/// Removes a port from its bridge, and deletes the port and its interfaces.
pub fn delete(ctx: &mut Context<'_>, model: &Model, port: &Port) {
    ctx.tx.drop_reference("Bridge", model.real_row(port.bridge), "ports", port.row);
    for iface in model.ifaces.iter().filter(|i| i.port == port.row) {
        ctx.tx.delete("Interface", iface.row);
    }
    ctx.tx.delete("Port", port.row);
}

/// `list-ports`
pub fn list(ctx: &mut Context<'_>, command: &Command) -> Done {
    let id = find_bridge(ctx, command.arg(0))?;
    let model = ctx.model();
    ctx.tx.verify("Bridge", model.real_row(id), "ports");
    let names = model.ports.iter().filter(|p| p.bridge == id).map(|p| p.name.clone());
    Ok(CommandOutput::sorted(names.filter(|name| name != command.arg(0)).collect()))
}

/// `list-ifaces`
pub fn list_ifaces(ctx: &mut Context<'_>, command: &Command) -> Done {
    let id = find_bridge(ctx, command.arg(0))?;
    ctx.verify_ports();
    let model = ctx.model();
    let names = model.ifaces.iter().filter(|i| i.bridge == id).map(|i| i.name.clone());
    Ok(CommandOutput::sorted(names.filter(|name| name != command.arg(0)).collect()))
}

/// `port-to-br`
pub fn to_bridge(ctx: &mut Context<'_>, command: &Command) -> Done {
    let model = ctx.model();
    let port = find_port(ctx, &model, command.arg(0))?;
    Ok(CommandOutput::word(model.bridge_name(port.bridge)))
}

/// `iface-to-br`
pub fn iface_to_bridge(ctx: &mut Context<'_>, command: &Command) -> Done {
    let model = ctx.model();
    let iface = find_iface(ctx, &model, command.arg(0))?;
    Ok(CommandOutput::word(model.bridge_name(iface.bridge)))
}

/// A port to be added.
struct NewPort<'a> {
    ifaces: &'a [String],
    settings: &'a [String],
    fake_iface: bool,
}

/// `add-port`
pub fn add(ctx: &mut Context<'_>, command: &Command) -> Done {
    let ifaces = command.args.get(1..2).unwrap_or_default();
    add_port(ctx, command, NewPort { ifaces, settings: command.args_from(2), fake_iface: false })
}

/// `add-bond`
pub fn add_bond(ctx: &mut Context<'_>, command: &Command) -> Done {
    let rest = command.args_from(2);
    let count = rest.iter().position(|arg| arg.contains('=')).unwrap_or(rest.len());
    if count < 2 {
        let text = format!("add-bond requires at least 2 interfaces, but only {count} were specified");
        return Err(text.into());
    }
    let (ifaces, settings) = rest.split_at(count);
    add_port(ctx, command, NewPort { ifaces, settings, fake_iface: command.has("--fake-iface") })
}

fn add_port(ctx: &mut Context<'_>, command: &Command, new: NewPort<'_>) -> Done {
    let (bridge_name, name) = (command.arg(0), command.arg(1));
    if name.is_empty() {
        return Err("port name must not be empty string".into());
    }
    if new.ifaces.iter().any(String::is_empty) {
        return Err("interface name must not be empty string".into());
    }
    let model = ctx.model();
    if command.has("--may-exist")
        && let Some(port) = try_port(ctx, &model, name)
    {
        return check_existing(&model, port, command, new.ifaces).map(|()| CommandOutput::NONE);
    }
    check_conflicts(ctx, name, &format!("cannot create a port named {name}"))?;
    for iface in new.ifaces {
        check_conflicts(ctx, iface, &format!("cannot create an interface named {iface}"))?;
    }
    let id = find_bridge(ctx, bridge_name)?;
    let ifaces: Vec<Uuid> = new.ifaces.iter().map(|name| new_iface(ctx, name)).collect();
    let port = ctx.tx.insert("Port", None);
    ctx.tx.write("Port", port, "name", Datum::scalar(name));
    ctx.tx.write("Port", port, "interfaces", Datum::set(ifaces));
    ctx.tx.write("Port", port, "bond_fake_iface", Datum::scalar(new.fake_iface));
    if let Some(bridge) = model.bridges.get(id).filter(|b| b.parent.is_some()) {
        ctx.tx.write("Port", port, "tag", Datum::scalar(bridge.vlan));
    }
    for setting in new.settings {
        set_column(ctx, "Port", port, setting, false)?;
    }
    ctx.tx.add_reference("Bridge", model.real_row(id), "ports", port);
    ctx.invalidate_model();
    Ok(CommandOutput::NONE)
}

fn new_iface(ctx: &mut Context<'_>, name: &str) -> Uuid {
    let iface = ctx.tx.insert("Interface", None);
    ctx.tx.write("Interface", iface, "name", Datum::scalar(name));
    ctx.new_interfaces.push(iface);
    iface
}

/// For `--may-exist`: checks that an existing port has the bridge and interfaces of the port to be added.
fn check_existing(
    model: &Model,
    port: &Port,
    command: &Command,
    ifaces: &[String],
) -> Result<(), CommandStop> {
    let (line, name, bridge) = (command.line(), &port.name, model.bridge_name(port.bridge));
    if bridge != command.arg(0) {
        return Err(format!("\"{line}\" but {name} is actually attached to bridge {bridge}").into());
    }
    let mut want: Vec<&str> = ifaces.iter().map(String::as_str).collect();
    want.sort_unstable();
    let mut have: Vec<&str> =
        model.ifaces.iter().filter(|i| i.port == port.row).map(|i| i.name.as_str()).collect();
    have.sort_unstable();
    match want == have {
        true => Ok(()),
        false => Err(format!("\"{line}\" but {name} actually has interface(s) {}", have.join(", ")).into()),
    }
}

/// `add-bond-iface`
pub fn add_bond_iface(ctx: &mut Context<'_>, command: &Command) -> Done {
    let name = command.arg(1);
    let model = ctx.model();
    let port = find_port(ctx, &model, command.arg(0))?;
    if command.has("--may-exist")
        && let Some(iface) = try_iface(ctx, &model, name)
    {
        if iface.port == port.row {
            return Ok(CommandOutput::NONE);
        }
        let (line, other) = (command.line(), port_name(&model, iface.port));
        return Err(format!("\"{line}\" but {name} is actually attached to port {other}").into());
    }
    check_conflicts(ctx, name, &format!("cannot create an interface named {name}"))?;
    let iface = new_iface(ctx, name);
    ctx.tx.add_reference("Port", port.row, "interfaces", iface);
    ctx.invalidate_model();
    Ok(CommandOutput::NONE)
}

/// `del-bond-iface`
pub fn del_bond_iface(ctx: &mut Context<'_>, command: &Command) -> Done {
    let name = command.args.last().map_or("", String::as_str);
    let model = ctx.model();
    let iface = match command.has("--if-exists") {
        true => try_iface(ctx, &model, name),
        false => Some(find_iface(ctx, &model, name)?),
    };
    let Some(iface) = iface else { return Ok(CommandOutput::NONE) };
    if command.args.len() > 1 {
        let port = find_port(ctx, &model, command.arg(0))?;
        if iface.port != port.row {
            let text = format!("port {} does not have an interface {name}", port.name);
            return Err(text.into());
        }
    }
    if model.ifaces.iter().filter(|i| i.port == iface.port).count() < 2 {
        let port = port_name(&model, iface.port);
        return Err(format!("cannot delete last interface from port {port}").into());
    }
    ctx.tx.drop_reference("Port", iface.port, "interfaces", iface.row);
    ctx.tx.delete("Interface", iface.row);
    ctx.invalidate_model();
    Ok(CommandOutput::NONE)
}

/// `del-port`
pub fn del(ctx: &mut Context<'_>, command: &Command) -> Done {
    let model = ctx.model();
    let Some(port) = port_to_delete(ctx, &model, command)? else { return Ok(CommandOutput::NONE) };
    if let [bridge, name] = command.args.as_slice() {
        let id = find_bridge(ctx, bridge)?;
        if port.bridge != id {
            let text = format!("bridge {bridge} does not have a port {name}");
            let has = model.bridges.get(port.bridge).filter(|b| b.parent == Some(id));
            return Err(match has {
                Some(child) => format!("{text} (although its child bridge {} does)", child.name).into(),
                None => text.into(),
            });
        }
    }
    delete(ctx, &model, port);
    ctx.invalidate_model();
    Ok(CommandOutput::NONE)
}

fn port_to_delete<'m>(
    ctx: &mut Context<'_>,
    model: &'m Rc<Model>,
    command: &Command,
) -> Result<Option<&'m Port>, CommandStop> {
    let must_exist = !command.has("--if-exists");
    let target = command.args.last().map_or("", String::as_str);
    if try_bridge(ctx, target).is_some() {
        let text = format!(
            "cannot delete port {target} because it is the local port for bridge {target} (deleting this port requires deleting the entire bridge)"
        );
        return if must_exist { Err(text.into()) } else { Ok(None) };
    }
    let mut port = try_port(ctx, model, target);
    let mut what = "port";
    if command.has("--with-iface") {
        what = "port or interface";
        let iface = if port.is_none() { try_iface(ctx, model, target) } else { None };
        port = port.or_else(|| model.ports.iter().find(|p| iface.is_some_and(|i| i.port == p.row)));
    }
    match port {
        None if must_exist => Err(format!("no {what} named {target}").into()),
        port => Ok(port),
    }
}
