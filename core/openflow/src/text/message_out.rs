//! Prints complete messages, for tools and debug logs.

use super::hex::{hex_dump, printable};
use super::message_name::{is_multipart, message_name};
use super::port_out::{port_mod_text, port_stats_text, port_status_text, ports_text, queue_config_text};
use super::table_out::{TablesText, table_desc_text};
use super::{
    flow_out, group_out, meter_out, monitor_out, packet_print, port_out, session_out, stats_out, table_out,
};
use crate::error::OfError;
use crate::message::{Body, ErrorBody, Message, Xid};
use crate::packet_io::PacketInFormat;
use crate::stats::{FlowStatsRequest, IpfixStats};
use crate::version::Version;
use crate::wire::{Dialect, HEADER, decode};
use flow::text::{NameMap, port_text, table_text};

/// Maximum depth of messages inside errors and bundles.
const MESSAGE_DEPTH_MAX: u8 = 4;

/// Prints a message from its bytes, with a newline. `verbosity` 0 is short, 1 adds packets and ports, 2
/// payloads, 3 and more add hex dumps.
pub fn message_text(bytes: &[u8], names: &dyn NameMap, verbosity: u8) -> String {
    text_at(bytes, names, verbosity, 0)
}

/// Appends a newline unless the text is empty or ends with one.
fn with_newline(mut text: String) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn text_at(bytes: &[u8], names: &dyn NameMap, verbosity: u8, depth: u8) -> String {
    let Some(head) = bytes.first_chunk::<HEADER>() else {
        return match bytes.len() {
            0 => "OpenFlow message is empty\n".to_owned(),
            n => format!("OpenFlow packet too short (only {n} bytes):\n{}", hex_dump(bytes, true)),
        };
    };
    let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
    if len > bytes.len() {
        let name = truncated_head(bytes).map_or_else(String::new, |h| h + "\n");
        let what = format!("(***truncated to {} bytes from {len}***)\n", bytes.len());
        return name + &what + &hex_dump(bytes, true);
    }
    if len < bytes.len() {
        return format!("(***only uses {len} bytes out of {}***)\n{}", bytes.len(), hex_dump(bytes, true));
    }
    let dialect = Dialect { flow_mod_table_id: true, debug_actions: true };
    let (mut text, failed) = match decode(bytes, dialect) {
        Ok(m) => {
            let text = head_text(&m) + &body_text(&m, names, PrintParams { verbosity, depth, len });
            let failed = matches!(&m.body, Body::Error(e) if e.error.is_none());
            (text.strip_suffix(' ').map(str::to_owned).unwrap_or(text), failed)
        }
        Err(e) => {
            let head = truncated_head(bytes).map_or_else(String::new, |h| h + " ");
            (format!("{head}***decode error: {e}***\n"), true)
        }
    };
    if verbosity >= 5 || failed {
        text = with_newline(text) + &hex_dump(bytes, true);
    }
    with_newline(text)
}

/// Prints the head of a message whose body is truncated or invalid. It depends on the type of the message only.
fn truncated_head(bytes: &[u8]) -> Option<String> {
    let head = bytes.first_chunk::<HEADER>()?;
    let version = Version::from_wire(head[0])?;
    let xid = Xid(u32::from_be_bytes([head[4], head[5], head[6], head[7]]));
    let name = crate::text::type_name::type_name(bytes, version)?;
    Some(name + &version_text(version, xid))
}

fn version_text(version: Version, xid: Xid) -> String {
    match version {
        Version::V10 => format!(" (xid={:#x}):", xid.0),
        v => format!(" ({v}) (xid={:#x}):", xid.0),
    }
}

fn head_text(m: &Message) -> String {
    let more = if m.more && is_multipart(m) { " flags=[more]" } else { "" };
    message_name(m) + &version_text(m.version, m.xid) + more
}

/// Parameters of printing a message: verbosity, depth inside other messages, and length of the message in bytes.
#[derive(Clone, Copy)]
struct PrintParams {
    verbosity: u8,
    depth: u8,
    len: usize,
}

fn error_text(e: &ErrorBody, names: &dyn NameMap, depth: u8) -> String {
    let Some(error) = e.error else { return format!(" ***decode error: {}***\n", OfError::BrcBadLen) };
    let request = match error {
        OfError::HfcIncompatible | OfError::HfcEperm => printable(&e.data),
        _ if depth >= MESSAGE_DEPTH_MAX => String::new(),
        _ => text_at(&e.data, names, 1, depth + 1),
    };
    format!(" {error}\n{request}")
}

fn flow_request_text(r: &FlowStatsRequest, names: &dyn NameMap) -> String {
    let mut text = String::new();
    if r.table != crate::flow_mod::TABLE_ALL {
        text += &format!(" table={}", table_text(r.table, names));
    }
    if r.out_port != units::OfPort::NONE {
        text += &format!(" out_port={}", port_text(r.out_port, names));
    }
    text + " " + &r.matching.text(names)
}

fn tables_text<'a, T: 'a>(version: Version, list: &'a [T], add: fn(&mut TablesText, &'a T)) -> String {
    let mut text = TablesText::new(version);
    list.iter().for_each(|t| add(&mut text, t));
    text.finish()
}

fn body_text(m: &Message, names: &dyn NameMap, params: PrintParams) -> String {
    let v = params.verbosity;
    match &m.body {
        Body::Hello(h) => session_out::hello_text(h),
        Body::Error(e) => error_text(e, names, params.depth),
        Body::EchoRequest(data) | Body::EchoReply(data) => {
            let dump = if v > 1 { hex_dump(data, true) } else { String::new() };
            format!(" {} bytes of payload\n{dump}", params.len - HEADER)
        }
        Body::FeaturesReply(f) => session_out::features_text(f),
        Body::GetConfigReply(c) | Body::SetConfig(c) => session_out::config_text(c),
        Body::PacketIn(p, _) | Body::Resume(p) => packet_print::packet_in_text(p, names, v),
        Body::PacketOut(p) => packet_print::packet_out_text(p, names, v),
        Body::FlowRemoved(r) => monitor_out::flow_removed_text(r, names),
        Body::PortStatus(s) => port_status_text(s),
        Body::PortMod(p) => port_mod_text(p, names),
        Body::FlowMod(f) => format!(" {}", flow_out::flow_mod_message_text(f, m.version, names)),
        Body::GroupMod(g) => group_out::group_mod_text(g, m.version, names),
        Body::TableMod(t) => session_out::table_mod_text(t, m.version, names),
        Body::MeterMod(mm) => meter_out::meter_mod_text(mm),
        Body::BundleAdd(b) if params.depth < MESSAGE_DEPTH_MAX => {
            session_out::bundle_add_text(b) + &text_at(&b.message, names, v, params.depth + 1)
        }
        Body::BundleAdd(b) => session_out::bundle_add_text(b),
        Body::RequestForward(r) => match &r.body {
            Body::GroupMod(g) => {
                format!(" reason=group_mod{}", group_out::group_mod_text(g, m.version, names))
            }
            Body::MeterMod(mm) => format!(" reason=meter_mod{}", meter_out::meter_mod_text(mm)),
            _ => String::new(),
        },
        _ => multipart_text(m, names, v),
    }
}

fn multipart_text(m: &Message, names: &dyn NameMap, verbosity: u8) -> String {
    match &m.body {
        Body::DescReply(d) => session_out::desc_text(d),
        Body::FlowStatsRequest(r) | Body::AggregateRequest(r) => flow_request_text(r, names),
        Body::FlowStatsReply(list) => {
            list.iter().map(|s| format!("\n {}", flow_out::flow_stats_text(s, names))).collect()
        }
        Body::AggregateReply(a) => {
            format!(" packet_count={} byte_count={} flow_count={}", a.packets, a.bytes, a.flows)
        }
        Body::TableStatsReply(list) => tables_text(m.version, list, TablesText::stats),
        Body::TableFeaturesRequest(list) | Body::TableFeaturesReply(list) => {
            tables_text(m.version, list, TablesText::features)
        }
        Body::TableDescReply(list) => list.iter().map(|t| table_desc_text(t, names)).collect(),
        Body::PortStatsRequest(p) => format!(" port_no={}", port_text(*p, names)),
        Body::PortStatsReply(list) => {
            let head = format!(" {} ports\n", list.len());
            let lines = list.iter().filter(|_| verbosity > 0).map(|s| port_stats_text(s, names));
            head + &lines.collect::<String>()
        }
        Body::PortDescRequest(p) => format!(" port={}", port_text(*p, names)),
        Body::PortDescReply(ports) => format!("\n{}", ports_text(ports)),
        Body::QueueStatsRequest(q) => {
            format!(" port={} queue={}", port_text(q.port, names), port_out::queue_text(q.queue))
        }
        Body::QueueStatsReply(list) => {
            let head = format!(" {} queues\n", list.len());
            let lines = list.iter().filter(|_| verbosity > 0).map(|q| port_out::queue_stats_text(q, names));
            head + &lines.collect::<String>()
        }
        Body::QueueConfigRequest(q) => {
            let queue = match q.queue {
                crate::stats::QUEUE_ALL => String::new(),
                n => format!(" queue={n}"),
            };
            format!(" port={}{queue}", port_text(q.port, names))
        }
        Body::QueueConfigReply(_, queues) => queue_config_text(queues, names),
        Body::GroupStatsRequest(g) | Body::GroupDescRequest(g) => {
            format!(" group_id={}", group_out::group_name(*g))
        }
        Body::GroupStatsReply(list) => list.iter().map(group_out::group_stats_text).collect(),
        Body::GroupDescReply(list) => {
            list.iter().map(|g| format!("\n {}", group_out::group_desc_text(g, m.version, names))).collect()
        }
        Body::GroupFeaturesReply(f) => group_out::group_features_text(f, m.version),
        Body::MeterStatsRequest(id) | Body::MeterConfigRequest(id) => {
            format!(" {}", meter_out::meter_id_text(*id, '='))
        }
        Body::MeterStatsReply(list) => {
            list.iter().map(|s| format!("\n{}", meter_out::meter_stats_text(s))).collect()
        }
        Body::MeterConfigReply(list) => {
            list.iter().map(|c| format!("\n{}", meter_out::meter_config_text(c))).collect()
        }
        Body::MeterFeaturesReply(f) => meter_out::meter_features_text(f),
        Body::FlowMonitorRequest(list) => {
            list.iter().map(|r| monitor_out::monitor_request_text(r, names)).collect()
        }
        Body::FlowMonitorReply(list) => {
            list.iter().map(|u| monitor_out::flow_update_text(u, names)).collect()
        }
        _ => other_body_text(&m.body, names),
    }
}

fn other_body_text(body: &Body, names: &dyn NameMap) -> String {
    match body {
        Body::RoleRequest(r) | Body::RoleReply(r) => session_out::role_text(r),
        Body::RoleStatus(r) => session_out::role_status_text(r),
        Body::TableStatus(s) => table_out::table_status_text(s, names),
        Body::GetAsyncReply(a) | Body::SetAsync(a) => session_out::async_text(a),
        Body::BundleControl(b) => session_out::bundle_control_text(b),
        Body::FlowMonitorCancel(id) => format!(" id={id}"),
        Body::SetFlowFormat(nxm) => format!(" format={}", if *nxm { "nxm" } else { "openflow10" }),
        Body::FlowModTableId(on) => format!(" {}", if *on { "enable" } else { "disable" }),
        Body::SetPacketInFormat(f) => format!(" format={}", packet_in_format_name(*f)),
        Body::SetControllerId(id) => format!(" id={id}"),
        Body::TlvTableMod(t) => session_out::tlv_mod_text(t),
        Body::TlvTableReply(t) => session_out::tlv_reply_text(t),
        Body::IpfixBridgeReply(list) => {
            list.iter().map(|s| format!("\n  bridge ipfix: {}", stats_out::ipfix_text(s, 16))).collect()
        }
        Body::IpfixFlowReply(list) => {
            let one =
                |s: &IpfixStats| format!("\n  id {:3}: {}", s.collector_set_id, stats_out::ipfix_text(s, 10));
            format!(" {} ids{}", list.len(), list.iter().map(one).collect::<String>())
        }
        Body::CtFlush(f) => format!(" zone_id={}", f.zone.unwrap_or(0)),
        _ => String::new(),
    }
}

/// Name of a packet-in format.
pub fn packet_in_format_name(format: PacketInFormat) -> &'static str {
    match format {
        PacketInFormat::Standard => "standard",
        PacketInFormat::Nxt => "nxt_packet_in",
        PacketInFormat::Nxt2 => "nxt_packet_in2",
    }
}
