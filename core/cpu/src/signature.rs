//! Search for a 16-bit signature among the sixteen signatures of a bucket.

/// Returns which of `sigs`, masked with `keep`, equal `want`. Bit i: element i.
///
/// SSE2 is part of x86-64, so no dispatch is needed and the call is inlined.
#[inline(always)]
pub fn match_any(sigs: &[u16; 16], keep: u16, want: u16) -> u16 {
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
            let (keep, want) = (_mm_set1_epi16(keep as i16), _mm_set1_epi16(want as i16));
            let low = _mm_cmpeq_epi16(_mm_and_si128(_mm_loadu_si128(at), keep), want);
            let high = _mm_cmpeq_epi16(_mm_and_si128(_mm_loadu_si128(at.add(1)), keep), want);
            _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u16
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        match_any_scalar(sigs, keep, want)
    }
}

/// The reference implementation of [`match_any`].
pub fn match_any_scalar(sigs: &[u16; 16], keep: u16, want: u16) -> u16 {
    sigs.iter().enumerate().fold(0, |bits, (i, &s)| bits | u16::from(s & keep == want) << i)
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
            for want in 0..8 {
                assert_eq!(match_any(&sigs, 0x7fff, want), match_any_scalar(&sigs, 0x7fff, want));
            }
        }
    }
}
