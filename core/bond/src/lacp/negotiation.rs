//! The state of negotiation of a port.

/// LACP state of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Negotiation {
    /// LACP is disabled.
    #[default]
    Off,
    /// LACP is enabled, and no link is attached to a system at the other end.
    Configured,
    /// At least one link is attached to a system at the other end.
    Negotiated,
}

impl Negotiation {
    /// The text in commands.
    pub fn text(self) -> &'static str {
        match self {
            Negotiation::Off => "off",
            Negotiation::Configured => "configured",
            Negotiation::Negotiated => "negotiated",
        }
    }
}
