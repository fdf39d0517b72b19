//! What a device has reported about the checksums of a received frame: right, wrong, or nothing.
//!
//! If the device has reported about a checksum, tunnels and connection tracking do not verify it, as in Open vSwitch. The values of the
//! checksums are kept only for dummy devices: when a dummy device transmits a packet whose reported checksum has changed since, it computes
//! the checksum again, as the tests of Open vSwitch expect.

/// Flag of an [`OffloadWord`](crate::offload::OffloadWord) that contains [`RxChecksums`] instead of unfinished offloads.
pub(crate) const RX_CHECKSUMS: u64 = 8;
/// Flag: the IP checksum is right, and the word contains it.
const IP: u64 = 16;
/// Flag: the transport checksum is right, and the word contains it.
const L4: u64 = 32;
/// Flag: the transport protocol is UDP.
const UDP: u64 = 64;

/// What a device has reported about one checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RxChecksum {
    /// The device has reported nothing: code that needs a right checksum must verify it.
    #[default]
    Unknown,
    /// The checksum is wrong, whatever the field contains.
    Wrong,
    /// The sender has left the checksum unfinished. It has been finished since, or will be, so it need not be verified.
    Unfinished,
    /// The checksum is right. The value is the content of the field at that time.
    Right(u16),
}

impl RxChecksum {
    /// The value of a checksum that was reported to be right.
    pub fn right(self) -> Option<u16> {
        match self {
            RxChecksum::Right(sum) => Some(sum),
            _ => None,
        }
    }

    /// Returns whether the checksum is right: as reported, or, if nothing was reported, as `verify` returns.
    #[inline]
    pub fn is_right(self, verify: impl FnOnce() -> bool) -> bool {
        match self {
            RxChecksum::Unknown => verify(),
            RxChecksum::Wrong => false,
            RxChecksum::Unfinished | RxChecksum::Right(_) => true,
        }
    }

    /// The form of this value in a word: whether the checksum is right, and its value or a number for the other variants.
    fn bits(self) -> (bool, u64) {
        match self {
            RxChecksum::Unknown => (false, 0),
            RxChecksum::Wrong => (false, 1),
            RxChecksum::Unfinished => (false, 2),
            RxChecksum::Right(sum) => (true, sum.into()),
        }
    }

    fn of_bits(is_right: bool, value: u16) -> RxChecksum {
        match (is_right, value) {
            (true, sum) => RxChecksum::Right(sum),
            (false, 1) => RxChecksum::Wrong,
            (false, 2) => RxChecksum::Unfinished,
            (false, _) => RxChecksum::Unknown,
        }
    }
}

/// What is reported about the checksums of a TCP or UDP packet, or about the IP header checksum alone, as they were on receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxChecksums {
    /// Offset of the end of the IP header in the frame.
    pub l4: u16,
    /// Length of the IP header in units of 4 bytes.
    pub ip_words: u8,
    /// The checksum of the IP header.
    pub ip: RxChecksum,
    /// The transport checksum.
    pub transport: RxChecksum,
    /// The transport protocol is UDP, not TCP.
    pub udp: bool,
}

impl RxChecksums {
    /// Offset of the IP header in the frame.
    pub fn l3(&self) -> usize {
        usize::from(self.l4).saturating_sub(usize::from(self.ip_words) * 4)
    }

    /// In one word: end of the IP header, its checksum, the transport checksum (16 bits each, from the most significant), length of the IP
    /// header in units of 4 bytes (8), flags (8).
    pub(crate) fn word(self) -> u64 {
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        let [(ip_right, ip), (right, transport)] = [self.ip, self.transport].map(RxChecksum::bits);
        let flags = RX_CHECKSUMS | flag(ip_right, IP) | flag(right, L4) | flag(self.udp, UDP);
        u64::from(self.l4) << 48 | ip << 32 | transport << 16 | u64::from(self.ip_words) << 8 | flags
    }

    pub(crate) fn of_word(word: u64) -> Option<RxChecksums> {
        let stated = |bit: u64, shift: u32| RxChecksum::of_bits(word & bit != 0, (word >> shift) as u16);
        (word & RX_CHECKSUMS != 0).then_some(RxChecksums {
            l4: (word >> 48) as u16,
            ip_words: (word >> 8) as u8,
            ip: stated(IP, 32),
            transport: stated(L4, 16),
            udp: word & UDP != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_holds_it() {
        use RxChecksum::{Right, Unfinished, Unknown, Wrong};
        for ip in [Unknown, Wrong, Unfinished, Right(0), Right(1), Right(0xffff)] {
            for transport in [Unknown, Wrong, Unfinished, Right(0), Right(2), Right(0x1234)] {
                let stated = RxChecksums { l4: 54, ip_words: 5, ip, transport, udp: ip.right().is_some() };
                assert_eq!(RxChecksums::of_word(stated.word()), Some(stated));
                assert_eq!(stated.l3(), 34);
            }
        }
        assert_eq!(RxChecksums::of_word(!RX_CHECKSUMS), None);
    }

    #[test]
    fn a_statement_replaces_verification() {
        for is_right in [true, false] {
            assert_eq!(RxChecksum::Unknown.is_right(|| is_right), is_right);
            assert!(
                RxChecksum::Right(7).is_right(|| is_right) && RxChecksum::Unfinished.is_right(|| is_right)
            );
            assert!(!RxChecksum::Wrong.is_right(|| is_right));
        }
    }
}
