//! The actions of the datapath.
//!
//! A list of actions is the complete behaviour of a megaflow. The names of the actions are those of their text form
//! (`ovs-dpctl(8)`), which module `text` prints and parses.

use crate::DropReason;
use crate::set_field::SetField;
use crate::userspace::Userspace;
use flow::{Mac, Nsh};
use units::PortNo;

/// One datapath action.
#[derive(Clone, Debug, PartialEq)]
pub enum DpAction {
    /// Send out of a port.
    Output(PortNo),
    /// Pass to the control half.
    Userspace(Box<Userspace>),
    /// Write fields of one header; bits outside of the mask stay unchanged.
    Set(SetField),
    /// Push an outermost VLAN tag.
    PushVlan {
        /// Ethertype of the tag.
        tpid: u16,
        /// PCP, CFI (set), VID.
        tci: u16,
    },
    /// Remove the outermost VLAN tag.
    PopVlan,
    /// Push an outermost MPLS label stack entry.
    PushMpls {
        /// 0x8847 or 0x8848.
        ethertype: u16,
        /// Label, TC, S, TTL.
        lse: u32,
    },
    /// Remove the outermost MPLS label stack entry.
    PopMpls {
        /// Ethertype of the payload.
        ethertype: u16,
    },
    /// Push an MPLS label stack entry in front of all headers, including the Ethernet header.
    AddMpls {
        /// 0x8847 or 0x8848.
        ethertype: u16,
        /// Label, TC, S, TTL.
        lse: u32,
    },
    /// Push an Ethernet header on a layer 3 packet.
    PushEth {
        /// Destination.
        dst: Mac,
        /// Source.
        src: Mac,
    },
    /// Remove the Ethernet header.
    PopEth,
    /// Push a network service header (NSH) in front of all headers.
    PushNsh(Box<PushNsh>),
    /// Remove the NSH.
    PopNsh,
    /// Look the packet up again with this recirculation id.
    Recirc(u32),
    /// Compute `dp_hash`.
    Hash {
        /// The hashed fields.
        alg: HashAlg,
        /// Seed.
        basis: u32,
    },
    /// Connection tracking.
    Ct(Box<Ct>),
    /// Clear the connection tracking state.
    CtClear,
    /// Execute the actions on a copy of the packet.
    Clone(Vec<DpAction>),
    /// For randomly selected packets: execute actions on a copy of the packet.
    Sample(Box<Sample>),
    /// Pass the packet through this meter, which may drop it.
    Meter(u32),
    /// The next output sends at most this many bytes.
    Trunc(u32),
    /// Branch by packet length.
    CheckPktLen(Box<CheckPktLen>),
    /// Drop the packet and count the reason.
    Drop(DropReason),
    /// Add a tunnel header. The next actions apply to the encapsulated packet.
    TunnelPush(Box<TunnelPush>),
    /// Remove the tunnel header; the packet is looked up again as received by this tunnel port.
    TunnelPop(PortNo),
    /// Send to the link of a bond that owns the bucket of the packet's hash.
    LbOutput(LbOutput),
}

/// The fields that the `hash` action covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashAlg {
    /// `hash_l4`: addresses, protocol, ports.
    L4,
    /// `sym_l4`: a hash that is equal for both directions of a connection.
    SymL4,
}

/// Arguments of `push_nsh`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushNsh {
    /// The fields. The protocol of the payload is set for each packet.
    pub nsh: Nsh,
    /// Context headers of metadata type 2; the length is a multiple of 4 bytes.
    pub md2: Vec<u8>,
}

/// Arguments of `sample`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Share of the packets: `u32::MAX` is all of them.
    pub probability: u32,
    /// Actions for the sampled copy.
    pub actions: Vec<DpAction>,
}

/// Arguments of `check_pkt_len`.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckPktLen {
    /// Packets of up to this length in bytes get the actions `less_equal`.
    pub pkt_len: u16,
    /// Actions for longer packets.
    pub greater: Vec<DpAction>,
    /// Actions for other packets.
    pub less_equal: Vec<DpAction>,
}

/// Arguments of `ct`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ct {
    /// Commit the connection.
    pub commit: bool,
    /// If the packet belongs to the reply direction of an existing connection, replace this connection (`force_commit`).
    pub force: bool,
    /// The connection tracking zone.
    pub zone: u16,
    /// `ct_mark` to write: value, mask.
    pub mark: Option<(u32, u32)>,
    /// `ct_label` to write: value, mask; most significant half first.
    pub label: Option<([u64; 2], [u64; 2])>,
    /// The name of the application layer gateway.
    pub helper: Option<String>,
    /// Timeout policy.
    pub timeout: Option<CtTimeout>,
    /// Address translation; `Some` of a default value is a bare `nat`.
    pub nat: Option<CtNat>,
}

/// The timeout policy of `ct`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CtTimeout {
    /// The name of the policy in the text form.
    pub name: String,
    /// The number of the policy in the datapath.
    pub id: u32,
}

/// Address translation of `ct`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CtNat {
    /// `Some(true)`: translate the source; `Some(false)`: translate the destination; `None`: translate as the existing
    /// connection does.
    pub snat: Option<bool>,
    /// First and last address of the range.
    pub addresses: Option<(std::net::IpAddr, std::net::IpAddr)>,
    /// First and last port of the range.
    pub ports: Option<(u16, u16)>,
    /// A client gets the same address for all its connections, also after a restart of the switch.
    pub persistent: bool,
    /// Choose the port by hash.
    pub hash: bool,
    /// Choose the port at random.
    pub random: bool,
}

/// Arguments of `tnl_push`.
#[derive(Clone, Debug, PartialEq)]
pub struct TunnelPush {
    /// The tunnel port, whose counters include the packet.
    pub tunnel_port: PortNo,
    /// The port that sends the encapsulated packet.
    pub out_port: PortNo,
    /// `OVS_VPORT_TYPE_*`; used only to print the header.
    pub tunnel_type: u32,
    /// The header. Its lengths and checksums are completed for each packet.
    pub header: TunnelHeader,
}

/// The bytes of a precomputed outer header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TunnelHeader(pub Vec<u8>);

/// Number of buckets of a bond: `lb_output` selects a bucket by the low eight bits of the packet's hash.
pub const BOND_BUCKETS: usize = 256;

/// Argument of `lb_output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LbOutput {
    /// The bond's number in the datapath.
    pub bond_id: u32,
}
