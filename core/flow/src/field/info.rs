//! The types of the columns in the table of fields.

/// Whether a match may test single bits of the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maskable {
    /// No: all bits of the field or none.
    Whole,
    /// Yes: any bits.
    Bitwise,
}

/// The form of a field's value in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Form {
    Decimal,
    Hex,
    Ethernet,
    Ipv4,
    Ipv6,
    /// no, yes, first, later, not_later.
    Frag,
    /// 16-bit OpenFlow port number or name.
    OfPort,
    /// 32-bit OpenFlow port number or name.
    OfPortOxm,
    CtState,
    TcpFlags,
    TunnelFlags,
    PacketType,
}

/// The condition under which a packet has the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Prereq {
    None,
    Ethernet,
    Arp,
    VlanVid,
    Ipv4,
    Ipv6,
    IpAny,
    CtValid,
    Mpls,
    Tcp,
    Udp,
    Sctp,
    Icmpv4,
    Icmpv6,
    Nd,
    NdSolicit,
    NdAdvert,
    Nsh,
}

/// The protocols that can express a match on the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Usable {
    /// No protocol.
    None,
    /// NXM over OpenFlow 1.0, and OpenFlow 1.2 and later.
    NxmOxm,
    /// The protocols of `NxmOxm`, and OpenFlow 1.1.
    Of11Up,
    /// All protocols, including OpenFlow 1.0.
    Any,
}

/// A header that denotes a field in NXM or OXM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Vendor in bits 63..32 (0: none), class in 31..16, field in 15..9, has-mask in bit 8, length in 7..0. The
    /// length includes the four bytes of a vendor.
    pub bits: u64,
    /// The first OpenFlow version whose standard defines the header, as a wire version (1 is OpenFlow 1.0); 0 for NXM.
    pub of_version: u8,
    /// The name of the header, for example `NXM_OF_IN_PORT`.
    pub name: &'static str,
}
