//! The wire codec: bytes to types and back, for every version.
//!
//! Reading is total: any bytes give a message or the error that the peer must be told. Nothing is read by index;
//! nesting (`clone`, `ct`) is bounded. Lengths come from a 16-bit header, so memory is bounded too.
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

/// Size of the header that all messages have.
pub const HEADER: usize = 8;

/// What a connection agreed on besides its version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dialect {
    /// `NXT_FLOW_MOD_TABLE_ID`: flow mods of OpenFlow 1.0 say their table.
    pub flow_mod_table_id: bool,
    /// Actions for tests are accepted (`--enable-dummy`).
    pub debug_actions: bool,
}

/// How long the message at the start of these bytes is: `None` until its header is there. The bytes may hold less.
/// A length shorter than a header is an error after which the stream cannot be read on.
pub fn next_frame(bytes: &[u8]) -> Result<Option<usize>, OfError> {
    let Some(head) = bytes.first_chunk::<HEADER>() else { return Ok(None) };
    let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
    if len < HEADER { Err(OfError::BrcBadLen) } else { Ok(Some(len)) }
}

/// The transaction in a header, for an error about a message that cannot be decoded.
pub fn peek_xid(bytes: &[u8]) -> Option<crate::message::Xid> {
    let head = bytes.first_chunk::<HEADER>()?;
    Some(crate::message::Xid(u32::from_be_bytes([head[4], head[5], head[6], head[7]])))
}

/// Writes the length and the transaction of a message into its header.
///
/// # Errors
/// It has no whole header, or is longer than a message can be: 65,535 bytes.
pub fn set_len_and_xid(frame: &mut [u8], xid: crate::message::Xid) -> Result<(), OfError> {
    let len = u16::try_from(frame.len()).map_err(|_| OfError::BrcBadLen)?.to_be_bytes();
    let head = frame.first_chunk_mut::<HEADER>().ok_or(OfError::BrcBadLen)?;
    head[2..4].copy_from_slice(&len);
    head[4..].copy_from_slice(&xid.0.to_be_bytes());
    Ok(())
}
