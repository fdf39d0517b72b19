//! Commands that need no switch: they parse and print flows, groups and messages.

use super::context::Context;
use super::fail::{Fail, fail, print};
use super::flow_file::read_flows;
use super::requests::Format;
use flow::text::NoNames;
use openflow::encode;
use openflow::flow_mod::{FlowCommand, FlowMod};
use openflow::group::GroupCommand;
use openflow::message::{Body, Message};
use openflow::text::{Protocols, hex_bytes, message_text, parse_flow_mod, parse_group_mod};

fn choose(cx: &Context, usable: Protocols) -> Result<Format, Fail> {
    print(&format!("usable protocols: {usable}\n"))?;
    let chosen = (usable & cx.settings.flow_formats).first();
    let format =
        chosen.and_then(|protocol| Some(Format { version: protocol.versions().newest()?, protocol }));
    format.map_or_else(|| fail("no usable protocol"), Ok)
}

fn show(cx: &Context, m: &Message, format: Format) -> Result<(), Fail> {
    let frames = encode(m, format.dialect()).map_err(|e| Fail::Message(e.name().to_owned()))?;
    frames.iter().try_for_each(|f| print(&message_text(f, &NoNames, cx.settings.verbosity)))
}

fn show_flows(cx: &mut Context, mods: Vec<FlowMod>, usable: Protocols) -> Result<(), Fail> {
    let format = choose(cx, usable)?;
    print(&format!("chosen protocol: {}\n", format.protocol))?;
    for m in mods {
        let message = format.message(cx.next_xid(), Body::FlowMod(Box::new(m)));
        show(cx, &message, format)?;
    }
    Ok(())
}

/// `parse-flow`
pub fn flow(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let parsed = parse_flow_mod(&args[0], FlowCommand::Add, &NoNames)?;
    show_flows(cx, vec![*parsed.flow], parsed.usable)
}

/// `parse-flows`
pub fn flows(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let (mods, usable) = read_flows(&args[0], &NoNames)?;
    show_flows(cx, mods, usable)
}

/// `parse-group`
pub fn group(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let (m, usable) = parse_group_mod(&args[0], GroupCommand::Add, &NoNames)?;
    let format = choose(cx, usable)?;
    print(&format!("chosen version: {}\n", format.version.name()))?;
    let message = cx.message(format.version, Body::GroupMod(m));
    show(cx, &message, format)
}

/// `ofp-print`
pub fn ofp_print(_: &mut Context, args: &[String]) -> Result<(), Fail> {
    let verbosity = args.get(1).map_or(2, |v| v.parse().unwrap_or(0));
    let text = match args[0].as_str() {
        "-" => std::io::read_to_string(std::io::stdin())
            .unwrap_or_default()
            .lines()
            .next()
            .unwrap_or("")
            .to_owned(),
        hex => hex.to_owned(),
    };
    match hex_bytes(&text) {
        (bytes, "") => print(&message_text(&bytes, &NoNames, verbosity)),
        _ => fail("trailing garbage following hex bytes"),
    }
}
