//! ChecksumCounter: counters of verified checksums. They are published as counters of the process, under the names that
//! tests and scripts of Open vSwitch read.

/// A counter of verified checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ChecksumCounter {
    /// The checksum of an outer IPv4 header was verified.
    TunnelIp,
    /// The checksum of an outer IPv4 header was wrong, as verified here or as reported by the device.
    TunnelIpWrong,
    /// The checksum of an outer UDP header was verified.
    TunnelUdp,
    /// The checksum of an outer UDP header was wrong, as verified here or as reported by the device.
    TunnelUdpWrong,
    /// Connection tracking verified the checksum of an IPv4 header.
    TrackedIp,
    /// The checksum of an IPv4 header in connection tracking was wrong, as verified here or as reported by the
    /// device.
    TrackedIpWrong,
    /// Connection tracking verified a transport checksum.
    TrackedTransport,
    /// A transport checksum in connection tracking was wrong, as verified here or as reported by the device.
    TrackedTransportWrong,
}

impl ChecksumCounter {
    /// All counters.
    pub const ALL: [ChecksumCounter; 8] = [
        ChecksumCounter::TunnelIp,
        ChecksumCounter::TunnelIpWrong,
        ChecksumCounter::TunnelUdp,
        ChecksumCounter::TunnelUdpWrong,
        ChecksumCounter::TrackedIp,
        ChecksumCounter::TrackedIpWrong,
        ChecksumCounter::TrackedTransport,
        ChecksumCounter::TrackedTransportWrong,
    ];
    /// Number of counters.
    pub const COUNT: usize = ChecksumCounter::ALL.len();

    /// The name of the counter in Open vSwitch.
    pub fn name(self) -> &'static str {
        match self {
            ChecksumCounter::TunnelIp => "native_tnl_l3csum_checked",
            ChecksumCounter::TunnelIpWrong => "native_tnl_l3csum_err",
            ChecksumCounter::TunnelUdp => "native_tnl_l4csum_checked",
            ChecksumCounter::TunnelUdpWrong => "native_tnl_l4csum_err",
            ChecksumCounter::TrackedIp => "conntrack_l3csum_checked",
            ChecksumCounter::TrackedIpWrong => "conntrack_l3csum_err",
            ChecksumCounter::TrackedTransport => "conntrack_l4csum_checked",
            ChecksumCounter::TrackedTransportWrong => "conntrack_l4csum_err",
        }
    }
}
