//! Hashing cache lines with CRC32C.
//!
//! A CRC is linear, so equal differences of keys give equal differences of hashes: the result is multiplied and folded,
//! and seeded with a secret before anything is chosen by it.

use crate::compare::Line;

/// Hash of the bits of `line` that `mask` keeps.
#[inline]
pub fn hash_line(line: &Line, mask: &Line, seed: u32) -> u32 {
    let mut out = [0];
    hash_lines(std::slice::from_ref(line), mask, seed, &mut out);
    out[0]
}

/// [`hash_line`] of a batch. Writes as many hashes as both slices have room for.
#[inline]
pub fn hash_lines(lines: &[Line], mask: &Line, seed: u32, out: &mut [u32]) {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("sse4.2") {
            // SAFETY: the processor has SSE4.2, as was just found.
            return unsafe { hash_lines_sse42(lines, mask, seed, out) };
        }
    }
    hash_lines_scalar(lines, mask, seed, out);
}

/// The meaning of [`hash_lines`].
pub fn hash_lines_scalar(lines: &[Line], mask: &Line, seed: u32, out: &mut [u32]) {
    each_line(lines, mask, seed, out, crc32c_u64);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn hash_lines_sse42(lines: &[Line], mask: &Line, seed: u32, out: &mut [u32]) {
    use std::arch::x86_64::_mm_crc32_u64;
    each_line(lines, mask, seed, out, |crc, word| _mm_crc32_u64(u64::from(crc), word) as u32);
}

/// Most masks have bits in half of their words: only those are hashed, by a loop that is compiled for their number.
#[inline(always)]
fn each_line(lines: &[Line], mask: &Line, seed: u32, out: &mut [u32], crc: impl Fn(u32, u64) -> u32 + Copy) {
    let (mut words, mut n) = ([(0, 0); 8], 0);
    for (at, &bits) in mask.iter().enumerate().filter(|(_, bits)| **bits != 0) {
        words[n] = (at, bits);
        n += 1;
    }
    match n {
        0..=2 => of_words::<2>(lines, &words, seed, out, crc),
        3 => of_words::<3>(lines, &words, seed, out, crc),
        4 => of_words::<4>(lines, &words, seed, out, crc),
        5 => of_words::<5>(lines, &words, seed, out, crc),
        _ => of_words::<8>(lines, &words, seed, out, crc),
    }
}

/// Two chains run beside each other; their ends are mixed.
#[inline(always)]
fn of_words<const N: usize>(
    lines: &[Line],
    words: &[(usize, u64); 8],
    seed: u32,
    out: &mut [u32],
    crc: impl Fn(u32, u64) -> u32,
) {
    let words: [(usize, u64); N] = std::array::from_fn(|i| words[i]);
    for (line, out) in lines.iter().zip(out) {
        let mut chains = [seed, !seed];
        for (i, (at, bits)) in words.iter().enumerate() {
            chains[i % 2] = crc(chains[i % 2], line[at % 8] & bits);
        }
        *out = fold(chains[0], chains[1]);
    }
}

/// Folds two hashes to one. Both are CRCs, whose bits each depend on all of their words: once multiplied is enough.
#[inline(always)]
fn fold(a: u32, b: u32) -> u32 {
    spread(a, b) as u32
}

/// Folds two hashes to one in which every bit depends on all bits of both.
#[inline(always)]
pub fn mix32(a: u32, b: u32) -> u32 {
    let x = spread(a, b).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (x ^ (x >> 32)) as u32
}

/// One multiplication: the low half depends on both hashes.
#[inline(always)]
fn spread(a: u32, b: u32) -> u64 {
    let x = (u64::from(a) << 32 | u64::from(b)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ (x >> 32)
}

/// CRC32C of data (RFC 3720 §12.1), as SCTP has it (RFC 9260 appendix A).
pub fn crc32c(data: &[u8]) -> u32 {
    crc32c_of(&[data])
}

/// CRC32C of data in parts.
pub fn crc32c_of(parts: &[&[u8]]) -> u32 {
    let bytes = parts.iter().copied().flatten();
    !bytes.fold(u32::MAX, |crc, &byte| crc >> 8 ^ TABLE[usize::from(crc as u8 ^ byte)])
}

/// CRC32C (RFC 3720 §12.1, reflected, without the final complement) of eight bytes, as the instruction does it.
fn crc32c_u64(crc: u32, word: u64) -> u32 {
    word.to_le_bytes().iter().fold(crc, |crc, &byte| crc >> 8 ^ TABLE[usize::from(crc as u8 ^ byte)])
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
        let crc = (0..4).fold(u32::MAX, |c, _| crc32c_u64(c, 0));
        assert_eq!(!crc, 0x8a91_36aa);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c_of(&[&[0; 7], &[], &[0; 25]]), 0x8a91_36aa);
    }

    #[test]
    fn twins_agree_and_masked_bits_do_not_count() {
        let mut lines = [[0u64; 8]; 33];
        for (i, w) in lines.iter_mut().flatten().enumerate() {
            *w = (i as u64 + 1).wrapping_mul(0x1234_5678_9abc_def1);
        }
        let mask = [u64::MAX, 0, 0xffff, u64::MAX, 0, u64::MAX << 7, u64::MAX, 1];
        let (mut fast, mut slow) = ([0; 33], [0; 33]);
        hash_lines(&lines, &mask, 99, &mut fast);
        hash_lines_scalar(&lines, &mask, 99, &mut slow);
        assert_eq!(fast, slow);
        let mut other = lines[0];
        other[1] = 5;
        assert_eq!(hash_line(&other, &mask, 99), fast[0]);
        assert_ne!(hash_line(&lines[0], &mask, 98), fast[0]);
    }
}
