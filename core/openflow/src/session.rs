//! Features, configuration, roles, bundles, tunnel option maps and connection tracking flushes.

use crate::port::Port;
use crate::version::VersionSet;

/// Capabilities of a switch (`OFPC_*`), independent of the version.
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
    /// Datapath id.
    pub datapath_id: u64,
    /// Maximum number of buffered packets.
    pub n_buffers: u32,
    /// Number of tables.
    pub n_tables: u8,
    /// Id of an auxiliary connection; 0: the main connection (1.3).
    pub auxiliary_id: u8,
    /// Capabilities.
    pub capabilities: Capabilities,
    /// Supported actions: bits by number of a 1.0 action (1.0 only).
    pub actions: u32,
    /// The ports of the switch, in versions before 1.3.
    pub ports: Vec<Port>,
}

/// Handling of IP fragments; the discriminant is the number on the wire.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FragMode {
    /// Fragments are looked up like other packets; the transport ports of all fragments are zero in the look-up.
    #[default]
    Normal = 0,
    /// Fragments are dropped.
    Drop = 1,
    /// Fragments are reassembled.
    Reassemble = 2,
    /// As `Normal`, but the look-up has the transport ports of first fragments (Nicira).
    NxMatch = 3,
}

/// `OFPT_SET_CONFIG`, `OFPT_GET_CONFIG_REPLY`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchConfig {
    /// Handling of fragments.
    pub frag: FragMode,
    /// Send packets with an invalid TTL to the controller (1.1, 1.2); `None`: not in the message.
    pub invalid_ttl_to_controller: Option<bool>,
    /// Maximum bytes of a packet to send on a miss.
    pub miss_send_len: u16,
}

/// The role of a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// In a request: report the role without changing it.
    NoChange,
    /// Full access, like all other equal controllers.
    #[default]
    Equal,
    /// Full access; at most one controller is primary.
    Primary,
    /// Read-only access.
    Secondary,
}

/// Content of `OFPT_ROLE_REQUEST` and `OFPT_ROLE_REPLY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoleContent {
    /// The role.
    pub role: Role,
    /// Generation id; `None`: not in the message.
    pub generation_id: Option<u64>,
    /// Controller id (1.5); `None`: not in the message.
    pub controller_id: Option<u16>,
}

/// `OFPT_ROLE_STATUS`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoleStatus {
    /// The new role.
    pub role: Role,
    /// `OFPCRR_*`: 0 another controller became primary, 1 configuration, 2 experimenter.
    pub reason: u8,
    /// Generation id; all ones: not known.
    pub generation_id: u64,
}

/// Asynchronous messages that a controller requests, as bit masks of reasons: `[0]` for the roles equal and primary,
/// `[1]` for the role secondary; `None`: not in the message.
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

/// Type of a bundle control message; the discriminant is the number on the wire.
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
    /// All messages take effect or none, and no packet is processed with only a part of them.
    pub const ATOMIC: u16 = 1;
    /// Apply the messages in the order in which they were added.
    pub const ORDERED: u16 = 2;
}

/// `OFPT_BUNDLE_CONTROL`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleControl {
    /// Bundle id.
    pub bundle: u32,
    /// Type.
    pub kind: BundleControlType,
    /// See [`bundle_flags`].
    pub flags: u16,
}

/// `OFPT_BUNDLE_ADD_MESSAGE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleAdd {
    /// Bundle id.
    pub bundle: u32,
    /// See [`bundle_flags`].
    pub flags: u16,
    /// The complete message to add.
    pub message: Vec<u8>,
}

/// A Geneve option, and the `tun_metadata` field to which it is mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlvMap {
    /// Option class.
    pub class: u16,
    /// Option type.
    pub kind: u8,
    /// Length of the option's data in bytes.
    pub len: u8,
    /// Number of the `tun_metadata` field.
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
    /// Maximum sum of the lengths of all options in bytes.
    pub max_space: u32,
    /// Number of fields.
    pub max_fields: u16,
    /// Current mappings.
    pub maps: Vec<TlvMap>,
}

/// Filter for one direction of a connection; `None` matches any value.
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

/// Filter of the connections to flush.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CtFlush {
    /// Zone; `None`: all zones.
    pub zone: Option<u16>,
    /// IP protocol; 0: any protocol.
    pub ip_proto: u8,
    /// Filter of the original direction.
    pub original: CtTuple,
    /// Filter of the reply direction.
    pub reply: CtTuple,
    /// Value and mask of the mark.
    pub mark: Option<(u32, u32)>,
    /// Value and mask of the label.
    pub labels: Option<(u128, u128)>,
}

/// The newest version that both sides support.
pub fn negotiate(ours: VersionSet, theirs: VersionSet) -> Option<crate::Version> {
    ours.and(theirs).newest()
}
