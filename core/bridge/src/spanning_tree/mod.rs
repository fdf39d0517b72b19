//! Spanning tree (STP, IEEE 802.1D-1998 clause 8) and rapid spanning tree (RSTP, IEEE 802.1D-2004 clause 17): ports that
//! would close a loop do not forward.
//!
//! A [`Tree`] is the protocol entity of one bridge. Its inputs are its settings, the state of its ports' links, received BPDUs and the time; its
//! outputs are BPDUs to send, changed port states, and requests to remove learned addresses ([`Output`]). A port that stops forwarding is reported at
//! once, but it counts as stopped only after the caller has confirmed it ([`Tree::confirm`]). Until then RSTP sends no agreement that depends on this
//! port.
//!
//! | file | content |
//! |---|---|
//! | `tree.rs` | one interface for both protocols |
//! | `identifier.rs`, `port_state.rs` | bridge identifiers, states of ports |
//! | `settings.rs`, `port_setup.rs` | settings of a bridge and its ports |
//! | `bpdu.rs`, `frame.rs` | parsing, serialization and encapsulation of BPDUs |
//! | `output.rs`, `event.rs` | outputs; events for the log |
//! | `numbers.rs` | numbers of ports in port identifiers |
//! | `table.rs` | command output that both protocols share |
//! | `stp/`, `rstp/` | the protocols |

mod bpdu;
mod event;
mod frame;
mod identifier;
mod numbers;
mod output;
mod port_setup;
mod port_state;
pub mod rstp;
mod settings;
pub mod stp;
mod table;
mod tree;

#[cfg(test)]
mod network;
#[cfg(test)]
mod tests;

pub use bpdu::{Bpdu, BpduFlags, Message, Refusal, Role};
pub use event::Event;
pub use frame::{DESTINATION, payload};
pub use identifier::BridgeIdentifier;
pub use output::{Flush, Output, Pairs};
pub use port_setup::{Link, PortSetup};
pub use port_state::{PortState, PortTreeState, Protocol};
pub use settings::Settings;
pub use tree::Tree;
