//! The actions that have parts of their own.

use super::Action;
use flow::{FieldId, Subfield};
use std::net::{Ipv4Addr, Ipv6Addr};
use units::OfPort;

/// `controller(…)`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Controller {
    /// How much of the packet to send.
    pub max_len: u16,
    /// Which controller.
    pub controller_id: u16,
    /// `OFPR_*`: 0 no match, 1 action, 2 invalid TTL, 3 action set, 4 group, 5 packet-out.
    pub reason: u8,
    /// Sent along as it is.
    pub userdata: Vec<u8>,
    /// Stop here; the controller resumes the packet.
    pub pause: bool,
    /// A meter for these messages; 0 is none.
    pub meter: u32,
}

impl Default for Controller {
    fn default() -> Controller {
        Controller {
            max_len: 0xffff,
            controller_id: 0,
            reason: 1,
            userdata: Vec::new(),
            pause: false,
            meter: 0,
        }
    }
}

/// Which fields a hash covers (`enum nx_hash_fields`); the discriminant is the number on the wire.
#[allow(missing_docs)]
#[repr(u16)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HashFields {
    #[default]
    EthSrc = 0,
    SymmetricL4 = 1,
    SymmetricL3L4 = 2,
    SymmetricL3L4Udp = 3,
    NwSrc = 4,
    NwDst = 5,
    SymmetricL3 = 6,
}

/// How `bundle` chooses; the discriminant is the number on the wire.
#[repr(u16)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BundleAlgorithm {
    /// The first member that is up.
    #[default]
    ActiveBackup = 0,
    /// Highest random weight.
    Hrw = 1,
}

/// `bundle(…)`, and with `dst` `bundle_load(…)`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bundle {
    /// How to choose.
    pub algorithm: BundleAlgorithm,
    /// What to hash.
    pub fields: HashFields,
    /// Start of the hash.
    pub basis: u16,
    /// Where to put the number of the port instead of sending the packet there.
    pub dst: Option<Subfield>,
    /// The ports.
    pub members: Vec<OfPort>,
}

/// How `multipath` chooses; the discriminant is the number on the wire.
#[repr(u16)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MultipathAlgorithm {
    /// Hash modulo the number of links.
    #[default]
    ModuloN = 0,
    /// Hash divided by a threshold (RFC 2992).
    HashThreshold = 1,
    /// Highest random weight (RFC 2992).
    Hrw = 2,
    /// Hash again until it is in range.
    IterHash = 3,
}

/// `multipath(…)`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Multipath {
    /// What to hash.
    pub fields: HashFields,
    /// Start of the hash.
    pub basis: u16,
    /// How to choose.
    pub algorithm: MultipathAlgorithm,
    /// Number of links less one.
    pub max_link: u16,
    /// For `IterHash`.
    pub arg: u32,
    /// Where to put the link.
    pub dst: Subfield,
}

/// `learn(…)`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Learn {
    /// Of the new flow, seconds.
    pub idle_timeout: u16,
    /// Of the new flow, seconds.
    pub hard_timeout: u16,
    /// Of the new flow.
    pub priority: u16,
    /// Of the new flow.
    pub table: u8,
    /// Of the new flow.
    pub cookie: u64,
    /// The new flow tells when it goes.
    pub send_flow_rem: bool,
    /// Learned flows go with this one.
    pub delete_learned: bool,
    /// The new flow's timeouts after FIN or RST; 0 is none.
    pub fin_idle_timeout: u16,
    /// The new flow's timeouts after FIN or RST; 0 is none.
    pub fin_hard_timeout: u16,
    /// At most so many flows with this cookie; 0 is no limit.
    pub limit: u32,
    /// Where to put whether the flow could be made.
    pub result_dst: Option<Subfield>,
    /// What the new flow matches and does.
    pub specs: Vec<LearnSpec>,
}

impl Default for Learn {
    fn default() -> Learn {
        Learn {
            idle_timeout: 0,
            hard_timeout: 0,
            priority: 0x8000,
            table: 1,
            cookie: 0,
            send_flow_rem: false,
            delete_learned: false,
            fin_idle_timeout: 0,
            fin_hard_timeout: 0,
            limit: 0,
            result_dst: None,
            specs: Vec::new(),
        }
    }
}

/// One part of what a learned flow matches or does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LearnSpec {
    /// How many bits are copied.
    pub n_bits: u16,
    /// From where.
    pub src: LearnSource,
    /// To where.
    pub dst: LearnTarget,
}

/// Where the bits of a [`LearnSpec`] come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LearnSource {
    /// The packet that caused it.
    Field(Subfield),
    /// A number.
    Value(u128),
}

/// Where the bits of a [`LearnSpec`] go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LearnTarget {
    /// The new flow matches them.
    Match(Subfield),
    /// The new flow loads them.
    Load(Subfield),
    /// The new flow sends packets there.
    Output,
}

/// `set_field` of a field of tunnel options, whose value may be too wide for a number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SetTlv {
    /// The whole field.
    pub field: Subfield,
    /// What to write, as long as the sender made it until the switch has seen to it ([`crate::tlv::lay_out`]).
    pub value: Vec<u8>,
    /// The bits of it to write; `None` is all.
    pub mask: Option<Vec<u8>>,
}

/// A number in the action or a field of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NumberOrField {
    /// The number.
    Number(u32),
    /// Read it there.
    Field(Subfield),
}

/// `ct(…)`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ct {
    /// Keep the connection.
    pub commit: bool,
    /// Forget a connection of the other direction first.
    pub force: bool,
    /// The zone.
    pub zone: NumberOrField,
    /// Go on in this table with what is known of the connection.
    pub recirc_table: Option<u8>,
    /// 0, or the port of the helper: 21 for FTP, 69 for TFTP.
    pub alg: u16,
    /// `nat`, and set-field of `ct_mark` and `ct_label`.
    pub actions: Vec<Action>,
}

impl Default for Ct {
    fn default() -> Ct {
        Ct {
            commit: false,
            force: false,
            zone: NumberOrField::Number(0),
            recirc_table: None,
            alg: 0,
            actions: Vec::new(),
        }
    }
}

/// The addresses of a [`Nat`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NatRange {
    /// None given.
    #[default]
    None,
    /// First and last; the last may be unspecified.
    V4(Ipv4Addr, Ipv4Addr),
    /// First and last; the last may be unspecified.
    V6(Ipv6Addr, Ipv6Addr),
}

/// `nat(…)`. Neither `src` nor `dst`: translate as the connection says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nat {
    /// Translate the source.
    pub src: bool,
    /// Translate the destination.
    pub dst: bool,
    /// The same translation after a restart.
    pub persistent: bool,
    /// Choose ports by hash.
    pub hash: bool,
    /// Choose ports at random.
    pub random: bool,
    /// Addresses.
    pub range: NatRange,
    /// Ports, first and last; 0 is not given.
    pub ports: (u16, u16),
}

/// Which way a sampled packet goes; the discriminant is the number on the wire.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SampleDirection {
    /// Found out from the port.
    #[default]
    Default = 0,
    /// Coming in.
    Ingress = 1,
    /// Going out.
    Egress = 2,
}

/// `sample(…)`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sample {
    /// Of 65535; never 0.
    pub probability: u16,
    /// Row of `Flow_Sample_Collector_Set`.
    pub collector_set_id: u32,
    /// Observation domain.
    pub obs_domain: NumberOrField,
    /// Observation point.
    pub obs_point: NumberOrField,
    /// Port to say in the record; `NONE` is none.
    pub sampling_port: OfPort,
    /// Which way.
    pub direction: SampleDirection,
}

/// "Whatever comes next decides": the packet type of a bare `decap`.
pub const PACKET_TYPE_NEXT: u32 = 0xfffe;

/// `encap(…)`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Encap {
    /// The new outer header.
    pub packet_type: u32,
    /// Its size; 0 is not said.
    pub header_size: u16,
    /// What to put into it.
    pub properties: Vec<EncapProperty>,
}

/// One property of an [`Encap`].
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EncapProperty {
    /// `md_type` of NSH.
    NshMdType(u8),
    /// A TLV of NSH metadata type 2.
    NshTlv { class: u16, kind: u8, data: Vec<u8> },
}

impl EncapProperty {
    /// How many bytes a TLV may have, so that its length and that of its property fit a byte each.
    pub const TLV_MAX: usize = 240;
}

impl From<FieldId> for NumberOrField {
    fn from(field: FieldId) -> NumberOrField {
        NumberOrField::Field(Subfield::whole(field))
    }
}
