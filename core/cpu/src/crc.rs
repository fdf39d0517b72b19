//! CRC32C (Castagnoli), the checksum of SCTP. A CRC is linear, so it must not be used to hash data that an attacker
//! can choose.

/// CRC32C of data (RFC 3720 §12.1), as used by SCTP (RFC 9260 appendix A).
pub fn crc32c(data: &[u8]) -> u32 {
    crc32c_of(&[data])
}

/// CRC32C of the concatenation of these parts.
pub fn crc32c_of(parts: &[&[u8]]) -> u32 {
    let bytes = parts.iter().copied().flatten();
    !bytes.fold(u32::MAX, |crc, &byte| crc >> 8 ^ TABLE[usize::from(crc as u8 ^ byte)])
}

const TABLE: [u32; 256] = {
    let mut table = [0u32; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3720 appendix B.4: 32 bytes of zeroes have the CRC 0x8a9136aa (most significant byte first: aa 36 91 8a).
    #[test]
    fn crc_of_the_standard() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c_of(&[&[0; 7], &[], &[0; 25]]), 0x8a91_36aa);
    }
}
