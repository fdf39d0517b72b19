//! Messages: a header and one of the bodies.

use crate::error::OfError;
use crate::flow_mod::{FlowMod, FlowRemoved};
use crate::group::{GroupDesc, GroupFeatures, GroupMod, GroupStats};
use crate::meter::{MeterConfig, MeterFeatures, MeterMod, MeterStats};
use crate::monitor::{FlowMonitorRequest, FlowUpdate};
use crate::packet_io::{PacketIn, PacketInFormat, PacketOut};
use crate::port::{Port, PortMod, PortStatus};
use crate::session::{
    AsyncConfig, BundleAdd, BundleControl, CtFlush, RoleReply, RoleStatus, SwitchConfig, SwitchFeatures,
    TlvTableMod, TlvTableReply,
};
use crate::stats::{
    AggregateStats, Desc, FlowStats, FlowStatsRequest, PortStats, QueueConfig, QueueRequest, QueueStats,
};
use crate::table::{TableConfig, TableFeatures, TableStats, TableStatus};
use crate::version::{Version, VersionSet};
pub use crate::xid::Xid;
use units::OfPort;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Transaction.
    pub xid: Xid,
    /// Version in which it is, or is to be, written.
    pub version: Version,
    /// In the extended form, where the version has the standard's and one of Nicira or ONF (OpenFlow 1.0: flow mods,
    /// flow statistics, flow removed; role and asynchronous configuration in later ones). A reply takes it from its
    /// request. Where there is but one form it says nothing.
    pub extended: bool,
    /// More parts of the same multipart message follow.
    pub more: bool,
    /// What it says.
    pub body: Body,
}

impl Message {
    /// A message in the standard's form.
    pub fn new(version: Version, xid: Xid, body: Body) -> Message {
        Message { xid, version, extended: false, more: false, body }
    }

    /// An answer to this message: same version, transaction and form.
    #[must_use]
    pub fn reply(&self, body: Body) -> Message {
        Message { xid: self.xid, version: self.version, extended: self.extended, more: false, body }
    }
}

/// An error message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorBody {
    /// The error; `None`: one that this codec does not know.
    pub error: Option<OfError>,
    /// Type and code on the wire.
    pub wire: (u16, u16),
    /// The first bytes of the request; for "hello failed" a text.
    pub data: Vec<u8>,
}

/// A hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// What the peer speaks.
    pub versions: VersionSet,
    /// The version byte of its header, which may be newer than any that we know.
    pub header_version: u8,
}

/// What a message says. `…Request` is from the controller, `…Reply` from the switch.
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
    /// The port counts where there are no queues.
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
    /// With features: asks to set them.
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
    IpfixFlowRequest,

    RoleRequest(RoleReply),
    RoleReply(RoleReply),
    RoleStatus(RoleStatus),
    TableStatus(TableStatus),
    GetAsyncRequest,
    GetAsyncReply(AsyncConfig),
    SetAsync(AsyncConfig),
    BundleControl(BundleControl),
    BundleAdd(BundleAdd),
    /// The request of another controller, for this one to know.
    RequestForward(Box<Message>),

    /// `NXT_SET_FLOW_FORMAT`: true for NXM.
    SetFlowFormat(bool),
    /// `NXT_FLOW_MOD_TABLE_ID`: flow mods of OpenFlow 1.0 say their table.
    FlowModTableId(bool),
    SetPacketInFormat(PacketInFormat),
    SetControllerId(u16),
    /// `NXT_FLOW_AGE`, long obsolete.
    FlowAge,
    /// `NXT_RESUME`: a packet-in comes back.
    Resume(Box<PacketIn>),
    TlvTableMod(TlvTableMod),
    TlvTableRequest,
    TlvTableReply(TlvTableReply),
    /// `NXT_CT_FLUSH_ZONE` and `NXT_CT_FLUSH`.
    CtFlush(CtFlush),
}
