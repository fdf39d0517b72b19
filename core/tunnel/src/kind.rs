//! The kinds of tunnels.

/// A kind of tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// VXLAN.
    Vxlan {
        /// The group policy extension is in use; it changes the fields of the header.
        gbp: bool,
    },
    /// Geneve.
    Geneve,
    /// GRE.
    Gre,
    /// ERSPAN, version 1 or 2 (types II and III).
    Erspan,
    /// GTP-U.
    Gtpu,
    /// SRv6.
    Srv6,
}

impl Kind {
    /// The kind of tunnel of a database interface type. `gbp`: the group policy extension is in use.
    pub fn of_name(name: &str, gbp: bool) -> Option<Kind> {
        Some(match name {
            "vxlan" => Kind::Vxlan { gbp },
            "geneve" => Kind::Geneve,
            "gre" | "ip6gre" => Kind::Gre,
            "erspan" | "ip6erspan" => Kind::Erspan,
            "gtpu" => Kind::Gtpu,
            "srv6" => Kind::Srv6,
            _ => return None,
        })
    }

    /// The number of the tunnel type in the text of datapath actions (`OVS_VPORT_TYPE_*`).
    pub fn number(self, ipv6: bool) -> u32 {
        match (self, ipv6) {
            (Kind::Gre, false) => 3,
            (Kind::Vxlan { .. }, _) => 4,
            (Kind::Geneve, _) => 5,
            (Kind::Erspan, false) => 107,
            (Kind::Erspan, true) => 108,
            (Kind::Gre, true) => 109,
            (Kind::Gtpu, _) => 110,
            (Kind::Srv6, _) => 112,
        }
    }

    /// The kind of tunnel with this tunnel type number.
    pub fn of_number(number: u32) -> Option<Kind> {
        Some(match number {
            3 | 109 => Kind::Gre,
            4 => Kind::Vxlan { gbp: false },
            5 => Kind::Geneve,
            107 | 108 => Kind::Erspan,
            110 => Kind::Gtpu,
            112 => Kind::Srv6,
            _ => return None,
        })
    }

    /// IP protocols that may follow the outer IP header and, for SRv6, its segment routing header.
    pub fn protocols(self) -> &'static [u8] {
        match self {
            Kind::Vxlan { .. } | Kind::Geneve | Kind::Gtpu => &[17],
            Kind::Gre | Kind::Erspan => &[47],
            // The protocols after the segment routing header.
            Kind::Srv6 => &[4, 41],
        }
    }

    /// Returns whether the tunnel header is in a UDP datagram.
    pub fn is_udp(self) -> bool {
        matches!(self, Kind::Vxlan { .. } | Kind::Geneve | Kind::Gtpu)
    }
}
