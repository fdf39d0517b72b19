//! Packet-ins, packet-outs and resumes.

use super::action::{Context, actions, put_actions};
use super::buf::{Put, Reader};
use super::{matching, nxm};
use crate::error::OfError;
use crate::flow_mod::NO_BUFFER;
use crate::packet_io::*;
use crate::version::Version;
use flow::field::Prereq;
use flow::{FieldId, Match};
use units::OfPort;

fn reason(raw: u8) -> Result<PacketInReason, OfError> {
    use PacketInReason::*;
    [NoMatch, Action, InvalidTtl, ActionSet, Group, PacketOut]
        .get(usize::from(raw))
        .copied()
        .ok_or(OfError::NxbrcBadReason)
}

/// The reason as a number of this version.
fn number(reason: PacketInReason, version: Version) -> u8 {
    use PacketInReason::*;
    match reason {
        ImplicitMiss => NoMatch as u8,
        ExplicitMiss if version >= Version::V13 => NoMatch as u8,
        ExplicitMiss => Action as u8,
        ActionSet | Group | PacketOut if version < Version::V14 => Action as u8,
        r => r as u8,
    }
}

fn in_port(port: OfPort) -> Match {
    let mut m = Match::CATCHALL;
    m.set(FieldId::InPort, u128::from(port.0));
    m
}

pub(super) fn decode_in(r: &mut Reader, version: Version) -> Result<PacketIn, OfError> {
    let buffer_id = r.u32()?;
    let mut pin = PacketIn { buffer_id, ..PacketIn::default() };
    match version {
        Version::V10 => {
            pin.total_len = u32::from(r.u16()?);
            pin.metadata = in_port(OfPort(r.u16()?));
            pin.reason = reason(r.u8()?)?;
            r.skip(1)?;
        }
        Version::V11 => {
            let port = OfPort::from_u32(r.u32()?).ok_or(OfError::BrcBadPort)?;
            r.skip(4)?;
            pin.metadata = in_port(port);
            pin.total_len = u32::from(r.u16()?);
            pin.reason = reason(r.u8()?)?;
            pin.table = r.u8()?;
        }
        _ => {
            pin.total_len = u32::from(r.u16()?);
            pin.reason = reason(r.u8()?)?;
            pin.table = r.u8()?;
            if version >= Version::V13 {
                pin.cookie = r.u64()?;
            }
            nxm::pull_oxm(r, false, &mut pin.metadata)?;
            r.skip(2)?;
        }
    }
    pin.packet = r.rest().to_vec();
    Ok(pin)
}

pub(super) fn decode_nxt(r: &mut Reader) -> Result<PacketIn, OfError> {
    let mut pin = PacketIn { buffer_id: r.u32()?, total_len: u32::from(r.u16()?), ..PacketIn::default() };
    pin.reason = reason(r.u8()?)?;
    (pin.table, pin.cookie) = (r.u8()?, r.u64()?);
    let len = usize::from(r.u16()?);
    r.skip(6)?;
    let bytes = r.take(len.next_multiple_of(8))?;
    nxm::decode(bytes.get(..len).unwrap_or_default(), false, false, &mut pin.metadata)?;
    r.skip(2)?;
    pin.packet = r.rest().to_vec();
    Ok(pin)
}

/// Types of properties of `NXT_PACKET_IN2`.
mod prop {
    pub const PACKET: u16 = 0;
    pub const FULL_LEN: u16 = 1;
    pub const BUFFER_ID: u16 = 2;
    pub const TABLE_ID: u16 = 3;
    pub const COOKIE: u16 = 4;
    pub const REASON: u16 = 5;
    pub const METADATA: u16 = 6;
    pub const USERDATA: u16 = 7;
    pub const CONTINUATION: u16 = 8;
}

/// Decodes `NXT_PACKET_IN2` and `NXT_RESUME`, which consist of properties.
pub(super) fn decode_nxt2(r: &mut Reader) -> Result<PacketIn, OfError> {
    let mut pin = PacketIn::default();
    let mut full = None;
    while !r.is_empty() {
        let (kind, mut p) = super::property::pull(r)?;
        match kind {
            prop::PACKET => pin.packet = p.rest().to_vec(),
            prop::FULL_LEN => full = Some(p.u32()?),
            prop::BUFFER_ID => pin.buffer_id = p.u32()?,
            prop::TABLE_ID => pin.table = p.u8()?,
            prop::COOKIE => pin.cookie = super::property::u64(&mut p)?,
            prop::REASON => pin.reason = reason(p.u8()?)?,
            prop::METADATA => {
                pin.metadata = Match::CATCHALL;
                nxm::decode(p.rest(), false, false, &mut pin.metadata)?;
            }
            prop::USERDATA => pin.userdata = p.rest().to_vec(),
            prop::CONTINUATION => {
                p.skip(4.min(p.len()))?;
                pin.continuation = p.rest().to_vec();
            }
            _ => return Err(OfError::BpcBadType),
        }
    }
    pin.total_len = full.unwrap_or(pin.packet.len() as u32);
    if pin.packet.is_empty() && full.is_some_and(|n| n != 0) && pin.buffer_id == NO_BUFFER {
        return Err(OfError::BpcBadLen);
    }
    Ok(pin)
}

/// Encodes the standard's form.
pub(super) fn encode_in(out: &mut Vec<u8>, pin: &PacketIn, version: Version) {
    let (why, total) = (number(pin.reason, version), pin.total_len.min(0xffff) as u16);
    let port = OfPort(pin.metadata.flow.in_port as u16);
    out.u32(pin.buffer_id);
    match version {
        Version::V10 => {
            out.u16(total).u16(port.0).u8(why).zeros(1);
        }
        Version::V11 => {
            out.u32(port.to_u32()).u32(port.to_u32()).u16(total).u8(why).u8(pin.table);
        }
        _ => {
            out.u16(total).u8(why).u8(pin.table);
            if version >= Version::V13 {
                out.u64(pin.cookie);
            }
            nxm::put_oxm(out, &pin.metadata, version);
            out.zeros(2);
        }
    }
    out.bytes(&pin.packet);
}

pub(super) fn encode_nxt(out: &mut Vec<u8>, pin: &PacketIn, version: Version) {
    out.u32(pin.buffer_id)
        .u16(pin.total_len.min(0xffff) as u16)
        .u8(number(pin.reason, version))
        .u8(pin.table);
    out.u64(pin.cookie);
    let at = out.len();
    out.u16(0).zeros(6);
    let len = nxm::put_nxm(out, &pin.metadata, (0, 0));
    out.set16(at, len);
    out.zeros(2).bytes(&pin.packet);
}

pub(super) fn encode_nxt2(out: &mut Vec<u8>, pin: &PacketIn, version: Version) {
    use super::property::put;
    if !pin.packet.is_empty() {
        put(out, prop::PACKET, &pin.packet);
    }
    if pin.total_len as usize != pin.packet.len() {
        put(out, prop::FULL_LEN, &pin.total_len.to_be_bytes());
    }
    if pin.buffer_id != NO_BUFFER {
        put(out, prop::BUFFER_ID, &pin.buffer_id.to_be_bytes());
    }
    super::property::put_u8(out, prop::TABLE_ID, pin.table);
    if pin.cookie != u64::MAX {
        super::property::put_u64(out, prop::COOKIE, pin.cookie);
    }
    super::property::put_u8(out, prop::REASON, number(pin.reason, version));
    let mut metadata = Vec::new();
    nxm::put_raw(&mut metadata, &pin.metadata, 0, (0, 0));
    put(out, prop::METADATA, &metadata);
    if !pin.userdata.is_empty() {
        put(out, prop::USERDATA, &pin.userdata);
    }
    if !pin.continuation.is_empty() {
        let padded = [&[0; 4], &pin.continuation[..]].concat();
        put(out, prop::CONTINUATION, &padded);
    }
}

pub(super) fn decode_out(r: &mut Reader, cx: Context) -> Result<PacketOut, OfError> {
    let buffer_id = r.u32()?;
    let (metadata, len) = match cx.version {
        Version::V10 => (in_port(OfPort(r.u16()?)), r.u16()?),
        Version::V15 => {
            let len = r.u16()?;
            r.skip(2)?;
            let mut metadata = Match::CATCHALL;
            nxm::pull_oxm(r, false, &mut metadata)?;
            if FieldId::all().any(|f| is_header(f) && f.mask_of(&metadata.mask) != 0) {
                return Err(OfError::BrcPipelineFieldsOnly);
            }
            (metadata, len)
        }
        _ => {
            let port = OfPort::from_u32(r.u32()?).ok_or(OfError::BacBadOutPort)?;
            let len = r.u16()?;
            r.skip(6)?;
            (in_port(port), len)
        }
    };
    if len % 8 != 0 || usize::from(len) > r.len() {
        return Err(OfError::BrcBadLen);
    }
    let actions = actions(r.take(usize::from(len))?, cx)?;
    super::check::verify_actions(&actions, cx.version)?;
    let port = OfPort(metadata.flow.in_port as u16);
    let special = matches!(port, OfPort::LOCAL | OfPort::NONE | OfPort::CONTROLLER);
    if metadata.mask.in_port == 0 || port >= OfPort::MAX && !special {
        return Err(OfError::BrcBadPort);
    }
    let packet = if buffer_id == NO_BUFFER { r.rest().to_vec() } else { Vec::new() };
    Ok(PacketOut { buffer_id, metadata, actions, packet })
}

/// Returns whether the field is in the packet itself. The metadata of a packet-out must not contain such fields.
fn is_header(field: FieldId) -> bool {
    !matches!(field.info().prereq, Prereq::None | Prereq::CtValid)
}

pub(super) fn encode_out(out: &mut Vec<u8>, po: &PacketOut, version: Version) {
    let mut list = Vec::new();
    put_actions(&mut list, &po.actions, version);
    let len = list.len() as u16;
    out.u32(po.buffer_id);
    match version {
        Version::V10 => {
            out.u16(po.in_port().0).u16(len);
        }
        Version::V15 => {
            out.u16(len).zeros(2);
            matching::put(out, &po.metadata, version);
        }
        _ => {
            out.u32(po.in_port().to_u32()).u16(len).zeros(6);
        }
    }
    out.bytes(&list);
    if po.buffer_id == NO_BUFFER {
        out.bytes(&po.packet);
    }
}
