//! Hash tables whose keys are hashes, or contain one.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map whose keys are hashes or contain a hash.
pub type ByHash<K, V> = HashMap<K, V, BuildHasherDefault<Prehashed>>;

/// The hasher of a prehashed key: the number that the key writes is its hash.
#[derive(Debug, Default)]
pub struct Prehashed(u64);

impl Hasher for Prehashed {
    fn finish(&self) -> u64 {
        // The table uses the highest and the lowest bits of the hash. The lowest bits of a product depend on few input bits,
        // so the upper half is mixed into them.
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&b| self.0 = self.0.rotate_left(8) ^ u64::from(b));
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
}
