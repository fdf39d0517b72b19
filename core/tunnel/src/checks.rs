//! Counts of verified outer checksums.

use packet::rx_checksums::RxChecksum;

/// How many outer checksums were verified, and how many were wrong. A checksum whose state the device has reported is not verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChecksumCounts {
    /// Checksums of IPv4 headers that were verified.
    pub ip: u64,
    /// Checksums of IPv4 headers that were wrong, either verified here or reported by the device.
    pub ip_wrong: u64,
    /// UDP checksums that were verified.
    pub udp: u64,
    /// UDP checksums that were wrong, either verified here or reported by the device.
    pub udp_wrong: u64,
}

impl ChecksumCounts {
    /// Returns whether the checksum of an IPv4 header is right, and counts it. `verify` is called only if the device reported nothing.
    pub(crate) fn is_ip_right(&mut self, stated: RxChecksum, verify: impl FnOnce() -> bool) -> bool {
        let is_right = stated.is_right(|| {
            self.ip += 1;
            verify()
        });
        self.ip_wrong += u64::from(!is_right);
        is_right
    }

    /// Returns whether a UDP checksum is right, and counts it. `verify` is called only if the device reported nothing.
    pub(crate) fn is_udp_right(&mut self, stated: RxChecksum, verify: impl FnOnce() -> bool) -> bool {
        let is_right = stated.is_right(|| {
            self.udp += 1;
            verify()
        });
        self.udp_wrong += u64::from(!is_right);
        is_right
    }
}
