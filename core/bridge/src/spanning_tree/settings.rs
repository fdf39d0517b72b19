//! Settings of a bridge. Names and defaults are those of ovs-vswitchd.conf.db(5).

use super::port_state::Protocol;
use super::{rstp, stp};

/// The settings of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settings {
    /// Settings of a bridge with STP.
    Stp(stp::Settings),
    /// Settings of a bridge with RSTP.
    Rstp(rstp::Settings),
}

impl Settings {
    /// The protocol.
    pub fn protocol(&self) -> Protocol {
        match self {
            Settings::Stp(_) => Protocol::Stp,
            Settings::Rstp(_) => Protocol::Rstp,
        }
    }
}
