//! SipHash-1-3 (Aumasson, Bernstein 2012) over words. Without the key its results cannot be predicted or controlled.
//!
//! Used where speed matters less (fragments, the choice of translated ports), and to derive the secrets of faster hashes.

/// Returns a key for [`siphash`] that is derived from a random 64-bit number. The number must be kept as secret as
/// the key.
pub fn siphash_key(seed: u64) -> [u64; 2] {
    [seed, seed.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15]
}

/// Returns the hash of `words`. The number of words is not part of the hash: all inputs of one use must have the same
/// number of words, or contain it.
#[inline]
pub fn siphash(key: [u64; 2], words: &[u64]) -> u64 {
    let mut v = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let last = (words.len() as u64 * 8) << 56;
    for &word in words.iter().chain([&last]) {
        v[3] ^= word;
        round(&mut v);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    for _ in 0..3 {
        round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

/// Returns a secret for one purpose, derived from the secret of the process. An attacker who learns it, for example
/// from random numbers that are sent to other hosts, learns nothing about the secrets for other purposes.
pub fn derive(seed: u64, purpose: &[u8; 8]) -> u64 {
    siphash([seed, !seed], &[u64::from_le_bytes(*purpose)])
}

#[inline(always)]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::Hasher;

    /// The standard library's hasher is SipHash-1-3 with a key of all zeros.
    #[test]
    fn it_is_the_hash_of_the_standard_library() {
        for words in [&[][..], &[1], &[1, u64::MAX, 3], &[7; 6]] {
            let mut hasher = std::hash::DefaultHasher::new();
            words.iter().for_each(|w| hasher.write(&w.to_le_bytes()));
            assert_eq!(siphash([0, 0], words), hasher.finish());
        }
        assert_ne!(siphash([1, 2], &[5]), siphash([1, 3], &[5]));
    }

    #[test]
    fn purposes_have_secrets_of_their_own() {
        assert_ne!(derive(1, b"megaflow"), derive(1, b"sessions"));
        assert_ne!(derive(1, b"megaflow"), derive(2, b"megaflow"));
    }
}
