//! What a connection and a switch say about themselves: features, roles, bundles, tunnel options.

use crate::port::Port;
use crate::version::VersionSet;

/// Capabilities of a switch (`OFPC_*`), each version's bits converted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Capabilities {
    pub flow_stats: bool,
    pub table_stats: bool,
    pub port_stats: bool,
    /// Spanning tree (1.0).
    pub stp: bool,
    pub group_stats: bool,
    pub ip_reasm: bool,
    pub queue_stats: bool,
    /// Match IP addresses in ARP packets (1.0).
    pub arp_match_ip: bool,
    /// Blocks looping ports (1.2 and later).
    pub port_blocked: bool,
    pub bundles: bool,
    pub flow_monitoring: bool,
}

/// `OFPT_FEATURES_REPLY`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchFeatures {
    /// The switch.
    pub datapath_id: u64,
    /// Packets it can keep.
    pub n_buffers: u32,
    /// Tables.
    pub n_tables: u8,
    /// Which of its connections (1.3).
    pub auxiliary_id: u8,
    /// Capabilities.
    pub capabilities: Capabilities,
    /// Actions it has: bit by number of a 1.0 action (1.0 only).
    pub actions: u32,
    /// Its ports, in versions before 1.3.
    pub ports: Vec<Port>,
}

/// How fragments are handled; the discriminant is the number on the wire.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FragMode {
    /// As every packet; ports of later ones are zero.
    #[default]
    Normal = 0,
    /// Dropped.
    Drop = 1,
    /// Put together.
    Reassemble = 2,
    /// Matched as such (Nicira).
    NxMatch = 3,
}

/// `OFPT_SET_CONFIG`, `OFPT_GET_CONFIG_REPLY`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchConfig {
    /// Fragments.
    pub frag: FragMode,
    /// Packets with a bad TTL go to the controller (1.1, 1.2); `None`: not said.
    pub invalid_ttl_to_controller: Option<bool>,
    /// How much of a packet that missed is sent.
    pub miss_send_len: u16,
}

/// The role of a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// As it is: only asks.
    NoChange,
    /// All are alike.
    #[default]
    Equal,
    /// Alone may change the switch.
    Primary,
    /// May only read.
    Secondary,
}

/// `OFPT_ROLE_REQUEST`, `OFPT_ROLE_REPLY`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoleReply {
    /// The role.
    pub role: Role,
    /// `None`: not said.
    pub generation_id: Option<u64>,
    /// Which controller (1.5); `None`: not said.
    pub controller_id: Option<u16>,
}

/// `OFPT_ROLE_STATUS`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoleStatus {
    /// The new role.
    pub role: Role,
    /// `OFPCRR_*`: 0 another became primary, 1 configuration, 2 experimenter.
    pub reason: u8,
    /// All ones: not known.
    pub generation_id: u64,
}

/// Which asynchronous messages a controller wants, as bits by reason: first as equal or primary, then as secondary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct AsyncConfig {
    pub packet_in: [Option<u32>; 2],
    pub port_status: [Option<u32>; 2],
    pub flow_removed: [Option<u32>; 2],
    pub role_status: [Option<u32>; 2],
    pub table_status: [Option<u32>; 2],
    pub request_forward: [Option<u32>; 2],
}

/// What a bundle control message asks or answers; the discriminant is the number on the wire.
#[repr(u16)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BundleControlType {
    OpenRequest = 0,
    OpenReply = 1,
    CloseRequest = 2,
    CloseReply = 3,
    CommitRequest = 4,
    CommitReply = 5,
    DiscardRequest = 6,
    DiscardReply = 7,
}

/// Flags of a bundle.
pub mod bundle_flags {
    /// All or nothing, and no packet sees a half.
    pub const ATOMIC: u16 = 1;
    /// In the order in which they were added.
    pub const ORDERED: u16 = 2;
}

/// `OFPT_BUNDLE_CONTROL`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleControl {
    /// The bundle.
    pub bundle: u32,
    /// What to do.
    pub kind: BundleControlType,
    /// See [`bundle_flags`].
    pub flags: u16,
}

/// `OFPT_BUNDLE_ADD_MESSAGE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleAdd {
    /// The bundle.
    pub bundle: u32,
    /// See [`bundle_flags`].
    pub flags: u16,
    /// The message to add, whole.
    pub message: Vec<u8>,
}

/// A Geneve option and the `tun_metadata` field it is matched as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlvMap {
    /// Option class.
    pub class: u16,
    /// Option type.
    pub kind: u8,
    /// Its length in bytes.
    pub len: u8,
    /// Which `tun_metadata`.
    pub index: u16,
}

/// `NXT_TLV_TABLE_MOD`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TlvTableMod {
    Add(Vec<TlvMap>),
    Delete(Vec<TlvMap>),
    Clear,
}

/// `NXT_TLV_TABLE_REPLY`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlvTableReply {
    /// Bytes that all options may have.
    pub max_space: u32,
    /// How many fields there are.
    pub max_fields: u16,
    /// What is mapped.
    pub maps: Vec<TlvMap>,
}

/// One direction of a connection to flush; `None` matches any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CtTuple {
    pub src: Option<std::net::IpAddr>,
    pub dst: Option<std::net::IpAddr>,
    pub src_port: Option<u16>,
    pub dst_port: Option<u16>,
    pub icmp_id: Option<u16>,
    pub icmp_type: Option<u8>,
    pub icmp_code: Option<u8>,
}

/// Which connections to forget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CtFlush {
    /// `None`: all zones.
    pub zone: Option<u16>,
    /// 0: any protocol.
    pub ip_proto: u8,
    /// Of the first packet.
    pub original: CtTuple,
    /// Of the answers.
    pub reply: CtTuple,
    /// Mark and the bits of it that count.
    pub mark: Option<(u32, u32)>,
    /// Label and the bits of it that count.
    pub labels: Option<(u128, u128)>,
}

/// What both sides of a connection speak.
pub fn negotiate(ours: VersionSet, theirs: VersionSet) -> Option<crate::Version> {
    ours.and(theirs).newest()
}
