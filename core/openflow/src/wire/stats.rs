//! Flow, aggregate, table and queue statistics, and the description of the switch.

use super::action::{Context, instructions, put_instructions};
use super::buf::{Put, Reader};
use super::flow_mod::{flag_bits, stats_flags};
use super::{matching, nxm, oxs, property};
use crate::error::OfError;
use crate::flow_mod::{Duration, FlowFlags};
use crate::stats::*;
use crate::table::{TableFeatures, TableStats, actions_in_11};
use crate::version::Version;
use flow::Match;
use units::OfPort;

pub(super) fn decode_desc(r: &mut Reader) -> Result<Desc, OfError> {
    Ok(Desc {
        manufacturer: r.text(256)?,
        hardware: r.text(256)?,
        software: r.text(256)?,
        serial: r.text(32)?,
        datapath: r.text(256)?,
    })
}

pub(super) fn encode_desc(out: &mut Vec<u8>, d: &Desc) {
    out.text(&d.manufacturer, 256).text(&d.hardware, 256).text(&d.software, 256);
    out.text(&d.serial, 32).text(&d.datapath, 256);
}

pub(super) fn decode_request(
    r: &mut Reader,
    version: Version,
    nicira: bool,
) -> Result<FlowStatsRequest, OfError> {
    let mut q = FlowStatsRequest::default();
    match version {
        Version::V10 if nicira => {
            q.out_port = OfPort(r.u16()?);
            let len = usize::from(r.u16()?);
            q.table = r.u8()?;
            r.skip(3)?;
            let cookie = nxm::pull_nxm(r, len, true, &mut q.matching)?;
            (q.cookie, q.cookie_mask) = cookie.unwrap_or_default();
        }
        Version::V10 => {
            matching::pull_10(r, &mut q.matching)?;
            q.table = r.u8()?;
            r.skip(1)?;
            q.out_port = OfPort(r.u16()?);
        }
        _ => {
            q.table = r.u8()?;
            r.skip(3)?;
            q.out_port = OfPort::from_u32(r.u32()?).ok_or(OfError::BacBadOutPort)?;
            q.out_group = r.u32()?;
            r.skip(4)?;
            (q.cookie, q.cookie_mask) = (r.u64()?, r.u64()?);
            matching::pull(r, version, &mut q.matching)?;
            // Ignore fields that later versions have added.
            r.skip(r.len())?;
        }
    }
    Ok(q)
}

pub(super) fn encode_request(out: &mut Vec<u8>, q: &FlowStatsRequest, version: Version, nicira: bool) {
    match version {
        Version::V10 if nicira => {
            out.u16(q.out_port.0);
            let at = out.len();
            out.u16(0).u8(q.table).zeros(3);
            let len = nxm::put_nxm(out, &q.matching, (q.cookie, q.cookie_mask));
            out.set16(at, len);
        }
        Version::V10 => {
            matching::put_10(out, &q.matching);
            out.u8(q.table).zeros(1).u16(q.out_port.0);
        }
        _ => {
            out.u8(q.table).zeros(3).u32(q.out_port.to_u32()).u32(q.out_group).zeros(4);
            out.u64(q.cookie).u64(q.cookie_mask);
            matching::put(out, &q.matching, version);
        }
    }
}

fn empty(table: u8) -> FlowStats {
    FlowStats {
        table,
        matching: Match::CATCHALL,
        cookie: 0,
        priority: 0,
        idle_timeout: 0,
        hard_timeout: 0,
        importance: 0,
        flags: FlowFlags::default(),
        duration: Duration::default(),
        idle_age: None,
        hard_age: None,
        packets: UNKNOWN,
        bytes: UNKNOWN,
        actions: Vec::new(),
    }
}

/// Decodes one flow of a reply.
pub(super) fn decode_flow(r: &mut Reader, cx: Context, nicira: bool) -> Result<FlowStats, OfError> {
    let mut peek = *r;
    let len = usize::from(peek.u16()?);
    let mut r = r.sub(len)?;
    r.skip(2)?;
    let mut s;
    match cx.version {
        Version::V10 if nicira => {
            s = empty(r.u8()?);
            r.skip(1)?;
            s.duration = Duration { sec: r.u32()?, nsec: r.u32()? };
            (s.priority, s.idle_timeout, s.hard_timeout) = (r.u16()?, r.u16()?, r.u16()?);
            let len = usize::from(r.u16()?);
            s.idle_age = r.u16()?.checked_sub(1).map(u32::from);
            s.hard_age = r.u16()?.checked_sub(1).map(u32::from);
            (s.cookie, s.packets, s.bytes) = (r.u64()?, r.u64()?, r.u64()?);
            nxm::pull_nxm(&mut r, len, false, &mut s.matching)?;
        }
        Version::V10 => {
            s = empty(r.u8()?);
            r.skip(1)?;
            matching::pull_10(&mut r, &mut s.matching)?;
            s.duration = Duration { sec: r.u32()?, nsec: r.u32()? };
            (s.priority, s.idle_timeout, s.hard_timeout) = (r.u16()?, r.u16()?, r.u16()?);
            r.skip(6)?;
            (s.cookie, s.packets, s.bytes) = (r.u64()?, r.u64()?, r.u64()?);
        }
        Version::V15 => {
            r.skip(2)?;
            s = empty(r.u8()?);
            r.skip(1)?;
            (s.priority, s.idle_timeout, s.hard_timeout) = (r.u16()?, r.u16()?, r.u16()?);
            s.flags = stats_flags(r.u16()?, cx.version);
            (s.importance, s.cookie) = (r.u16()?, r.u64()?);
            matching::pull(&mut r, cx.version, &mut s.matching)?;
            let stats = oxs::pull(&mut r)?;
            (s.duration, s.idle_age) = (stats.duration, stats.idle_age);
            (s.packets, s.bytes) = (stats.packets, stats.bytes);
        }
        version => {
            s = empty(r.u8()?);
            r.skip(1)?;
            s.duration = Duration { sec: r.u32()?, nsec: r.u32()? };
            (s.priority, s.idle_timeout, s.hard_timeout) = (r.u16()?, r.u16()?, r.u16()?);
            let (flags, importance) = (r.u16()?, r.u16()?);
            if version >= Version::V13 {
                s.flags = stats_flags(flags, version);
            }
            if version >= Version::V14 {
                s.importance = importance;
            }
            r.skip(2)?;
            (s.cookie, s.packets, s.bytes) = (r.u64()?, r.u64()?, r.u64()?);
            matching::pull(&mut r, version, &mut s.matching)?;
        }
    }
    s.actions = instructions(r.rest(), cx)?;
    Ok(s)
}

pub(super) fn encode_flow(out: &mut Vec<u8>, s: &FlowStats, version: Version, nicira: bool) {
    let start = out.len();
    out.u16(0);
    let age = |a: Option<u32>| a.map_or(0, |a| a.saturating_add(1).min(0xffff) as u16);
    match version {
        Version::V10 if nicira => {
            out.u8(s.table).zeros(1).u32(s.duration.sec).u32(s.duration.nsec);
            out.u16(s.priority).u16(s.idle_timeout).u16(s.hard_timeout);
            let at = out.len();
            out.u16(0).u16(age(s.idle_age)).u16(age(s.hard_age)).u64(s.cookie).u64(s.packets).u64(s.bytes);
            let len = nxm::put_nxm(out, &s.matching, (0, 0));
            out.set16(at, len);
        }
        Version::V10 => {
            let zero_if_unknown = |v: u64| if v == UNKNOWN { 0 } else { v };
            out.u8(s.table).zeros(1);
            matching::put_10(out, &s.matching);
            out.u32(s.duration.sec)
                .u32(s.duration.nsec)
                .u16(s.priority)
                .u16(s.idle_timeout)
                .u16(s.hard_timeout);
            out.zeros(6).u64(s.cookie).u64(zero_if_unknown(s.packets)).u64(zero_if_unknown(s.bytes));
        }
        Version::V15 => {
            out.zeros(2).u8(s.table).zeros(1).u16(s.priority).u16(s.idle_timeout).u16(s.hard_timeout);
            out.u16(flag_bits(s.flags, version)).u16(s.importance).u64(s.cookie);
            matching::put(out, &s.matching, version);
            let stats = oxs::Stats {
                duration: s.duration,
                idle_age: s.idle_age,
                flows: None,
                packets: s.packets,
                bytes: s.bytes,
            };
            oxs::put(out, &stats);
        }
        _ => {
            let flags = if version >= Version::V13 { flag_bits(s.flags, version) } else { 0 };
            let importance = if version >= Version::V14 { s.importance } else { 0 };
            out.u8(s.table).zeros(1).u32(s.duration.sec).u32(s.duration.nsec);
            out.u16(s.priority).u16(s.idle_timeout).u16(s.hard_timeout).u16(flags).u16(importance).zeros(2);
            out.u64(s.cookie).u64(s.packets).u64(s.bytes);
            // OXM is used also in 1.1, whose own match has no IPv6 addresses, registers and tunnels; Open vSwitch does the same.
            nxm::put_oxm(out, &s.matching, version);
        }
    }
    put_instructions(out, &s.actions, &s.matching, version);
    let len = out.len() - start;
    out.set16(start, len as u16);
}

pub(super) fn decode_aggregate(r: &mut Reader, version: Version) -> Result<AggregateStats, OfError> {
    if version >= Version::V15 {
        let s = oxs::pull(r)?;
        return Ok(AggregateStats { packets: s.packets, bytes: s.bytes, flows: s.flows.unwrap_or_default() });
    }
    let s = AggregateStats { packets: r.u64()?, bytes: r.u64()?, flows: r.u32()? };
    r.skip(4)?;
    Ok(s)
}

pub(super) fn encode_aggregate(out: &mut Vec<u8>, s: &AggregateStats, version: Version, nicira: bool) {
    if version >= Version::V15 {
        let stats =
            oxs::Stats { flows: Some(s.flows), packets: s.packets, bytes: s.bytes, ..oxs::Stats::default() };
        return oxs::put(out, &stats);
    }
    let zero_if_unknown = |v: u64| if v == UNKNOWN && version == Version::V10 && !nicira { 0 } else { v };
    out.u64(zero_if_unknown(s.packets)).u64(zero_if_unknown(s.bytes)).u32(s.flows).zeros(4);
}

/// Wildcard bits of all fields in the table statistics of 1.0.
const WILDCARDS_10: u32 = 0x003f_ffff;
/// `OFPFMF_*` of 1.1: fields that can be matched and left out. These are all fields except the match type.
const FIELDS_11: u32 = 0xfbff;
/// Instructions of 1.1 and 1.2, by number: goto-table to clear-actions.
const INSTRUCTIONS_11: u32 = 0x3e;

pub(super) fn decode_table(r: &mut Reader, version: Version) -> Result<TableStats, OfError> {
    let mut s = TableStats::default();
    s.features.table = r.u8()?;
    r.skip(if matches!(version, Version::V11 | Version::V12) { 7 } else { 3 })?;
    match version {
        Version::V10 | Version::V11 => {
            s.features.name = r.text(32)?;
            r.skip(if version == Version::V10 { 4 } else { 24 })?;
            s.features.max_entries = r.u32()?;
        }
        Version::V12 => {
            s.features.name = r.text(32)?;
            r.skip(16 + 8)?;
            r.skip(16)?;
            (s.features.metadata_match, s.features.metadata_write) = (r.u64()?, r.u64()?);
            r.skip(8)?;
            s.features.max_entries = r.u32()?;
        }
        _ => {}
    }
    s.active = r.u32()?;
    (s.lookups, s.matched) = (r.u64()?, r.u64()?);
    Ok(s)
}

pub(super) fn encode_table(out: &mut Vec<u8>, s: &TableStats, version: Version) {
    let f: &TableFeatures = &s.features;
    out.u8(f.table).zeros(if matches!(version, Version::V11 | Version::V12) { 7 } else { 3 });
    match version {
        Version::V10 => {
            out.text(&f.name, 32).u32(WILDCARDS_10).u32(f.max_entries);
        }
        Version::V11 => {
            let instructions = f.nonmiss.instructions & INSTRUCTIONS_11;
            out.text(&f.name, 32).u32(FIELDS_11).u32(FIELDS_11).u32(instructions);
            out.u32(actions_in_11(f.nonmiss.write_actions))
                .u32(actions_in_11(f.nonmiss.apply_actions))
                .u32(f.miss_config)
                .u32(f.max_entries);
        }
        Version::V12 => {
            let bits = |fields: &[flow::FieldId]| {
                let number =
                    |f: &flow::FieldId| f.nxm_header(Version::V12.wire()).filter(|h| h.bits >> 16 == 0x8000);
                fields.iter().filter_map(number).fold(0u64, |b, h| b | 1 << (h.bits >> 9 & 0x3f))
            };
            out.text(&f.name, 32).u64(bits(&f.matching)).u64(bits(&f.wildcard));
            out.u32(f.nonmiss.write_actions).u32(f.nonmiss.apply_actions);
            out.u64(bits(&f.nonmiss.write_set_fields)).u64(bits(&f.nonmiss.apply_set_fields));
            out.u64(f.metadata_match).u64(f.metadata_write);
            out.u32(f.nonmiss.instructions & INSTRUCTIONS_11).u32(f.miss_config);
            out.u32(f.max_entries);
        }
        _ => {}
    }
    out.u32(s.active).u64(s.lookups).u64(s.matched);
}

pub(super) fn decode_queue_request(r: &mut Reader, version: Version) -> Result<QueueRequest, OfError> {
    let port = if version == Version::V10 {
        let port = OfPort(r.u16()?);
        r.skip(2)?;
        port
    } else {
        match r.u32()? {
            0xffff_ffff => OfPort::ALL,
            p => OfPort::from_u32(p).ok_or(OfError::QofcBadPort)?,
        }
    };
    let port = if port == OfPort::NONE { OfPort::ALL } else { port };
    Ok(QueueRequest { port, queue: r.u32()? })
}

pub(super) fn encode_queue_request(out: &mut Vec<u8>, q: &QueueRequest, version: Version) {
    match version {
        Version::V10 => out.u16(q.port.0).zeros(2),
        _ if q.port == OfPort::ALL => out.u32(OfPort::NONE.to_u32()),
        _ => out.u32(q.port.to_u32()),
    };
    out.u32(q.queue);
}

pub(super) fn decode_queue(r: &mut Reader, version: Version) -> Result<QueueStats, OfError> {
    let mut s = QueueStats { duration: Duration { sec: u32::MAX, nsec: u32::MAX }, ..QueueStats::default() };
    let mut body = *r;
    if version >= Version::V14 {
        let mut peek = *r;
        body = r.sub(usize::from(peek.u16()?))?;
        body.skip(8)?;
    }
    if version == Version::V10 {
        s.port = OfPort(body.u16()?);
        body.skip(2)?;
    } else {
        s.port = OfPort::from_u32(body.u32()?).ok_or(OfError::QofcBadPort)?;
    }
    (s.queue, s.tx_bytes, s.tx_packets, s.tx_errors) = (body.u32()?, body.u64()?, body.u64()?, body.u64()?);
    if version >= Version::V13 {
        s.duration = Duration { sec: body.u32()?, nsec: body.u32()? };
    }
    if version < Version::V14 {
        *r = body;
    }
    Ok(s)
}

pub(super) fn encode_queue(out: &mut Vec<u8>, s: &QueueStats, version: Version) {
    match version {
        Version::V10 => out.u16(s.port.0).zeros(2),
        _ if version >= Version::V14 => out.u16(48).zeros(6).u32(s.port.to_u32()),
        _ => out.u32(s.port.to_u32()),
    };
    out.u32(s.queue).u64(s.tx_bytes).u64(s.tx_packets).u64(s.tx_errors);
    if version >= Version::V13 {
        out.u32(s.duration.sec).u32(s.duration.nsec);
    }
}

pub(super) fn decode_ipfix(r: &mut Reader) -> Result<IpfixStats, OfError> {
    let mut numbers = [0; 10];
    for number in &mut numbers {
        *number = r.u64()?;
    }
    let [flows, current_flows, packets, ipv4, ipv6, errors, ipv4_errors, ipv6_errors, tx_packets, tx_errors] =
        numbers;
    let collector_set_id = r.u32()?;
    r.skip(4)?;
    Ok(IpfixStats {
        collector_set_id,
        flows,
        current_flows,
        packets,
        ipv4,
        ipv6,
        errors,
        ipv4_errors,
        ipv6_errors,
        tx_packets,
        tx_errors,
    })
}

pub(super) fn encode_ipfix(out: &mut Vec<u8>, s: &IpfixStats) {
    out.u64(s.flows).u64(s.current_flows).u64(s.packets).u64(s.ipv4).u64(s.ipv6);
    out.u64(s.errors).u64(s.ipv4_errors).u64(s.ipv6_errors).u64(s.tx_packets).u64(s.tx_errors);
    out.u32(s.collector_set_id).zeros(4);
}

const MIN_RATE: u16 = 1;
const MAX_RATE: u16 = 2;

/// Decodes one queue of `OFPT_QUEUE_GET_CONFIG_REPLY` or `OFPMP_QUEUE_DESC`. `port`: the port in the header of the
/// reply, which is used up to 1.3.
pub(super) fn decode_config(r: &mut Reader, port: OfPort, version: Version) -> Result<QueueConfig, OfError> {
    let mut q = QueueConfig { port, ..QueueConfig::default() };
    let (at, head) = match version {
        Version::V10 | Version::V11 => (4, 8),
        _ => (8, 16),
    };
    let mut peek = *r;
    peek.skip(at)?;
    let len = usize::from(peek.u16()?);
    let mut body = r.sub(len)?;
    let mut fixed = body.sub(head)?;
    match version {
        Version::V10 | Version::V11 => q.queue = fixed.u32()?,
        Version::V14 | Version::V15 => {
            q.port = OfPort::from_u32(fixed.u32()?).ok_or(OfError::QofcBadPort)?;
            q.queue = fixed.u32()?;
        }
        _ => {
            // The entry also contains the port, but the port in the header of the reply is used.
            q.queue = fixed.u32()?;
        }
    }
    while !body.is_empty() {
        let (kind, mut p) = property::pull(&mut body)?;
        if version < Version::V14 {
            p.skip(4)?;
        }
        match kind {
            MIN_RATE => q.min_rate = Some(p.u16()?),
            MAX_RATE => q.max_rate = Some(p.u16()?),
            _ => {}
        }
    }
    Ok(q)
}

pub(super) fn encode_config(out: &mut Vec<u8>, q: &QueueConfig, version: Version) {
    let start = out.len();
    let at = match version {
        Version::V10 | Version::V11 => {
            out.u32(q.queue).zeros(4);
            4
        }
        Version::V14 | Version::V15 => {
            out.u32(q.port.to_u32()).u32(q.queue).zeros(8);
            8
        }
        _ => {
            out.u32(q.queue).u32(q.port.to_u32()).zeros(8);
            8
        }
    };
    for (kind, rate) in [(MIN_RATE, q.min_rate), (MAX_RATE, q.max_rate)] {
        let Some(rate) = rate else { continue };
        if version >= Version::V14 {
            property::put_u16(out, kind, rate);
        } else {
            out.u16(kind).u16(16).zeros(4).u16(rate).zeros(6);
        }
    }
    let len = out.len() - start;
    out.set16(start + at, len as u16);
}
