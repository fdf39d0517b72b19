//! Keyed hashing of keys: of the line of a key, and of the words after the line.
//!
//! The hashed bytes come from packets, so a sender must not be able to choose bytes that collide. With a CRC a sender
//! can: a CRC is linear, so equal differences of keys give equal differences of hashes, whatever the seed is.
//!
//! * Words are summed by **NH** (Black et al., UMAC, 1999; RFC 4418 §5.2.2): each word is split in two halves, a
//!   secret is added to each half modulo 2³², and the products of the halves are added modulo 2⁶⁴. For any two
//!   different inputs and any number, the probability that their sums differ by that number is at most 2⁻³², over the
//!   choice of the secrets. A word outside the mask is zero in both inputs, so all inputs under one mask have the
//!   same length, as NH requires.
//! * The sum is then the input of one more such product. Otherwise sums that form an arithmetic progression, for
//!   example those of consecutive addresses, would be distributed unevenly under some secrets.
//! * The result is reduced to 32 bits by **multilinear-HM** (Lemire, Kaser, "Strongly universal string hashing is
//!   fast", 2014), which is pairwise independent: any two different sums agree in any chosen bits as often as two
//!   random numbers do. So the low bits can select a bucket and the high bits can be a signature.
//!
//! So for every pair of inputs that was chosen without knowledge of the secrets, `j` bits of the hashes collide with
//! a probability of at most 2⁻ʲ + 2⁻³¹.

use crate::compare::Line;
use crate::siphash::siphash;

/// Number of words that have a secret of their own: those of a line, and those that may follow it in a key.
pub const WORDS: usize = 80;

/// The secrets of a hash: random, different in each process, never disclosed.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Secret {
    /// A secret for each word; the secrets of the line's words come first.
    words: [u64; WORDS],
    /// The secret for the sum, which is processed like one more word.
    sum: u64,
    /// The secrets of the reduction: two are added to the halves of the sum, the third to their product.
    reduction: [u64; 3],
}

impl Secret {
    /// Derives the secrets from `seed`, which must be random.
    pub fn new(seed: u64) -> Secret {
        let word = |i: usize| siphash([seed, 0x6e68_2d73_6563_7265], &[i as u64]);
        let reduction = std::array::from_fn(|i| word(WORDS + 1 + i));
        Secret { words: std::array::from_fn(word), sum: word(WORDS), reduction }
    }

    /// Returns the term of the word at `index`. The words of the line have indices 0 to 7.
    #[inline(always)]
    pub fn term(&self, index: usize, word: u64) -> u64 {
        product(word, self.words[index % WORDS])
    }

    /// Reduces a sum of terms to a hash. Hashes are comparable only if the terms of their sums have the same indices.
    #[inline(always)]
    pub fn reduce(&self, sum: u64) -> u32 {
        let [a, b, c] = self.reduction;
        let sum = product(sum, self.sum);
        let (low, high) = (u64::from(sum as u32), sum >> 32);
        (low.wrapping_add(a).wrapping_mul(high.wrapping_add(b)).wrapping_add(c) >> 32) as u32
    }
}

/// Returns one term of NH.
#[inline(always)]
fn product(word: u64, secret: u64) -> u64 {
    let low = (word as u32).wrapping_add(secret as u32);
    let high = ((word >> 32) as u32).wrapping_add((secret >> 32) as u32);
    u64::from(low) * u64::from(high)
}

/// Returns the sum of the terms of `line`, under `mask`.
#[inline]
pub fn sum_line(line: &Line, mask: &Line, secret: &Secret) -> u64 {
    let mut out = [0];
    sum_lines(std::slice::from_ref(line), mask, secret, &mut out);
    out[0]
}

/// [`sum_line`] for a batch. Writes as many sums as the shorter slice has elements.
#[inline]
pub fn sum_lines(lines: &[Line], mask: &Line, secret: &Secret, out: &mut [u64]) {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2, as was checked in the line above.
            return unsafe { avx2::sum_lines(lines, mask, secret, out) };
        }
    }
    sum_lines_scalar(lines, mask, secret, out);
}

/// The reference implementation of [`sum_lines`].
pub fn sum_lines_scalar(lines: &[Line], mask: &Line, secret: &Secret, out: &mut [u64]) {
    for (line, out) in lines.iter().zip(out) {
        let terms = (0..line.len()).map(|i| secret.term(i, line[i] & mask[i]));
        *out = terms.fold(0, u64::wrapping_add);
    }
}

/// Returns the hash of the bits of `line` that are in `mask`.
#[inline(always)]
pub fn hash_line(line: &Line, mask: &Line, secret: &Secret) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        if crate::stage::has_v3() {
            // SAFETY: the CPU has AVX2, which `has_v3` includes.
            return secret.reduce(unsafe { avx2::sum_line(line, mask, secret) });
        }
    }
    secret.reduce(sum_line(line, mask, secret))
}

/// [`hash_line`] for a batch. Writes as many hashes as the shorter slice has elements.
#[inline]
pub fn hash_lines(lines: &[Line], mask: &Line, secret: &Secret, out: &mut [u32]) {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2, as was checked in the line above.
            return unsafe { avx2::hash_lines(lines, mask, secret, out) };
        }
    }
    hash_lines_scalar(lines, mask, secret, out);
}

/// The reference implementation of [`hash_lines`].
pub fn hash_lines_scalar(lines: &[Line], mask: &Line, secret: &Secret, out: &mut [u32]) {
    for (line, out) in lines.iter().zip(out) {
        let mut sum = [0];
        sum_lines_scalar(std::slice::from_ref(line), mask, secret, &mut sum);
        *out = secret.reduce(sum[0]);
    }
}

/// Adds to the sum of each key the term of one more word. `column` contains this word of all keys; only the bits in
/// `mask` are used. Changes as many sums as the shorter slice has elements.
#[inline]
pub fn add_column(column: &[u64], mask: u64, (secret, index): (&Secret, usize), sums: &mut [u64]) {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2, as was checked in the line above.
            return unsafe { avx2::add_column(column, mask, (secret, index), sums) };
        }
    }
    add_column_scalar(column, mask, (secret, index), sums);
}

/// The reference implementation of [`add_column`].
pub fn add_column_scalar(column: &[u64], mask: u64, (secret, index): (&Secret, usize), sums: &mut [u64]) {
    for (sum, word) in sums.iter_mut().zip(column) {
        *sum = sum.wrapping_add(secret.term(index, word & mask));
    }
}

/// [`Secret::reduce`] for a batch. Writes as many hashes as the shorter slice has elements.
#[inline]
pub fn reduce_sums(sums: &[u64], secret: &Secret, out: &mut [u32]) {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2, as was checked in the line above.
            return unsafe { avx2::reduce_sums(sums, secret, out) };
        }
    }
    reduce_sums_scalar(sums, secret, out);
}

/// The reference implementation of [`reduce_sums`].
pub fn reduce_sums_scalar(sums: &[u64], secret: &Secret, out: &mut [u32]) {
    sums.iter().zip(out).for_each(|(sum, out)| *out = secret.reduce(*sum));
}

/// Processes four lines at once. A line then costs less than a CRC of four of its words, and the cost does not depend
/// on the mask.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{Line, Secret, WORDS, add_column_scalar, reduce_sums_scalar};
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_add_epi64, _mm_cvtsi128_si64, _mm_storeu_si128, _mm_unpackhi_epi64,
        _mm256_add_epi32, _mm256_add_epi64, _mm256_and_si256, _mm256_castsi256_si128,
        _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_mul_epu32, _mm256_permute2x128_si256,
        _mm256_permutevar8x32_epi32, _mm256_set1_epi64x, _mm256_setr_epi32, _mm256_slli_epi64,
        _mm256_srli_epi64, _mm256_storeu_si256, _mm256_unpackhi_epi64, _mm256_unpacklo_epi64,
    };

    /// Values that are the same for all lines.
    struct Fixed {
        mask: [__m256i; 2],
        secret: [__m256i; 2],
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(line: &Line) -> [__m256i; 2] {
        let at: *const __m256i = line.as_ptr().cast();
        // SAFETY: `at` and `at + 1` point to the 64 bytes of `line`; unaligned loads need no alignment.
        unsafe { [_mm256_loadu_si256(at), _mm256_loadu_si256(at.add(1))] }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn fixed(mask: &Line, secret: &Secret) -> Fixed {
        let words: &Line = secret.words.first_chunk().expect("there are more words than a line has");
        Fixed { mask: load(mask), secret: load(words) }
    }

    /// Returns the terms of four words.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn terms(words: __m256i, secret: __m256i) -> __m256i {
        let keyed = _mm256_add_epi32(words, secret);
        _mm256_mul_epu32(keyed, _mm256_srli_epi64::<32>(keyed))
    }

    /// Returns four numbers whose sum is the sum of the line.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn parts(line: &Line, f: &Fixed) -> __m256i {
        let [low, high] = load(line);
        let (low, high) = (_mm256_and_si256(low, f.mask[0]), _mm256_and_si256(high, f.mask[1]));
        _mm256_add_epi64(terms(low, f.secret[0]), terms(high, f.secret[1]))
    }

    /// Returns the sums of four lines.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn sums_of_four(lines: &[Line; 4], f: &Fixed) -> __m256i {
        let [a, b, c, d] = lines.each_ref().map(|line| parts(line, f));
        let ab = _mm256_add_epi64(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
        let cd = _mm256_add_epi64(_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d));
        let low = _mm256_permute2x128_si256::<0x20>(ab, cd);
        let high = _mm256_permute2x128_si256::<0x31>(ab, cd);
        _mm256_add_epi64(low, high)
    }

    /// Returns the sum of one line.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn sum_of_one(line: &Line, f: &Fixed) -> u64 {
        let parts = parts(line, f);
        let two = _mm_add_epi64(_mm256_castsi256_si128(parts), _mm256_extracti128_si256::<1>(parts));
        _mm_cvtsi128_si64(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two))) as u64
    }

    /// [`Secret::reduce`] for four sums. Of each product of two 64-bit numbers, only the upper half of the lower 64
    /// bits is needed.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn reduce(sums: __m256i, secret: &Secret) -> __m128i {
        let [a, b, c] = secret.reduction.map(|word| _mm256_set1_epi64x(word as i64));
        let sums = terms(sums, _mm256_set1_epi64x(secret.sum as i64));
        let low = _mm256_and_si256(sums, _mm256_set1_epi64x(0xffff_ffff));
        let (x, y) = (_mm256_add_epi64(low, a), _mm256_add_epi64(_mm256_srli_epi64::<32>(sums), b));
        let (x_high, y_high) = (_mm256_srli_epi64::<32>(x), _mm256_srli_epi64::<32>(y));
        let cross = _mm256_add_epi64(_mm256_mul_epu32(x, y_high), _mm256_mul_epu32(x_high, y));
        let product = _mm256_add_epi64(_mm256_mul_epu32(x, y), _mm256_slli_epi64::<32>(cross));
        let odd = _mm256_setr_epi32(1, 3, 5, 7, 1, 3, 5, 7);
        _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(_mm256_add_epi64(product, c), odd))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn sum_line(line: &Line, mask: &Line, secret: &Secret) -> u64 {
        sum_of_one(line, &fixed(mask, secret))
    }

    /// Sums lines, four at a time. `store_four` writes the results for four sums; `of_one` computes the result for
    /// one sum.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn for_each_sum<T>(
        lines: &[Line],
        f: &Fixed,
        out: &mut [T],
        store_four: impl Fn(__m256i, &mut [T; 4]),
        of_one: impl Fn(u64) -> T,
    ) {
        let n = lines.len().min(out.len());
        let (fours, rest) = lines[..n].as_chunks::<4>();
        let (out_fours, out_rest) = out[..n].as_chunks_mut::<4>();
        for (lines, out) in fours.iter().zip(out_fours) {
            store_four(sums_of_four(lines, f), out);
        }
        for (line, out) in rest.iter().zip(out_rest) {
            *out = of_one(sum_of_one(line, f));
        }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn sum_lines(lines: &[Line], mask: &Line, secret: &Secret, out: &mut [u64]) {
        let store_four = |sums: __m256i, out: &mut [u64; 4]| {
            // SAFETY: `out` has 32 bytes; unaligned stores need no alignment.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), sums) };
        };
        for_each_sum(lines, &fixed(mask, secret), out, store_four, |sum| sum);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn hash_lines(lines: &[Line], mask: &Line, secret: &Secret, out: &mut [u32]) {
        let store_four = |sums: __m256i, out: &mut [u32; 4]| {
            let hashes = reduce(sums, secret);
            // SAFETY: `out` has 16 bytes; unaligned stores need no alignment.
            unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), hashes) };
        };
        for_each_sum(lines, &fixed(mask, secret), out, store_four, |sum| secret.reduce(sum));
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn add_column(column: &[u64], mask: u64, (secret, index): (&Secret, usize), sums: &mut [u64]) {
        let n = column.len().min(sums.len());
        let word = _mm256_set1_epi64x(secret.words[index % WORDS] as i64);
        let mask_vector = _mm256_set1_epi64x(mask as i64);
        let (fours, rest) = column[..n].as_chunks::<4>();
        let (sum_fours, sum_rest) = sums[..n].as_chunks_mut::<4>();
        for (words, sums) in fours.iter().zip(sum_fours) {
            // SAFETY: `words` and `sums` have 32 bytes each; unaligned loads and stores need no alignment.
            unsafe {
                let words = _mm256_and_si256(_mm256_loadu_si256(words.as_ptr().cast()), mask_vector);
                let sum = _mm256_add_epi64(_mm256_loadu_si256(sums.as_ptr().cast()), terms(words, word));
                _mm256_storeu_si256(sums.as_mut_ptr().cast(), sum);
            }
        }
        add_column_scalar(rest, mask, (secret, index), sum_rest);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn reduce_sums(sums: &[u64], secret: &Secret, out: &mut [u32]) {
        let n = sums.len().min(out.len());
        let (fours, rest) = sums[..n].as_chunks::<4>();
        let (out_fours, out_rest) = out[..n].as_chunks_mut::<4>();
        for (sums, out) in fours.iter().zip(out_fours) {
            // SAFETY: `sums` has 32 bytes and `out` has 16; unaligned loads and stores need no alignment.
            unsafe {
                let hashes = reduce(_mm256_loadu_si256(sums.as_ptr().cast()), secret);
                _mm_storeu_si128(out.as_mut_ptr().cast(), hashes);
            }
        }
        reduce_sums_scalar(rest, secret, out_rest);
    }
}

/// The secrets of a keyed 64-bit hash of a sequence of words of any length. Each step is a folded 128-bit product in which both
/// factors are xored with secrets.
#[derive(Clone, Copy, Debug)]
pub struct KeyedHash64 {
    secret_start: u64,
    secret_for_hash: u64,
    secret_for_word: u64,
}

impl KeyedHash64 {
    /// Derives the secrets from `seed`, which must be random.
    pub fn new(seed: u64) -> KeyedHash64 {
        let secret = |i| siphash([seed, 0x6368_6169_6e2d_6b65], &[i]);
        KeyedHash64 { secret_start: secret(0), secret_for_hash: secret(1), secret_for_word: secret(2) }
    }

    /// The hash of the empty sequence.
    #[inline(always)]
    pub fn start(&self) -> u64 {
        self.secret_start
    }

    /// Returns the hash of a sequence with one more word. All 64 bits of the result are equally good.
    #[inline(always)]
    pub fn step(&self, hash: u64, word: u64) -> u64 {
        let product = u128::from(hash ^ self.secret_for_hash) * u128::from(word ^ self.secret_for_word);
        product as u64 ^ (product >> 64) as u64
    }

    /// Returns the hash of `words`.
    pub fn of(&self, words: impl IntoIterator<Item = u64>) -> u64 {
        words.into_iter().fold(self.secret_start, |hash, word| self.step(hash, word))
    }
}

/// A fixed hash of two words, without a secret, for fingerprints of data that no attacker chooses.
#[inline(always)]
pub fn mix32(a: u32, b: u32) -> u32 {
    let mut x = (u64::from(a) << 32 | u64::from(b)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (x ^ (x >> 32)) as u32
}

#[cfg(test)]
mod tests;
