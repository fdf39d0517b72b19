//! Messages of vendors: Nicira and the Open Networking Foundation.

use super::buf::{Put, Reader};
use super::decoded::{DecodeParams, Decoded, ReadForwarded};
use super::{flow_mod, group, packet_io, session};
use crate::error::{NX_VENDOR, ONF_VENDOR, OfError};
use crate::message::Body;
use crate::packet_io::PacketInFormat;
use crate::session::{CtFlush, TlvTableReply};
use crate::version::Version;

pub(super) fn decode(
    r: &mut Reader,
    params: DecodeParams,
    forwarded: ReadForwarded,
) -> Result<Decoded, OfError> {
    let vendor = r.u32()?;
    if vendor != NX_VENDOR && vendor != ONF_VENDOR {
        return Err(OfError::BrcBadVendor);
    }
    let subtype = r.u32()?;
    let body = match vendor {
        NX_VENDOR => nicira(subtype, r, params, forwarded)?,
        _ => onf(subtype, r, params, forwarded)?,
    };
    // From 1.4 on Nicira's message has the content of the standard's message, so it is treated as the standard's form.
    let standard = matches!(body, Body::SetAsync(_)) && params.version > Version::V13;
    Ok(Decoded { extended: !standard, ..Decoded::from(body) })
}

fn onf(
    subtype: u32,
    r: &mut Reader,
    params: DecodeParams,
    forwarded: ReadForwarded,
) -> Result<Body, OfError> {
    if params.version != Version::V13 {
        return Err(OfError::BrcBadSubtype);
    }
    Ok(match subtype {
        1870 => Body::FlowMonitorCancel(r.u32()?),
        1871 => Body::FlowMonitorPaused,
        1872 => Body::FlowMonitorResumed,
        1911 => {
            let status = session::decode_role_status(r)?;
            r.skip(r.len())?;
            Body::RoleStatus(status)
        }
        2300 => Body::BundleControl(session::decode_bundle(r)?),
        2301 => Body::BundleAdd(session::decode_bundle_add(r)?),
        2350 => Body::RequestForward(Box::new(forwarded(r, params)?)),
        _ => return Err(OfError::BrcBadSubtype),
    })
}

fn known(subtype: u32, version: Version) -> bool {
    match subtype {
        12 | 31 => version == Version::V10,
        21..=23 | 132 => version <= Version::V12,
        27 => version <= Version::V13,
        _ => true,
    }
}

fn nicira(
    subtype: u32,
    r: &mut Reader,
    params: DecodeParams,
    forwarded: ReadForwarded,
) -> Result<Body, OfError> {
    if !known(subtype, params.version) {
        return Err(OfError::BrcBadSubtype);
    }
    Ok(match subtype {
        10 => Body::RoleRequest(session::decode_role(r, params.version, true)?),
        11 => Body::RoleReply(session::decode_role(r, params.version, true)?),
        12 => match r.u32()? {
            0 => Body::SetFlowFormat(false),
            2 => Body::SetFlowFormat(true),
            _ => return Err(OfError::BrcEperm),
        },
        13 => {
            let fm = flow_mod::decode_nxt(r, params.cx(), params.dialect)?;
            r.skip(r.len())?;
            Body::FlowMod(fm)
        }
        14 => Body::FlowRemoved(Box::new(flow_mod::removed_nxt(r)?)),
        15 => {
            let set = r.u8()?;
            r.skip(7)?;
            Body::FlowModTableId(set != 0)
        }
        16 => Body::SetPacketInFormat(match r.u32()? {
            0 => PacketInFormat::Standard,
            1 => PacketInFormat::Nxt,
            2 => PacketInFormat::Nxt2,
            _ => return Err(OfError::BrcEperm),
        }),
        17 => {
            let pin = packet_io::decode_nxt(r)?;
            r.skip(r.len())?;
            Body::PacketIn(Box::new(pin), PacketInFormat::Nxt)
        }
        18 => Body::FlowAge,
        19 => Body::SetAsync(session::decode_async_13(r)?),
        20 => {
            r.zeros(6, OfError::NxbrcMustBeZero)?;
            Body::SetControllerId(r.u16()?)
        }
        21 => Body::FlowMonitorCancel(r.u32()?),
        22 => Body::FlowMonitorPaused,
        23 => Body::FlowMonitorResumed,
        24 => Body::TlvTableMod(session::decode_tlv_mod(r)?),
        25 => Body::TlvTableRequest,
        26 => {
            let mut reply =
                TlvTableReply { max_space: r.u32()?, max_fields: r.u16()?, ..TlvTableReply::default() };
            r.skip(10)?;
            reply.maps = session::decode_tlv_maps(r)?;
            Body::TlvTableReply(reply)
        }
        27 => Body::SetAsync(session::decode_async_14(r)?),
        28 => Body::Resume(Box::new(packet_io::decode_nxt2(r)?)),
        29 => {
            r.zeros(6, OfError::NxbrcMustBeZero)?;
            Body::CtFlush(CtFlush { zone: Some(r.u16()?), ..CtFlush::default() })
        }
        30 => Body::PacketIn(Box::new(packet_io::decode_nxt2(r)?), PacketInFormat::Nxt2),
        31 => Body::GroupMod(group::decode_mod(r, params.cx())?),
        32 => Body::CtFlush(session::decode_ct_flush(r)?),
        132 => Body::RequestForward(Box::new(forwarded(r, params)?)),
        _ => return Err(OfError::BrcBadSubtype),
    })
}

/// Writes the vendor header of a message.
pub(super) fn start(out: &mut Vec<u8>, vendor: u32, subtype: u32) {
    out.u32(vendor).u32(subtype);
}
