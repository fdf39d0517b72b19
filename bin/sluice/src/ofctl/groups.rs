//! Commands about groups, and bundles of flows and groups.

use super::change::{bundle as transact_bundle, flow_mod_message, lines, open_for_change};
use super::conn::Conn;
use super::context::{Context, Fail, fail};
use super::query::{ask, dump as dump_request};
use flow::text::NameMap;
use openflow::flow_mod::FlowMod;
use openflow::group::{GROUP_ALL, GroupCommand, GroupMod};
use openflow::message::Body;
use openflow::packet_io::PacketOut;
use openflow::text::{Protocols, parse_flow_line, parse_group_line, parse_group_mod, parse_packet_out};
use openflow::{Version, VersionSet};

fn read_groups(
    file: &str,
    names: &dyn NameMap,
    command: GroupCommand,
) -> Result<(Vec<GroupMod>, Protocols), Fail> {
    let lines = lines(file).map_err(|e| Fail::Says(format!("{file}: open failed ({e})")))?;
    let (mut mods, mut usable) = (Vec::new(), Protocols::ANY);
    for (number, line) in lines {
        let parsed = match command {
            GroupCommand::Add => parse_group_line(&line, names),
            command => parse_group_mod(&line, command, names),
        };
        let (m, set) = parsed.map_err(|e| Fail::Says(format!("{file}:{number}: {}", e.0)))?;
        usable &= set;
        mods.push(m);
    }
    Ok((mods, usable))
}

fn send(cx: &mut Context, target: &str, mods: Vec<GroupMod>, usable: Protocols) -> Result<(), Fail> {
    let usable = if cx.settings.bundle { usable & Protocols::OF13_UP } else { usable };
    let mut conn = open_for_change(cx, target, usable)?;
    let messages: Vec<_> = mods.into_iter().map(|m| cx.message(conn.version, Body::GroupMod(m))).collect();
    if cx.settings.bundle {
        return transact_bundle(cx, &mut conn, target, messages);
    }
    messages.iter().try_for_each(|m| conn.execute(cx, target, m))
}

fn one_or_file(cx: &mut Context, args: &[String], command: GroupCommand) -> Result<(), Fail> {
    let text = args.get(1).map_or("", String::as_str);
    let names = cx.names_to_accept(&args[0])?;
    let (mods, usable) = if text == "-" {
        read_groups("-", &*names, command)?
    } else {
        let (m, usable) = parse_group_mod(text, command, &*names)?;
        (vec![m], usable)
    };
    send(cx, &args[0], mods, usable)
}

/// `add-group`
pub fn add(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    one_or_file(cx, args, GroupCommand::Add)
}

/// `add-groups`
pub fn add_file(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let names = cx.names_to_accept(&args[0])?;
    let (mods, usable) = read_groups(&args[1], &*names, GroupCommand::Add)?;
    send(cx, &args[0], mods, usable)
}

/// `mod-group`
pub fn modify(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    one_or_file(
        cx,
        args,
        if cx.settings.may_create { GroupCommand::AddOrModify } else { GroupCommand::Modify },
    )
}

/// `del-groups`
pub fn delete(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    one_or_file(cx, args, GroupCommand::Delete)
}

/// `insert-buckets`
pub fn insert_buckets(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    one_or_file(cx, args, GroupCommand::InsertBucket)
}

/// `remove-buckets`
pub fn remove_buckets(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    one_or_file(cx, args, GroupCommand::RemoveBucket)
}

/// `dump-groups`: before OpenFlow 1.5 always all of them.
pub fn dump(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let mut conn = Conn::open(cx, &args[0])?;
    let group = args.get(1).and_then(|n| n.parse().ok()).unwrap_or(GROUP_ALL);
    let request = cx.message(conn.version, Body::GroupDescRequest(group));
    dump_request(cx, &mut conn, &args[0], &request)
}

/// `dump-group-stats`
pub fn stats(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let names = cx.names_to_accept(&args[0])?;
    let text = args.get(1).map_or("", String::as_str);
    let (m, _) = parse_group_mod(text, GroupCommand::Delete, &*names)?;
    ask(cx, &args[0], Body::GroupStatsRequest(m.group))
}

/// `dump-group-features`
pub fn features(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    ask(cx, &args[0], Body::GroupFeaturesRequest)
}

/// A line of a bundle's file.
enum Part {
    Flow(FlowMod),
    Group(GroupMod),
    Packet(PacketOut),
}

fn part(line: &str, names: &dyn NameMap) -> Result<(Part, Protocols), String> {
    let line = line.trim_start();
    let (word, rest) = line.split_at(line.find([',', ' ', '\t', '\r', '\n']).unwrap_or(line.len()));
    let parsed = match word {
        "flow" => parse_flow_line(rest, names).map(|(m, u)| (Part::Flow(m), u)),
        "group" => parse_group_line(rest, names).map(|(m, u)| (Part::Group(m), u)),
        "packet-out" => parse_packet_out(rest, names).map(|(p, u)| (Part::Packet(p), u)),
        _ => return Err(format!("Unsupported bundle message type: {word}")),
    };
    parsed.map_err(|e| e.0)
}

/// `bundle`
pub fn bundle(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let names = cx.names_to_accept(&args[0])?;
    let file = &args[1];
    let (mut parts, mut usable) = (Vec::new(), Protocols::OF13_UP);
    for (number, line) in lines(file).map_err(|e| Fail::Says(format!("{file}: open failed ({e})")))? {
        match part(&line, &*names) {
            Ok((p, set)) => {
                usable &= set;
                parts.push(p);
            }
            Err(e) => return fail(format!("{file}:{number}: {e}")),
        }
    }
    if Protocols::OF13_UP.versions().and(cx.settings.versions).newest().is_none() {
        cx.settings.versions = VersionSet::only(Version::V14);
        cx.settings.protocols = Protocols::of_versions(cx.settings.versions);
    }
    let mut conn = open_for_change(cx, &args[0], usable)?;
    let messages = parts.into_iter().map(|p| match p {
        Part::Flow(m) => flow_mod_message(cx, &conn, m),
        Part::Group(m) => cx.message(conn.version, Body::GroupMod(m)),
        Part::Packet(p) => cx.message(conn.version, Body::PacketOut(Box::new(p))),
    });
    let messages = messages.collect();
    transact_bundle(cx, &mut conn, &args[0], messages)
}
