//! Counts of verified checksums.

use packet::rx_checksums::RxChecksum;

/// How many checksums were verified, and how many were wrong. A checksum whose state is known (from the device or an earlier check) is not
/// verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChecksumCounts {
    /// Checksums of IPv4 headers that were verified.
    pub ip: u64,
    /// Checksums of IPv4 headers that were wrong, either verified here or known to be wrong.
    pub ip_wrong: u64,
    /// Transport checksums that were verified.
    pub transport: u64,
    /// Transport checksums that were wrong, either verified here or known to be wrong.
    pub transport_wrong: u64,
}

impl ChecksumCounts {
    /// Returns whether the checksum of an IPv4 header is right, and counts it. `verify` is called only if the checksum is not known.
    pub(crate) fn is_ip_right(&mut self, stated: RxChecksum, verify: impl FnOnce() -> bool) -> bool {
        is_right(stated, verify, [&mut self.ip, &mut self.ip_wrong])
    }

    /// Returns whether a transport checksum is right, and counts it. `verify` is called only if the checksum is not known.
    pub(crate) fn is_transport_right(&mut self, stated: RxChecksum, verify: impl FnOnce() -> bool) -> bool {
        is_right(stated, verify, [&mut self.transport, &mut self.transport_wrong])
    }
}

fn is_right(stated: RxChecksum, verify: impl FnOnce() -> bool, [verified, wrong]: [&mut u64; 2]) -> bool {
    *verified += u64::from(stated == RxChecksum::Unknown);
    let is_right = stated.is_right(verify);
    *wrong += u64::from(!is_right);
    is_right
}
