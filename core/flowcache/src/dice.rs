//! Numbers that are even, cheap, and not secret (xorshift32, Marsaglia 2003).

#[derive(Clone, Debug)]
pub(crate) struct Dice(u32);

impl Dice {
    pub(crate) fn new(seed: u32) -> Dice {
        Dice(seed | 1)
    }

    #[inline]
    pub(crate) fn roll(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }
}
