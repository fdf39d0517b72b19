//! Properties: type, length, bytes, padding to eight bytes (OpenFlow 1.3 and later, and Nicira's messages).

use super::buf::{Put, Reader};
use crate::error::OfError;

/// Decodes one property with its padding; returns its type and its bytes.
pub(super) fn pull<'a>(r: &mut Reader<'a>) -> Result<(u16, Reader<'a>), OfError> {
    let mut head = *r;
    let bad = |_| OfError::BpcBadLen;
    let (kind, len) = (head.u16().map_err(bad)?, usize::from(head.u16().map_err(bad)?));
    if len < 4 || len > r.len() {
        return Err(OfError::BpcBadLen);
    }
    let mut body = Reader::new(r.take(len.next_multiple_of(8).min(r.len()))?, OfError::BpcBadLen);
    let mut payload = body.sub(len)?;
    payload.skip(4)?;
    Ok((kind, payload))
}

/// Decodes an eight-byte number, which is aligned to eight bytes.
pub(super) fn u64(p: &mut Reader) -> Result<u64, OfError> {
    p.skip(4)?;
    p.u64()
}

pub(super) fn put(out: &mut Vec<u8>, kind: u16, payload: &[u8]) {
    let start = out.len();
    out.u16(kind).u16((4 + payload.len()) as u16).bytes(payload).pad8(start);
}

/// Encodes a one-byte number. OpenFlow defines no such property; as in Open vSwitch, the length includes one byte
/// of payload.
pub(super) fn put_u8(out: &mut Vec<u8>, kind: u16, v: u8) {
    put(out, kind, &[v]);
}

/// Encodes a two-byte number.
pub(super) fn put_u16(out: &mut Vec<u8>, kind: u16, v: u16) {
    put(out, kind, &[(v >> 8) as u8, v as u8, 0, 0]);
}

pub(super) fn put_u64(out: &mut Vec<u8>, kind: u16, v: u64) {
    out.u16(kind).u16(16).zeros(4).u64(v);
}
