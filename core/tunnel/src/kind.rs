//! The kinds of tunnels.

/// What follows the outer IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// VXLAN. The group policy extension changes what its header may say.
    Vxlan {
        /// The group policy extension is in use.
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
    /// Of an interface of this type.
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

    /// The number by which text of datapath actions shows it (`OVS_VPORT_TYPE_*`).
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

    /// The kind that a number stands for.
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

    /// Protocols of the outer IP header by which its packets are known.
    pub fn protocols(self) -> &'static [u8] {
        match self {
            Kind::Vxlan { .. } | Kind::Geneve | Kind::Gtpu => &[17],
            Kind::Gre | Kind::Erspan => &[47],
            // What the segment routing header carries.
            Kind::Srv6 => &[4, 41],
        }
    }

    /// It is carried by UDP.
    pub fn is_udp(self) -> bool {
        matches!(self, Kind::Vxlan { .. } | Kind::Geneve | Kind::Gtpu)
    }
}
