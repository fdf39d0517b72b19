//! Flow monitors: Nicira's form up to 1.2; in 1.3 the same form with OXM and 32-bit port numbers (ONF); from 1.4 on the
//! standard's form.

use super::action::{Context, actions, instructions, put_flow_actions, put_instructions};
use super::buf::{Put, Reader};
use super::flow_mod::{reason_number, removed_reason};
use super::{matching, nxm};
use crate::error::OfError;
use crate::flow_mod::RemovedReason;
use crate::message::Xid;
use crate::monitor::*;
use crate::version::Version;
use units::OfPort;

/// Returns whether the version uses Nicira's or ONF's form.
fn is_old(version: Version) -> bool {
    version < Version::V14
}

/// `OFPFMF_ONLY_OWN`, and the corresponding flag of the old forms (`NXFMF_OWN`).
const OWN: u16 = 1 << 6;
const OLD_OWN: u16 = 1 << 5;

fn flags(raw: u16) -> MonitorFlags {
    let bit = |n: u16| raw >> n & 1 != 0;
    MonitorFlags {
        initial: bit(0),
        add: bit(1),
        removed: bit(2),
        modify: bit(3),
        instructions: bit(4),
        no_abbrev: bit(5),
        only_own: bit(6),
    }
}

fn flag_bits(f: MonitorFlags) -> u16 {
    [f.initial, f.add, f.removed, f.modify, f.instructions, f.no_abbrev, f.only_own]
        .iter()
        .enumerate()
        .fold(0, |bits, (n, &on)| bits | u16::from(on) << n)
}

fn old_flags(raw: u16) -> MonitorFlags {
    flags(if raw & OLD_OWN != 0 { raw & !OLD_OWN | OWN } else { raw })
}

fn old_flag_bits(f: MonitorFlags) -> u16 {
    let bits = flag_bits(f) & 0x1f;
    if f.only_own { bits | OLD_OWN } else { bits }
}

pub(super) fn decode_request(r: &mut Reader, version: Version) -> Result<FlowMonitorRequest, OfError> {
    let mut q = FlowMonitorRequest { id: r.u32()?, ..FlowMonitorRequest::default() };
    let known = if is_old(version) { 0x3f } else { 0x7f };
    let raw;
    if is_old(version) {
        raw = r.u16()?;
        let wide = version == Version::V13;
        if wide {
            r.skip(2)?;
            q.out_port = OfPort::from_u32(r.u32()?).ok_or(OfError::MofcBadOut)?;
        } else {
            q.out_port = OfPort(r.u16()?);
        }
        let len = if wide { 0 } else { usize::from(r.u16()?) };
        q.table = r.u8()?;
        r.zeros(if wide { 3 } else { 5 }, OfError::NxbrcMustBeZero)?;
        if wide {
            matching::pull(r, version, &mut q.matching)?;
        } else {
            nxm::pull_nxm(r, len, false, &mut q.matching)?;
        }
    } else {
        q.out_port = OfPort::from_u32(r.u32()?).ok_or(OfError::MofcBadOut)?;
        q.out_group = r.u32()?;
        raw = r.u16()?;
        q.table = r.u8()?;
        q.command = match r.u8()? {
            0 => MonitorCommand::Add,
            1 => MonitorCommand::Modify,
            2 => MonitorCommand::Delete,
            _ => return Err(OfError::MofcBadCommand),
        };
        matching::pull(r, version, &mut q.matching)?;
    }
    q.flags = if is_old(version) { old_flags(raw) } else { flags(raw) };
    let any = q.flags.add || q.flags.removed || q.flags.modify;
    if raw & !known != 0 || (!any && q.command != MonitorCommand::Delete) {
        return Err(OfError::MofcBadFlags);
    }
    Ok(q)
}

pub(super) fn encode_request(out: &mut Vec<u8>, q: &FlowMonitorRequest, version: Version) {
    out.u32(q.id);
    if is_old(version) {
        out.u16(old_flag_bits(q.flags));
        if version == Version::V13 {
            let at = out.len();
            out.u16(0).u32(q.out_port.to_u32()).u8(q.table).zeros(3);
            let len = put_match(out, &q.matching, version);
            out.set16(at, len);
        } else {
            out.u16(q.out_port.0);
            let at = out.len();
            out.u16(0).u8(q.table).zeros(5);
            let len = put_match(out, &q.matching, version);
            out.set16(at, len);
        }
    } else {
        out.u32(q.out_port.to_u32()).u32(q.out_group);
        out.u16(flag_bits(q.flags)).u8(q.table).u8(q.command as u8);
        matching::put(out, &q.matching, version);
    }
}

/// Encodes the match as NXM or OXM; returns its length without padding.
fn put_match(out: &mut Vec<u8>, m: &flow::Match, version: Version) -> u16 {
    if version < Version::V13 {
        return nxm::put_nxm(out, m, (0, 0));
    }
    let start = out.len();
    matching::put(out, m, version);
    u16::from_be_bytes([out[start + 2], out[start + 3]])
}

/// Converts the number of an event between forms: Nicira's form has no event "initial", so its numbers are shifted.
fn event_number(raw: u16, version: Version) -> u16 {
    if is_old(version) { raw + 1 } else { raw }
}

pub(super) fn decode_update(r: &mut Reader, cx: Context) -> Result<FlowUpdate, OfError> {
    let mut peek = *r;
    let len = usize::from(peek.u16()?);
    let mut r = r.sub(len)?;
    r.skip(2)?;
    let event = event_number(r.u16()?.min(0xff), cx.version);
    if event == 4 {
        return Ok(FlowUpdate::Abbreviated(Xid(r.u32()?)));
    }
    let mut e = FlowEvent {
        table: 0,
        priority: 0,
        idle_timeout: 0,
        hard_timeout: 0,
        cookie: 0,
        matching: flow::Match::CATCHALL,
        actions: Vec::new(),
    };
    let why;
    if is_old(cx.version) {
        why = r.u16()?;
        (e.priority, e.idle_timeout, e.hard_timeout) = (r.u16()?, r.u16()?, r.u16()?);
        let len = usize::from(r.u16()?);
        e.table = r.u8()?;
        r.skip(1)?;
        e.cookie = r.u64()?;
        match cx.version {
            Version::V13 => matching::pull(&mut r, cx.version, &mut e.matching)?,
            _ => nxm::pull_nxm(&mut r, len, false, &mut e.matching).map(drop)?,
        }
    } else {
        e.table = r.u8()?;
        why = u16::from(r.u8()?);
        (e.idle_timeout, e.hard_timeout, e.priority) = (r.u16()?, r.u16()?, r.u16()?);
        r.skip(4)?;
        e.cookie = r.u64()?;
        matching::pull(&mut r, cx.version, &mut e.matching)?;
    }
    e.actions = match cx.version {
        // Nicira's form contains actions in all versions, not instructions.
        v if v < Version::V13 => actions(r.rest(), cx)?,
        _ => instructions(r.rest(), cx)?,
    };
    let e = Box::new(e);
    Ok(match event {
        0 => FlowUpdate::Initial(e),
        1 => FlowUpdate::Added(e),
        2 => FlowUpdate::Deleted(e, removed_reason(why)?),
        3 => FlowUpdate::Modified(e),
        _ => return Err(OfError::NxbrcFmBadEvent),
    })
}

pub(super) fn encode_update(out: &mut Vec<u8>, u: &FlowUpdate, version: Version) {
    let (event, e, why) = match u {
        FlowUpdate::Abbreviated(xid) => {
            out.u16(8).u16(if is_old(version) { 3 } else { 4 }).u32(xid.0);
            return;
        }
        FlowUpdate::Initial(e) if is_old(version) => (1, e, None),
        FlowUpdate::Initial(e) => (0, e, None),
        FlowUpdate::Added(e) => (1, e, None),
        FlowUpdate::Deleted(e, why) => (2, e, Some(*why)),
        FlowUpdate::Modified(e) => (3, e, None),
    };
    let why = why.map_or(0, |w: RemovedReason| reason_number(w, version));
    let start = out.len();
    out.u16(0);
    if is_old(version) {
        out.u16(event - 1).u16(u16::from(why)).u16(e.priority).u16(e.idle_timeout).u16(e.hard_timeout);
        let at = out.len();
        out.u16(0).u8(e.table).zeros(1).u64(e.cookie);
        let len = put_match(out, &e.matching, version);
        out.set16(at, len);
    } else {
        out.u16(event).u8(e.table).u8(why).u16(e.idle_timeout).u16(e.hard_timeout).u16(e.priority).zeros(4);
        out.u64(e.cookie);
        matching::put(out, &e.matching, version);
    }
    if version < Version::V13 {
        put_flow_actions(out, &e.actions, &e.matching, version);
    } else {
        put_instructions(out, &e.actions, &e.matching, version);
    }
    let len = out.len() - start;
    out.set16(start, len as u16);
}
