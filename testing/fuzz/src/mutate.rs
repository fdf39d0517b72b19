//! Small mutations of good inputs, the same for the same seed, for quick tests.

/// A stream of random numbers (xorshift64*), not for other uses.
pub struct Numbers(u64);

impl Numbers {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A random number below `n`; 0 for `n` = 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 33) as usize).checked_rem(n).unwrap_or(0)
    }
}

/// Values at which code is often wrong.
const EDGES: [u8; 8] = [0, 1, 4, 7, 8, 0x7f, 0x80, 0xff];

/// `input` with one to four changes, which may include pieces of `other`.
pub fn mutate(input: &[u8], other: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut out = input.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(out.len());
        let len = 1 + numbers.below(8);
        let end = (at + len).min(out.len());
        match numbers.below(7) {
            0 => flip(&mut out, at, 1 << numbers.below(8)),
            1 => put(&mut out, at, EDGES[numbers.below(EDGES.len())]),
            2 => put(&mut out, at, numbers.below(256) as u8),
            3 => drop(out.drain(at..end)),
            4 => {
                let piece = out[at..end].to_vec();
                out.splice(at..at, piece);
            }
            5 => {
                let from = numbers.below(other.len());
                let to = (from + len * 4).min(other.len());
                out.splice(at..at, other[from..to].iter().copied());
            }
            _ => out.truncate(at),
        }
    }
    out
}

fn flip(out: &mut [u8], at: usize, bits: u8) {
    out.iter_mut().skip(at).take(1).for_each(|b| *b ^= bits);
}

fn put(out: &mut [u8], at: usize, value: u8) {
    out.iter_mut().skip(at).take(1).for_each(|b| *b = value);
}
