//! The header that all messages have.

use crate::error::OfError;
use crate::message::Xid;

/// Size of the header that all messages have.
pub const HEADER: usize = 8;
/// Maximum length of a message in bytes.
pub(super) const MESSAGE_MAX: usize = 0xffff;

/// The length of the message at the start of `bytes`; `None` if the header is not complete. `bytes` may contain less than the message.
/// A length shorter than a header is an error; the stream cannot be decoded further then.
pub fn message_len(bytes: &[u8]) -> Result<Option<usize>, OfError> {
    let Some(head) = bytes.first_chunk::<HEADER>() else { return Ok(None) };
    let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
    if len < HEADER { Err(OfError::BrcBadLen) } else { Ok(Some(len)) }
}

/// Removes and returns the message at the start of `bytes`; `None` if it is not complete. For errors see [`message_len`].
pub fn take_frame(bytes: &mut Vec<u8>) -> Result<Option<Vec<u8>>, OfError> {
    let len = message_len(bytes)?.filter(|len| *len <= bytes.len());
    Ok(len.map(|len| bytes.drain(..len).collect()))
}

/// The transaction id in a header, for an error about a message that cannot be decoded.
pub fn peek_xid(bytes: &[u8]) -> Option<Xid> {
    let head = bytes.first_chunk::<HEADER>()?;
    Some(Xid(u32::from_be_bytes([head[4], head[5], head[6], head[7]])))
}

/// Writes the length and the transaction id of a message into its header.
///
/// # Errors
/// The header is not complete, or the message is longer than 65,535 bytes, the maximum of the length field.
pub fn set_len_and_xid(frame: &mut [u8], xid: Xid) -> Result<(), OfError> {
    let len = u16::try_from(frame.len()).map_err(|_| OfError::BrcBadLen)?.to_be_bytes();
    let head = frame.first_chunk_mut::<HEADER>().ok_or(OfError::BrcBadLen)?;
    head[2..4].copy_from_slice(&len);
    head[4..].copy_from_slice(&xid.0.to_be_bytes());
    Ok(())
}
