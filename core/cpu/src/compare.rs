//! Comparing one cache line under a mask.

/// A cache line as eight words.
pub type Line = [u64; 8];

/// `a` and `b` agree in every bit of `mask`.
///
/// Written without a branch, so that the compiler makes four 128-bit (or two 256-bit) operations of it.
#[inline(always)]
pub fn masked_eq(a: &Line, b: &Line, mask: &Line) -> bool {
    let mut diff = 0;
    for i in 0..8 {
        diff |= (a[i] ^ b[i]) & mask[i];
    }
    diff == 0
}

#[cfg(test)]
mod tests {
    use super::*;

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
