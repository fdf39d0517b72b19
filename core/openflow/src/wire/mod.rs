//! The wire codec: decodes and encodes messages of every version.
//!
//! Decoding accepts any bytes: it returns a message, or the error to send to the peer. It reads bytes through a reader that checks
//! bounds, so that no input makes it panic, and limits the nesting of actions (`clone`, `ct`). A message has at most 65,535 bytes, so
//! memory is limited, too.
//! Sources: OpenFlow 1.0.0 to 1.5.1, and Open vSwitch's headers for the numbers of its extensions.

pub(crate) mod action;
pub(crate) mod buf;
pub mod check;
mod continuation;
mod decode;
mod decoded;
mod dialect;
mod encode;
pub(crate) mod field_order;
mod flow_mod;
mod frame;
mod group;
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
pub use frame::{HEADER, message_len, peek_xid, set_len_and_xid, take_frame};
pub use group::group_fits;
