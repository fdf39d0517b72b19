//! Commands for meters.

use super::change::open_for_change;
use super::context::Context;
use super::fail::Fail;
use super::replies::dump as dump_request;
use openflow::message::Body;
use openflow::meter::{METER_ALL, MeterCommand, MeterConfig, MeterMod};
use openflow::text::{Protocols, parse_meter_mod};

fn send(cx: &mut Context, args: &[String], command: MeterCommand) -> Result<(), Fail> {
    let m = match args.get(1) {
        Some(text) => parse_meter_mod(text, Some(command))?,
        None => MeterMod { command, config: MeterConfig { meter: METER_ALL, ..MeterConfig::default() } },
    };
    let mut conn = open_for_change(cx, &args[0], Protocols::OF13_UP)?;
    let request = cx.message(conn.version, Body::MeterMod(m));
    conn.execute(cx, &args[0], &request)
}

fn query(cx: &mut Context, args: &[String], body: impl FnOnce(u32) -> Body) -> Result<(), Fail> {
    let meter =
        args.get(1).map_or(Ok(METER_ALL), |text| parse_meter_mod(text, None).map(|m| m.config.meter))?;
    let mut conn = open_for_change(cx, &args[0], Protocols::OF13_UP)?;
    let request = cx.message(conn.version, body(meter));
    dump_request(cx, &mut conn, &args[0], &request)
}

/// `add-meter`
pub fn add(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    send(cx, args, MeterCommand::Add)
}

/// `mod-meter`
pub fn modify(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    send(cx, args, MeterCommand::Modify)
}

/// `del-meter`, `del-meters`
pub fn delete(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    send(cx, args, MeterCommand::Delete)
}

/// `dump-meters`
pub fn dump(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    query(cx, args, Body::MeterConfigRequest)
}

/// `meter-stats`
pub fn stats(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    query(cx, args, Body::MeterStatsRequest)
}

/// `meter-features`
pub fn features(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    query(cx, args, |_| Body::MeterFeaturesRequest)
}
