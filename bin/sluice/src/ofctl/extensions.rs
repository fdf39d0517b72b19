//! Commands that use extension messages of Open vSwitch: tunnel options, connection tracking, IPFIX.

use super::change::open_for_change;
use super::conn::Conn;
use super::context::Context;
use super::fail::{Fail, fail};
use super::replies::print_reply;
use openflow::message::Body;
use openflow::session::{CtFlush, TlvTableMod};
use openflow::text::{Protocols, parse_ct_flush, parse_tlv_maps};

fn tlv(
    cx: &mut Context,
    args: &[String],
    wrap: fn(Vec<openflow::session::TlvMap>) -> TlvTableMod,
) -> Result<(), Fail> {
    let maps = parse_tlv_maps(args.get(1).map_or("", String::as_str))?;
    let mut conn = open_for_change(cx, &args[0], Protocols::NXM_OXM)?;
    let request = cx.message(conn.version, Body::TlvTableMod(wrap(maps)));
    conn.execute(cx, &args[0], &request)
}

/// `add-tlv-map`
pub fn add_tlv(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    tlv(cx, args, TlvTableMod::Add)
}

/// `del-tlv-map`: deletes the named mappings, or all.
pub fn delete_tlv(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    tlv(cx, args, if args.len() > 1 { TlvTableMod::Delete } else { |_| TlvTableMod::Clear })
}

/// `dump-tlv-map`
pub fn dump_tlv(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    print_reply(cx, &args[0], Body::TlvTableRequest)
}

fn flush(cx: &mut Context, target: &str, flush: CtFlush) -> Result<(), Fail> {
    let mut conn = Conn::open(cx, target)?;
    let request = cx.message(conn.version, Body::CtFlush(flush));
    conn.execute(cx, target, &request)
}

/// `ct-flush-zone`
pub fn ct_flush_zone(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let Ok(zone) = args[1].parse() else { return fail(format!("invalid zone_id \"{}\"", args[1])) };
    flush(cx, &args[0], CtFlush { zone: Some(zone), ..CtFlush::default() })
}

/// `ct-flush`
pub fn ct_flush(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let what = parse_ct_flush(&args[1..])
        .map_err(|e| Fail::Message(format!("Failed to parse CT match: {}", e.0)))?;
    flush(cx, &args[0], what)
}

/// `dump-ipfix-bridge`
pub fn ipfix_bridge(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    print_reply(cx, &args[0], Body::IpfixBridgeRequest)
}

/// `dump-ipfix-flow`
pub fn ipfix_flow(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    print_reply(cx, &args[0], Body::IpfixFlowRequest)
}
