//! Encodes messages: one frame, or several if a multipart reply is too long for one.

use super::buf::Put;
use super::frame::MESSAGE_MAX;
use super::multipart::{is_standard, kind};
use super::{
    Dialect, HEADER, flow_mod, group, meter, monitor, packet_io, port, session, stats, table, vendor,
};
use crate::error::{NX_VENDOR, ONF_VENDOR, OfError};
use crate::flow_mod::NO_BUFFER;
use crate::message::{Body, Message};
use crate::monitor::{FlowMonitorRequest, MonitorCommand};
use crate::packet_io::PacketInFormat;
use crate::version::Version;

/// Encodes a message. Fails if the version has no such message, or if the message is too long.
pub fn encode(m: &Message, dialect: Dialect) -> Result<Vec<Vec<u8>>, OfError> {
    if let Some(parts) = multipart_frames(m) {
        return parts;
    }
    let mut out = Vec::with_capacity(160);
    out.u8(header_version(m)).u8(0).u16(0).u32(m.xid.0);
    let kind = body(m, dialect, &mut out)?;
    out[1] = kind;
    finish(out).map(|frame| vec![frame])
}

fn header_version(m: &Message) -> u8 {
    match &m.body {
        Body::Hello(h) => h.header_version,
        _ => m.version.wire(),
    }
}

fn finish(mut out: Vec<u8>) -> Result<Vec<u8>, OfError> {
    let len = u16::try_from(out.len()).map_err(|_| OfError::BrcBadLen)?;
    out.set16(2, len);
    Ok(out)
}

/// The number of a message type: `v10` in OpenFlow 1.0, `later` in later versions. 0 stands for no such message, which is an
/// error.
fn type_number(version: Version, v10: u8, later: u8) -> Result<u8, OfError> {
    let kind = if version == Version::V10 { v10 } else { later };
    if kind == 0 { Err(OfError::BrcBadType) } else { Ok(kind) }
}

fn since(version: Version, first: Version, kind: u8) -> Result<u8, OfError> {
    if version >= first { Ok(kind) } else { Err(OfError::BrcBadType) }
}

fn nicira(out: &mut Vec<u8>, subtype: u32) -> u8 {
    vendor::start(out, NX_VENDOR, subtype);
    4
}

fn onf_or(m: &Message, out: &mut Vec<u8>, subtype: u32, kind: u8) -> Result<u8, OfError> {
    if m.version == Version::V13 {
        vendor::start(out, ONF_VENDOR, subtype);
        return Ok(4);
    }
    since(m.version, Version::V14, kind)
}

/// Encodes the body; returns the type for the header.
fn body(m: &Message, dialect: Dialect, out: &mut Vec<u8>) -> Result<u8, OfError> {
    let v = m.version;
    Ok(match &m.body {
        Body::Hello(h) => {
            session::encode_hello(out, h);
            0
        }
        Body::Error(e) => {
            match e.error {
                Some(error) => error.encode(v, &e.data, out),
                None => {
                    out.u16(e.type_and_code.0).u16(e.type_and_code.1).bytes(&e.data);
                }
            }
            1
        }
        Body::EchoRequest(data) => {
            out.bytes(data);
            2
        }
        Body::EchoReply(data) => {
            out.bytes(data);
            3
        }
        Body::FeaturesRequest => 5,
        Body::FeaturesReply(f) => {
            session::encode_features(out, f, v);
            6
        }
        Body::GetConfigRequest => 7,
        Body::GetConfigReply(c) => {
            session::encode_config(out, c, v);
            8
        }
        Body::SetConfig(c) => {
            session::encode_config(out, c, v);
            9
        }
        Body::BarrierRequest => type_number(v, 18, 20)?,
        Body::BarrierReply => type_number(v, 19, 21)?,
        Body::PacketIn(pin, format) => match format {
            PacketInFormat::Standard => {
                packet_io::encode_in(out, pin, v);
                10
            }
            PacketInFormat::Nxt => {
                let kind = nicira(out, 17);
                packet_io::encode_nxt(out, pin, v);
                kind
            }
            PacketInFormat::Nxt2 => {
                let kind = nicira(out, 30);
                packet_io::encode_nxt2(out, pin, v);
                kind
            }
        },
        Body::PacketOut(po) => {
            packet_io::encode_out(out, po, v);
            13
        }
        Body::FlowRemoved(fr) => {
            let extended = m.extended && v == Version::V10;
            let kind = if extended { nicira(out, 14) } else { 11 };
            flow_mod::encode_removed(out, fr, v, extended);
            kind
        }
        Body::PortStatus(ps) => {
            port::encode_status(out, ps, v);
            12
        }
        Body::FlowMod(fm) if m.extended => {
            let kind = nicira(out, 13);
            flow_mod::encode_nxt(out, fm, v, dialect);
            kind
        }
        Body::FlowMod(fm) => {
            match v {
                Version::V10 => flow_mod::encode_10(out, fm, dialect),
                _ => flow_mod::encode_11(out, fm, v),
            }
            14
        }
        Body::GroupMod(gm) => {
            let kind = if v == Version::V10 { nicira(out, 31) } else { 15 };
            group::encode_mod(out, gm, v);
            kind
        }
        Body::PortMod(pm) => {
            port::encode_mod(out, pm, v);
            type_number(v, 15, 16)?
        }
        Body::TableMod(t) => {
            table::encode_mod(out, t, v);
            type_number(v, 0, 17)?
        }
        Body::MeterMod(mm) => {
            meter::encode_mod(out, mm);
            since(v, Version::V13, 29)?
        }
        other => return other_body(other, m, dialect, out),
    })
}

fn other_body(body: &Body, m: &Message, dialect: Dialect, out: &mut Vec<u8>) -> Result<u8, OfError> {
    let v = m.version;
    Ok(match body {
        Body::QueueConfigRequest(q) => {
            match v {
                Version::V10 => out.u16(q.port.0).zeros(2),
                _ => out.u32(q.port.to_u32()).zeros(4),
            };
            type_number(v, 20, 22)?
        }
        Body::QueueConfigReply(port, queues) => {
            match v {
                Version::V10 => out.u16(port.0).zeros(6),
                _ => out.u32(port.to_u32()).zeros(4),
            };
            queues.iter().for_each(|q| stats::encode_config(out, q, v));
            type_number(v, 21, 23)?
        }
        Body::RoleRequest(role) | Body::RoleReply(role) => {
            let extended = m.extended || v < Version::V12;
            let request = matches!(body, Body::RoleRequest(_));
            let kind = match (extended, request) {
                (true, true) => nicira(out, 10),
                (true, false) => nicira(out, 11),
                (false, true) => 24,
                (false, false) => 25,
            };
            session::encode_role(out, role, v, extended);
            kind
        }
        Body::RoleStatus(s) => {
            let kind = onf_or(m, out, 1911, 30)?;
            session::encode_role_status(out, s);
            kind
        }
        Body::TableStatus(s) => {
            let kind = since(v, Version::V14, 31)?;
            table::encode_status(out, s);
            kind
        }
        Body::GetAsyncRequest => since(v, Version::V13, 26)?,
        Body::GetAsyncReply(a) | Body::SetAsync(a) => asynchronous(a, m, out)?,
        Body::BundleControl(b) => {
            let kind = onf_or(m, out, 2300, 33)?;
            out.u32(b.bundle).u16(b.kind as u16).u16(b.flags);
            kind
        }
        Body::BundleAdd(b) => {
            let kind = onf_or(m, out, 2301, 34)?;
            out.u32(b.bundle).zeros(2).u16(b.flags).bytes(&b.message);
            kind
        }
        Body::RequestForward(inner) => {
            let kind = if v < Version::V13 { nicira(out, 132) } else { onf_or(m, out, 2350, 32)? };
            out.bytes(encode(inner, dialect)?.first().map_or(&[], Vec::as_slice));
            kind
        }
        other => return extension(other, m, out),
    })
}

/// Encodes the asynchronous configuration. Nicira has two forms: the form of OpenFlow 1.3, which is used if the configuration
/// has only the three kinds of messages of 1.3, and the form of 1.4.
fn asynchronous(a: &crate::session::AsyncConfig, m: &Message, out: &mut Vec<u8>) -> Result<u8, OfError> {
    let get = matches!(m.body, Body::GetAsyncReply(_));
    let nx = !get && (m.version < Version::V13 || m.extended && m.version == Version::V13);
    let properties = m.version > Version::V13 || nx && !session::is_async_13(a);
    let kind = match (nx, get) {
        (true, _) => nicira(out, if properties { 27 } else { 19 }),
        (false, true) => since(m.version, Version::V13, 27)?,
        (false, false) => 28,
    };
    if properties {
        session::encode_async_14(out, a);
    } else {
        session::encode_async_13(out, a);
    }
    Ok(kind)
}

/// Encodes Nicira's messages that have no standard form, and the messages of flow monitors before OpenFlow
/// 1.4, from which on they are multipart messages.
fn extension(body: &Body, m: &Message, out: &mut Vec<u8>) -> Result<u8, OfError> {
    let monitor = |out: &mut Vec<u8>, nx: u32, onf: u32| match m.version {
        Version::V13 => {
            vendor::start(out, ONF_VENDOR, onf);
            Ok(4)
        }
        v if v < Version::V13 => Ok(nicira(out, nx)),
        _ => Err(OfError::BrcBadType),
    };
    match body {
        Body::FlowMonitorCancel(id) => {
            monitor(out, 21, 1870)?;
            out.u32(*id);
        }
        Body::FlowMonitorPaused => {
            monitor(out, 22, 1871)?;
        }
        Body::FlowMonitorResumed => {
            monitor(out, 23, 1872)?;
        }
        Body::SetFlowFormat(nxm) => {
            nicira(out, 12);
            out.u32(if *nxm { 2 } else { 0 });
        }
        Body::FlowModTableId(on) => {
            nicira(out, 15);
            out.u8(u8::from(*on)).zeros(7);
        }
        Body::SetPacketInFormat(format) => {
            nicira(out, 16);
            out.u32(*format as u32);
        }
        Body::SetControllerId(id) => {
            nicira(out, 20);
            out.zeros(6).u16(*id);
        }
        Body::FlowAge => {
            nicira(out, 18);
        }
        Body::Resume(pin) => {
            nicira(out, 28);
            let pin = crate::packet_io::PacketIn { buffer_id: NO_BUFFER, ..(**pin).clone() };
            packet_io::encode_nxt2(out, &pin, m.version);
        }
        Body::TlvTableMod(t) => {
            nicira(out, 24);
            session::encode_tlv_mod(out, t);
        }
        Body::TlvTableRequest => {
            nicira(out, 25);
        }
        Body::TlvTableReply(t) => {
            nicira(out, 26);
            out.u32(t.max_space).u16(t.max_fields).zeros(10);
            session::encode_tlv_maps(out, &t.maps);
        }
        Body::CtFlush(f) => {
            let only_zone = crate::session::CtFlush { zone: f.zone, ..Default::default() } == *f;
            match f.zone {
                Some(zone) if only_zone => {
                    nicira(out, 29);
                    out.zeros(6).u16(zone);
                }
                _ => {
                    nicira(out, 32);
                    session::encode_ct_flush(out, f);
                }
            }
        }
        _ => return Err(OfError::BrcBadType),
    }
    Ok(4)
}

/// The encoded records of a multipart message.
type Records = Vec<Vec<u8>>;

fn records<T>(list: &[T], one: impl Fn(&mut Vec<u8>, &T)) -> Records {
    let put = |item| {
        let mut out = Vec::new();
        one(&mut out, item);
        out
    };
    list.iter().map(put).collect()
}

fn single(one: impl FnOnce(&mut Vec<u8>)) -> Records {
    let mut out = Vec::new();
    one(&mut out);
    vec![out]
}

fn request_records(m: &Message) -> Option<(u16, Records)> {
    let (v, x) = (m.version, m.extended);
    let id = |n: u32| {
        single(|o| {
            o.u32(n).zeros(4);
        })
    };
    Some(match &m.body {
        Body::DescRequest => (kind::DESC, Vec::new()),
        Body::FlowStatsRequest(q) => (kind::FLOW, single(|o| stats::encode_request(o, q, v, x))),
        Body::AggregateRequest(q) => (kind::AGGREGATE, single(|o| stats::encode_request(o, q, v, x))),
        Body::TableStatsRequest => (kind::TABLE, Vec::new()),
        Body::PortStatsRequest(p) => (kind::PORT, single(|o| port::encode_request(o, *p, v))),
        Body::PortDescRequest(p) if v >= Version::V15 => {
            (kind::PORT_DESC, single(|o| port::encode_request(o, *p, v)))
        }
        Body::PortDescRequest(_) => (kind::PORT_DESC, Vec::new()),
        Body::QueueStatsRequest(q) => (kind::QUEUE, single(|o| stats::encode_queue_request(o, q, v))),
        Body::QueueConfigRequest(q) if v >= Version::V14 => {
            (kind::QUEUE_DESC, single(|o| stats::encode_queue_request(o, q, v)))
        }
        Body::GroupStatsRequest(g) => (kind::GROUP, id(*g)),
        Body::GroupDescRequest(g) if v >= Version::V15 || v == Version::V10 => (kind::GROUP_DESC, id(*g)),
        Body::GroupDescRequest(_) => (kind::GROUP_DESC, Vec::new()),
        Body::GroupFeaturesRequest => (kind::GROUP_FEATURES, Vec::new()),
        Body::MeterStatsRequest(n) => (kind::METER, id(*n)),
        Body::MeterConfigRequest(n) => (kind::METER_CONFIG, id(*n)),
        Body::MeterFeaturesRequest => (kind::METER_FEATURES, Vec::new()),
        Body::TableFeaturesRequest(f) => (kind::TABLE_FEATURES, table::encode_all_features(f, v)),
        Body::TableDescRequest => (kind::TABLE_DESC, Vec::new()),
        Body::FlowMonitorRequest(q) => {
            (kind::FLOW_MONITOR, records(q, |o, q| monitor::encode_request(o, q, v)))
        }
        Body::FlowMonitorCancel(id) if v >= Version::V14 => {
            let command = MonitorCommand::Delete;
            let q = FlowMonitorRequest { id: *id, command, ..FlowMonitorRequest::default() };
            (kind::FLOW_MONITOR, single(|o| monitor::encode_request(o, &q, v)))
        }
        Body::IpfixBridgeRequest => (kind::IPFIX_BRIDGE, Vec::new()),
        Body::IpfixFlowRequest => (kind::IPFIX_FLOW, Vec::new()),
        _ => return None,
    })
}

fn reply_records(m: &Message) -> Option<(u16, Records)> {
    let (v, x) = (m.version, m.extended);
    Some(match &m.body {
        Body::DescReply(d) => (kind::DESC, single(|o| stats::encode_desc(o, d))),
        Body::FlowStatsReply(l) => (kind::FLOW, records(l, |o, s| stats::encode_flow(o, s, v, x))),
        Body::AggregateReply(s) => (kind::AGGREGATE, single(|o| stats::encode_aggregate(o, s, v, x))),
        Body::TableStatsReply(l) => (kind::TABLE, records(l, |o, s| stats::encode_table(o, s, v))),
        Body::PortStatsReply(l) => (kind::PORT, records(l, |o, s| port::encode_stats(o, s, v))),
        Body::PortDescReply(l) => (kind::PORT_DESC, records(l, |o, p| port::encode(o, p, v))),
        Body::QueueStatsReply(l) => (kind::QUEUE, records(l, |o, q| stats::encode_queue(o, q, v))),
        Body::QueueConfigReply(_, l) if v >= Version::V14 => {
            (kind::QUEUE_DESC, records(l, |o, q| stats::encode_config(o, q, v)))
        }
        Body::GroupStatsReply(l) => (kind::GROUP, records(l, |o, s| group::encode_stats(o, s, v))),
        Body::GroupDescReply(l) => (kind::GROUP_DESC, records(l, |o, g| group::encode_desc(o, g, v))),
        Body::GroupFeaturesReply(f) => (kind::GROUP_FEATURES, single(|o| group::encode_features(o, f))),
        Body::MeterStatsReply(l) => (kind::METER, records(l, meter::encode_stats)),
        Body::MeterConfigReply(l) => (kind::METER_CONFIG, records(l, meter::encode_config)),
        Body::MeterFeaturesReply(f) => (kind::METER_FEATURES, single(|o| meter::encode_features(o, f))),
        Body::TableFeaturesReply(l) => (kind::TABLE_FEATURES, table::encode_all_features(l, v)),
        Body::TableDescReply(l) => (kind::TABLE_DESC, records(l, table::encode_desc)),
        Body::FlowMonitorPaused if v >= Version::V14 => {
            (kind::FLOW_MONITOR, vec![vec![0, 8, 0, 5, 0, 0, 0, 0]])
        }
        Body::FlowMonitorResumed if v >= Version::V14 => {
            (kind::FLOW_MONITOR, vec![vec![0, 8, 0, 6, 0, 0, 0, 0]])
        }
        Body::IpfixBridgeReply(l) => (kind::IPFIX_BRIDGE, records(l, stats::encode_ipfix)),
        Body::IpfixFlowReply(l) => (kind::IPFIX_FLOW, records(l, stats::encode_ipfix)),
        Body::FlowMonitorReply(l) => (kind::FLOW_MONITOR, records(l, |o, u| monitor::encode_update(o, u, v))),
        _ => return None,
    })
}

/// Encodes a multipart message as frames; `None`: the message is not a multipart message.
fn multipart_frames(m: &Message) -> Option<Result<Vec<Vec<u8>>, OfError>> {
    let (request, (kind, records)) = match request_records(m) {
        Some(found) => (true, found),
        None => (false, reply_records(m)?),
    };
    Some(frames(m, request, kind, records))
}

fn frames(m: &Message, request: bool, kind: u16, records: Records) -> Result<Vec<Vec<u8>>, OfError> {
    let empty = start(m, request, kind)?;
    let mut all = vec![empty.clone()];
    for record in records {
        let Some(last) = all.last_mut() else { break };
        if last.len() + record.len() <= MESSAGE_MAX {
            last.bytes(&record);
        } else if empty.len() + record.len() <= MESSAGE_MAX {
            all.push([&empty[..], &record].concat());
        } else {
            return Err(OfError::BrcBadLen);
        }
    }
    let n = all.len();
    for (i, frame) in all.iter_mut().enumerate() {
        frame.set16(HEADER + 2, u16::from(m.more || i + 1 < n));
    }
    all.into_iter().map(finish).collect()
}

/// The headers of a multipart message.
fn start(m: &Message, request: bool, kind: u16) -> Result<Vec<u8>, OfError> {
    let v10 = m.version == Version::V10;
    let type_ = u8::from(!request) + if v10 { 16 } else { 18 };
    let nicira_form = matches!(kind, kind::FLOW | kind::AGGREGATE) && m.extended && v10;
    let standard = is_standard(kind, m.version) && !nicira_form;
    let mut out = Vec::new();
    out.u8(m.version.wire()).u8(type_).u16(0).u32(m.xid.0);
    out.u16(if standard { kind } else { kind::VENDOR }).u16(0);
    if !v10 {
        out.zeros(4);
    }
    if standard {
        return Ok(out);
    }
    if kind == kind::FLOW_MONITOR && m.version == Version::V13 {
        out.u32(ONF_VENDOR).u32(kind::ONF_FLOW_MONITOR);
    } else {
        let subtype = kind::NX.iter().find(|k| k.1 == kind).ok_or(OfError::BrcBadStat)?.0;
        out.u32(NX_VENDOR).u32(subtype);
    }
    if v10 {
        out.zeros(4);
    }
    Ok(out)
}
