//! Random numbers: uniform and cheap, not cryptographically secure (xorshift32, Marsaglia 2003).

#[derive(Clone, Debug)]
pub(crate) struct Random(u32);

impl Random {
    pub(crate) fn new(seed: u32) -> Random {
        Random(seed | 1)
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }
}
