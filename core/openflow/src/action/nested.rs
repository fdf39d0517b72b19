//! Actions with structured parameters.

use flow::{FieldId, Subfield};
use std::net::{Ipv4Addr, Ipv6Addr};
use units::OfPort;

/// `controller(…)`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Controller {
    /// Maximum number of packet bytes to send.
    pub max_len: u16,
    /// Id of the controller.
    pub controller_id: u16,
    /// `OFPR_*`: 0 no match, 1 action, 2 invalid TTL, 3 action set, 4 group, 5 packet-out.
    pub reason: u8,
    /// Opaque bytes that the packet-in contains.
    pub userdata: Vec<u8>,
    /// Pause the translation at this action, until the controller resumes it.
    pub pause: bool,
    /// Meter that limits the packet-ins; 0: none.
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

/// The fields that are hashed (`enum nx_hash_fields`); the discriminant is the number on the wire.
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

/// Selection algorithm of `bundle`; the discriminant is the number on the wire.
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
    /// Selection algorithm.
    pub algorithm: BundleAlgorithm,
    /// Fields to hash.
    pub fields: HashFields,
    /// Initial value of the hash.
    pub basis: u16,
    /// Write the port number to this field instead of sending the packet (`bundle_load`).
    pub dst: Option<Subfield>,
    /// The ports.
    pub members: Vec<OfPort>,
}

/// Link selection algorithm of `multipath`; the discriminant is the number on the wire.
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
    /// Hash again until the result is in range.
    IterHash = 3,
}

/// `multipath(…)`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Multipath {
    /// Fields to hash.
    pub fields: HashFields,
    /// Initial value of the hash.
    pub basis: u16,
    /// Selection algorithm.
    pub algorithm: MultipathAlgorithm,
    /// Number of links minus one.
    pub max_link: u16,
    /// Parameter of `IterHash`.
    pub arg: u32,
    /// Field to which the link number is written.
    pub dst: Subfield,
}

/// `learn(…)`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Learn {
    /// Idle timeout of the new flow in seconds; 0: none.
    pub idle_timeout: u16,
    /// Hard timeout of the new flow in seconds; 0: none.
    pub hard_timeout: u16,
    /// Priority of the new flow.
    pub priority: u16,
    /// Table of the new flow.
    pub table: u8,
    /// Cookie of the new flow.
    pub cookie: u64,
    /// Send a flow-removed message when the new flow is removed.
    pub send_flow_rem: bool,
    /// Delete the learned flows when this flow is removed.
    pub delete_learned: bool,
    /// Idle timeout of the new flow after FIN or RST, in seconds; 0: none.
    pub fin_idle_timeout: u16,
    /// Hard timeout of the new flow after FIN or RST, in seconds; 0: none.
    pub fin_hard_timeout: u16,
    /// Maximum number of flows with this cookie; 0: no limit.
    pub limit: u32,
    /// One-bit field that receives whether the flow was added.
    pub result_dst: Option<Subfield>,
    /// The parts of the match and of the actions of the new flow.
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

/// One part of the match or actions of a learned flow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LearnSpec {
    /// Number of bits.
    pub n_bits: u16,
    /// Source of the bits.
    pub src: LearnSource,
    /// Destination of the bits.
    pub dst: LearnTarget,
}

/// Source of the bits of a [`LearnSpec`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LearnSource {
    /// A field of the packet that runs `learn`.
    Field(Subfield),
    /// A constant.
    Value(u128),
}

/// Destination of the bits of a [`LearnSpec`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LearnTarget {
    /// The new flow matches the bits in this subfield.
    Match(Subfield),
    /// The new flow has an action that loads the bits into this subfield.
    Load(Subfield),
    /// The bits are a port number, and the new flow outputs to this port.
    Output,
}

/// `set_field` of a field of tunnel options, whose value may be too wide for a number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SetTlv {
    /// The complete field.
    pub field: Subfield,
    /// The value. It has the length that the sender has chosen, until [`crate::tlv::adjust_actions`] adjusts it to the
    /// length of the field.
    pub value: Vec<u8>,
    /// Bits of the value to write; `None`: all.
    pub mask: Option<Vec<u8>>,
}

/// A constant, or a field of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NumberOrField {
    /// A constant.
    Number(u32),
    /// The value of this field.
    Field(Subfield),
}

/// The addresses of a [`Nat`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NatRange {
    /// No range.
    #[default]
    None,
    /// First and last address; the last may be unspecified.
    V4(Ipv4Addr, Ipv4Addr),
    /// First and last address; the last may be unspecified.
    V6(Ipv6Addr, Ipv6Addr),
}

/// `nat(…)`. If neither `src` nor `dst` is set, packets are translated only as their existing connection requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nat {
    /// Translate the source.
    pub src: bool,
    /// Translate the destination.
    pub dst: bool,
    /// Select the same translation after a restart.
    pub persistent: bool,
    /// Select ports by hash.
    pub hash: bool,
    /// Select ports at random.
    pub random: bool,
    /// Addresses.
    pub range: NatRange,
    /// First and last port; 0: not given.
    pub ports: (u16, u16),
}

/// Direction of a sampled packet; the discriminant is the number on the wire.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SampleDirection {
    /// The direction is derived from the port.
    #[default]
    Default = 0,
    /// Received.
    Ingress = 1,
    /// Sent.
    Egress = 2,
}

/// `sample(…)`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sample {
    /// Sampling probability in 1/65535; never 0.
    pub probability: u16,
    /// `id` of a row of `Flow_Sample_Collector_Set`.
    pub collector_set_id: u32,
    /// Observation domain.
    pub obs_domain: NumberOrField,
    /// Observation point.
    pub obs_point: NumberOrField,
    /// Port to report in the record; `NONE`: none.
    pub sampling_port: OfPort,
    /// Direction to report.
    pub direction: SampleDirection,
}

/// Packet type of a `decap` without argument: the type of the remaining packet follows from the removed header.
pub const PACKET_TYPE_NEXT: u32 = 0xfffe;

/// `encap(…)`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Encap {
    /// Packet type of the new outer header.
    pub packet_type: u32,
    /// Size of the new header; 0: not given.
    pub header_size: u16,
    /// Values for the new header.
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
    /// Maximum data bytes of a TLV. On the wire, the length of the TLV and the length of its property have one byte each.
    pub const TLV_MAX: usize = 240;
}

impl From<FieldId> for NumberOrField {
    fn from(field: FieldId) -> NumberOrField {
        NumberOrField::Field(Subfield::whole(field))
    }
}
