//! Decodes messages: the header, then the body by type.

use super::buf::Reader;
use super::decoded::{DecodeParams, Decoded};
use super::{
    Dialect, HEADER, flow_mod, group, meter, multipart, packet_io, port, session, stats, table, vendor,
};
use crate::error::OfError;
use crate::message::{Body, ErrorBody, Message, Xid};
use crate::packet_io::PacketInFormat;
use crate::version::Version;
use units::OfPort;

/// Decodes one complete message.
pub fn decode(bytes: &[u8], dialect: Dialect) -> Result<Message, OfError> {
    let mut r = Reader::new(bytes, OfError::BrcBadLen);
    let (version_byte, kind, len) = (r.u8()?, r.u8()?, usize::from(r.u16()?));
    let xid = Xid(r.u32()?);
    if len != bytes.len() {
        return Err(OfError::BrcBadLen);
    }
    // Hello, error and both echo messages have the same form in all versions, including future ones.
    let version = match Version::from_wire(version_byte) {
        Some(v) => v,
        None if kind <= 3 && version_byte != 0 => Version::V15,
        None => return Err(OfError::BrcBadVersion),
    };
    if kind == 0 {
        let hello = session::decode_hello(&mut r, version_byte)?;
        return Ok(Message::new(version, xid, Body::Hello(hello)));
    }
    let params = DecodeParams { version, dialect };
    let d = body(kind, &mut r, params)?;
    if !r.is_empty() {
        return Err(OfError::BrcBadLen);
    }
    Ok(Message { xid, version, extended: d.extended, more: d.more, body: d.body })
}

fn take_rest(r: &mut Reader) -> Result<Vec<u8>, OfError> {
    Ok(r.take(r.len())?.to_vec())
}

/// Skips the rest of the message: the decoder of the body has read it through [`Reader::rest`], or does not need it.
fn skip_rest(r: &mut Reader) -> Result<(), OfError> {
    r.skip(r.len())
}

fn error(r: &mut Reader, version: Version) -> Result<Body, OfError> {
    let bytes = r.take(r.len())?;
    let mut head = Reader::new(bytes, OfError::BrcBadLen);
    let type_and_code = (head.u16()?, head.u16()?);
    let (error, data) = OfError::decode(version, bytes).ok_or(OfError::BrcBadLen)?;
    Ok(Body::Error(ErrorBody { error, type_and_code, data: data.to_vec() }))
}

fn body(kind: u8, r: &mut Reader, params: DecodeParams) -> Result<Decoded, OfError> {
    let v = params.version;
    let body = match kind {
        1 => error(r, v)?,
        2 => Body::EchoRequest(take_rest(r)?),
        3 => Body::EchoReply(take_rest(r)?),
        4 => return vendor::decode(r, params, forwarded),
        5 => Body::FeaturesRequest,
        6 => Body::FeaturesReply(session::decode_features(r, v)?),
        7 => Body::GetConfigRequest,
        8 => Body::GetConfigReply(session::decode_config(r, v)?),
        9 => Body::SetConfig(session::decode_config(r, v)?),
        10 => {
            let pin = packet_io::decode_in(r, v)?;
            skip_rest(r)?;
            Body::PacketIn(Box::new(pin), PacketInFormat::Standard)
        }
        11 => Body::FlowRemoved(Box::new(match v {
            Version::V10 => flow_mod::removed_10(r)?,
            Version::V15 => flow_mod::removed_15(r)?,
            _ => flow_mod::removed_11(r, v)?,
        })),
        12 => Body::PortStatus(port::decode_status(r, v)?),
        13 => {
            let po = packet_io::decode_out(r, params.cx())?;
            skip_rest(r)?;
            Body::PacketOut(Box::new(po))
        }
        14 => {
            let fm = flow_mod::decode(r, params.cx(), params.dialect)?;
            skip_rest(r)?;
            Body::FlowMod(fm)
        }
        _ if v == Version::V10 => return high_types_10(kind, r, params),
        _ => return high_types_11(kind, r, params),
    };
    Ok(body.into())
}

/// Decodes the bodies of types above 14 in OpenFlow 1.0.
fn high_types_10(kind: u8, r: &mut Reader, params: DecodeParams) -> Result<Decoded, OfError> {
    let body = match kind {
        15 => Body::PortMod(port::decode_mod(r, params.version)?),
        16 => return multipart::request(r, params),
        17 => return multipart::reply(r, params),
        18 => Body::BarrierRequest,
        19 => Body::BarrierReply,
        20 => {
            let port = OfPort(r.u16()?);
            r.skip(2)?;
            Body::QueueConfigRequest(crate::stats::QueueRequest { port, queue: crate::stats::QUEUE_ALL })
        }
        21 => queue_config(r, params.version)?,
        _ => return Err(OfError::BrcBadType),
    };
    Ok(body.into())
}

fn queue_config(r: &mut Reader, version: Version) -> Result<Body, OfError> {
    let port = if version == Version::V10 {
        OfPort(r.u16()?)
    } else {
        OfPort::from_u32(r.u32()?).ok_or(OfError::QofcBadPort)?
    };
    r.skip(if version == Version::V10 { 6 } else { 4 })?;
    let mut queues = Vec::new();
    while !r.is_empty() {
        queues.push(stats::decode_config(r, port, version)?);
    }
    Ok(Body::QueueConfigReply(port, queues))
}

/// Decodes the bodies of types above 14 in later versions.
fn high_types_11(kind: u8, r: &mut Reader, params: DecodeParams) -> Result<Decoded, OfError> {
    let v = params.version;
    let (first, last) = match kind {
        22 | 23 => (Version::V11, Version::V13),
        24 | 25 => (Version::V12, Version::V15),
        26..=29 => (Version::V13, Version::V15),
        30..=34 => (Version::V14, Version::V15),
        _ => (Version::V11, Version::V15),
    };
    if v < first || v > last {
        return Err(OfError::BrcBadType);
    }
    let body = match kind {
        15 => Body::GroupMod(group::decode_mod(r, params.cx())?),
        16 => Body::PortMod(port::decode_mod(r, v)?),
        17 => Body::TableMod(table::decode_mod(r, v)?),
        18 => return multipart::request(r, params),
        19 => return multipart::reply(r, params),
        20 => Body::BarrierRequest,
        21 => Body::BarrierReply,
        22 => {
            let port = match r.u32()? {
                0xffff_ffff => OfPort::NONE,
                p => OfPort::from_u32(p).ok_or(OfError::QofcBadPort)?,
            };
            r.skip(4)?;
            Body::QueueConfigRequest(crate::stats::QueueRequest { port, queue: crate::stats::QUEUE_ALL })
        }
        23 => queue_config(r, v)?,
        24 => Body::RoleRequest(session::decode_role(r, v, false)?),
        25 => Body::RoleReply(session::decode_role(r, v, false)?),
        26 => Body::GetAsyncRequest,
        27 => Body::GetAsyncReply(async_config(r, v)?),
        28 => Body::SetAsync(async_config(r, v)?),
        29 => {
            let m = meter::decode_mod(r)?;
            skip_rest(r)?;
            Body::MeterMod(m)
        }
        30 => {
            let status = session::decode_role_status(r)?;
            skip_rest(r)?;
            Body::RoleStatus(status)
        }
        31 => {
            let status = table::decode_status(r)?;
            skip_rest(r)?;
            Body::TableStatus(status)
        }
        32 => Body::RequestForward(Box::new(forwarded(r, params)?)),
        33 => Body::BundleControl(session::decode_bundle(r)?),
        34 => Body::BundleAdd(session::decode_bundle_add(r)?),
        _ => return Err(OfError::BrcBadType),
    };
    Ok(body.into())
}

fn async_config(r: &mut Reader, version: Version) -> Result<crate::session::AsyncConfig, OfError> {
    match version {
        Version::V13 => session::decode_async_13(r),
        _ => session::decode_async_14(r),
    }
}

/// Decodes the request inside a request-forward. Only group and meter mods are forwarded.
fn forwarded(r: &mut Reader, params: DecodeParams) -> Result<Message, OfError> {
    let bytes = r.take(r.len())?;
    let len = super::message_len(bytes)?.filter(|&n| n >= HEADER).ok_or(OfError::BrcBadLen)?;
    let inner = bytes.get(..len).ok_or(OfError::BrcBadLen)?;
    let is_forwarded = match *inner {
        // In OpenFlow 1.0 a group mod is a message of Nicira, and type 15 is a port mod.
        [_, 4, ..] => inner.get(8..16) == Some(&[0, 0, 0x23, 0x20, 0, 0, 0, 31]),
        [version, 15 | 29, ..] => version > 1,
        _ => false,
    };
    if !is_forwarded {
        return Err(OfError::BfcMsgUnsup);
    }
    decode(inner, params.dialect)
}
