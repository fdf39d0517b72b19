//! MurmurHash3 for 32 bits (public domain), word by word. It is used where users see the choice that a hash makes (links of bonds, buckets
//! of groups, device numbers), so that the switch makes the same choice as Open vSwitch.

/// Adds a word to a hash.
pub fn add(hash: u32, data: u32) -> u32 {
    let data = data.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    (hash ^ data).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
}

/// Finishes a hash. `length`: number of hashed bytes.
pub fn finish(hash: u32, length: u32) -> u32 {
    let mut hash = hash ^ length;
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x85eb_ca6b);
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// Splits bytes into little-endian words; the last is padded with zeros.
pub fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks(4).map(|c| c.iter().rev().fold(0, |word, b| word << 8 | u32::from(*b)))
}

/// Hashes bytes.
pub fn of_bytes(bytes: &[u8], basis: u32) -> u32 {
    finish(words(bytes).fold(basis, add), bytes.len() as u32)
}

/// Hashes a 64-bit number.
pub fn of_long(v: u64, basis: u32) -> u32 {
    finish(add(add(basis, v as u32), (v >> 32) as u32), 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(of_bytes(b"", 0), 0);
        // MurmurHash3_x86_32 of the same bytes.
        assert_eq!(of_bytes(b"test", 0), 0xba6b_d213);
        assert_eq!(of_long(u64::from_le_bytes(*b"testtest"), 7), of_bytes(b"testtest", 7));
    }
}
