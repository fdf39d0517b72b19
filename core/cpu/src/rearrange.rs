//! Rearranging the bytes of packet headers to words of a key.

/// In an order: the byte is zero.
pub const NO_BYTE: u8 = 0x80;

/// Three parts of a header, which may overlap.
pub type Parts<'a> = (&'a [u8; 16], &'a [u8; 16], &'a [u8; 16]);

/// Rearranges header bytes to four words. Byte `i` of the first two words is byte `orders[0][i]` of the first part; byte `i` of the other
/// two combines (by OR) byte `orders[1][i]` of the second part and byte `orders[2][i]` of the third one. The lowest byte of a word is
/// its first. An index is less than 16, or [`NO_BYTE`], for a byte that is zero.
#[inline(always)]
pub fn rearrange(parts: Parts<'_>, orders: &[[u8; 16]; 3], out: &mut [u64; 4]) {
    #[cfg(target_arch = "x86_64")]
    {
        if crate::stage::has_v3() {
            // SAFETY: the processor has AVX2, which includes SSSE3, as was just found.
            return unsafe { rearrange_ssse3(parts, orders, out) };
        }
    }
    rearrange_scalar(parts.0, parts.1, parts.2, orders, out);
}

/// The reference implementation of [`rearrange`]. Its arguments fit in registers.
#[cold]
#[inline(never)]
pub fn rearrange_scalar(
    first: &[u8; 16],
    second: &[u8; 16],
    third: &[u8; 16],
    orders: &[[u8; 16]; 3],
    out: &mut [u64; 4],
) {
    let parts = [first, second, third];
    let byte = |n: usize, i: usize| match orders[n][i] {
        NO_BYTE.. => 0,
        from => parts[n][usize::from(from % 16)],
    };
    for (n, word) in out.iter_mut().enumerate() {
        *word = u64::from_le_bytes(std::array::from_fn(|i| match n {
            0 | 1 => byte(0, 8 * n + i),
            _ => byte(1, 8 * n + i - 16) | byte(2, 8 * n + i - 16),
        }));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "ssse3")]
fn rearrange_ssse3(parts: Parts<'_>, orders: &[[u8; 16]; 3], out: &mut [u64; 4]) {
    use std::arch::x86_64::{_mm_loadu_si128, _mm_or_si128, _mm_shuffle_epi8, _mm_storeu_si128};
    // SAFETY: each array has 16 bytes, read without a demand on alignment.
    let load = |bytes: &[u8; 16]| unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
    let first = _mm_shuffle_epi8(load(parts.0), load(&orders[0]));
    let second = _mm_shuffle_epi8(load(parts.1), load(&orders[1]));
    let third = _mm_shuffle_epi8(load(parts.2), load(&orders[2]));
    let (low, high) = out.split_at_mut(2);
    // SAFETY: each half has 16 bytes, written without a demand on alignment.
    unsafe {
        _mm_storeu_si128(low.as_mut_ptr().cast(), first);
        _mm_storeu_si128(high.as_mut_ptr().cast(), _mm_or_si128(second, third));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            rearrange((a, b, c), &orders, &mut fast);
            rearrange_scalar(a, b, c, &orders, &mut reference);
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
