//! Commands for table settings and fragment handling.

use super::conn::Conn;
use super::context::Context;
use super::fail::{Fail, fail, print};
use flow::text::table_from_text;
use openflow::flow_mod::TABLE_ALL;
use openflow::message::Body;
use openflow::session::SwitchConfig;
use openflow::table::{TableCommand, TableConfig, TableFeatures, TableMiss, Vacancy};
use openflow::text::{NoNames, frag_mode_from_name, frag_mode_name, message_text};
use openflow::{Dialect, Version, VersionSet, decode};

/// Requests the switch configuration.
pub fn fetch_config(cx: &mut Context, conn: &mut Conn) -> Result<SwitchConfig, Fail> {
    let request = cx.message(conn.version, Body::GetConfigRequest);
    let reply = conn.transact(&request)?;
    match decode(&reply, Dialect::default()).map(|m| m.body) {
        Ok(Body::GetConfigReply(config)) => Ok(config),
        _ => fail(format!("{}: bad reply to config request", conn.name)),
    }
}

/// `get-frags`
pub fn get_frags(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let mut conn = Conn::open(cx, &args[0])?;
    let config = fetch_config(cx, &mut conn)?;
    print(&format!("{}\n", frag_mode_name(config.frag)))
}

/// `set-frags`: reads the mode afterwards, because a switch may ignore a mode that it does not support.
pub fn set_frags(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let Some(frag) = frag_mode_from_name(&args[1]) else {
        return fail(format!("{}: unknown fragment handling mode", args[1]));
    };
    let mut conn = Conn::open(cx, &args[0])?;
    let config = fetch_config(cx, &mut conn)?;
    if config.frag == frag {
        return Ok(());
    }
    let request = cx.message(conn.version, Body::SetConfig(SwitchConfig { frag, ..config }));
    conn.execute(cx, &args[0], &request)?;
    if fetch_config(cx, &mut conn)?.frag == frag {
        return Ok(());
    }
    fail(format!(
        "{}: setting fragment handling mode failed (this switch probably doesn't support mode \"{}\")",
        args[0],
        frag_mode_name(frag)
    ))
}

/// Parses the setting of `mod-table`; also returns the versions that support it.
fn parse_setting(text: &str) -> Result<(TableConfig, VersionSet), Fail> {
    let mut t = TableConfig::default();
    let old: VersionSet = [Version::V11, Version::V12].into_iter().collect();
    let new: VersionSet = [Version::V14, Version::V15].into_iter().collect();
    match text {
        "controller" => t.miss = TableMiss::Controller,
        "continue" => t.miss = TableMiss::Continue,
        "drop" => t.miss = TableMiss::Drop,
        "evict" => t.eviction = Some(true),
        "noevict" => t.eviction = Some(false),
        "novacancy" => t.vacancy_events = Some(false),
        _ => {
            let Some(range) = text.strip_prefix("vacancy:") else {
                return fail(format!("invalid table_mod setting {text}"));
            };
            t.vacancy_events = Some(true);
            t.vacancy = Some(thresholds(range)?);
        }
    }
    Ok((t, if t.miss == TableMiss::Default { new } else { old }))
}

/// Parses `DOWN,UP`, in percent.
fn thresholds(text: &str) -> Result<Vacancy, Fail> {
    let mut parts = text.split(',').filter(|p| !p.is_empty());
    let mut threshold = |name: &str| match parts.next() {
        None => fail(format!("Vacancy {name} value missing")),
        Some(part) => match part.parse() {
            Ok(percent @ 0..=100) => Ok(percent),
            _ => fail(format!("Invalid vacancy {name} value \"{part}\"")),
        },
    };
    let (down, up) = (threshold("down")?, threshold("up")?);
    if down > up {
        return fail(
            "Invalid vacancy range, vacancy up should be greater than vacancy down (OFPBPC_BAD_VALUE)",
        );
    }
    Ok(Vacancy { down, up, now: 0 })
}

/// Restricts the versions offered to the switch to those that support the setting.
fn restrict_versions(cx: &mut Context, setting: &str, versions: VersionSet) -> Result<(), Fail> {
    let both = cx.settings.versions.and(versions);
    if both.newest().is_none() {
        let names: Vec<&str> = versions.iter().map(Version::name).collect();
        return fail(format!(
            "table_mod '{setting}' requires one of the OpenFlow versions {}",
            names.join(", ")
        ));
    }
    cx.settings.versions = both;
    Ok(())
}

/// `mod-table TABLE name:NAME`. Before OpenFlow 1.5 a request sets all tables, so it contains the other tables
/// unchanged.
fn rename(cx: &mut Context, target: &str, table: u8, name: &str) -> Result<(), Fail> {
    let mut conn = Conn::open(cx, target)?;
    let mut tables: Vec<TableFeatures> = Vec::new();
    for m in conn.transact_all(&cx.message(conn.version, Body::TableFeaturesRequest(Vec::new())))? {
        if let Body::TableFeaturesReply(list) = m.body {
            tables.extend(list);
        }
    }
    let Some(found) = tables.iter_mut().find(|t| t.table == table) else {
        return fail(format!("switch does not have table {table}"));
    };
    name.clone_into(&mut found.name);
    if conn.version >= Version::V15 {
        let only = TableFeatures { command: TableCommand::Modify, keeps_properties: true, ..found.clone() };
        tables = vec![only];
    }
    for frame in conn.transact_frames(&cx.message(conn.version, Body::TableFeaturesRequest(tables)))? {
        if decode(&frame, Dialect::default()).is_ok_and(|m| matches!(m.body, Body::Error(_))) {
            eprint!("{}", message_text(&frame, &NoNames, cx.settings.verbosity.saturating_add(1)));
            return Err(Fail::ExitStatus(1));
        }
    }
    Ok(())
}

/// `mod-table`. Since OpenFlow 1.4 a request sets all settings of a table, so the current settings are requested
/// first.
pub fn modify(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let text = args[1].as_str();
    let number = match text.eq_ignore_ascii_case("all") {
        true => Some(TABLE_ALL),
        false => table_from_text(text, &NoNames).or_else(|| {
            let names = cx.names_to_accept(&args[0]).ok()?;
            table_from_text(text, &*names)
        }),
    };
    let Some(table) = number else { return fail(format!("unknown table \"{text}\"")) };
    if let Some(name) = args[2].strip_prefix("name:").filter(|_| table != TABLE_ALL) {
        restrict_versions(cx, &args[2], [Version::V13, Version::V14, Version::V15].into_iter().collect())?;
        return rename(cx, &args[0], table, name);
    }
    let (mut wanted, versions) = parse_setting(&args[2])?;
    wanted.table = table;
    restrict_versions(cx, &args[2], versions)?;
    let mut conn = Conn::open(cx, &args[0])?;
    if conn.version < Version::V14 {
        let request = cx.message(conn.version, Body::TableMod(wanted));
        return conn.execute(cx, &args[0], &request);
    }
    let request = cx.message(conn.version, Body::TableDescRequest);
    let mut present = Vec::new();
    for m in conn.transact_all(&request)? {
        if let Body::TableDescReply(list) = m.body {
            present.extend(list);
        }
    }
    for current in present.into_iter().filter(|t| table == TABLE_ALL || t.table == table) {
        let mut next = current;
        if wanted.eviction.is_some() {
            // Eviction flags are not sent: Open vSwitch treats them as part of the eviction setting.
            (next.eviction, next.eviction_flags) = (wanted.eviction, None);
        } else {
            (next.vacancy_events, next.vacancy) = (wanted.vacancy_events, wanted.vacancy);
        }
        next.vacancy = next.vacancy.map(|v| Vacancy { now: 0, ..v });
        let request = cx.message(conn.version, Body::TableMod(next));
        conn.execute(cx, &args[0], &request)?;
    }
    Ok(())
}
