//! Kinds of packets.

/// The kind of packet that a flow matches. It decides which fields the flow's actions may set.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Any,
    Arp,
    Ip,
    Tcp,
    Udp,
    Sctp,
    Icmp,
    Ip6,
    Tcp6,
    Udp6,
    Icmp6,
    Nd,
    Mpls,
    Nsh,
    Rarp,
}

impl Kind {
    /// The word for these packets in a match.
    pub fn word(self) -> Option<&'static str> {
        Some(match self {
            Kind::Any => return None,
            Kind::Arp => "arp",
            Kind::Ip => "ip",
            Kind::Tcp => "tcp",
            Kind::Udp => "udp",
            Kind::Sctp => "sctp",
            Kind::Icmp => "icmp",
            Kind::Ip6 => "ipv6",
            Kind::Tcp6 => "tcp6",
            Kind::Udp6 => "udp6",
            Kind::Icmp6 | Kind::Nd => "icmp6",
            Kind::Mpls => "mpls",
            Kind::Nsh => "dl_type=0x894f",
            Kind::Rarp => "rarp",
        })
    }

    /// Returns whether the packet is IPv6.
    pub fn is_ip6(self) -> bool {
        matches!(self, Kind::Ip6 | Kind::Tcp6 | Kind::Udp6 | Kind::Icmp6 | Kind::Nd)
    }

    /// Returns whether the packet is IPv4.
    pub fn is_ip4(self) -> bool {
        matches!(self, Kind::Ip | Kind::Tcp | Kind::Udp | Kind::Sctp | Kind::Icmp)
    }
}
