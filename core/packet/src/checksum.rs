//! The Internet checksum (RFC 1071), and its incremental update (RFC 1624, equation 3).

/// A sum of 64-bit words in memory byte order, not folded.
///
/// One's complement sums are sums modulo 65,535, and 2^16 is 1 modulo 65,535. So a 64-bit word has the same
/// sum as its four 16-bit parts. The sum of byte-swapped words is the byte-swapped sum.
#[derive(Clone, Copy, Debug, Default)]
pub struct WordSum(u64);

impl WordSum {
    /// Adds data. All parts but the last must have an even length.
    #[inline(always)]
    pub fn with(self, data: &[u8]) -> WordSum {
        let (eights, rest) = data.as_chunks::<8>();
        let sum = eights.iter().fold(self, |sum, eight| sum.plus(u64::from_ne_bytes(*eight)));
        let (mut last, (fours, rest)) = (0, rest.as_chunks::<4>());
        let (twos, rest) = rest.as_chunks::<2>();
        if let [four] = fours {
            last += u64::from(u32::from_ne_bytes(*four));
        }
        if let [two] = twos {
            last += u64::from(u16::from_ne_bytes(*two));
        }
        if let [byte] = rest {
            last += u64::from(u16::from_ne_bytes([*byte, 0]));
        }
        sum.plus(last)
    }

    /// Adds two 16-bit words.
    #[inline(always)]
    pub fn with_pair(self, words: u32) -> WordSum {
        self.plus(u32::to_be(words).into())
    }

    #[inline(always)]
    fn plus(self, word: u64) -> WordSum {
        let (sum, carry) = self.0.overflowing_add(word);
        WordSum(sum + u64::from(carry))
    }

    /// Returns whether the checksum in the data is right. Data of zeros count as wrong.
    #[inline(always)]
    pub fn is_checksum_right(self) -> bool {
        is_intact(self.0)
    }

    /// The checksum of the data.
    #[inline(always)]
    pub fn checksum(self) -> u16 {
        !self.folded()
    }

    /// The sum folded to 16 bits, in host byte order.
    #[inline(always)]
    fn folded(self) -> u16 {
        let halves = |wide: u64| (wide >> 32) + (wide & 0xffff_ffff);
        let narrow = |wide: u64| (wide >> 16) + (wide & 0xffff);
        u16::from_be(narrow(narrow(narrow(halves(halves(self.0))))) as u16)
    }
}

/// Returns whether the checksum in data with this sum is right. The sum may be of words of 16 bits or of multiples of 16 bits. Data of
/// zeros count as wrong.
#[inline(always)]
pub fn is_intact(sum: u64) -> bool {
    // `sum` is a multiple of 0xffff if and only if `sum * INVERSE` is at most `u64::MAX / 0xffff` (INVERSE: modulo 2^64). Compilers do not
    // find this replacement of a division by themselves here.
    const INVERSE: u64 = 0xfffe_fffe_fffe_ffff;
    const _: () = assert!(INVERSE.wrapping_mul(0xffff) == 1);
    sum != 0 && sum.wrapping_mul(INVERSE) <= u64::MAX / 0xffff
}

/// Adds data to a partial sum. All parts but the last must have an even length.
#[inline]
pub fn add(sum: u32, data: &[u8]) -> u32 {
    fold(u64::from(sum) + u64::from(WordSum::default().with(data).folded()))
}

/// Adds a 16-bit word to a partial sum.
#[inline]
pub fn add16(sum: u32, word: u16) -> u32 {
    fold(u64::from(sum) + u64::from(word))
}

/// Adds a 32-bit word to a partial sum.
#[inline]
pub fn add32(sum: u32, word: u32) -> u32 {
    fold(u64::from(sum) + u64::from(word >> 16) + u64::from(word & 0xffff))
}

/// Folds a 64-bit sum to a partial sum of 32 bits.
#[inline(always)]
pub fn fold(mut wide: u64) -> u32 {
    while wide >> 32 != 0 {
        wide = (wide >> 32) + (wide & 0xffff_ffff);
    }
    wide as u32
}

/// The checksum that results from a partial sum.
#[inline]
pub fn finish(mut sum: u32) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

/// The checksum that results from a 16-bit sum and one more word.
#[inline(always)]
pub fn finish_two(sum: u16, word: u16) -> u16 {
    let (sum, carry) = sum.overflowing_add(word);
    !(sum + u16::from(carry))
}

/// The checksum of data.
#[inline]
pub fn checksum(data: &[u8]) -> u16 {
    finish(add(0, data))
}

/// The partial sum of the pseudo header over IPv4.
#[inline]
pub fn pseudo_v4(src: u32, dst: u32, proto: u8, len: u16) -> u32 {
    add16(add16(add32(add32(0, src), dst), u16::from(proto)), len)
}

/// The partial sum of the pseudo header over IPv6.
#[inline]
pub fn pseudo_v6(src: &[u8; 16], dst: &[u8; 16], proto: u8, len: u32) -> u32 {
    add32(add16(add(add(0, src), dst), u16::from(proto)), len)
}

/// The checksum of SCTP (RFC 9260 appendix A) over data in several parts.
pub fn crc32c(parts: &[&[u8]]) -> u32 {
    cpu::crc32c_of(parts)
}

/// The checksum after a 16-bit word of the data has changed from `old` to `new`.
pub fn update16(checksum: u16, old: u16, new: u16) -> u16 {
    finish(add16(add16(u32::from(!checksum), !old), new))
}

/// The checksum after a 32-bit word of the data has changed from `old` to `new`.
pub fn update32(checksum: u16, old: u32, new: u32) -> u16 {
    finish(add32(add32(u32::from(!checksum), !old), new))
}

/// The checksum after an IPv6 address in the data has changed from `old` to `new`.
pub fn update128(checksum: u16, old: &[u8; 16], new: &[u8; 16]) -> u16 {
    let gone = old.map(|b| !b);
    finish(add(add(u32::from(!checksum), &gone), new))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_rfc_1071() {
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }

    proptest! {
        #[test]
        fn data_are_intact_where_their_checksum_is_zero(mut data in prop::collection::vec(any::<u8>(), 2..100), off: bool) {
            data[..2].fill(0);
            let sum = checksum(&data).wrapping_add(u16::from(off));
            data[..2].copy_from_slice(&sum.to_be_bytes());
            let intact = checksum(&data) == 0 && data.iter().any(|byte| *byte != 0);
            prop_assert_eq!(WordSum::default().with(&data).is_checksum_right(), intact);
            let (head, rest) = data.split_at(2);
            let head = u32::from(u16::from_be_bytes([head[0], head[1]]));
            prop_assert_eq!(WordSum::default().with_pair(head).with(rest).is_checksum_right(), intact);
        }
    }

    #[test]
    fn the_example_of_rfc_1624() {
        assert_eq!(update16(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    /// Reference implementation: word by word, folded after each word.
    fn naive(data: &[u8]) -> u16 {
        let word = |w: &[u8]| u32::from(w[0]) << 8 | u32::from(w.get(1).copied().unwrap_or(0));
        let add = |sum: u32, w: &[u8]| (sum + word(w)) % 0x1_0000 + (sum + word(w)) / 0x1_0000;
        !(data.chunks(2).fold(0, add) as u16)
    }

    proptest! {
        #[test]
        fn a_sum_is_that_of_its_words(data in prop::collection::vec(any::<u8>(), 0..70)) {
            prop_assert_eq!(checksum(&data), naive(&data));
        }

        #[test]
        fn an_incremental_update_equals_a_new_checksum(mut data in prop::collection::vec(any::<u8>(), 20..60), new: u32) {
            data[0] |= 1;
            data.truncate(data.len() & !1);
            let before = checksum(&data);
            let old = u32::from_be_bytes([data[4], data[5], data[6], data[7]]);
            data[4..8].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(update32(before, old, new), checksum(&data));
        }
    }
}
