//! Facts about ports that records contain.

/// The kind of a tunnel, as far as records name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TunnelKind {
    /// No tunnel, or one of another kind.
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

    /// The IP protocol of its outer header; 0: unknown.
    pub fn protocol(self) -> u8 {
        match self {
            TunnelKind::Gre => 47,
            TunnelKind::Vxlan | TunnelKind::Geneve => 17,
            TunnelKind::Other => 0,
        }
    }
}

/// Facts about a port of the datapath.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortFacts {
    /// Its name.
    pub name: String,
    /// Its interface index; 0: it has none.
    pub ifindex: u32,
    /// The type of its interface (IANA ifType); 0: unknown.
    pub if_type: u32,
    /// The description of its device.
    pub description: String,
    /// The kind of tunnel that it is.
    pub tunnel: TunnelKind,
}
