//! Information elements (RFC 7012): number, length in bytes, enterprise.

use crate::write::WriteBigEndian;

/// An information element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) id: u16,
    /// Length in bytes; 0: variable.
    pub(super) length: u16,
    /// The enterprise that defines it; 0: IANA.
    pub(super) enterprise: u32,
}

/// The enterprise number of VMware, which has defined the elements for tunnels and virtual observation points.
const VMWARE: u32 = 6876;
/// The bit of an element's number that is set if an enterprise number follows.
const HAS_ENTERPRISE: u16 = 0x8000;
/// The length of an element of variable length, in a template (RFC 7011 §7).
const VARIABLE: u16 = 0xffff;

const fn iana(id: u16, length: u16) -> Element {
    Element { id, length, enterprise: 0 }
}

const fn vmware(id: u16, length: u16) -> Element {
    Element { id, length, enterprise: VMWARE }
}

impl Element {
    /// Appends its description for a template.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.u16(if self.enterprise == 0 { self.id } else { self.id | HAS_ENTERPRISE });
        out.u16(if self.length == 0 { VARIABLE } else { self.length });
        if self.enterprise != 0 {
            out.u32(self.enterprise);
        }
    }
}

/// The first elements of every record: observation point, direction, Ethernet addresses, Ethernet type, length of the
/// Ethernet header.
pub(super) const COMMON: [Element; 6] =
    [iana(138, 4), iana(61, 1), iana(56, 6), iana(80, 6), iana(256, 2), iana(240, 1)];
/// The port that received the packet: index, type, name, description.
pub(super) const INGRESS: [Element; 4] = [iana(10, 4), iana(368, 4), iana(82, 0), iana(83, 0)];
/// The port that sends the packet: the same elements.
pub(super) const EGRESS: [Element; 4] = [iana(14, 4), iana(369, 4), iana(82, 0), iana(83, 0)];
/// vlanId, dot1qVlanId, dot1qPriority.
pub(super) const VLAN: [Element; 3] = [iana(58, 2), iana(243, 2), iana(244, 1)];
/// IP: version, TTL, protocol, DSCP, precedence, class of service.
pub(super) const IP: [Element; 6] =
    [iana(60, 1), iana(192, 1), iana(4, 1), iana(195, 1), iana(196, 1), iana(5, 1)];
/// IPv4: source and destination.
pub(super) const IPV4: [Element; 2] = [iana(8, 4), iana(12, 4)];
/// IPv6: source, destination, flow label.
pub(super) const IPV6: [Element; 3] = [iana(27, 16), iana(28, 16), iana(31, 4)];
/// TCP, UDP and SCTP: source and destination port.
pub(super) const TRANSPORT: [Element; 2] = [iana(7, 2), iana(11, 2)];
/// ICMPv4: type and code.
pub(super) const ICMPV4: [Element; 2] = [iana(176, 1), iana(177, 1)];
/// ICMPv6: type and code.
pub(super) const ICMPV6: [Element; 2] = [iana(178, 1), iana(179, 1)];
/// Tunnel: source, destination, protocol, source port, destination port, type, key.
pub(super) const TUNNEL: [Element; 7] = [
    vmware(893, 4),
    vmware(894, 4),
    vmware(895, 1),
    vmware(896, 2),
    vmware(897, 2),
    vmware(891, 1),
    vmware(892, 0),
];
/// The virtual observation point.
pub(super) const VIRTUAL_OBSERVATION: Element = vmware(898, 0);
/// Time from the first and from the last sample to the export; counts of packets and bytes; why the record was sent.
pub(super) const COUNTS: [Element; 16] = [
    iana(158, 4),
    iana(159, 4),
    iana(133, 8),
    iana(135, 8),
    iana(2, 8),
    iana(86, 8),
    iana(354, 8),
    iana(355, 8),
    iana(356, 8),
    iana(357, 8),
    iana(358, 8),
    iana(19, 8),
    iana(174, 8),
    iana(352, 8),
    iana(353, 8),
    iana(136, 1),
];
/// Bytes of IP packets: counts, sums of squared lengths, minimum and maximum length.
pub(super) const IP_COUNTS: [Element; 10] = [
    iana(132, 8),
    iana(134, 8),
    iana(1, 8),
    iana(85, 8),
    iana(198, 8),
    iana(199, 8),
    iana(25, 8),
    iana(26, 8),
    iana(20, 8),
    iana(175, 8),
];
/// Counts of TCP packets by flag: ACK, FIN, PSH, RST, SYN, URG.
pub(super) const TCP_COUNTS: [Element; 6] =
    [iana(222, 8), iana(219, 8), iana(221, 8), iana(220, 8), iana(218, 8), iana(223, 8)];
/// The scope of the exporter's own statistics: exportingProcessId.
pub(super) const PROCESS: Element = iana(144, 4);
/// notSentPacketTotalCount.
pub(super) const NOT_SENT: Element = iana(167, 8);
