//! Names of messages.

use crate::message::{Body, Message};
use crate::version::Version;

/// The name of the message in the specification that defines it, e.g. `OFPT_FLOW_MOD`, `NXST_FLOW reply`.
pub(super) fn message_name(m: &Message) -> String {
    let (stem, kind) = stem(&m.body);
    let prefix = prefix(m);
    match kind {
        Kind::Plain => format!("{prefix}T_{stem}"),
        Kind::Request => format!("{prefix}ST_{stem} request"),
        Kind::Reply => format!("{prefix}ST_{stem} reply"),
        Kind::Queue(end) if m.version < Version::V14 => {
            format!("OFPT_QUEUE_GET_CONFIG_{}", end.to_ascii_uppercase())
        }
        Kind::Queue(end) => format!("OFPST_{stem} {end}"),
    }
}

enum Kind {
    Plain,
    Request,
    Reply,
    Queue(&'static str),
}

/// Returns whether the message is part of a multipart exchange.
pub(super) fn is_multipart(m: &Message) -> bool {
    match stem(&m.body).1 {
        Kind::Plain => false,
        Kind::Queue(_) => m.version >= Version::V14,
        _ => true,
    }
}

fn prefix(m: &Message) -> &'static str {
    let v = m.version;
    let since = |standard: Version, onf: bool| match v {
        v if v >= standard => "OFP",
        Version::V13 if onf => "ONF",
        _ => "NX",
    };
    match &m.body {
        Body::FlowMod(_) | Body::FlowRemoved(_) if m.extended => "NX",
        Body::FlowStatsRequest(_)
        | Body::FlowStatsReply(_)
        | Body::AggregateRequest(_)
        | Body::AggregateReply(_)
            if v == Version::V10 && m.extended =>
        {
            "NX"
        }
        Body::GroupMod(_)
        | Body::GroupStatsRequest(_)
        | Body::GroupStatsReply(_)
        | Body::GroupDescRequest(_)
        | Body::GroupDescReply(_) => since(Version::V11, false),
        Body::GroupFeaturesRequest | Body::GroupFeaturesReply(_) => since(Version::V12, false),
        Body::PacketIn(_, crate::packet_io::PacketInFormat::Standard) => "OFP",
        Body::PacketIn(..) => "NX",
        Body::RoleRequest(_) | Body::RoleReply(_) => {
            if m.extended {
                "NX"
            } else {
                since(Version::V12, false)
            }
        }
        Body::SetAsync(_) => {
            if m.extended {
                "NX"
            } else {
                since(Version::V13, false)
            }
        }
        Body::RoleStatus(_) | Body::BundleControl(_) | Body::BundleAdd(_) => since(Version::V14, true),
        Body::FlowMonitorRequest(_)
        | Body::FlowMonitorReply(_)
        | Body::FlowMonitorCancel(_)
        | Body::FlowMonitorPaused
        | Body::FlowMonitorResumed
        | Body::RequestForward(_) => since(Version::V14, true),
        Body::IpfixBridgeRequest
        | Body::IpfixBridgeReply(_)
        | Body::IpfixFlowRequest
        | Body::IpfixFlowReply(_)
        | Body::SetFlowFormat(_)
        | Body::FlowModTableId(_)
        | Body::SetPacketInFormat(_)
        | Body::SetControllerId(_)
        | Body::FlowAge
        | Body::Resume(_)
        | Body::TlvTableMod(_)
        | Body::TlvTableRequest
        | Body::TlvTableReply(_)
        | Body::CtFlush(_) => "NX",
        _ => "OFP",
    }
}

fn stem(body: &Body) -> (&'static str, Kind) {
    use Kind::{Plain, Queue, Reply, Request};
    match body {
        Body::Hello(_) => ("HELLO", Plain),
        Body::Error(_) => ("ERROR", Plain),
        Body::EchoRequest(_) => ("ECHO_REQUEST", Plain),
        Body::EchoReply(_) => ("ECHO_REPLY", Plain),
        Body::FeaturesRequest => ("FEATURES_REQUEST", Plain),
        Body::FeaturesReply(_) => ("FEATURES_REPLY", Plain),
        Body::GetConfigRequest => ("GET_CONFIG_REQUEST", Plain),
        Body::GetConfigReply(_) => ("GET_CONFIG_REPLY", Plain),
        Body::SetConfig(_) => ("SET_CONFIG", Plain),
        Body::BarrierRequest => ("BARRIER_REQUEST", Plain),
        Body::BarrierReply => ("BARRIER_REPLY", Plain),
        Body::PacketIn(_, crate::packet_io::PacketInFormat::Nxt2) => ("PACKET_IN2", Plain),
        Body::PacketIn(..) => ("PACKET_IN", Plain),
        Body::PacketOut(_) => ("PACKET_OUT", Plain),
        Body::FlowRemoved(_) => ("FLOW_REMOVED", Plain),
        Body::PortStatus(_) => ("PORT_STATUS", Plain),
        Body::FlowMod(_) => ("FLOW_MOD", Plain),
        Body::GroupMod(_) => ("GROUP_MOD", Plain),
        Body::PortMod(_) => ("PORT_MOD", Plain),
        Body::TableMod(_) => ("TABLE_MOD", Plain),
        Body::MeterMod(_) => ("METER_MOD", Plain),
        Body::DescRequest => ("DESC", Request),
        Body::DescReply(_) => ("DESC", Reply),
        Body::FlowStatsRequest(_) => ("FLOW", Request),
        Body::FlowStatsReply(_) => ("FLOW", Reply),
        Body::AggregateRequest(_) => ("AGGREGATE", Request),
        Body::AggregateReply(_) => ("AGGREGATE", Reply),
        Body::TableStatsRequest => ("TABLE", Request),
        Body::TableStatsReply(_) => ("TABLE", Reply),
        Body::PortStatsRequest(_) => ("PORT", Request),
        Body::PortStatsReply(_) => ("PORT", Reply),
        Body::PortDescRequest(_) => ("PORT_DESC", Request),
        Body::PortDescReply(_) => ("PORT_DESC", Reply),
        Body::QueueStatsRequest(_) => ("QUEUE", Request),
        Body::QueueStatsReply(_) => ("QUEUE", Reply),
        Body::QueueConfigRequest(_) => ("QUEUE_DESC", Queue("request")),
        Body::QueueConfigReply(..) => ("QUEUE_DESC", Queue("reply")),
        Body::GroupStatsRequest(_) => ("GROUP", Request),
        Body::GroupStatsReply(_) => ("GROUP", Reply),
        Body::GroupDescRequest(_) => ("GROUP_DESC", Request),
        Body::GroupDescReply(_) => ("GROUP_DESC", Reply),
        Body::GroupFeaturesRequest => ("GROUP_FEATURES", Request),
        Body::GroupFeaturesReply(_) => ("GROUP_FEATURES", Reply),
        Body::MeterStatsRequest(_) => ("METER", Request),
        Body::MeterStatsReply(_) => ("METER", Reply),
        Body::MeterConfigRequest(_) => ("METER_CONFIG", Request),
        Body::MeterConfigReply(_) => ("METER_CONFIG", Reply),
        Body::MeterFeaturesRequest => ("METER_FEATURES", Request),
        Body::MeterFeaturesReply(_) => ("METER_FEATURES", Reply),
        Body::TableFeaturesRequest(_) => ("TABLE_FEATURES", Request),
        Body::TableFeaturesReply(_) => ("TABLE_FEATURES", Reply),
        Body::TableDescRequest => ("TABLE_DESC", Request),
        Body::TableDescReply(_) => ("TABLE_DESC", Reply),
        Body::FlowMonitorRequest(_) => ("FLOW_MONITOR", Request),
        Body::FlowMonitorReply(_) => ("FLOW_MONITOR", Reply),
        Body::FlowMonitorCancel(_) => ("FLOW_MONITOR_CANCEL", Plain),
        Body::FlowMonitorPaused => ("FLOW_MONITOR_PAUSED", Plain),
        Body::FlowMonitorResumed => ("FLOW_MONITOR_RESUMED", Plain),
        Body::IpfixBridgeRequest => ("IPFIX_BRIDGE", Request),
        Body::IpfixBridgeReply(_) => ("IPFIX_BRIDGE", Reply),
        Body::IpfixFlowRequest => ("IPFIX_FLOW", Request),
        Body::IpfixFlowReply(_) => ("IPFIX_FLOW", Reply),
        Body::RoleRequest(_) => ("ROLE_REQUEST", Plain),
        Body::RoleReply(_) => ("ROLE_REPLY", Plain),
        Body::RoleStatus(_) => ("ROLE_STATUS", Plain),
        Body::TableStatus(_) => ("TABLE_STATUS", Plain),
        Body::GetAsyncRequest => ("GET_ASYNC_REQUEST", Plain),
        Body::GetAsyncReply(_) => ("GET_ASYNC_REPLY", Plain),
        Body::SetAsync(_) => ("SET_ASYNC", Plain),
        Body::BundleControl(_) => ("BUNDLE_CONTROL", Plain),
        Body::BundleAdd(_) => ("BUNDLE_ADD_MESSAGE", Plain),
        Body::RequestForward(_) => ("REQUESTFORWARD", Plain),
        Body::SetFlowFormat(_) => ("SET_FLOW_FORMAT", Plain),
        Body::FlowModTableId(_) => ("FLOW_MOD_TABLE_ID", Plain),
        Body::SetPacketInFormat(_) => ("SET_PACKET_IN_FORMAT", Plain),
        Body::SetControllerId(_) => ("SET_CONTROLLER_ID", Plain),
        Body::FlowAge => ("FLOW_AGE", Plain),
        Body::Resume(_) => ("RESUME", Plain),
        Body::TlvTableMod(_) => ("TLV_TABLE_MOD", Plain),
        Body::TlvTableRequest => ("TLV_TABLE_REQUEST", Plain),
        Body::TlvTableReply(_) => ("TLV_TABLE_REPLY", Plain),
        Body::CtFlush(f) => {
            if *f == zone_only(f) {
                ("CT_FLUSH_ZONE", Plain)
            } else {
                ("CT_FLUSH", Plain)
            }
        }
    }
}

fn zone_only(f: &crate::session::CtFlush) -> crate::session::CtFlush {
    crate::session::CtFlush { zone: f.zone, ..Default::default() }
}
