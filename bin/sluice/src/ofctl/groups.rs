//! Commands for groups, and bundles of flow and group mods.

use super::bundle::transact;
use super::change::{open_for_change, send as send_requests};
use super::conn::Conn;
use super::context::Context;
use super::fail::{Fail, fail};
use super::flow_file::{self, lines};
use super::replies::{dump as dump_request, print_reply};
use super::requests::Requests;
use flow::text::NameMap;
use openflow::group::{GROUP_ALL, GroupCommand, GroupMod};
use openflow::message::Body;
use openflow::text::{Protocols, parse_flow_line, parse_group_line, parse_group_mod, parse_packet_out};
use openflow::{Version, VersionSet};

fn read_groups(
    file: &str,
    names: &dyn NameMap,
    command: GroupCommand,
) -> Result<(Vec<GroupMod>, Protocols), Fail> {
    let text = flow_file::read(file).map_err(|e| Fail::Message(format!("{file}: open failed ({e})")))?;
    let (mut mods, mut usable) = (Vec::new(), Protocols::ANY);
    for (number, line) in lines(&text) {
        let parsed = match command {
            GroupCommand::Add => parse_group_line(line, names),
            command => parse_group_mod(line, command, names),
        };
        let (m, set) = parsed.map_err(|e| Fail::Message(format!("{file}:{number}: {}", e.0)))?;
        usable &= set;
        mods.push(m);
    }
    Ok((mods, usable))
}

fn send(cx: &mut Context, target: &str, mods: Vec<GroupMod>, usable: Protocols) -> Result<(), Fail> {
    let usable = if cx.settings.bundle { usable & Protocols::OF13_UP } else { usable };
    let mut conn = open_for_change(cx, target, usable)?;
    let mut requests = Requests::from_bodies(conn.format(), mods.into_iter().map(Body::GroupMod));
    send_requests(cx, &mut conn, target, &mut requests, 1)
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

/// `dump-groups`. Before OpenFlow 1.5 the reply always contains all groups.
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
    print_reply(cx, &args[0], Body::GroupStatsRequest(m.group))
}

/// `dump-group-features`
pub fn features(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    print_reply(cx, &args[0], Body::GroupFeaturesRequest)
}

/// Parses a line of a bundle file.
fn request(line: &str, names: &dyn NameMap) -> Result<(Body, Protocols), String> {
    let line = line.trim_start();
    let (word, rest) = line.split_at(line.find([',', ' ', '\t', '\r', '\n']).unwrap_or(line.len()));
    let parsed = match word {
        "flow" => parse_flow_line(rest, names).map(|parsed| (Body::FlowMod(parsed.flow), parsed.usable)),
        "group" => parse_group_line(rest, names).map(|(m, u)| (Body::GroupMod(m), u)),
        "packet-out" => parse_packet_out(rest, names).map(|(p, u)| (Body::PacketOut(Box::new(p)), u)),
        _ => return Err(format!("Unsupported bundle message type: {word}")),
    };
    parsed.map_err(|e| e.0)
}

/// `bundle`
pub fn bundle(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let names = cx.names_to_accept(&args[0])?;
    let file = &args[1];
    let text = flow_file::read(file).map_err(|e| Fail::Message(format!("{file}: open failed ({e})")))?;
    let (mut bodies, mut usable) = (Vec::new(), Protocols::OF13_UP);
    for (number, line) in lines(&text) {
        match request(line, &*names) {
            Ok((body, set)) => {
                usable &= set;
                bodies.push(body);
            }
            Err(e) => return fail(format!("{file}:{number}: {e}")),
        }
    }
    if Protocols::OF13_UP.versions().and(cx.settings.versions).newest().is_none() {
        cx.settings.versions = VersionSet::only(Version::V14);
        cx.settings.flow_formats = Protocols::of_versions(cx.settings.versions);
    }
    let mut conn = open_for_change(cx, &args[0], usable)?;
    let mut requests = Requests::from_bodies(conn.format(), bodies);
    requests.assign_xids(cx)?;
    transact(cx, &mut conn, &args[0], &requests)
}
