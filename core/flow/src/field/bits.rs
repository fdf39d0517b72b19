//! Bits of a field.

/// A number with `n` low bits set.
pub(crate) const fn low_bits(n: u32) -> u128 {
    if n >= 128 { u128::MAX } else { (1 << n) - 1 }
}
