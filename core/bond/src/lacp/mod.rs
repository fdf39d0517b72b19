//! Link Aggregation Control Protocol (IEEE 802.1AX-2014 clause 6): both ends of several links agree on the links that
//! they use as one port.
//!
//! | file | what |
//! |---|---|
//! | `pdu.rs` | parses and composes messages |
//! | `info.rs` | what an end announces about itself |
//! | `member.rs` | one link: its state and its timers |
//! | `negotiation.rs` | the state of negotiation of a port |
//! | `select.rs` | selects the links to attach |
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
