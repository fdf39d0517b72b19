//! Commands for the whole switch: `emer-reset`, TLS keys, Auto Attach mappings.

use super::bridge_names::find_bridge;
use super::bridges;
use super::context::{CommandOutput, CommandStop, Context, NeededColumns};
use super::schema_names::ROOT;
use super::syntax::Command;
use crate::notation::leading_integer;
use ovsdb::{Atom, Datum, Uuid};
use serde_json::json;

type Done = Result<CommandOutput, CommandStop>;

/// For commands that read no columns.
pub fn prepare_nothing(_: &Command, _: &mut NeededColumns) -> Result<(), String> {
    Ok(())
}

/// `init` and `comment`: nothing to do, because every transaction creates the root row and contains the comment.
pub fn nothing(_: &mut Context<'_>, _: &Command) -> Done {
    Ok(CommandOutput::NONE)
}

const BRIDGE_RESET: [&str; 7] =
    ["controller", "fail_mode", "mirrors", "netflow", "sflow", "ipfix", "flood_vlans"];
const RESET_TABLES: [&str; 8] =
    ["Mirror", "Controller", "Manager", "NetFlow", "SSL", "sFlow", "IPFIX", "Flow_Sample_Collector_Set"];

/// Adds the columns that `emer-reset` reads.
pub fn prepare_emer_reset(_: &Command, needs: &mut NeededColumns) -> Result<(), String> {
    needs.columns(ROOT, ["manager_options", "ssl"]);
    needs.columns("Bridge", BRIDGE_RESET);
    needs.columns("Bridge", ["other_config"]);
    needs.columns("Port", ["other_config"]);
    needs.columns("Interface", ["ingress_policing_rate", "ingress_policing_burst"]);
    Ok(())
}

/// `emer-reset`
pub fn emer_reset(ctx: &mut Context<'_>, _: &Command) -> Done {
    let empty = || Datum::Set(Vec::new());
    for column in ["manager_options", "ssl"] {
        ctx.tx.write(ROOT, ctx.root, column, empty());
    }
    for row in ctx.tx.rows("Bridge") {
        BRIDGE_RESET.iter().for_each(|column| ctx.tx.write("Bridge", row, column, empty()));
        // Keep the Ethernet address: neighbours and controllers identify the bridge by it.
        let config = ctx.tx.datum("Bridge", row, "other_config");
        let kept = config.get_str("hwaddr").map(|address| ("hwaddr", address));
        ctx.tx.write("Bridge", row, "other_config", Datum::map(kept));
    }
    for row in ctx.tx.rows("Port") {
        ctx.tx.write("Port", row, "other_config", Datum::Map(Vec::new()));
    }
    for row in ctx.tx.rows("Interface") {
        for column in ["ingress_policing_rate", "ingress_policing_burst"] {
            ctx.tx.write("Interface", row, column, Datum::scalar(0));
        }
    }
    for table in RESET_TABLES {
        ctx.tx.rows(table).into_iter().for_each(|row| ctx.tx.delete(table, row));
    }
    ctx.invalidate_model();
    Ok(CommandOutput::NONE)
}

/// Adds the columns for commands about TLS.
pub fn prepare_ssl(_: &Command, needs: &mut NeededColumns) -> Result<(), String> {
    needs.columns(ROOT, ["ssl"]);
    needs.columns("SSL", SSL_COLUMNS);
    Ok(())
}

const SSL_COLUMNS: [&str; 4] = ["private_key", "certificate", "ca_cert", "bootstrap_ca_cert"];

fn ssl_row(ctx: &mut Context<'_>) -> Option<Uuid> {
    ctx.tx.verify(ROOT, ctx.root, "ssl");
    ctx.tx.references(ROOT, ctx.root, "ssl").first().copied()
}

/// `get-ssl`
pub fn get_ssl(ctx: &mut Context<'_>, _: &Command) -> Done {
    let Some(row) = ssl_row(ctx) else { return Ok(CommandOutput::NONE) };
    SSL_COLUMNS.iter().for_each(|column| ctx.tx.verify("SSL", row, column));
    let text = |column| ctx.tx.string("SSL", row, column);
    let (key, certificate, authority) = (text("private_key"), text("certificate"), text("ca_cert"));
    let bootstrap = ctx.tx.flag("SSL", row, "bootstrap_ca_cert");
    Ok(CommandOutput::Value(
        format!(
            "Private key: {key}\nCertificate: {certificate}\nCA Certificate: {authority}\nBootstrap: {bootstrap}\n"
        ),
        json!({
            "private_key": key, "certificate": certificate, "ca_cert": authority, "bootstrap_ca_cert": bootstrap,
        }),
    ))
}

/// `del-ssl`
pub fn del_ssl(ctx: &mut Context<'_>, _: &Command) -> Done {
    if let Some(row) = ssl_row(ctx) {
        ctx.tx.delete("SSL", row);
        ctx.tx.write(ROOT, ctx.root, "ssl", Datum::Set(Vec::new()));
    }
    Ok(CommandOutput::NONE)
}

/// `set-ssl`
pub fn set_ssl(ctx: &mut Context<'_>, command: &Command) -> Done {
    if let Some(row) = ssl_row(ctx) {
        ctx.tx.delete("SSL", row);
    }
    let row = ctx.tx.insert("SSL", None);
    for (column, path) in SSL_COLUMNS.iter().zip(&command.args) {
        ctx.tx.write("SSL", row, column, Datum::scalar(path.as_str()));
    }
    ctx.tx.write("SSL", row, "bootstrap_ca_cert", Datum::scalar(command.has("--bootstrap")));
    ctx.tx.write(ROOT, ctx.root, "ssl", Datum::scalar(row));
    Ok(CommandOutput::NONE)
}

/// Adds the columns for commands about Auto Attach mappings.
pub fn prepare_mappings(command: &Command, needs: &mut NeededColumns) -> Result<(), String> {
    needs.columns("Bridge", ["auto_attach"]);
    needs.columns("AutoAttach", ["mappings"]);
    bridges::prepare(command, needs)
}

/// The rows that a command about mappings uses: the bridge, and its `AutoAttach` row if there is one.
fn mappings_of(ctx: &mut Context<'_>, command: &Command) -> Result<(Uuid, Option<Uuid>), CommandStop> {
    let id = find_bridge(ctx, command.arg(0))?;
    let bridge = ctx.model().real_row(id);
    Ok((bridge, ctx.tx.references("Bridge", bridge, "auto_attach").first().copied()))
}

/// Parses the I-SID and the VLAN of a command.
fn pair_of(command: &Command) -> Result<(Atom, Atom), CommandStop> {
    let number = |index| {
        let given = command.arg(index);
        let number = leading_integer(given).map(|(number, _)| Atom::Integer(number));
        number.ok_or_else(|| format!("Invalid argument {given}"))
    };
    Ok((number(1)?, number(2)?))
}

/// `add-aa-mapping`
pub fn add_mapping(ctx: &mut Context<'_>, command: &Command) -> Done {
    let pair = pair_of(command)?;
    let (bridge, row) = mappings_of(ctx, command)?;
    let row = row.unwrap_or_else(|| {
        let row = ctx.tx.insert("AutoAttach", None);
        ctx.tx.write("Bridge", bridge, "auto_attach", Datum::scalar(row));
        row
    });
    let mut mappings = ctx.tx.datum("AutoAttach", row, "mappings");
    mappings.insert_all(&Datum::map([pair]));
    ctx.tx.write("AutoAttach", row, "mappings", mappings);
    Ok(CommandOutput::NONE)
}

/// `del-aa-mapping`
pub fn del_mapping(ctx: &mut Context<'_>, command: &Command) -> Done {
    let (isid, vlan) = pair_of(command)?;
    let (_, row) = mappings_of(ctx, command)?;
    let Some(row) = row else { return Ok(CommandOutput::NONE) };
    let mappings = ctx.tx.datum("AutoAttach", row, "mappings");
    if mappings.get(&isid) == Some(&vlan) {
        // Also removes other I-SIDs of the same VLAN. Open vSwitch does the same, and scripts rely on this.
        let pairs = mappings.keys().zip(mappings.values());
        let rest = pairs.filter(|(key, value)| **key != isid && **value != vlan);
        let rest = Datum::map(rest.map(|(key, value)| (key.clone(), value.clone())));
        ctx.tx.write("AutoAttach", row, "mappings", rest);
    }
    Ok(CommandOutput::NONE)
}

/// `get-aa-mapping`
pub fn get_mappings(ctx: &mut Context<'_>, command: &Command) -> Done {
    let (bridge, row) = mappings_of(ctx, command)?;
    ctx.tx.verify("Bridge", bridge, "auto_attach");
    let Some(row) = row else { return Ok(CommandOutput::NONE) };
    ctx.tx.verify("AutoAttach", row, "mappings");
    let mappings = ctx.tx.datum("AutoAttach", row, "mappings");
    let pairs = || mappings.keys().zip(mappings.values());
    let json = pairs().map(|(isid, vlan)| json!({"isid": isid.to_json(), "vlan": vlan.to_json()})).collect();
    Ok(CommandOutput::Value(pairs().map(|(isid, vlan)| format!("{isid} {vlan}\n")).collect(), json))
}
