//! Flow mods and flow-removed messages.

use super::action::{Context, instructions, put_instructions};
use super::buf::{Put, Reader};
use super::{Dialect, matching, nxm, oxs};
use crate::error::OfError;
use crate::flow_mod::*;
use crate::version::Version;
use units::OfPort;

/// Decodes flags; a bit that the version does not have is an error.
fn flags(raw: u16, version: Version) -> Result<FlowFlags, OfError> {
    let old = version == Version::V10;
    let known = match version {
        Version::V10 | Version::V11 => 0x3 | if old { 4 } else { 0 },
        Version::V12 => 0x7,
        _ => 0x1f,
    };
    if raw & !known != 0 {
        return Err(OfError::FmfcBadFlags);
    }
    Ok(FlowFlags {
        send_flow_rem: raw & 1 != 0,
        check_overlap: raw & 2 != 0,
        emergency: old && raw & 4 != 0,
        reset_counts: !old && raw & 4 != 0,
        no_pkt_counts: raw & 8 != 0,
        no_byt_counts: raw & 16 != 0,
    })
}

pub(super) fn flag_bits(f: FlowFlags, version: Version) -> u16 {
    let bit = |on: bool, b: u16| if on { b } else { 0 };
    let mut raw = bit(f.send_flow_rem, 1) | bit(f.check_overlap, 2);
    raw |= match version {
        Version::V10 => bit(f.emergency, 4),
        Version::V11 => 0,
        _ => bit(f.reset_counts, 4),
    };
    if version >= Version::V13 {
        raw |= bit(f.no_pkt_counts, 8) | bit(f.no_byt_counts, 16);
    }
    raw
}

/// Decodes flags in statistics; unknown flags are ignored.
pub(super) fn stats_flags(raw: u16, version: Version) -> FlowFlags {
    flags(raw & 0x1f, version).unwrap_or_default()
}

fn command(raw: u16) -> Result<FlowCommand, OfError> {
    use FlowCommand::*;
    [Add, Modify, ModifyStrict, Delete, DeleteStrict]
        .get(usize::from(raw))
        .copied()
        .ok_or(OfError::FmfcBadCommand)
}

fn finish(
    fm: &mut FlowMod,
    raw_command: u16,
    raw_flags: u16,
    rest: &[u8],
    cx: Context,
) -> Result<(), OfError> {
    fm.command = command(raw_command)?;
    fm.actions = instructions(rest, cx)?;
    super::check::verify(&fm.actions, cx.version)?;
    fm.flags = flags(raw_flags, cx.version)?;
    if cx.version <= Version::V11 && fm.command == FlowCommand::Add {
        fm.flags.reset_counts = true;
    }
    if fm.flags.emergency {
        let timed = fm.idle_timeout != 0 || fm.hard_timeout != 0;
        return Err(if timed { OfError::FmfcBadEmergTimeout } else { OfError::FmfcTableFull });
    }
    Ok(())
}

/// Checks, before the content is decoded, that the length of a flow mod is a multiple of eight bytes.
fn check_multiple_of_8(r: &Reader) -> Result<(), OfError> {
    if r.len().is_multiple_of(8) { Ok(()) } else { Err(OfError::BrcBadLen) }
}

/// Splits the number that contains the command of OpenFlow 1.0 and, with `flow_mod_table_id`, the table.
/// Returns the command; sets the table and `modify_cookie` of the flow mod.
fn split_command(raw: u16, fm: &mut FlowMod, dialect: Dialect) -> u16 {
    fm.modify_cookie = fm.new_cookie != u64::MAX;
    if dialect.flow_mod_table_id {
        fm.table = (raw >> 8) as u8;
        raw & 0xff
    } else {
        fm.table = TABLE_ALL;
        raw & 0xff | if raw > 0xff { 0xff00 } else { 0 }
    }
}

/// Decodes a flow mod in the standard's form. The flow mod is decoded into an allocation on the heap, because it is too large to be moved.
pub(super) fn decode(r: &mut Reader, cx: Context, dialect: Dialect) -> Result<Box<FlowMod>, OfError> {
    let mut fm = Box::<FlowMod>::default();
    match cx.version {
        Version::V10 => decode_10(r, cx, dialect, &mut fm)?,
        _ => decode_11(r, cx, &mut fm)?,
    }
    Ok(fm)
}

fn decode_10(r: &mut Reader, cx: Context, dialect: Dialect, fm: &mut FlowMod) -> Result<(), OfError> {
    check_multiple_of_8(r)?;
    let exact = r.rest().first_chunk::<4>().is_some_and(|w| u32::from_be_bytes(*w) & 0x003f_ffff == 0);
    matching::pull_10(r, &mut fm.matching)?;
    fm.new_cookie = r.u64()?;
    let command = split_command(r.u16()?, fm, dialect);
    (fm.idle_timeout, fm.hard_timeout, fm.priority) = (r.u16()?, r.u16()?, r.u16()?);
    if exact {
        fm.priority = u16::MAX;
    }
    fm.buffer_id = r.u32()?;
    fm.out_port = OfPort(r.u16()?);
    let raw_flags = r.u16()?;
    finish(fm, command, raw_flags, r.rest(), cx)
}

/// `NXT_FLOW_MOD`
pub(super) fn decode_nxt(r: &mut Reader, cx: Context, dialect: Dialect) -> Result<Box<FlowMod>, OfError> {
    check_multiple_of_8(r)?;
    let mut fm = Box::<FlowMod>::default();
    fm.new_cookie = r.u64()?;
    let raw = r.u16()?;
    let command = split_command(raw, &mut fm, dialect);
    (fm.idle_timeout, fm.hard_timeout, fm.priority) = (r.u16()?, r.u16()?, r.u16()?);
    fm.buffer_id = r.u32()?;
    fm.out_port = OfPort(r.u16()?);
    let raw_flags = r.u16()?;
    let len = usize::from(r.u16()?);
    r.skip(6)?;
    let cookie = nxm::pull_nxm(r, len, true, &mut fm.matching)?;
    (fm.cookie, fm.cookie_mask) = cookie.unwrap_or_default();
    if raw & 0xff == 0 && fm.cookie_mask != 0 {
        return Err(OfError::NxbrcNxmInvalid);
    }
    finish(&mut fm, command, raw_flags, r.rest(), cx)?;
    Ok(fm)
}

fn decode_11(r: &mut Reader, cx: Context, fm: &mut FlowMod) -> Result<(), OfError> {
    check_multiple_of_8(r)?;
    let (cookie, cookie_mask) = (r.u64()?, r.u64()?);
    fm.table = r.u8()?;
    let raw = u16::from(r.u8()?);
    (fm.idle_timeout, fm.hard_timeout, fm.priority) = (r.u16()?, r.u16()?, r.u16()?);
    fm.buffer_id = r.u32()?;
    let (out_port, out_group) = (r.u32()?, r.u32()?);
    let (raw_flags, importance) = (r.u16()?, r.u16()?);
    matching::pull(r, cx.version, &mut fm.matching)?;
    let delete = raw == 3 || raw == 4;
    let modify = raw == 1 || raw == 2;
    if raw == 0 || cx.version == Version::V11 && modify && cookie_mask == 0 {
        fm.new_cookie = cookie;
    } else {
        (fm.cookie, fm.cookie_mask, fm.new_cookie) = (cookie, cookie_mask, u64::MAX);
    }
    if fm.table == TABLE_ALL && (cx.version == Version::V11 || !delete) {
        return Err(OfError::FmfcBadTableId);
    }
    if cx.version >= Version::V14 && raw == 0 {
        fm.importance = importance;
    }
    fm.out_port = OfPort::from_u32(out_port).ok_or(OfError::BacBadOutPort)?;
    fm.out_group = if delete { out_group } else { GROUP_ANY };
    finish(fm, raw, raw_flags, r.rest(), cx)
}

fn raw_command(fm: &FlowMod, dialect: Dialect) -> u16 {
    let table = if dialect.flow_mod_table_id { u16::from(fm.table) << 8 } else { 0 };
    fm.command as u16 | table
}

pub(super) fn encode_10(out: &mut Vec<u8>, fm: &FlowMod, dialect: Dialect) {
    matching::put_10(out, &fm.matching);
    out.u64(fm.new_cookie).u16(raw_command(fm, dialect)).u16(fm.idle_timeout).u16(fm.hard_timeout);
    out.u16(fm.priority).u32(fm.buffer_id).u16(fm.out_port.0).u16(flag_bits(fm.flags, Version::V10));
    put_instructions(out, &fm.actions, &fm.matching, Version::V10);
}

pub(super) fn encode_nxt(out: &mut Vec<u8>, fm: &FlowMod, version: Version, dialect: Dialect) {
    out.u64(fm.new_cookie).u16(raw_command(fm, dialect)).u16(fm.idle_timeout).u16(fm.hard_timeout);
    out.u16(fm.priority).u32(fm.buffer_id).u16(fm.out_port.0).u16(flag_bits(fm.flags, version));
    let at = out.len();
    out.u16(0).zeros(6);
    let len = nxm::put_nxm(out, &fm.matching, (fm.cookie, fm.cookie_mask));
    out.set16(at, len);
    put_instructions(out, &fm.actions, &fm.matching, version);
}

pub(super) fn encode_11(out: &mut Vec<u8>, fm: &FlowMod, version: Version) {
    let add = fm.command == FlowCommand::Add;
    let own_cookie = add || version == Version::V11 && fm.new_cookie != u64::MAX && fm.cookie_mask == 0;
    let cookie = if own_cookie { (fm.new_cookie, 0) } else { (fm.cookie & fm.cookie_mask, fm.cookie_mask) };
    let delete = matches!(fm.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
    // Only delete commands of 1.2 and later can refer to all tables.
    let table = if fm.table == TABLE_ALL && !(delete && version >= Version::V12) { 0 } else { fm.table };
    let importance = if version >= Version::V14 && add { fm.importance } else { 0 };
    out.u64(cookie.0).u64(cookie.1).u8(table).u8(fm.command as u8);
    out.u16(fm.idle_timeout).u16(fm.hard_timeout).u16(fm.priority).u32(fm.buffer_id);
    out.u32(fm.out_port.to_u32()).u32(fm.out_group).u16(flag_bits(fm.flags, version)).u16(importance);
    matching::put(out, &fm.matching, version);
    put_instructions(out, &fm.actions, &fm.matching, version);
}

fn reason(raw: u8) -> Result<RemovedReason, OfError> {
    use RemovedReason::*;
    [IdleTimeout, HardTimeout, Delete, GroupDelete, MeterDelete, Eviction]
        .get(usize::from(raw))
        .copied()
        .ok_or(OfError::NxbrcBadReason)
}

/// The reason as a number of this version.
pub(super) fn reason_number(reason: RemovedReason, version: Version) -> u8 {
    match reason {
        RemovedReason::MeterDelete | RemovedReason::Eviction if version < Version::V14 => {
            RemovedReason::Delete as u8
        }
        r => r as u8,
    }
}

pub(super) fn removed_reason(raw: u16) -> Result<RemovedReason, OfError> {
    reason(u8::try_from(raw).map_err(|_| OfError::NxbrcBadReason)?)
}

fn empty_removed(why: u8) -> Result<FlowRemoved, OfError> {
    Ok(FlowRemoved {
        matching: flow::Match::CATCHALL,
        priority: 0,
        cookie: 0,
        reason: reason(why)?,
        table: TABLE_ALL,
        duration: Duration::default(),
        idle_timeout: 0,
        hard_timeout: 0,
        packets: u64::MAX,
        bytes: u64::MAX,
    })
}

pub(super) fn removed_10(r: &mut Reader) -> Result<FlowRemoved, OfError> {
    let mut matching = flow::Match::CATCHALL;
    matching::pull_10(r, &mut matching)?;
    let (cookie, priority, why) = (r.u64()?, r.u16()?, r.u8()?);
    r.skip(1)?;
    let mut fr = FlowRemoved { matching, cookie, priority, ..empty_removed(why)? };
    fr.duration = Duration { sec: r.u32()?, nsec: r.u32()? };
    fr.idle_timeout = r.u16()?;
    r.skip(2)?;
    (fr.packets, fr.bytes) = (r.u64()?, r.u64()?);
    Ok(fr)
}

pub(super) fn removed_nxt(r: &mut Reader) -> Result<FlowRemoved, OfError> {
    let (cookie, priority, why, table) = (r.u64()?, r.u16()?, r.u8()?, r.u8()?);
    let mut fr = FlowRemoved { cookie, priority, ..empty_removed(why)? };
    fr.table = table.wrapping_sub(1);
    fr.duration = Duration { sec: r.u32()?, nsec: r.u32()? };
    fr.idle_timeout = r.u16()?;
    let len = usize::from(r.u16()?);
    (fr.packets, fr.bytes) = (r.u64()?, r.u64()?);
    nxm::pull_nxm(r, len, false, &mut fr.matching)?;
    Ok(fr)
}

pub(super) fn removed_11(r: &mut Reader, version: Version) -> Result<FlowRemoved, OfError> {
    let (cookie, priority, why, table) = (r.u64()?, r.u16()?, r.u8()?, r.u8()?);
    let mut fr = FlowRemoved { cookie, priority, table, ..empty_removed(why)? };
    fr.duration = Duration { sec: r.u32()?, nsec: r.u32()? };
    fr.idle_timeout = r.u16()?;
    let hard = r.u16()?;
    fr.hard_timeout = if version >= Version::V12 { hard } else { 0 };
    (fr.packets, fr.bytes) = (r.u64()?, r.u64()?);
    matching::pull(r, version, &mut fr.matching)?;
    Ok(fr)
}

pub(super) fn removed_15(r: &mut Reader) -> Result<FlowRemoved, OfError> {
    let (table, why, priority) = (r.u8()?, r.u8()?, r.u16()?);
    let mut fr = FlowRemoved { table, priority, ..empty_removed(why)? };
    (fr.idle_timeout, fr.hard_timeout, fr.cookie) = (r.u16()?, r.u16()?, r.u64()?);
    matching::pull(r, Version::V15, &mut fr.matching)?;
    let stats = oxs::pull(r)?;
    (fr.duration, fr.packets, fr.bytes) = (stats.duration, stats.packets, stats.bytes);
    Ok(fr)
}

/// Encodes a flow-removed message; `nicira`: the NXM form of 1.0.
pub(super) fn encode_removed(out: &mut Vec<u8>, fr: &FlowRemoved, version: Version, nicira: bool) {
    let why = reason_number(fr.reason, version);
    match version {
        Version::V10 if nicira => {
            out.u64(fr.cookie).u16(fr.priority).u8(why).u8(fr.table.wrapping_add(1));
            out.u32(fr.duration.sec).u32(fr.duration.nsec).u16(fr.idle_timeout);
            let at = out.len();
            out.u16(0).u64(fr.packets).u64(fr.bytes);
            let len = nxm::put_nxm(out, &fr.matching, (0, 0));
            out.set16(at, len);
        }
        Version::V10 => {
            let zero_if_unknown = |v: u64| if v == u64::MAX { 0 } else { v };
            matching::put_10(out, &fr.matching);
            out.u64(fr.cookie).u16(fr.priority).u8(why).zeros(1).u32(fr.duration.sec).u32(fr.duration.nsec);
            out.u16(fr.idle_timeout).zeros(2).u64(zero_if_unknown(fr.packets)).u64(zero_if_unknown(fr.bytes));
        }
        Version::V15 => {
            out.u8(fr.table)
                .u8(why)
                .u16(fr.priority)
                .u16(fr.idle_timeout)
                .u16(fr.hard_timeout)
                .u64(fr.cookie);
            matching::put(out, &fr.matching, version);
            let stats = oxs::Stats {
                duration: fr.duration,
                packets: fr.packets,
                bytes: fr.bytes,
                ..oxs::Stats::default()
            };
            oxs::put(out, &stats);
        }
        _ => {
            out.u64(fr.cookie)
                .u16(fr.priority)
                .u8(why)
                .u8(fr.table)
                .u32(fr.duration.sec)
                .u32(fr.duration.nsec);
            out.u16(fr.idle_timeout).u16(fr.hard_timeout).u64(fr.packets).u64(fr.bytes);
            matching::put(out, &fr.matching, version);
        }
    }
}
