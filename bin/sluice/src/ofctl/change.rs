//! Commands that change flows, and packets sent out.

use super::conn::Conn;
use super::context::{Context, Fail, fail, print};
use flow::text::NameMap;
use flow::{FieldId, Match};
use openflow::flow_mod::{FlowCommand, FlowMod};
use openflow::message::{Body, Message};
use openflow::packet_io::PacketOut;
use openflow::session::{BundleAdd, BundleControl, BundleControlType, bundle_flags};
use openflow::text::{
    Protocols, hex_dump, message_text, parse_actions, parse_flow_line, parse_flow_mod, parse_packet,
    parse_packet_out,
};
use openflow::{Dialect, decode, encode};
use runtime::{Module, error_text};
use std::io::Read;

static OFP_MATCH: Module = Module::new("ofp_match");

/// Flow mods that are sent before the answer to the first of them is waited for. Those behind one that fails may have been
/// done; none of a later window is sent.
const WINDOW: usize = 256;
/// The number of the one bundle of a connection.
const BUNDLE: u32 = 0;

/// The lines of a file, or of standard input, with their numbers: without comments and empty ones.
pub fn lines(file: &str) -> Result<Vec<(usize, String)>, String> {
    let mut bytes = Vec::new();
    let read = match file {
        "-" => std::io::stdin().read_to_end(&mut bytes),
        path => std::fs::File::open(path).and_then(|mut f| f.read_to_end(&mut bytes)),
    };
    read.map_err(|e| error_text(&e))?;
    let text = String::from_utf8_lossy(&bytes);
    let lines =
        text.lines().enumerate().map(|(i, line)| (i + 1, line.split('#').next().unwrap_or("").to_owned()));
    Ok(lines.filter(|(_, line)| !line.trim().is_empty()).collect())
}

/// Flow mods of a file.
pub fn read_flows(
    file: &str,
    names: &dyn NameMap,
    command: FlowCommand,
) -> Result<(Vec<FlowMod>, Protocols), Fail> {
    let lines = lines(file).map_err(|e| Fail::Says(format!("{file}: open failed ({e})")))?;
    let (mut mods, mut usable) = (Vec::new(), Protocols::ANY);
    for (number, line) in lines {
        // Only where flows are added lines may say what to do.
        let parsed = match command {
            FlowCommand::Add => parse_flow_line(&line, names),
            command => parse_flow_mod(&line, command, names),
        };
        let (m, set) = parsed.map_err(|e| Fail::Says(format!("{file}:{number}: {}", e.0)))?;
        usable &= set;
        mods.push(m);
    }
    Ok((mods, usable))
}

/// Says what the switch will not match, since the fields that it needs are missing: mostly a slip of the author's. The
/// flow is sent as it is written.
fn note_normalization(m: &FlowMod) {
    let mut normal = m.matching;
    if normal.normalize() {
        runtime::info!(OFP_MATCH, "normalization changed ofp_match, details:");
        runtime::info!(OFP_MATCH, " pre: {}", m.matching);
        runtime::info!(OFP_MATCH, "post: {normal}");
    }
}

/// Connects and agrees on a format that can carry the changes.
pub fn open_for_change(cx: &mut Context, target: &str, usable: Protocols) -> Result<Conn, Fail> {
    let allowed = cx.settings.protocols;
    if (usable & allowed).is_empty() {
        return fail(format!(
            "none of the usable flow formats ({usable}) is among the allowed flow formats ({allowed})"
        ));
    }
    let mut conn = Conn::open(cx, target)?;
    if !(usable & allowed & conn.protocol).is_empty() {
        return Ok(conn);
    }
    for format in (usable & allowed).each() {
        if conn.set_protocol(cx, format)? {
            return Ok(conn);
        }
    }
    fail(format!("switch does not support any of the usable flow formats ({usable})"))
}

/// A message of a flow mod in the connection's format.
pub fn flow_mod_message(cx: &mut Context, conn: &Conn, m: FlowMod) -> Message {
    super::query::flow_request(cx, conn, Body::FlowMod(Box::new(m)))
}

fn send(cx: &mut Context, target: &str, mods: Vec<FlowMod>, usable: Protocols) -> Result<(), Fail> {
    mods.iter().for_each(note_normalization);
    let usable = if cx.settings.bundle { usable & Protocols::OF13_UP } else { usable };
    let mut conn = open_for_change(cx, target, usable)?;
    if cx.settings.bundle {
        let messages = mods.into_iter().map(|m| flow_mod_message(cx, &conn, m)).collect();
        return bundle(cx, &mut conn, target, messages);
    }
    let (mut dumps, mut window) = (String::new(), Vec::new());
    for m in mods {
        let message = flow_mod_message(cx, &conn, m);
        if cx.settings.verbosity >= 5 {
            let dialect = Dialect { flow_mod_table_id: conn.protocol.has_table_id(), debug_actions: true };
            let bytes = encode(&message, dialect).unwrap_or_default().concat();
            dumps += &match cx.settings.verbosity {
                5 => hex_dump(&bytes, true),
                _ => bytes.iter().map(|b| format!("{b:02x}")).collect::<String>() + "\n",
            };
        }
        window.push(message);
        if window.len() == WINDOW {
            conn.execute_all(cx, target, &window)?;
            window.clear();
        }
    }
    if !window.is_empty() {
        conn.execute_all(cx, target, &window)?;
    }
    print(&dumps)
}

/// Does all of these in one step or none of them.
pub fn bundle(cx: &mut Context, conn: &mut Conn, target: &str, messages: Vec<Message>) -> Result<(), Fail> {
    let flags = bundle_flags::ATOMIC | bundle_flags::ORDERED;
    step(cx, conn, target, &messages, BundleControlType::OpenRequest)?;
    for some in messages.chunks(WINDOW) {
        let mut adds = Vec::with_capacity(some.len());
        for m in some {
            let message =
                encode(m, Dialect::default()).map_err(|e| Fail::Says(e.name().to_owned()))?.concat();
            let add = BundleAdd { bundle: BUNDLE, flags, message };
            adds.push(Message::new(conn.version, m.xid, Body::BundleAdd(add)));
        }
        let sent = conn.send_all(&adds);
        sent.map_err(|e| Fail::Says(format!("talking to {} ({})", conn.name, error_text(&e))))?;
    }
    step(cx, conn, target, &messages, BundleControlType::CloseRequest)?;
    step(cx, conn, target, &messages, BundleControlType::CommitRequest)
}

/// One control message and its answer. Errors of the bundle's messages may come before it: they have their own
/// transactions.
fn step(
    cx: &mut Context,
    conn: &mut Conn,
    target: &str,
    messages: &[Message],
    kind: BundleControlType,
) -> Result<(), Fail> {
    let flags = bundle_flags::ATOMIC | bundle_flags::ORDERED;
    let control = BundleControl { bundle: BUNDLE, kind, flags };
    let request = cx.message(conn.version, Body::BundleControl(control));
    let broken =
        |name: &str, e: std::io::Error| Fail::Says(format!("talking to {name} ({})", error_text(&e)));
    conn.send(&request).map_err(|e| broken(&conn.name, e))?;
    loop {
        let frame = conn.receive().map_err(|e| broken(&conn.name, e))?;
        match super::conn::xid_of(&frame) {
            Some(xid) if xid == request.xid => {
                return match decode(&frame, Dialect::default()).map(|m| m.body) {
                    Ok(Body::BundleControl(_)) => Ok(()),
                    _ => {
                        explain(cx, target, &frame, messages)?;
                        fail(format!("talking to {} (Protocol error)", conn.name))
                    }
                };
            }
            Some(xid) if messages.iter().any(|m| m.xid == xid) => explain(cx, target, &frame, messages)?,
            _ => {}
        }
    }
}

/// "Error … for: " and the message that it is about.
fn explain(cx: &mut Context, target: &str, error: &[u8], messages: &[Message]) -> Result<(), Fail> {
    let Ok(Message { xid, body: Body::Error(body), .. }) = decode(error, Dialect::default()) else {
        eprint!("***decode error***");
        return Ok(());
    };
    let whole = messages.iter().find(|m| m.xid == xid).and_then(|m| encode(m, Dialect::default()).ok());
    let request = whole.map_or(body.data, |frames| frames.concat());
    let names = cx.names_to_show(target)?;
    let name = body.error.map_or("unknown", |e| e.name());
    eprint!("Error {name} for: {}", message_text(&request, &*names, cx.settings.verbosity.saturating_add(1)));
    Ok(())
}

fn one_or_file(cx: &mut Context, args: &[String], command: FlowCommand) -> Result<(), Fail> {
    let text = args.get(1).map_or("", String::as_str);
    let names = cx.names_to_accept(&args[0])?;
    let (mods, usable) = if text == "-" {
        read_flows("-", &*names, command)?
    } else {
        let (m, usable) = parse_flow_mod(text, command, &*names)?;
        (vec![m], usable)
    };
    send(cx, &args[0], mods, usable)
}

/// `add-flow`
pub fn add_flow(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    one_or_file(cx, args, FlowCommand::Add)
}

/// `add-flows`
pub fn add_flows(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let names = cx.names_to_accept(&args[0])?;
    let (mods, usable) = read_flows(&args[1], &*names, FlowCommand::Add)?;
    send(cx, &args[0], mods, usable)
}

/// `mod-flows`
pub fn mod_flows(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    one_or_file(cx, args, if cx.settings.strict { FlowCommand::ModifyStrict } else { FlowCommand::Modify })
}

/// `del-flows`
pub fn del_flows(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    one_or_file(cx, args, if cx.settings.strict { FlowCommand::DeleteStrict } else { FlowCommand::Delete })
}

/// `packet-out`: one text, or port, actions and packets as arguments.
pub fn packet_out(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let names = cx.names_to_accept(&args[0])?;
    let (packets, usable) = match args {
        [_, text] => {
            let (p, usable) = parse_packet_out(text, &*names)?;
            (vec![p], usable)
        }
        [target, port, actions, packets @ ..] if !packets.is_empty() => {
            let actions = parse_actions(actions, &*names)?;
            let mut metadata = Match::CATCHALL;
            metadata.set(FieldId::InPort, u128::from(super::ports::number(cx, target, port)?.0));
            let usable = Protocols::of_actions(&actions);
            let buffer_id = openflow::flow_mod::NO_BUFFER;
            let of = |packet| PacketOut { buffer_id, metadata, actions: actions.clone(), packet };
            let packets: Result<Vec<_>, _> = packets.iter().map(|hex| parse_packet(hex).map(of)).collect();
            (packets?, usable)
        }
        _ => return fail(format!("Too many arguments ({})", args.len() + 1)),
    };
    let mut conn = open_for_change(cx, &args[0], usable)?;
    for p in packets {
        let request = cx.message(conn.version, Body::PacketOut(Box::new(p)));
        conn.execute(cx, &args[0], &request)?;
    }
    Ok(())
}
