//! Port properties that exported records (sFlow, IPFIX, NetFlow) contain.

/// The kinds of tunnels that records distinguish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TunnelKind {
    /// No tunnel, or a tunnel of another kind.
    #[default]
    Other,
    /// GRE.
    Gre,
    /// VXLAN.
    Vxlan,
    /// Geneve.
    Geneve,
}

impl TunnelKind {
    /// The kind of an interface type.
    pub fn of(interface_type: &str) -> TunnelKind {
        match interface_type {
            "gre" => TunnelKind::Gre,
            "vxlan" => TunnelKind::Vxlan,
            "geneve" => TunnelKind::Geneve,
            _ => TunnelKind::Other,
        }
    }

    /// IP protocol number in the tunnel's outer IP header; 0: unknown.
    pub fn protocol(self) -> u8 {
        match self {
            TunnelKind::Gre => 47,
            TunnelKind::Vxlan | TunnelKind::Geneve => 17,
            TunnelKind::Other => 0,
        }
    }
}

/// The properties of a datapath port, as exported records contain them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortFacts {
    /// Name of the port.
    pub name: String,
    /// Interface index; 0: none.
    pub ifindex: u32,
    /// Interface type (IANA ifType); 0: unknown.
    pub if_type: u32,
    /// Description of the device.
    pub description: String,
    /// The kind of tunnel, if the port is a tunnel port.
    pub tunnel: TunnelKind,
}
