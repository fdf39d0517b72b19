//! Constants of the wire formats.

/// Length of an Ethernet header. Lengths here are in bytes.
pub(crate) const ETHERNET: usize = 14;
/// Length of an IPv4 header without options.
pub(crate) const IPV4: usize = 20;
/// Length of an IPv6 header.
pub(crate) const IPV6: usize = 40;
/// Length of a UDP header.
pub(crate) const UDP: usize = 8;
/// Length of a VXLAN header.
pub(crate) const VXLAN: usize = 8;
/// Length of a Geneve header without options.
pub(crate) const GENEVE: usize = 8;
/// Length of a GTP-U header without its optional part.
pub(crate) const GTPU: usize = 8;
/// Length of the optional part of a GTP-U header.
pub(crate) const GTPU_OPTIONAL: usize = 4;
/// Length of a segment routing header without its segments.
pub(crate) const SRH: usize = 8;

pub(crate) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(crate) const ETHERTYPE_IPV6: u16 = 0x86dd;
/// "Transparent Ethernet bridging": the protocol number of an inner Ethernet frame.
pub(crate) const ETHERTYPE_TEB: u16 = 0x6558;
pub(crate) const ETHERTYPE_NSH: u16 = 0x894f;
pub(crate) const ETHERTYPE_ERSPAN_1: u16 = 0x88be;
pub(crate) const ETHERTYPE_ERSPAN_2: u16 = 0x22eb;
/// The smallest ethertype; smaller numbers are lengths.
pub(crate) const ETHERTYPE_MIN: u16 = 0x600;

pub(crate) const PROTO_IPV4: u8 = 4;
pub(crate) const PROTO_IPV6: u8 = 41;
pub(crate) const PROTO_UDP: u8 = 17;
pub(crate) const PROTO_GRE: u8 = 47;
pub(crate) const PROTO_ROUTING: u8 = 43;
/// Type of the SRv6 routing header.
pub(crate) const ROUTING_SRV6: u8 = 4;

/// Bits of [`flow::Tunnel::flags`].
pub(crate) mod flag {
    pub(crate) const OAM: u16 = 1;
    pub(crate) const DF: u16 = 2;
    pub(crate) const CSUM: u16 = 4;
    pub(crate) const KEY: u16 = 8;
}

/// Bits of the first word of a VXLAN header.
pub(crate) mod vxlan {
    /// The VNI is valid.
    pub(crate) const I: u32 = 0x0800_0000;
    /// Generic protocol extension: the next protocol is in the last byte.
    pub(crate) const P: u32 = 0x0400_0000;
    /// Generic protocol extension: an OAM packet, not for the inner network.
    pub(crate) const O: u32 = 0x0100_0000;
    /// All bits that the generic protocol extension uses: version, P, B, O, next protocol.
    pub(crate) const GPE_USED: u32 = 0x3700_00ff;
    /// Group policy: the group is in the last two bytes.
    pub(crate) const G: u32 = 0x8000_0000;
    /// Group policy: do not learn (D) and policy applied (A), at their positions in the word.
    pub(crate) const GBP_FLAGS: u32 = 0x0048_0000;
}

/// Bits of the first 16 bits of a GRE header.
pub(crate) mod gre {
    pub(crate) const CSUM: u16 = 0x8000;
    pub(crate) const KEY: u16 = 0x2000;
    pub(crate) const SEQ: u16 = 0x1000;
}

/// Bits and values of a GTP-U header.
pub(crate) mod gtpu {
    /// Version 1, GTP and not GTP'.
    pub(crate) const FLAGS: u8 = 0x30;
    /// Extension headers follow the optional part.
    pub(crate) const E: u8 = 0x04;
    /// The optional part has a sequence number.
    pub(crate) const S: u8 = 0x02;
    /// The optional part has an N-PDU number.
    pub(crate) const PN: u8 = 0x01;
    /// The type of a message that carries a packet.
    pub(crate) const G_PDU: u8 = 255;
}

/// Next protocols of VXLAN's generic protocol extension.
pub(crate) const VXLAN_NEXT: [(u8, u16); 4] =
    [(1, ETHERTYPE_IPV4), (2, ETHERTYPE_IPV6), (3, ETHERTYPE_TEB), (4, ETHERTYPE_NSH)];

/// Packet type of an Ethernet frame, in [`flow::Flow::packet_type`].
pub(crate) const ETHERNET_FRAME: u32 = 0;

/// Packet type of a packet that begins with the header of this ethertype, in [`flow::Flow::packet_type`].
pub(crate) fn layer_3(ethertype: u16) -> u32 {
    1 << 16 | u32::from(ethertype)
}

/// Writes a big-endian field at offset `at`, if `bytes` is long enough.
#[inline(always)]
pub(crate) fn write16(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}
