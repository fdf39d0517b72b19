//! Link Aggregation Control Protocol (IEEE 802.1AX-2014 clause 6): both ends of several links agree which of
//! these links are aggregated.
//!
//! | file | what |
//! |---|---|
//! | `pdu.rs` | the bytes of a message |
//! | `info.rs` | what an end announces about itself |
//! | `member.rs` | one link: its state and its timers |
//! | `select.rs` | which links are attached |
//! | `aggregation.rs` | all links of a port: received and sent messages |
//! | `show.rs` | texts of `lacp/show` and `lacp/show-stats` |

mod aggregation;
mod info;
mod member;
mod pdu;
mod select;
mod show;
#[cfg(test)]
mod tests;

pub use aggregation::{Aggregation, Settings};
pub use info::{Info, State};
pub use member::{MemberSettings, Status};
pub use pdu::{DESTINATION, ETHERTYPE, PDU_LEN, Received, compose, parse};

/// LACP state of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Negotiation {
    /// LACP is disabled.
    #[default]
    Off,
    /// LACP is enabled, and no link is attached.
    Configured,
    /// At least one link is attached.
    Negotiated,
}

impl Negotiation {
    /// As commands show it.
    pub fn text(self) -> &'static str {
        match self {
            Negotiation::Off => "off",
            Negotiation::Configured => "configured",
            Negotiation::Negotiated => "negotiated",
        }
    }
}
