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
mod encode;
mod flow_mod;
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
pub use encode::encode;

use crate::error::OfError;

/// Size of a message header in bytes.
pub const HEADER: usize = 8;

/// Options of a connection besides its version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dialect {
    /// `NXT_FLOW_MOD_TABLE_ID`: flow mods of OpenFlow 1.0 carry a table number.
    pub flow_mod_table_id: bool,
    /// Accept actions for tests (`--enable-dummy`).
    pub debug_actions: bool,
}

/// Length of the message that starts these bytes, possibly more than there are; `None` until its header is
/// complete. A length shorter than a header is an error; the stream cannot be read further.
pub fn next_frame(bytes: &[u8]) -> Result<Option<usize>, OfError> {
    let Some(head) = bytes.first_chunk::<HEADER>() else { return Ok(None) };
    let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
    if len < HEADER { Err(OfError::BrcBadLen) } else { Ok(Some(len)) }
}

/// The transaction id in a header, for an error about a message that cannot be decoded.
pub fn peek_xid(bytes: &[u8]) -> Option<crate::message::Xid> {
    let head = bytes.first_chunk::<HEADER>()?;
    Some(crate::message::Xid(u32::from_be_bytes([head[4], head[5], head[6], head[7]])))
}

/// Writes the length and the transaction id of a message into its header.
///
/// # Errors
/// The header is incomplete, or the message is longer than 65,535 bytes.
pub fn set_len_and_xid(frame: &mut [u8], xid: crate::message::Xid) -> Result<(), OfError> {
    let len = u16::try_from(frame.len()).map_err(|_| OfError::BrcBadLen)?.to_be_bytes();
    let head = frame.first_chunk_mut::<HEADER>().ok_or(OfError::BrcBadLen)?;
    head[2..4].copy_from_slice(&len);
    head[4..].copy_from_slice(&xid.0.to_be_bytes());
    Ok(())
}
