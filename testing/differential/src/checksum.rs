//! Internet checksums (RFC 1071).

/// Returns the sum of the 16-bit words, from which [`fold`] computes the checksum.
pub(crate) fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c.get(1).copied().unwrap_or(0))).sum()
}

/// Returns the checksum of a sum. It is zero if the summed bytes contain their correct checksum.
pub(crate) fn fold(mut sum: u32) -> [u8; 2] {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}
