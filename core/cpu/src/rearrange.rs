//! Rearranges the bytes of packet headers to words of a key.

use crate::stage::Level;

/// Index in an order that stands for a zero byte.
pub const NO_BYTE: u8 = 0x80;

/// Three parts of a header, which may overlap.
pub type Parts<'a> = (&'a [u8; 16], &'a [u8; 16], &'a [u8; 16]);

/// Rearranges header bytes to four words. Byte `i` of the first two words is byte `orders[0][i]` of the first part.
/// Byte `i` of the last two words is byte `orders[1][i]` of the second part, combined (by OR) with byte
/// `orders[2][i]` of the third part. The lowest byte of a word is its first byte. An index is less than 16, or
/// [`NO_BYTE`] for a zero byte.
#[inline(always)]
pub fn rearrange<L: Level>(_: L, parts: Parts<'_>, orders: &[[u8; 16]; 3], out: &mut [u64; 4]) {
    #[cfg(target_arch = "x86_64")]
    {
        if L::IS_V3 {
            // SAFETY: the level proves that the CPU has AVX2, which includes SSSE3.
            return unsafe { rearrange_ssse3(parts, orders, out) };
        }
    }
    rearrange_scalar(parts.0, parts.1, parts.2, orders, out);
}

/// Rearranges one part to two words, as [`rearrange`] does with its first part.
#[inline(always)]
pub fn rearrange_part<L: Level>(_: L, part: &[u8; 16], order: &[u8; 16], out: &mut [u64; 2]) {
    #[cfg(target_arch = "x86_64")]
    {
        if L::IS_V3 {
            // SAFETY: the level proves that the CPU has AVX2, which includes SSSE3.
            return unsafe { rearrange_part_ssse3(part, order, out) };
        }
    }
    rearrange_part_scalar(part, order, out);
}

/// The reference implementation of [`rearrange_part`].
#[cold]
#[inline(never)]
pub fn rearrange_part_scalar(part: &[u8; 16], order: &[u8; 16], out: &mut [u64; 2]) {
    for (n, word) in out.iter_mut().enumerate() {
        *word = u64::from_le_bytes(std::array::from_fn(|i| byte(part, order, 8 * n + i)));
    }
}

/// Returns byte `i` of a rearranged part.
#[inline]
fn byte(part: &[u8; 16], order: &[u8; 16], i: usize) -> u8 {
    match order[i] {
        NO_BYTE.. => 0,
        from => part[usize::from(from % 16)],
    }
}

/// The reference implementation of [`rearrange`]. It takes the parts as separate arguments, which fit in registers.
#[cold]
#[inline(never)]
pub fn rearrange_scalar(
    first: &[u8; 16],
    second: &[u8; 16],
    third: &[u8; 16],
    orders: &[[u8; 16]; 3],
    out: &mut [u64; 4],
) {
    let [low @ .., _, _] = out;
    rearrange_part_scalar(first, &orders[0], low);
    for (n, word) in out.iter_mut().skip(2).enumerate() {
        *word = u64::from_le_bytes(std::array::from_fn(|i| {
            byte(second, &orders[1], 8 * n + i) | byte(third, &orders[2], 8 * n + i)
        }));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "ssse3")]
fn rearrange_part_ssse3(part: &[u8; 16], order: &[u8; 16], out: &mut [u64; 2]) {
    use std::arch::x86_64::{_mm_loadu_si128, _mm_shuffle_epi8, _mm_storeu_si128};
    // SAFETY: each array has 16 bytes; unaligned loads and stores need no alignment.
    unsafe {
        let (part, order) = (_mm_loadu_si128(part.as_ptr().cast()), _mm_loadu_si128(order.as_ptr().cast()));
        _mm_storeu_si128(out.as_mut_ptr().cast(), _mm_shuffle_epi8(part, order));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "ssse3")]
fn rearrange_ssse3(parts: Parts<'_>, orders: &[[u8; 16]; 3], out: &mut [u64; 4]) {
    use std::arch::x86_64::{_mm_loadu_si128, _mm_or_si128, _mm_shuffle_epi8, _mm_storeu_si128};
    // SAFETY: each array has 16 bytes; unaligned loads need no alignment.
    let load = |bytes: &[u8; 16]| unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
    let [low @ .., _, _] = out;
    rearrange_part_ssse3(parts.0, &orders[0], low);
    let second = _mm_shuffle_epi8(load(parts.1), load(&orders[1]));
    let third = _mm_shuffle_epi8(load(parts.2), load(&orders[2]));
    let [_, _, high @ ..] = out;
    // SAFETY: the array has 16 bytes; unaligned stores need no alignment.
    unsafe { _mm_storeu_si128(high.as_mut_ptr().cast(), _mm_or_si128(second, third)) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::{Baseline, Stage, stage};

    /// Rearranges all parts at the level that the CPU has, the first one again by itself.
    struct Rearrange<'a> {
        parts: Parts<'a>,
        orders: &'a [[u8; 16]; 3],
        out: &'a mut [u64; 4],
    }

    impl Stage for Rearrange<'_> {
        type Out = ();

        #[inline(always)]
        fn run<L: Level>(self, level: L) {
            let Rearrange { parts, orders, out } = self;
            rearrange(level, parts, orders, out);
            let mut low = [2; 2];
            rearrange_part(level, parts.0, &orders[0], &mut low);
            assert_eq!(low, out[..2]);
        }
    }

    #[test]
    fn the_fast_way_agrees_with_the_reference() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..1000 {
            let mut bytes = || std::array::from_fn(|_| random.u8(..));
            let parts: [[u8; 16]; 3] = [bytes(), bytes(), bytes()];
            let order = |byte: u8| if byte & 0x40 == 0 { byte % 16 } else { NO_BYTE };
            let orders = [bytes(), bytes(), bytes()].map(|bytes: [u8; 16]| bytes.map(order));
            let (mut fast, mut reference) = ([0; 4], [1; 4]);
            let [a, b, c] = parts.each_ref();
            stage(Rearrange { parts: (a, b, c), orders: &orders, out: &mut fast });
            rearrange_scalar(a, b, c, &orders, &mut reference);
            assert_eq!(fast, reference);
            rearrange(Baseline, (a, b, c), &orders, &mut fast);
            assert_eq!(fast, reference);
        }
    }

    #[test]
    fn bytes_get_where_the_orders_say() {
        let part: [u8; 16] = std::array::from_fn(|i| i as u8 + 1);
        let mut orders = [[NO_BYTE; 16]; 3];
        (orders[0][1], orders[0][15], orders[1][0], orders[2][0]) = (15, 0, 0, 7);
        let mut out = [u64::MAX; 4];
        rearrange_scalar(&part, &part, &part, &orders, &mut out);
        assert_eq!(out, [16 << 8, 1 << 56, 1 | 8, 0]);
    }
}
