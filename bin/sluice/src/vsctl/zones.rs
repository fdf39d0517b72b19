//! Commands for datapaths: connection tracking zones and capabilities.

use super::bridges::lenient_integer;
use super::context::{CommandOutput, CommandStop, Context, NeededColumns};
use super::schema_names::ROOT;
use super::syntax::Command;
use crate::notation::leading_integer;
use ovsdb::{Atom, Datum, Json, Uuid};
use serde_json::json;

type Done = Result<CommandOutput, CommandStop>;

/// Adds the columns for commands about zones.
pub fn prepare(_: &Command, needs: &mut NeededColumns) -> Result<(), String> {
    needs.columns(ROOT, ["datapaths"]);
    needs.columns("Datapath", ["ct_zones", "ct_zone_default_limit"]);
    needs.columns("CT_Zone", ["timeout_policy", "limit"]);
    needs.columns("CT_Timeout_Policy", ["timeouts"]);
    Ok(())
}

/// Adds the columns that `list-dp-cap` reads.
pub fn prepare_capabilities(_: &Command, needs: &mut NeededColumns) -> Result<(), String> {
    needs.columns(ROOT, ["datapaths"]);
    needs.columns("Datapath", ["capabilities"]);
    Ok(())
}

fn try_datapath(ctx: &Context<'_>, name: &str) -> Option<Uuid> {
    ctx.tx.datum(ROOT, ctx.root, "datapaths").get(&name.into()).and_then(Atom::as_uuid)
}

fn datapath(ctx: &Context<'_>, name: &str) -> Result<Uuid, CommandStop> {
    try_datapath(ctx, name).ok_or_else(|| format!("datapath {name} does not exist").into())
}

fn listed_datapath(ctx: &Context<'_>, name: &str) -> Result<Uuid, CommandStop> {
    try_datapath(ctx, name).ok_or_else(|| format!("datapath: {name} record not found").into())
}

/// A zone of a datapath.
#[derive(Clone, Copy)]
struct Zone {
    datapath: Uuid,
    id: i64,
    row: Option<Uuid>,
}

impl Zone {
    fn find(ctx: &Context<'_>, datapath: Uuid, id: i64) -> Zone {
        let zones = ctx.tx.datum("Datapath", datapath, "ct_zones");
        Zone { datapath, id, row: zones.get(&id.into()).and_then(Atom::as_uuid) }
    }

    fn has(&self, ctx: &Context<'_>, column: &str) -> bool {
        self.row.is_some_and(|row| !ctx.tx.datum("CT_Zone", row, column).is_empty())
    }

    /// The row of the zone, which is inserted if it does not exist.
    fn make(&self, ctx: &mut Context<'_>) -> Uuid {
        self.row.unwrap_or_else(|| {
            let row = ctx.tx.insert("CT_Zone", None);
            let mut zones = ctx.tx.datum("Datapath", self.datapath, "ct_zones");
            zones.insert_all(&Datum::map([(self.id, row)]));
            ctx.tx.write("Datapath", self.datapath, "ct_zones", zones);
            row
        })
    }

    /// Clears a column of the zone's row, or deletes the row if the column `other` is empty, too.
    fn clear(&self, ctx: &mut Context<'_>, column: &str, other: &str) {
        let Some(row) = self.row else { return };
        if self.has(ctx, other) {
            ctx.tx.write("CT_Zone", row, column, Datum::Set(Vec::new()));
        } else {
            let mut zones = ctx.tx.datum("Datapath", self.datapath, "ct_zones");
            zones.remove_all(&Datum::set([self.id]));
            ctx.tx.write("Datapath", self.datapath, "ct_zones", zones);
        }
    }
}

/// Parses `zone=N`.
fn zone_argument(given: &str) -> Result<i64, CommandStop> {
    let number = given.strip_prefix("zone=").and_then(leading_integer);
    number.map(|(id, _)| id).ok_or_else(|| format!("invalid zone argument, {given}").into())
}

/// Parses `N` or `default`; `None` stands for the default.
fn zone_or_default(given: &str) -> Result<Option<i64>, CommandStop> {
    match leading_integer(given) {
        Some((id, _)) => Ok(Some(id)),
        None if given == "default" => Ok(None),
        None => Err(format!("invalid zone id, {given}").into()),
    }
}

/// `add-zone-tp`
pub fn add_policy(ctx: &mut Context<'_>, command: &Command) -> Done {
    let id = zone_argument(command.arg(1))?;
    let zone = Zone::find(ctx, datapath(ctx, command.arg(0))?, id);
    if zone.has(ctx, "timeout_policy") && !command.has("--may-exist") {
        return Err(format!("zone id {id} already has a policy").into());
    }
    let policy = find_or_make_policy(ctx, command.args_from(2));
    let row = zone.make(ctx);
    ctx.tx.write("CT_Zone", row, "timeout_policy", Datum::scalar(policy));
    Ok(CommandOutput::NONE)
}

/// Finds a row with these timeouts, or inserts one: zones with equal timeouts share a row.
fn find_or_make_policy(ctx: &mut Context<'_>, arguments: &[String]) -> Uuid {
    let words = arguments.iter().flat_map(|arg| arg.split([',', ' '])).filter(|word| !word.is_empty());
    let pairs = words.map(|word| {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        (key, lenient_integer(value))
    });
    let timeouts = Datum::map(pairs);
    let rows = ctx.tx.rows("CT_Timeout_Policy");
    let same = rows.into_iter().find(|row| ctx.tx.datum("CT_Timeout_Policy", *row, "timeouts") == timeouts);
    same.unwrap_or_else(|| {
        let row = ctx.tx.insert("CT_Timeout_Policy", None);
        ctx.tx.write("CT_Timeout_Policy", row, "timeouts", timeouts);
        row
    })
}

/// `del-zone-tp`
pub fn del_policy(ctx: &mut Context<'_>, command: &Command) -> Done {
    let id = zone_argument(command.arg(1))?;
    let zone = Zone::find(ctx, datapath(ctx, command.arg(0))?, id);
    if !command.has("--if-exists") && !zone.has(ctx, "timeout_policy") {
        return Err(format!("zone id {id} does not have a policy").into());
    }
    zone.clear(ctx, "timeout_policy", "limit");
    Ok(CommandOutput::NONE)
}

/// The zones of a datapath with their rows.
fn zones(ctx: &Context<'_>, datapath: Uuid) -> Vec<(i64, Uuid)> {
    let zones = ctx.tx.datum("Datapath", datapath, "ct_zones");
    zones
        .keys()
        .zip(zones.values())
        .filter_map(|(id, row)| Some((id.as_integer()?, row.as_uuid()?)))
        .collect()
}

/// `list-zone-tp`
pub fn list_policies(ctx: &mut Context<'_>, command: &Command) -> Done {
    let datapath = listed_datapath(ctx, command.arg(0))?;
    let (mut out, mut json) = (String::new(), Vec::new());
    for (id, row) in zones(ctx, datapath) {
        let policy = ctx.tx.references("CT_Zone", row, "timeout_policy").first().copied();
        let timeouts = policy.map(|row| ctx.tx.datum("CT_Timeout_Policy", row, "timeouts"));
        json.push(json!({"zone": id, "timeouts": timeouts.as_ref().map(Datum::to_json)}));
        let text = match timeouts {
            Some(timeouts) => crate::notation::bare(&timeouts),
            None => "system default".to_owned(),
        };
        let line = format!("Zone:{id}, Timeout Policies: {text}");
        out.push_str(line.trim_end_matches(' '));
        out.push('\n');
    }
    Ok(CommandOutput::Value(out, Json::Array(json)))
}

/// `set-zone-limit`
pub fn set_limit(ctx: &mut Context<'_>, command: &Command) -> Done {
    let id = zone_or_default(command.arg(1))?;
    let given = command.arg(2);
    let limit = leading_integer(given).map(|(limit, _)| limit);
    let limit = limit.ok_or_else(|| format!("invalid limit, {given}"))?;
    let datapath = datapath(ctx, command.arg(0))?;
    if !(0..=i64::from(u32::MAX)).contains(&limit) {
        return Err(format!("limit ({limit}) out of range").into());
    }
    let Some(id) = id else {
        ctx.tx.write("Datapath", datapath, "ct_zone_default_limit", Datum::scalar(limit));
        return Ok(CommandOutput::NONE);
    };
    if !(0..=i64::from(u16::MAX)).contains(&id) {
        return Err(format!("zone_id ({id}) out of range").into());
    }
    let row = Zone::find(ctx, datapath, id).make(ctx);
    ctx.tx.write("CT_Zone", row, "limit", Datum::scalar(limit));
    Ok(CommandOutput::NONE)
}

/// `del-zone-limit`
pub fn del_limit(ctx: &mut Context<'_>, command: &Command) -> Done {
    let must_exist = !command.has("--if-exists");
    let id = zone_or_default(command.arg(1))?;
    let name = command.arg(0);
    let datapath = datapath(ctx, name)?;
    let Some(id) = id else {
        if must_exist && ctx.tx.datum("Datapath", datapath, "ct_zone_default_limit").is_empty() {
            return Err(format!("datapath {name} does not have a limit").into());
        }
        ctx.tx.write("Datapath", datapath, "ct_zone_default_limit", Datum::Set(Vec::new()));
        return Ok(CommandOutput::NONE);
    };
    let zone = Zone::find(ctx, datapath, id);
    if must_exist && !zone.has(ctx, "limit") {
        return Err(format!("zone_id {id} does not have a limit").into());
    }
    zone.clear(ctx, "limit", "timeout_policy");
    Ok(CommandOutput::NONE)
}

/// `list-zone-limits`
pub fn list_limits(ctx: &mut Context<'_>, command: &Command) -> Done {
    let datapath = listed_datapath(ctx, command.arg(0))?;
    let default = ctx.tx.integer("Datapath", datapath, "ct_zone_default_limit");
    let mut out = default.map(|limit| format!("Default, Limit: {limit}\n")).unwrap_or_default();
    let mut limits = Vec::new();
    for (id, row) in zones(ctx, datapath) {
        if let Some(limit) = ctx.tx.integer("CT_Zone", row, "limit") {
            out.push_str(&format!("Zone: {id}, Limit: {limit}\n"));
            limits.push(json!({"zone": id, "limit": limit}));
        }
    }
    Ok(CommandOutput::Value(out, json!({"default": default, "zones": limits})))
}

/// `list-dp-cap`
pub fn list_capabilities(ctx: &mut Context<'_>, command: &Command) -> Done {
    let name = command.arg(0);
    let datapath = try_datapath(ctx, name).ok_or_else(|| format!("datapath \"{name}\" record not found"))?;
    let capabilities = ctx.tx.datum("Datapath", datapath, "capabilities");
    let pairs = capabilities.keys().zip(capabilities.values());
    let json = pairs.filter_map(|(k, v)| Some((k.as_str()?.to_owned(), Json::from(v.as_str()?)))).collect();
    Ok(CommandOutput::Value(crate::notation::bare(&capabilities) + "\n", json))
}
