//! Link Aggregation Control Protocol (IEEE 802.1AX-2014 clause 6): both ends of several links agree on which of them form
//! one.
//!
//! | file | what |
//! |---|---|
//! | `pdu.rs` | the bytes of a message |
//! | `info.rs` | what an end says of itself |
//! | `member.rs` | one link: its state and its timers |
//! | `select.rs` | which links are attached |
//! | `aggregation.rs` | all links of a port: what comes in, what goes out, when |
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

/// What a port knows of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Negotiation {
    /// It is not spoken.
    #[default]
    Off,
    /// It is spoken, and no link is attached.
    Configured,
    /// Some link is attached.
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
