//! Link Aggregation Control Protocol (IEEE 802.1AX-2014 clause 6): both ends of several links agree which of
//! these links are aggregated.
//!
//! | file | what |
//! |---|---|
//! | `pdu.rs` | the bytes of a message |
//! | `info.rs` | what an end announces about itself |
//! | `member.rs` | one link: its state and its timers |
//! | `negotiation.rs` | how far a port has come |
//! | `select.rs` | which links are attached |
//! | `aggregation.rs` | all links of a port: received and sent messages |
//! | `show.rs` | texts of `lacp/show` and `lacp/show-stats` |

mod aggregation;
mod info;
mod member;
mod negotiation;
mod pdu;
mod select;
mod show;
#[cfg(test)]
mod tests;

pub use aggregation::{Aggregation, Settings};
pub use info::{Info, State};
pub use member::{MemberSettings, Status};
pub use negotiation::Negotiation;
pub use pdu::{DESTINATION, ETHERTYPE, PDU_LEN, Received, compose, parse};
pub use show::LinkReport;
