//! Checks subfields (parts of fields) in messages of peers.

use crate::error::OfError;
use crate::wire::buf::Reader;
use crate::wire::nxm;
use flow::Subfield;

/// Checks offset and width from a message, and returns a subfield to read.
pub(super) fn source(whole: Subfield, ofs: u16, n_bits: u16) -> Result<Subfield, OfError> {
    whole.part(ofs, n_bits).ok_or(OfError::BacBadSetLen)
}

/// Checks offset and width from a message, and returns a subfield to write.
pub(super) fn target(whole: Subfield, ofs: u16, n_bits: u16) -> Result<Subfield, OfError> {
    let sf = source(whole, ofs, n_bits)?;
    if whole.field.info().writable { Ok(sf) } else { Err(OfError::BacBadSetArgument) }
}

/// Splits a number `ofs << 6 | (n_bits - 1)` into offset and width.
pub(super) fn ofs_nbits(v: u16) -> (u16, u16) {
    (v >> 6, (v & 0x3f) + 1)
}

pub(super) fn to_ofs_nbits(sf: Subfield) -> u16 {
    sf.ofs << 6 | (sf.n_bits.max(1) - 1) & 0x3f
}

/// Decodes two field headers of an action like `move`, and returns source and destination with these offsets
/// and width.
pub(super) fn move_operands(
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
