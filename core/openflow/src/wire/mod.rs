//! The wire codec: decodes and encodes messages of every version.
//!
//! Decoding accepts any bytes: it returns a message, or the error to send to the peer. It does not index, and
//! limits nesting (`clone`, `ct`). Lengths come from a 16-bit header, so memory is bounded too.
//! Sources: OpenFlow 1.0.0 to 1.5.1, and Open vSwitch's headers for the numbers of its extensions.

pub(crate) mod action;
pub(crate) mod buf;
pub mod check;
mod continuation;
mod decode;
mod decoded;
mod dialect;
mod encode;
mod flow_mod;
mod frame;
mod group;
pub(crate) mod matched;
mod matching;
mod meter;
mod monitor;
mod multipart;
pub(crate) mod nxm;
mod oxs;
mod packet_io;
mod port;
mod property;
mod session;
mod stats;
mod table;
#[cfg(test)]
mod tests;
mod vendor;

pub use continuation::Continuation;
pub use decode::decode;
pub use dialect::Dialect;
pub use encode::encode;
pub use frame::{HEADER, next_frame, peek_xid, set_len_and_xid, take_frame};
