//! Small random changes of stored inputs, for quick tests. They depend only on the seed.

use fastrand::Rng;

/// Values that often reveal faults.
const EDGES: [u8; 8] = [0, 1, 4, 7, 8, 0x7f, 0x80, 0xff];

/// Returns `input` with one to four changes. A change may insert a part of `other`.
pub fn mutate(input: &[u8], other: &[u8], random: &mut Rng) -> Vec<u8> {
    let mut out = input.to_vec();
    let mut below = |n: usize| if n == 0 { 0 } else { random.usize(..n) };
    for _ in 0..=below(4) {
        let at = below(out.len());
        let len = 1 + below(8);
        let end = (at + len).min(out.len());
        match below(7) {
            0 => flip(&mut out, at, 1 << below(8)),
            1 => put(&mut out, at, EDGES[below(EDGES.len())]),
            2 => put(&mut out, at, below(256) as u8),
            3 => drop(out.drain(at..end)),
            4 => {
                let piece = out[at..end].to_vec();
                out.splice(at..at, piece);
            }
            5 => {
                let from = below(other.len());
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
