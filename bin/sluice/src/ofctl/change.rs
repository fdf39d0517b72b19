//! Commands that change flows, and `packet-out`.

use super::bundle;
use super::conn::Conn;
use super::context::Context;
use super::encode::encode;
use super::fail::{Fail, fail, print};
use super::flow_file::Source;
use super::requests::{Format, Requests};
use flow::{FieldId, Match};
use openflow::flow_mod::FlowCommand;
use openflow::message::Body;
use openflow::packet_io::PacketOut;
use openflow::text::{Protocols, hex_dump, parse_actions, parse_packet, parse_packet_out};

/// Number of flow mods that are sent before a barrier reply is awaited. At each barrier the switch publishes its
/// tables, and copies the parts that change afterwards, which takes longer with more rules. So barriers are rare.
pub const WINDOW: usize = 1024;

/// Connects and negotiates a flow format that can express the changes.
pub fn open_for_change(cx: &mut Context, target: &str, usable: Protocols) -> Result<Conn, Fail> {
    let allowed = cx.settings.flow_formats;
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

/// Sends requests: with `--bundle` as an atomic bundle, otherwise one by one with a barrier after each `window`
/// requests.
pub fn send(
    cx: &mut Context,
    conn: &mut Conn,
    target: &str,
    requests: &mut Requests,
    window: usize,
) -> Result<(), Fail> {
    requests.assign_xids(cx)?;
    if cx.settings.bundle {
        return bundle::transact(cx, conn, target, requests);
    }
    conn.execute_all(cx, target, requests, window)
}

/// Prints the bytes of the requests, if `-m` is given at least five times.
fn print_sent(cx: &Context, requests: &Requests) -> Result<(), Fail> {
    let text: String = match cx.settings.verbosity {
        ..5 => return Ok(()),
        5 => requests.frames().map(|frame| hex_dump(frame, true)).collect(),
        _ => requests.frames().map(|frame| hex_text(frame) + "\n").collect(),
    };
    print(&text)
}

fn hex_text(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Sends flow mods. They are encoded while the file is read, before the connection is made, in the format that the
/// connection will most likely negotiate. If it negotiates another format, the file is read again.
fn change(cx: &mut Context, target: &str, source: &Source, command: FlowCommand) -> Result<(), Fail> {
    let names = cx.names_to_accept(target)?;
    let usable = if cx.settings.bundle { Protocols::OF13_UP } else { Protocols::ANY };
    let format =
        expected_format(cx, usable & source.first_usable(command, &*names) & cx.settings.flow_formats);
    let (encoded, read) = encode(source, command, &*names, format);
    encoded.note_normalization();
    read?;
    let mut conn = open_for_change(cx, target, usable & encoded.usable)?;
    let mut requests = encoded.requests;
    if requests.format() != conn.format() {
        requests = encode(source, command, &*names, conn.format()).0.requests;
    }
    send(cx, &mut conn, target, &mut requests, WINDOW)?;
    if cx.settings.bundle { Ok(()) } else { print_sent(cx, &requests) }
}

/// The format that `open_for_change` negotiates with a switch that supports all formats.
fn expected_format(cx: &Context, wanted: Protocols) -> Format {
    let first = Format::initial(cx.settings.versions.newest().unwrap_or_default());
    match wanted.first() {
        Some(protocol) if (wanted & first.protocol).is_empty() => Format { protocol, ..first },
        _ => first,
    }
}

fn one_or_file(cx: &mut Context, args: &[String], command: FlowCommand) -> Result<(), Fail> {
    let source = match args.get(1).map_or("", String::as_str) {
        "-" => Source::file("-")?,
        text => Source::Text(text.to_owned()),
    };
    change(cx, &args[0], &source, command)
}

/// `add-flow`
pub fn add_flow(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    one_or_file(cx, args, FlowCommand::Add)
}

/// `add-flows`
pub fn add_flows(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    change(cx, &args[0], &Source::file(&args[1])?, FlowCommand::Add)
}

/// `mod-flows`
pub fn mod_flows(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    one_or_file(cx, args, if cx.settings.strict { FlowCommand::ModifyStrict } else { FlowCommand::Modify })
}

/// `del-flows`
pub fn del_flows(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    one_or_file(cx, args, if cx.settings.strict { FlowCommand::DeleteStrict } else { FlowCommand::Delete })
}

/// `packet-out`: one text, or port, actions and packets as separate arguments.
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
