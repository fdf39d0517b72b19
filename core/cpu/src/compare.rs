//! Comparison of cache lines under a mask.

/// A cache line as eight words.
pub type Line = [u64; 8];

/// Returns whether `a` and `b` are equal in every bit of `mask`.
///
/// Written as operations on four words, which the compiler translates to the widest vectors of the target.
#[inline(always)]
pub fn masked_eq(a: &Line, b: &Line, mask: &Line) -> bool {
    let differ: [u64; 4] =
        std::array::from_fn(|i| ((a[i] ^ b[i]) & mask[i]) | ((a[i + 4] ^ b[i + 4]) & mask[i + 4]));
    (differ[0] | differ[1]) | (differ[2] | differ[3]) == 0
}

/// The reference implementation of [`masked_eq`].
pub fn masked_eq_scalar(a: &Line, b: &Line, mask: &Line) -> bool {
    let mut diff = 0;
    for i in 0..8 {
        diff |= (a[i] ^ b[i]) & mask[i];
    }
    diff == 0
}

/// Returns which of the first 64 `lines` equal `want` in every bit of `mask`. Bit i: line i.
#[inline]
pub fn matching(lines: &[Line], want: &Line, mask: &Line) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2, as was checked in the line above.
            return unsafe { matching_avx2(lines, want, mask) };
        }
    }
    matching_scalar(lines, want, mask)
}

/// The reference implementation of [`matching`].
pub fn matching_scalar(lines: &[Line], want: &Line, mask: &Line) -> u64 {
    lines
        .iter()
        .take(64)
        .enumerate()
        .fold(0, |bits, (i, l)| bits | u64::from(masked_eq_scalar(l, want, mask)) << i)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn matching_avx2(lines: &[Line], want: &Line, mask: &Line) -> u64 {
    use std::arch::x86_64::{
        __m256i, _mm256_and_si256, _mm256_loadu_si256, _mm256_or_si256, _mm256_setzero_si256,
        _mm256_testz_si256, _mm256_xor_si256,
    };
    let halves = |line: &Line| {
        let at: *const __m256i = line.as_ptr().cast();
        // SAFETY: `at` and `at + 1` point to the 64 bytes of `line`; unaligned loads need no alignment.
        unsafe { (_mm256_loadu_si256(at), _mm256_loadu_si256(at.add(1))) }
    };
    let ((want0, want1), (mask0, mask1)) = (halves(want), halves(mask));
    let lines = &lines[..lines.len().min(64)];
    // Usually either all lines equal `want` under the mask, or few do. So if the first and the last line equal it, first
    // test whether all lines do: this block combines the differences of all lines and masks them once, which takes a
    // third of the instructions of the loop below.
    if let (Some(first), Some(last)) = (lines.first(), lines.last())
        && masked_eq(first, want, mask)
        && masked_eq(last, want, mask)
    {
        let mut differ = (_mm256_setzero_si256(), _mm256_setzero_si256());
        for line in lines {
            let (a, b) = halves(line);
            differ.0 = _mm256_or_si256(differ.0, _mm256_xor_si256(a, want0));
            differ.1 = _mm256_or_si256(differ.1, _mm256_xor_si256(b, want1));
        }
        if _mm256_testz_si256(differ.0, mask0) & _mm256_testz_si256(differ.1, mask1) != 0 {
            return u64::MAX >> (64 - lines.len());
        }
    }
    let mut bits = 0;
    for (i, line) in lines.iter().enumerate() {
        let (a, b) = halves(line);
        let a = _mm256_and_si256(_mm256_xor_si256(a, want0), mask0);
        let b = _mm256_and_si256(_mm256_xor_si256(b, want1), mask1);
        let diff = _mm256_or_si256(a, b);
        bits |= (_mm256_testz_si256(diff, diff) as u64) << i;
    }
    bits
}

/// Returns which of the first 64 words of `column` equal `want` in every bit of `mask`. Bit i: word i.
#[inline]
pub fn matching_words(column: &[u64], want: u64, mask: u64) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2, as was checked in the line above.
            return unsafe { matching_words_avx2(column, want, mask) };
        }
    }
    matching_words_scalar(column, want, mask)
}

/// The reference implementation of [`matching_words`].
pub fn matching_words_scalar(column: &[u64], want: u64, mask: u64) -> u64 {
    let words = column.iter().take(64).enumerate();
    words.fold(0, |bits, (i, word)| bits | u64::from((word ^ want) & mask == 0) << i)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn matching_words_avx2(column: &[u64], want: u64, mask: u64) -> u64 {
    use std::arch::x86_64::{
        _mm256_and_si256, _mm256_castsi256_pd, _mm256_cmpeq_epi64, _mm256_loadu_si256, _mm256_movemask_pd,
        _mm256_set1_epi64x,
    };
    let (wanted, kept) = (_mm256_set1_epi64x((want & mask) as i64), _mm256_set1_epi64x(mask as i64));
    let (fours, rest) = column[..column.len().min(64)].as_chunks::<4>();
    let mut bits = 0;
    for (i, words) in fours.iter().enumerate() {
        // SAFETY: `words` has 32 bytes; unaligned loads need no alignment.
        let words = unsafe { _mm256_loadu_si256(words.as_ptr().cast()) };
        let equal = _mm256_cmpeq_epi64(_mm256_and_si256(words, kept), wanted);
        bits |= (_mm256_movemask_pd(_mm256_castsi256_pd(equal)) as u64) << (4 * i);
    }
    if rest.is_empty() { bits } else { bits | matching_words_scalar(rest, want, mask) << (4 * fours.len()) }
}

/// Returns whether all words equal `want`.
///
/// Written as operations on eight words, which the compiler translates to vectors.
#[inline(always)]
pub fn all_equal(words: &[u32], want: u32) -> bool {
    let (eights, rest) = words.as_chunks::<8>();
    let differ = eights
        .iter()
        .fold([0; 8], |differ: [u32; 8], words| std::array::from_fn(|i| differ[i] | (words[i] ^ want)));
    let differ = differ.iter().fold(0, |a, b| a | b);
    rest.iter().fold(differ, |differ, word| differ | (word ^ want)) == 0
}

/// Returns the bits that are set in at least one word. Written like [`all_equal`].
#[inline(always)]
pub fn union(words: &[u16]) -> u16 {
    let (sixteens, rest) = words.as_chunks::<16>();
    let all =
        sixteens.iter().fold([0; 16], |all: [u16; 16], words| std::array::from_fn(|i| all[i] | words[i]));
    all.iter().chain(rest).fold(0, |all, word| all | word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reductions_regard_every_word() {
        for n in 0..70 {
            let (mut words, mut flags) = (vec![7; n], vec![0_u16; n]);
            assert!(all_equal(&words, 7));
            assert_eq!(union(&flags), 0);
            for i in 0..n {
                (words[i], flags[i]) = (7 ^ 1 << (i % 32), 1 << (i % 16));
                assert!(!all_equal(&words, 7));
                assert_eq!(union(&flags), 1 << (i % 16));
                (words[i], flags[i]) = (7, 0);
            }
        }
    }

    #[test]
    fn words_that_agree_are_found() {
        let column: Vec<u64> = (0..70).map(|i| ((i % 5) << 8) | i).collect();
        for n in 0..column.len() {
            let (column, want) = (&column[..n], 2 << 8 | 1);
            let found = matching_words(column, want, 0xff00);
            assert_eq!(found, matching_words_scalar(column, want, 0xff00));
            assert_eq!(found.count_ones() as usize, (0..n.min(64)).filter(|i| i % 5 == 2).count());
        }
    }

    #[test]
    fn the_fast_way_agrees_with_the_reference() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut next = || random.u64(..);
        for n in [0, 1, 31, 64, 70_u32] {
            // Few bits, so that some lines are equal.
            let lines: Vec<Line> = (0..n).map(|_| std::array::from_fn(|_| next() & 1)).collect();
            for _ in 0..50 {
                let (want, mask) = (std::array::from_fn(|_| next() & 1), std::array::from_fn(|_| next() & 1));
                for line in &lines {
                    assert_eq!(masked_eq(line, &want, &mask), masked_eq_scalar(line, &want, &mask));
                }
                assert_eq!(matching(&lines, &want, &mask), matching_scalar(&lines, &want, &mask));
            }
            let all = u64::MAX.checked_shr(64 - n.min(64)).unwrap_or(0);
            assert_eq!(matching(&lines, &[9; 8], &[0; 8]), all);
            // All lines but one.
            for other in 0..n.min(64) {
                let (other, mut lines) = (other as usize, vec![[5; 8]; n as usize]);
                lines[other][other % 8] = 4;
                assert_eq!(matching(&lines, &[5; 8], &[1; 8]), all & !(1 << other));
                assert_eq!(matching(&lines, &[5; 8], &[4; 8]), all);
            }
        }
    }

    #[test]
    fn only_masked_bits_count() {
        let a = [1, 2, 3, 4, 5, 6, 7, 8];
        let mut b = a;
        b[7] = 9;
        let mut mask = [u64::MAX; 8];
        assert!(masked_eq(&a, &a, &mask));
        assert!(!masked_eq(&a, &b, &mask));
        mask[7] = !1;
        assert!(masked_eq(&a, &b, &[0, 0, 0, 0, 0, 0, 0, 6]));
        assert_eq!(masked_eq(&a, &b, &mask), (8 ^ 9) & !1 == 0);
    }
}
