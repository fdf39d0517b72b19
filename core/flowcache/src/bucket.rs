//! Cache buckets of one cache line: an array of signatures, so that all are compared at once, and an array of values.
//!
//! A signature has 15 bits. The top bit of its 16-bit field is the reference bit of CLOCK eviction. Zero is not a
//! signature; it marks an empty way.

use cpu::match_mask;

/// Mask of the signature in its 16-bit field.
pub const SIGNATURE: u16 = 0x7fff;
/// The reference bit: the entry was used since the CLOCK hand passed it.
const REFERENCED: u16 = 0x8000;
/// The field of an empty way.
const EMPTY: u16 = 0;

/// Returns the signature of a hash: its upper 15 bits, because the lower bits select the bucket.
#[inline(always)]
pub fn signature(hash: u32) -> u16 {
    ((hash >> 17) as u16).max(1)
}

/// Returns the other candidate bucket of a signature in a table of `mask + 1` buckets. Applied to either candidate,
/// it returns the other one (partial-key cuckoo hashing, Fan et al. 2014). Entries are never moved between buckets:
/// with this many ways a move gains nothing.
#[inline(always)]
pub fn other_bucket(bucket: usize, signature: u16, mask: usize) -> usize {
    (bucket ^ (usize::from(signature).wrapping_mul(0x5bd1_e995) >> 7)) & mask
}

/// The layout of a bucket.
pub trait Bucket: Copy + Send {
    /// Number of entries.
    const WAYS: usize;
    /// The largest value that an entry can hold.
    const LARGEST: u32;
    /// An empty bucket.
    const NEW: Self;

    /// The signatures. Other data may follow them in the array.
    fn signatures(&self) -> &[u16; 16];
    /// The signatures, for writing.
    fn signatures_mut(&mut self) -> &mut [u16; 16];
    /// The value of a way.
    fn value(&self, way: usize) -> u32;
    /// Writes the value of a way.
    fn set_value(&mut self, way: usize, value: u32);

    /// Returns the ways with this signature, as a bit mask.
    #[inline(always)]
    fn ways(&self, signature: u16) -> u16 {
        match_mask(self.signatures(), SIGNATURE, signature) & (u16::MAX >> (16 - Self::WAYS))
    }

    /// Returns an empty way.
    #[inline(always)]
    fn empty_way(&self) -> Option<usize> {
        let ways = match_mask(self.signatures(), u16::MAX, EMPTY) & (u16::MAX >> (16 - Self::WAYS));
        (ways != 0).then(|| ways.trailing_zeros() as usize)
    }

    /// Sets the reference bit. The bit is written only if it is clear, so that hits do not write to the cache line of
    /// a frequently used bucket.
    #[inline(always)]
    fn set_referenced(&mut self, way: usize) {
        let signature = &mut self.signatures_mut()[way % 16];
        if *signature & REFERENCED == 0 {
            *signature |= REFERENCED;
        }
    }

    /// Clears the reference bit and returns whether it was set.
    #[inline(always)]
    fn take_referenced(&mut self, way: usize) -> bool {
        let signature = &mut self.signatures_mut()[way % 16];
        let was = *signature & REFERENCED != 0;
        *signature &= SIGNATURE;
        was
    }

    /// Writes an entry.
    #[inline(always)]
    fn set_entry(&mut self, way: usize, signature: u16, value: u32) {
        self.signatures_mut()[way % 16] = signature;
        self.set_value(way, value);
    }
}

/// A bucket of sixteen signatures and sixteen values of 16 bits.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Narrow {
    signature: [u16; 16],
    value: [u16; 16],
}

impl Bucket for Narrow {
    const WAYS: usize = 16;
    const LARGEST: u32 = u16::MAX as u32;
    const NEW: Narrow = Narrow { signature: [EMPTY; 16], value: [0; 16] };

    #[inline(always)]
    fn signatures(&self) -> &[u16; 16] {
        &self.signature
    }

    #[inline(always)]
    fn signatures_mut(&mut self) -> &mut [u16; 16] {
        &mut self.signature
    }

    #[inline(always)]
    fn value(&self, way: usize) -> u32 {
        u32::from(self.value[way % 16])
    }

    #[inline(always)]
    fn set_value(&mut self, way: usize, value: u32) {
        self.value[way % 16] = value as u16;
    }
}

/// A bucket of twelve signatures and twelve values of 24 bits, for more than 65,536 megaflows.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Wide {
    /// Twelve signatures, and then the low halves of four values. These look like signatures and are masked out.
    first: [u16; 16],
    /// The low halves of the other eight values.
    rest: [u16; 8],
    /// The high bytes of the values.
    high: [u8; 12],
}

/// Index in `first` at which the low halves of values begin.
const HALVES: usize = 12;

impl Bucket for Wide {
    const WAYS: usize = HALVES;
    const LARGEST: u32 = (1 << 24) - 1;
    const NEW: Wide = Wide { first: [EMPTY; 16], rest: [0; 8], high: [0; 12] };

    #[inline(always)]
    fn signatures(&self) -> &[u16; 16] {
        &self.first
    }

    #[inline(always)]
    fn signatures_mut(&mut self) -> &mut [u16; 16] {
        &mut self.first
    }

    #[inline(always)]
    fn value(&self, way: usize) -> u32 {
        let low = if way < 4 { self.first[HALVES + way] } else { self.rest[(way - 4) % 8] };
        u32::from(self.high[way % HALVES]) << 16 | u32::from(low)
    }

    #[inline(always)]
    fn set_value(&mut self, way: usize, value: u32) {
        let low = if way < 4 { &mut self.first[HALVES + way] } else { &mut self.rest[(way - 4) % 8] };
        *low = value as u16;
        self.high[way % HALVES] = (value >> 16) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_one_line() {
        assert_eq!((size_of::<Narrow>(), size_of::<Wide>()), (64, 64));
    }

    fn holds_its_entries<B: Bucket>() {
        let mut bucket = B::NEW;
        for way in 0..B::WAYS {
            assert_eq!(bucket.empty_way(), Some(way));
            bucket.set_entry(way, way as u16 + 1, B::LARGEST - 3 * way as u32);
        }
        assert_eq!(bucket.empty_way(), None);
        bucket.set_referenced(1);
        for way in 0..B::WAYS {
            assert_eq!(
                (bucket.ways(way as u16 + 1), bucket.value(way)),
                (1 << way, B::LARGEST - 3 * way as u32)
            );
        }
        assert_eq!(
            (bucket.take_referenced(1), bucket.take_referenced(1), bucket.take_referenced(0)),
            (true, false, false)
        );
        let beside = B::LARGEST as u16 & SIGNATURE;
        assert_eq!(bucket.ways(beside), 0, "a value is not taken for a signature");
    }

    #[test]
    fn both_layouts_hold_their_entries() {
        holds_its_entries::<Narrow>();
        holds_its_entries::<Wide>();
    }

    #[test]
    fn other_is_its_own_inverse() {
        for mask in [0, 15, 0xffff] {
            for i in 0..1000usize {
                let (bucket, signature) = ((i * 77) & mask, signature((i as u32).wrapping_mul(0x9e37_79b9)));
                assert_eq!(other_bucket(other_bucket(bucket, signature, mask), signature, mask), bucket);
            }
        }
    }
}
