//! Commands that send requests and print the replies.

use super::conn::Conn;
use super::context::Context;
use super::fail::{Fail, fail, print};
use super::replies::{dump, dump_with, print_reply};
use crate::color;
use openflow::message::{Body, Message};
use openflow::stats::{FlowStats, FlowStatsRequest, QUEUE_ALL, QueueRequest};
use openflow::text::{
    Protocols, TablesText, flow_stats_text, flow_stats_text_short, message_text, parse_flow_filter,
};
use openflow::{Dialect, Version, decode};
use std::cmp::Ordering;
use std::time::Instant;
use units::OfPort;

/// `show`
pub fn show(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let mut conn = Conn::open(cx, &args[0])?;
    let request = cx.message(conn.version, Body::FeaturesRequest);
    let reply = conn.transact(&request)?;
    print(&message_text(&reply, &flow::text::NoNames, cx.settings.verbosity.saturating_add(1)))?;
    if conn.version >= Version::V13 {
        let request = cx.message(conn.version, Body::PortDescRequest(OfPort::NONE));
        dump(cx, &mut conn, &args[0], &request)?;
    }
    print_reply(cx, &args[0], Body::GetConfigRequest)
}

/// `dump-desc`
pub fn desc(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    print_reply(cx, &args[0], Body::DescRequest)
}

/// `dump-tables`
pub fn tables(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    print_reply(cx, &args[0], Body::TableStatsRequest)
}

/// `dump-table-desc`
pub fn table_desc(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let mut conn = Conn::open(cx, &args[0])?;
    if conn.version < Version::V14 {
        return fail("dump-table-desc needs OpenFlow 1.4 or later ('-O OpenFlow14')");
    }
    let request = cx.message(conn.version, Body::TableDescRequest);
    dump(cx, &mut conn, &args[0], &request)
}

/// `dump-table-features`: all parts of the reply are printed as one text.
pub fn table_features(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let mut conn = Conn::open(cx, &args[0])?;
    if conn.version < Version::V13 {
        return fail("dump-table-features needs OpenFlow 1.3 or later ('-O OpenFlow13')");
    }
    let request = cx.message(conn.version, Body::TableFeaturesRequest(Vec::new()));
    let mut text = TablesText::new(conn.version);
    for m in conn.transact_all(&request)? {
        if let Body::TableFeaturesReply(list) = &m.body {
            list.iter().for_each(|f| text.features(f));
        }
    }
    let text = text.finish();
    print(&format!("{}\n", text.strip_prefix('\n').unwrap_or(&text)))
}

/// Connects and negotiates a flow format that can express the request.
pub fn open_for_dump(cx: &mut Context, target: &str, usable: Protocols) -> Result<Conn, Fail> {
    let mut conn = Conn::open(cx, target)?;
    let allowed = cx.settings.flow_formats;
    // Try the newest format first, and NXM before OpenFlow 1.0's own format. For requests, formats with and without table IDs
    // are equal.
    for format in [0x100, 0x80, 0x40, 0x20, 0x10, 4, 1].map(Protocols) {
        if !(format & usable & allowed).is_empty() && conn.set_protocol(cx, format)? {
            return Ok(conn);
        }
    }
    if (usable & allowed).is_empty() {
        return fail(format!(
            "none of the usable flow formats ({usable}) is among the allowed flow formats ({allowed})"
        ));
    }
    fail(format!("switch does not support any of the usable flow formats ({usable})"))
}

/// A request in which flows are encoded in the connection's format.
pub fn flow_request(cx: &mut Context, conn: &Conn, body: Body) -> Message {
    conn.format().message(cx.next_xid(), body)
}

fn filter(cx: &mut Context, args: &[String]) -> Result<(Conn, FlowStatsRequest), Fail> {
    let text = args.get(1).map_or("", String::as_str);
    let (request, usable) = match text {
        "" => (FlowStatsRequest::default(), Protocols::ANY),
        text => {
            let names = cx.names_to_accept(&args[0])?;
            parse_flow_filter(text, &*names)?
        }
    };
    Ok((open_for_dump(cx, &args[0], usable)?, request))
}

/// Requests all selected flows.
pub fn fetch_flows(
    cx: &mut Context,
    conn: &mut Conn,
    request: FlowStatsRequest,
) -> Result<Vec<FlowStats>, Fail> {
    let request = flow_request(cx, conn, Body::FlowStatsRequest(Box::new(request)));
    let mut flows = Vec::new();
    for m in conn.transact_all(&request)? {
        let Body::FlowStatsReply(list) = m.body else { continue };
        // In sorted output, ages are printed only if the OpenFlow version has them, not if an extension adds them.
        match m.version < Version::V15 {
            true => flows.extend(list.into_iter().map(|f| FlowStats { idle_age: None, hard_age: None, ..f })),
            false => flows.extend(list),
        }
    }
    Ok(flows)
}

/// The flows that the arguments select, sorted by `--sort`.
pub fn selected_flows(cx: &mut Context, args: &[String]) -> Result<Vec<FlowStats>, Fail> {
    let (mut conn, request) = filter(cx, args)?;
    let mut flows = fetch_flows(cx, &mut conn, request)?;
    flows.sort_by(|a, b| compare(cx, a, b));
    Ok(flows)
}

/// `dump-flows`
pub fn flows(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let (mut conn, request) = filter(cx, args)?;
    if cx.settings.criteria.is_empty() && !cx.shows_names() && cx.settings.stats {
        let request = flow_request(cx, &conn, Body::FlowStatsRequest(Box::new(request)));
        let colored = cx.settings.color;
        return dump_with(cx, &mut conn, &args[0], &request, colored);
    }
    let mut flows = fetch_flows(cx, &mut conn, request)?;
    flows.sort_by(|a, b| compare(cx, a, b));
    let names = cx.names_to_show(&args[0])?;
    let line = if cx.settings.stats { flow_stats_text } else { flow_stats_text_short };
    let text = |f| format!(" {}\n", line(f, &*names));
    flows.iter().try_for_each(|f| print(&if cx.settings.color { color::flows(&text(f)) } else { text(f) }))
}

/// Orders two flows by `--sort` and `--rsort`. Flows without the field come last in both orders.
fn compare(cx: &Context, a: &FlowStats, b: &FlowStats) -> Ordering {
    let order = |c: &super::options::Criterion| {
        let ordered = match c.field {
            None => a.priority.cmp(&b.priority),
            Some(field) => {
                let has = |f: &FlowStats| field.prereqs_ok(&f.matching.flow) && f.matching.get(field).1 != 0;
                match (has(a), has(b)) {
                    (true, true) => a.matching.get(field).0.cmp(&b.matching.get(field).0),
                    (false, false) => Ordering::Equal,
                    (true, false) => return Ordering::Less,
                    (false, true) => return Ordering::Greater,
                }
            }
        };
        if c.descending { ordered.reverse() } else { ordered }
    };
    cx.settings.criteria.iter().map(order).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
}

/// `dump-aggregate`
pub fn aggregate(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let (mut conn, request) = filter(cx, args)?;
    let request = flow_request(cx, &conn, Body::AggregateRequest(Box::new(request)));
    dump(cx, &mut conn, &args[0], &request)
}

fn queue_request(cx: &mut Context, args: &[String], all: OfPort) -> Result<QueueRequest, Fail> {
    let given = |at: usize| args.get(at).filter(|a| !a.is_empty() && !a.eq_ignore_ascii_case("all"));
    let port = match given(1) {
        Some(text) => super::ports::number(cx, &args[0], text)?,
        None => all,
    };
    let queue = given(2).map_or(QUEUE_ALL, |q| q.parse().unwrap_or(0));
    Ok(QueueRequest { port, queue })
}

/// `queue-stats`
pub fn queue_stats(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let mut conn = Conn::open(cx, &args[0])?;
    let all = if conn.version == Version::V10 { OfPort::ALL } else { OfPort::NONE };
    let request = queue_request(cx, args, all)?;
    let request = cx.message(conn.version, Body::QueueStatsRequest(request));
    dump(cx, &mut conn, &args[0], &request)
}

/// `queue-get-config`: OpenFlow 1.0 requires a separate request for each port.
pub fn queue_config(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let asked = queue_request(cx, args, OfPort::NONE)?;
    let mut conn = Conn::open(cx, &args[0])?;
    let mut ports = vec![asked.port];
    if asked.port == OfPort::NONE && conn.version == Version::V10 {
        let all = cx.fetch_ports(&args[0])?;
        ports = all.iter().map(|p| p.number).filter(|p| *p < OfPort::MAX).collect();
    }
    for port in ports {
        let request = cx.message(conn.version, Body::QueueConfigRequest(QueueRequest { port, ..asked }));
        dump(cx, &mut conn, &args[0], &request)?;
    }
    Ok(())
}

/// `probe`
pub fn probe(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let mut conn = Conn::open(cx, &args[0])?;
    let request = cx.message(conn.version, Body::EchoRequest(Vec::new()));
    match conn.transact(&request)?.len() {
        openflow::wire::HEADER => Ok(()),
        _ => fail("reply does not match request"),
    }
}

/// `ping`
pub fn ping(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let max = 65535 - openflow::wire::HEADER;
    let size: usize = args.get(1).map_or(64, |n| n.parse().unwrap_or(0));
    if size > max {
        return fail(format!("payload must be between 0 and {max} bytes"));
    }
    let mut conn = Conn::open(cx, &args[0])?;
    for _ in 0..10 {
        let payload: Vec<u8> = (0..size).map(|i| (i * 7 + 13) as u8).collect();
        let request = cx.message(conn.version, Body::EchoRequest(payload.clone()));
        let start = Instant::now();
        let reply = conn.transact(&request)?;
        let ms = start.elapsed().as_secs_f64() * 1000.0;
        match decode(&reply, Dialect::default()).map(|m| m.body) {
            Ok(Body::EchoReply(data)) if data == payload => {}
            _ => {
                let text =
                    message_text(&reply, &flow::text::NoNames, cx.settings.verbosity.saturating_add(2));
                print(&format!("Reply does not match request.  Reply:\n{text}"))?;
            }
        }
        let len = reply.len() - openflow::wire::HEADER;
        print(&format!("{len} bytes from {}: xid={:08x} time={ms:.1} ms\n", args[0], request.xid.0))?;
    }
    Ok(())
}

/// `benchmark`
pub fn benchmark(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let max = 65535 - openflow::wire::HEADER;
    let number = |at: usize| args.get(at).and_then(|n| n.parse::<usize>().ok()).unwrap_or(0);
    let (size, count) = (number(1), number(2));
    if size > max {
        return fail(format!("payload must be between 0 and {max} bytes"));
    }
    let length = size + openflow::wire::HEADER;
    let total = count * length;
    print(&format!("Sending {count} packets * {length} bytes (with header) = {total} bytes total\n"))?;
    let mut conn = Conn::open(cx, &args[0])?;
    let start = Instant::now();
    for _ in 0..count {
        let request = cx.message(conn.version, Body::EchoRequest(vec![0; size]));
        conn.transact(&request)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let rate = |n: usize| n as f64 / seconds;
    print(&format!(
        "Finished in {:.1} ms ({:.0} packets/s) ({:.0} bytes/s)\n",
        seconds * 1000.0,
        rate(count),
        rate(total)
    ))
}
