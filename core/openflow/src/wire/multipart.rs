//! Multipart messages ("statistics" in OpenFlow 1.0 to 1.2): decodes their headers and selects the decoder for the type.

use super::buf::Reader;
use super::decoded::{DecodeParams, Decoded};
use super::{group, meter, monitor, port, stats, table};
use crate::error::{NX_VENDOR, ONF_VENDOR, OfError};
use crate::group::GROUP_ALL;
use crate::message::Body;
use crate::version::Version;
use units::OfPort;

/// Types, numbered as in OpenFlow 1.1 and later.
pub(super) mod kind {
    pub const DESC: u16 = 0;
    pub const FLOW: u16 = 1;
    pub const AGGREGATE: u16 = 2;
    pub const TABLE: u16 = 3;
    pub const PORT: u16 = 4;
    pub const QUEUE: u16 = 5;
    pub const GROUP: u16 = 6;
    pub const GROUP_DESC: u16 = 7;
    pub const GROUP_FEATURES: u16 = 8;
    pub const METER: u16 = 9;
    pub const METER_CONFIG: u16 = 10;
    pub const METER_FEATURES: u16 = 11;
    pub const TABLE_FEATURES: u16 = 12;
    pub const PORT_DESC: u16 = 13;
    pub const TABLE_DESC: u16 = 14;
    pub const QUEUE_DESC: u16 = 15;
    pub const FLOW_MONITOR: u16 = 16;
    pub const VENDOR: u16 = 0xffff;
    /// Internal numbers for Nicira's IPFIX statistics; not on the wire.
    pub const IPFIX_BRIDGE: u16 = 0xfff0;
    pub const IPFIX_FLOW: u16 = 0xfff1;

    /// Nicira's numbers of types.
    pub const NX: [(u32, u16); 8] = [
        (0, FLOW),
        (1, AGGREGATE),
        (2, FLOW_MONITOR),
        (3, IPFIX_BRIDGE),
        (4, IPFIX_FLOW),
        (7, GROUP),
        (8, GROUP_DESC),
        (9, GROUP_FEATURES),
    ];
    pub const ONF_FLOW_MONITOR: u32 = 1870;
}

/// Returns whether the version has this type in the standard's form.
pub(super) fn is_standard(kind: u16, v: Version) -> bool {
    match kind {
        kind::DESC..=kind::QUEUE | kind::PORT_DESC => true,
        kind::GROUP | kind::GROUP_DESC => v >= Version::V11,
        kind::GROUP_FEATURES => v >= Version::V12,
        kind::METER..=kind::TABLE_FEATURES => v >= Version::V13,
        kind::TABLE_DESC..=kind::FLOW_MONITOR => v >= Version::V14,
        _ => false,
    }
}

fn is_nicira(kind: u16, v: Version) -> bool {
    match kind {
        kind::FLOW | kind::AGGREGATE | kind::GROUP | kind::GROUP_DESC => v == Version::V10,
        kind::FLOW_MONITOR => v <= Version::V12,
        kind::GROUP_FEATURES => v <= Version::V11,
        _ => true,
    }
}

/// Decodes the header: type, "more follows", and whether it is a vendor's form.
fn header(r: &mut Reader, params: DecodeParams) -> Result<(u16, bool, bool), OfError> {
    let (mut kind, flags) = (r.u16()?, r.u16()?);
    if params.version >= Version::V11 {
        r.skip(4)?;
    }
    let more = flags & 1 != 0;
    if kind != kind::VENDOR {
        return if is_standard(kind, params.version) {
            Ok((kind, more, false))
        } else {
            Err(OfError::BrcBadStat)
        };
    }
    let vendor = r.u32()?;
    let subtype = match vendor {
        NX_VENDOR | ONF_VENDOR => r.u32()?,
        _ => return Err(OfError::BrcBadVendor),
    };
    if params.version == Version::V10 {
        r.skip(4)?;
    }
    kind = match vendor {
        NX_VENDOR => kind::NX
            .iter()
            .find(|k| k.0 == subtype && is_nicira(k.1, params.version))
            .map(|k| k.1)
            .ok_or(OfError::BrcBadSubtype)?,
        _ if subtype == kind::ONF_FLOW_MONITOR && params.version == Version::V13 => kind::FLOW_MONITOR,
        _ => return Err(OfError::BrcBadSubtype),
    };
    Ok((kind, more, true))
}

fn list<'a, T>(
    r: &mut Reader<'a>,
    one: impl Fn(&mut Reader<'a>) -> Result<T, OfError>,
) -> Result<Vec<T>, OfError> {
    let mut all = Vec::new();
    while !r.is_empty() {
        all.push(one(r)?);
    }
    Ok(all)
}

/// Decodes the number of a group or meter and four bytes of padding.
fn number(r: &mut Reader) -> Result<u32, OfError> {
    let n = r.u32()?;
    r.skip(4)?;
    Ok(n)
}

pub(super) fn request(r: &mut Reader, params: DecodeParams) -> Result<Decoded, OfError> {
    let (kind, more, extended) = header(r, params)?;
    // Requests of several parts exist since 1.3. In earlier versions the flags of a request have no meaning.
    let more = more && params.version >= Version::V13;
    let v = params.version;
    let body = match kind {
        kind::DESC => Body::DescRequest,
        kind::FLOW => Body::FlowStatsRequest(Box::new(stats::decode_request(r, v, extended)?)),
        kind::AGGREGATE => Body::AggregateRequest(Box::new(stats::decode_request(r, v, extended)?)),
        kind::TABLE => Body::TableStatsRequest,
        kind::PORT => Body::PortStatsRequest(port::decode_request(r, v)?),
        kind::QUEUE => Body::QueueStatsRequest(stats::decode_queue_request(r, v)?),
        kind::GROUP => Body::GroupStatsRequest(number(r)?),
        kind::GROUP_DESC if v >= Version::V15 || v == Version::V10 => Body::GroupDescRequest(number(r)?),
        kind::GROUP_DESC => Body::GroupDescRequest(GROUP_ALL),
        kind::GROUP_FEATURES => Body::GroupFeaturesRequest,
        kind::METER => Body::MeterStatsRequest(number(r)?),
        kind::METER_CONFIG => Body::MeterConfigRequest(number(r)?),
        kind::METER_FEATURES => Body::MeterFeaturesRequest,
        kind::TABLE_FEATURES => Body::TableFeaturesRequest(list(r, |r| table::decode_features(r, v))?),
        kind::PORT_DESC if v >= Version::V15 => Body::PortDescRequest(port::decode_request(r, v)?),
        kind::PORT_DESC => Body::PortDescRequest(OfPort::NONE),
        kind::TABLE_DESC => Body::TableDescRequest,
        kind::QUEUE_DESC => Body::QueueConfigRequest(stats::decode_queue_request(r, v)?),
        kind::FLOW_MONITOR => Body::FlowMonitorRequest(list(r, |r| monitor::decode_request(r, v))?),
        kind::IPFIX_BRIDGE => Body::IpfixBridgeRequest,
        kind::IPFIX_FLOW => Body::IpfixFlowRequest,
        _ => return Err(OfError::BrcBadStat),
    };
    Ok(Decoded { body, extended, more })
}

pub(super) fn reply(r: &mut Reader, params: DecodeParams) -> Result<Decoded, OfError> {
    let (kind, more, extended) = header(r, params)?;
    let (v, cx) = (params.version, params.cx());
    let body = match kind {
        kind::DESC => Body::DescReply(stats::decode_desc(r)?),
        kind::FLOW => Body::FlowStatsReply(list(r, |r| stats::decode_flow(r, cx, extended))?),
        kind::AGGREGATE => Body::AggregateReply(stats::decode_aggregate(r, v)?),
        kind::TABLE => Body::TableStatsReply(list(r, |r| stats::decode_table(r, v))?),
        kind::PORT => Body::PortStatsReply(list(r, |r| port::decode_stats(r, v))?),
        kind::QUEUE => Body::QueueStatsReply(list(r, |r| stats::decode_queue(r, v))?),
        kind::GROUP => Body::GroupStatsReply(list(r, |r| group::decode_stats(r, v))?),
        kind::GROUP_DESC => Body::GroupDescReply(list(r, |r| group::decode_desc(r, cx))?),
        kind::GROUP_FEATURES => Body::GroupFeaturesReply(group::decode_features(r)?),
        kind::METER => Body::MeterStatsReply(list(r, meter::decode_stats)?),
        kind::METER_CONFIG => Body::MeterConfigReply(list(r, meter::decode_config)?),
        kind::METER_FEATURES => Body::MeterFeaturesReply(meter::decode_features(r)?),
        kind::TABLE_FEATURES => Body::TableFeaturesReply(list(r, |r| table::decode_features(r, v))?),
        kind::PORT_DESC => Body::PortDescReply(list(r, |r| port::decode(r, v))?),
        kind::TABLE_DESC => Body::TableDescReply(list(r, table::decode_desc)?),
        kind::QUEUE_DESC => {
            Body::QueueConfigReply(OfPort::NONE, list(r, |r| stats::decode_config(r, OfPort::NONE, v))?)
        }
        kind::FLOW_MONITOR if r.rest() == [0, 8, 0, 5, 0, 0, 0, 0] => {
            r.skip(8)?;
            Body::FlowMonitorPaused
        }
        kind::FLOW_MONITOR if r.rest() == [0, 8, 0, 6, 0, 0, 0, 0] => {
            r.skip(8)?;
            Body::FlowMonitorResumed
        }
        kind::FLOW_MONITOR => Body::FlowMonitorReply(list(r, |r| monitor::decode_update(r, cx))?),
        kind::IPFIX_BRIDGE => Body::IpfixBridgeReply(list(r, stats::decode_ipfix)?),
        kind::IPFIX_FLOW => Body::IpfixFlowReply(list(r, stats::decode_ipfix)?),
        _ => return Err(OfError::BrcBadStat),
    };
    Ok(Decoded { body, extended, more })
}
