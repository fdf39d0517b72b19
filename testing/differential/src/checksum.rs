//! Checksums of 16 bits (RFC 1071).

/// The sum of the words of 16 bits, which [`fold`] makes a checksum (RFC 1071).
pub(crate) fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c.get(1).copied().unwrap_or(0))).sum()
}

/// The checksum of a sum; zero if the sum contains its right checksum.
pub(crate) fn fold(mut sum: u32) -> [u8; 2] {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}
