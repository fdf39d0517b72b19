//! Updates of checksums in rewritten headers.

use super::patch::{Head, load};

/// The update of one checksum (RFC 1624).
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Checksum {
    /// Offset of the checksum.
    pub(super) at: u8,
    /// The checksum is that of UDP: zero means "not computed".
    pub(super) udp: bool,
    /// One's complement sum of the new bytes and of the complements of those old bytes that all packets of the
    /// megaflow share, folded to 16 bits.
    pub(super) constant: u16,
    /// The old bytes that differ between packets: offset and mask of each word.
    pub(super) old: Box<[(u8, u64)]>,
}

impl Checksum {
    /// Returns the checksum after the rewrite. Call it before any byte is written.
    #[inline(always)]
    pub(super) fn renewed(&self, head: &Head) -> u16 {
        let at = usize::from(self.at);
        let old = u16::from_ne_bytes([head[at], head[at + 1]]);
        // Sums of 16-bit words do not depend on the byte order (RFC 1071 §2), nor on how many are added at once.
        let mut sum = u64::from(!old) + u64::from(self.constant);
        if !self.old.is_empty() {
            for &(at, mask) in &self.old {
                let (added, carried) = sum.overflowing_add(!(load(head, at) & mask));
                sum = added + u64::from(carried);
            }
            // The upper half of the sum of a number and the number with its halves exchanged is the sum of
            // both halves, with the carry.
            sum = sum.wrapping_add(sum.rotate_left(32)) >> 32;
        }
        let sum = sum as u32;
        let sum = (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16;
        match !sum {
            _ if self.udp && old == 0 => 0,
            0 if self.udp => 0xffff,
            new => new,
        }
    }

    #[inline(always)]
    pub(super) fn store(&self, head: &mut Head, value: u16) {
        let at = usize::from(self.at);
        head[at..at + 2].copy_from_slice(&value.to_ne_bytes());
    }
}
