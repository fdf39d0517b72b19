//! Checksums that a device stated to be right when it received a frame.
//!
//! The switch updates checksums by the difference of the data and needs no such statement. It is kept for devices that
//! treat stated checksums in another way when they send (dummies, as the tests of Open vSwitch expect).

/// Marks a [`Note`](crate::offload::Note) that contains this instead of unfinished offloads.
pub(crate) const VOUCHED: u64 = 8;
const IP: u64 = 16;
const L4: u64 = 32;
const UDP: u64 = 64;

/// The checksums of a TCP or UDP packet, or only that of its IP header, as they were on receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vouched {
    /// End of the IP header, from the start of the frame.
    pub l4: u16,
    /// Length of the IP header in units of 4 bytes.
    pub ip_words: u8,
    /// The checksum of the IP header, if it was stated to be right.
    pub ip: Option<u16>,
    /// The transport checksum, if it was stated to be right.
    pub transport: Option<u16>,
    /// The transport protocol is UDP, not TCP.
    pub udp: bool,
}

impl Vouched {
    /// Start of the IP header.
    pub fn l3(&self) -> usize {
        usize::from(self.l4).saturating_sub(usize::from(self.ip_words) * 4)
    }

    /// In one word: end of the IP header, its checksum, the transport checksum (16 bits each, from the most
    /// significant), words of the IP header (8), flags (8).
    pub(crate) fn word(self) -> u64 {
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        let [ip, transport] = [self.ip, self.transport].map(|sum| u64::from(sum.unwrap_or(0)));
        let flags =
            VOUCHED | flag(self.ip.is_some(), IP) | flag(self.transport.is_some(), L4) | flag(self.udp, UDP);
        u64::from(self.l4) << 48 | ip << 32 | transport << 16 | u64::from(self.ip_words) << 8 | flags
    }

    pub(crate) fn of_word(word: u64) -> Option<Vouched> {
        let sum = |bit: u64, shift: u32| (word & bit != 0).then_some((word >> shift) as u16);
        (word & VOUCHED != 0).then_some(Vouched {
            l4: (word >> 48) as u16,
            ip_words: (word >> 8) as u8,
            ip: sum(IP, 32),
            transport: sum(L4, 16),
            udp: word & UDP != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_holds_it() {
        for ip in [None, Some(0), Some(0xffff)] {
            for transport in [None, Some(0), Some(0x1234)] {
                let vouched = Vouched { l4: 54, ip_words: 5, ip, transport, udp: ip.is_some() };
                assert_eq!(Vouched::of_word(vouched.word()), Some(vouched));
                assert_eq!(vouched.l3(), 34);
            }
        }
        assert_eq!(Vouched::of_word(!VOUCHED), None);
    }
}
