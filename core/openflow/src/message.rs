//! Messages: a header and a body.

use crate::error::OfError;
use crate::flow_mod::{FlowMod, FlowRemoved};
use crate::group::{GroupDesc, GroupFeatures, GroupMod, GroupStats};
use crate::meter::{MeterConfig, MeterFeatures, MeterMod, MeterStats};
use crate::monitor::{FlowMonitorRequest, FlowUpdate};
use crate::packet_io::{PacketIn, PacketInFormat, PacketOut};
use crate::port::{Port, PortMod, PortStatus};
use crate::session::{
    AsyncConfig, BundleAdd, BundleControl, CtFlush, RoleContent, RoleStatus, SwitchConfig, SwitchFeatures,
    TlvTableMod, TlvTableReply,
};
use crate::stats::{
    AggregateStats, Desc, FlowStats, FlowStatsRequest, IpfixStats, PortStats, QueueConfig, QueueRequest,
    QueueStats,
};
use crate::table::{TableConfig, TableFeatures, TableStats, TableStatus};
use crate::version::{Version, VersionSet};
pub use crate::xid::Xid;
use units::OfPort;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Transaction id.
    pub xid: Xid,
    /// The version in which the message was, or will be, encoded.
    pub version: Version,
    /// Selects the extended form if the version has both the standard's form and a form of Nicira or ONF: in
    /// all versions for flow mods; in OpenFlow 1.0 for flow and aggregate statistics and flow-removed
    /// messages; from 1.2 on for roles; in 1.3 for the asynchronous configuration. A reply has the value of
    /// its request. Ignored for messages that have only one form.
    pub extended: bool,
    /// Whether another part of the same multipart message follows.
    pub more: bool,
    /// Body.
    pub body: Body,
}

impl Message {
    /// A message in the standard's form.
    pub fn new(version: Version, xid: Xid, body: Body) -> Message {
        Message { xid, version, extended: false, more: false, body }
    }

    /// A reply to this message, with the same version, transaction id and form.
    #[must_use]
    pub fn reply(&self, body: Body) -> Message {
        Message { xid: self.xid, version: self.version, extended: self.extended, more: false, body }
    }
}

/// An error message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorBody {
    /// The error; `None`: unknown to this codec.
    pub error: Option<OfError>,
    /// Type and code on the wire. Encoded only if `error` is `None`; otherwise they may be 0.
    pub type_and_code: (u16, u16),
    /// The first bytes of the request; a text for "hello failed".
    pub data: Vec<u8>,
}

/// A hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The versions that the peer supports.
    pub versions: VersionSet,
    /// The version byte of the header; it may be greater than that of any known version.
    pub header_version: u8,
}

/// Body of a message. Controllers send the variants `…Request`, switches send `…Reply`; both send echo requests and
/// replies.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Hello(Hello),
    Error(ErrorBody),
    EchoRequest(Vec<u8>),
    EchoReply(Vec<u8>),
    FeaturesRequest,
    FeaturesReply(SwitchFeatures),
    GetConfigRequest,
    GetConfigReply(SwitchConfig),
    SetConfig(SwitchConfig),
    BarrierRequest,
    BarrierReply,
    /// Also `NXT_PACKET_IN` and `NXT_PACKET_IN2`.
    PacketIn(Box<PacketIn>, PacketInFormat),
    PacketOut(Box<PacketOut>),
    FlowRemoved(Box<FlowRemoved>),
    PortStatus(PortStatus),
    FlowMod(Box<FlowMod>),
    GroupMod(GroupMod),
    PortMod(PortMod),
    TableMod(TableConfig),
    MeterMod(MeterMod),

    DescRequest,
    DescReply(Desc),
    FlowStatsRequest(Box<FlowStatsRequest>),
    FlowStatsReply(Vec<FlowStats>),
    AggregateRequest(Box<FlowStatsRequest>),
    AggregateReply(AggregateStats),
    TableStatsRequest,
    TableStatsReply(Vec<TableStats>),
    PortStatsRequest(OfPort),
    PortStatsReply(Vec<PortStats>),
    /// `NONE`: all ports.
    PortDescRequest(OfPort),
    PortDescReply(Vec<Port>),
    QueueStatsRequest(QueueRequest),
    QueueStatsReply(Vec<QueueStats>),
    /// Also `OFPMP_QUEUE_DESC`.
    QueueConfigRequest(QueueRequest),
    /// Configuration of queues. The port is in the header of the reply in OpenFlow 1.0 to 1.3, also if the list is empty.
    QueueConfigReply(OfPort, Vec<QueueConfig>),
    /// `GROUP_ALL`: all.
    GroupStatsRequest(u32),
    GroupStatsReply(Vec<GroupStats>),
    GroupDescRequest(u32),
    GroupDescReply(Vec<GroupDesc>),
    GroupFeaturesRequest,
    GroupFeaturesReply(GroupFeatures),
    MeterStatsRequest(u32),
    MeterStatsReply(Vec<MeterStats>),
    MeterConfigRequest(u32),
    MeterConfigReply(Vec<MeterConfig>),
    MeterFeaturesRequest,
    MeterFeaturesReply(MeterFeatures),
    /// An empty list: a query. Otherwise a request to set the features.
    TableFeaturesRequest(Vec<TableFeatures>),
    TableFeaturesReply(Vec<TableFeatures>),
    TableDescRequest,
    TableDescReply(Vec<TableConfig>),
    FlowMonitorRequest(Vec<FlowMonitorRequest>),
    FlowMonitorReply(Vec<FlowUpdate>),
    FlowMonitorCancel(u32),
    FlowMonitorPaused,
    FlowMonitorResumed,
    IpfixBridgeRequest,
    IpfixBridgeReply(Vec<IpfixStats>),
    IpfixFlowRequest,
    IpfixFlowReply(Vec<IpfixStats>),

    RoleRequest(RoleContent),
    RoleReply(RoleContent),
    RoleStatus(RoleStatus),
    TableStatus(TableStatus),
    GetAsyncRequest,
    GetAsyncReply(AsyncConfig),
    SetAsync(AsyncConfig),
    BundleControl(BundleControl),
    BundleAdd(BundleAdd),
    /// A request of another controller, forwarded for information.
    RequestForward(Box<Message>),

    /// `NXT_SET_FLOW_FORMAT`: true for NXM.
    SetFlowFormat(bool),
    /// `NXT_FLOW_MOD_TABLE_ID`: whether flow mods of OpenFlow 1.0 contain a table number.
    FlowModTableId(bool),
    SetPacketInFormat(PacketInFormat),
    SetControllerId(u16),
    /// `NXT_FLOW_AGE`, long obsolete.
    FlowAge,
    /// `NXT_RESUME`: the packet-in of a paused translation, sent back.
    Resume(Box<PacketIn>),
    TlvTableMod(TlvTableMod),
    TlvTableRequest,
    TlvTableReply(TlvTableReply),
    /// `NXT_CT_FLUSH_ZONE` and `NXT_CT_FLUSH`.
    CtFlush(CtFlush),
}
