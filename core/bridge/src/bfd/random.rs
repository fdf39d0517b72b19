//! Random numbers for jitter: uniform, not cryptographically secure (xorshift64*, Vigna 2016).

/// The generator's state; never 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    /// Returns a random number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        let mut x = self.0;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.0 = x;
        ((x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) * end) >> 32
    }
}
