//! Actions and instructions on the wire.

mod decode;
mod encode;
mod instruction;
mod learn;
mod nicira;
mod nicira_encode;

pub(crate) use decode::actions;
pub(crate) use encode::put_actions;
pub(crate) use instruction::{instructions, put_instructions};
pub(crate) use nicira::property;

use super::buf::Reader;
use super::nxm;
use crate::error::OfError;
use crate::version::Version;
use flow::Subfield;

/// Maximum nesting of actions: `clone(clone(…))`.
pub(super) const MAX_DEPTH: u32 = 16;

/// What decoding of actions depends on.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    pub version: Version,
    /// Accept `debug_slow` and `debug_recirc`.
    pub debug: bool,
    pub depth: u32,
}

impl Context {
    pub fn new(version: Version, debug: bool) -> Context {
        Context { version, debug, depth: 0 }
    }
}

/// A subfield to read; checks offset and width, which come from the peer.
pub(super) fn source(whole: Subfield, ofs: u16, n_bits: u16) -> Result<Subfield, OfError> {
    whole.part(ofs, n_bits).ok_or(OfError::BacBadSetLen)
}

/// A subfield to write; checks offset and width, and that the field is writable.
pub(super) fn target(whole: Subfield, ofs: u16, n_bits: u16) -> Result<Subfield, OfError> {
    let sf = source(whole, ofs, n_bits)?;
    if whole.field.info().writable { Ok(sf) } else { Err(OfError::BacBadSetArgument) }
}

/// Splits a number that holds offset and width: `ofs << 6 | (n_bits - 1)`.
pub(super) fn ofs_nbits(v: u16) -> (u16, u16) {
    (v >> 6, (v & 0x3f) + 1)
}

pub(super) fn to_ofs_nbits(sf: Subfield) -> u16 {
    sf.ofs << 6 | (sf.n_bits.max(1) - 1) & 0x3f
}

/// Decodes the two fields of `move` and similar actions; offsets and width are already decoded.
pub(super) fn copied(
    r: &mut Reader,
    n_bits: u16,
    src_ofs: u16,
    dst_ofs: u16,
) -> Result<(Subfield, Subfield), OfError> {
    let (src, dst) = (nxm::field_header(r)?, nxm::field_header(r)?);
    if !r.all_zero() {
        return Err(OfError::NxbrcMustBeZero);
    }
    Ok((source(src, src_ofs, n_bits)?, target(dst, dst_ofs, n_bits)?))
}
