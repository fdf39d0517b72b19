//! OpenFlow messages as one set of types for all versions, with a codec for the wire format and the text syntax of ovs-ofctl.

pub mod action;
pub mod error;
pub mod flow_mod;
pub mod group;
pub mod message;
pub mod meter;
pub mod monitor;
pub mod packet_io;
pub mod port;
pub mod session;
pub mod stats;
pub mod table;
pub mod text;
pub mod tlv;
pub mod version;
pub mod wire;
mod xid;

pub use action::Action;
pub use error::OfError;
pub use flow_mod::FlowMod;
pub use message::{Body, Message, Xid};
pub use version::{Version, VersionSet};
pub use wire::{Continuation, Dialect, decode, encode, message_len, take_frame};
