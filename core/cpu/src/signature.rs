//! Search for a 16-bit signature among the sixteen signatures of a bucket.

/// Returns which of `sigs`, masked with `mask`, equal `value`. Bit i: element i.
///
/// SSE2 is part of x86-64, so no detection at run time is needed, and the call is inlined.
#[inline(always)]
pub fn match_mask(sigs: &[u16; 16], mask: u16, value: u16) -> u16 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{
            __m128i, _mm_and_si128, _mm_cmpeq_epi16, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16,
            _mm_set1_epi16,
        };
        let at: *const __m128i = sigs.as_ptr().cast();
        // SAFETY: `at` and `at + 1` point to the 32 bytes of `sigs`; unaligned loads need no alignment; SSE2 is part
        // of x86-64.
        unsafe {
            let (mask, value) = (_mm_set1_epi16(mask as i16), _mm_set1_epi16(value as i16));
            let low = _mm_cmpeq_epi16(_mm_and_si128(_mm_loadu_si128(at), mask), value);
            let high = _mm_cmpeq_epi16(_mm_and_si128(_mm_loadu_si128(at.add(1)), mask), value);
            _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u16
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        match_mask_scalar(sigs, mask, value)
    }
}

/// The reference implementation of [`match_mask`].
pub fn match_mask_scalar(sigs: &[u16; 16], mask: u16, value: u16) -> u16 {
    sigs.iter().enumerate().fold(0, |bits, (i, &s)| bits | u16::from(s & mask == value) << i)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_way_agrees_with_the_reference() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..5000 {
            let mut sigs = [0u16; 16];
            for s in &mut sigs {
                *s = random.u16(..) & 0x8007;
            }
            for value in 0..8 {
                assert_eq!(match_mask(&sigs, 0x7fff, value), match_mask_scalar(&sigs, 0x7fff, value));
            }
        }
    }
}
