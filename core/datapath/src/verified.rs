//! The verifications of checksums that are counted. Other threads read the counts: they are published as counters of the process,
//! under names that tests and scripts of Open vSwitch read.

/// A counted verification of a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verified {
    /// The checksum of an outer IPv4 header was verified.
    TunnelIp,
    /// It was wrong, as verified or as the device stated.
    TunnelIpWrong,
    /// The checksum of an outer UDP header was verified.
    TunnelUdp,
    /// It was wrong, as verified or as the device stated.
    TunnelUdpWrong,
    /// Connection tracking verified the checksum of an IPv4 header.
    TrackedIp,
    /// It was wrong, as verified or as the device stated.
    TrackedIpWrong,
    /// Connection tracking verified a transport checksum.
    TrackedTransport,
    /// It was wrong, as verified or as the device stated.
    TrackedTransportWrong,
}

impl Verified {
    /// Each of them.
    pub const ALL: [Verified; 8] = [
        Verified::TunnelIp,
        Verified::TunnelIpWrong,
        Verified::TunnelUdp,
        Verified::TunnelUdpWrong,
        Verified::TrackedIp,
        Verified::TrackedIpWrong,
        Verified::TrackedTransport,
        Verified::TrackedTransportWrong,
    ];
    /// How many there are.
    pub const COUNT: usize = Verified::ALL.len();

    /// The name of the counter in Open vSwitch.
    pub fn name(self) -> &'static str {
        match self {
            Verified::TunnelIp => "native_tnl_l3csum_checked",
            Verified::TunnelIpWrong => "native_tnl_l3csum_err",
            Verified::TunnelUdp => "native_tnl_l4csum_checked",
            Verified::TunnelUdpWrong => "native_tnl_l4csum_err",
            Verified::TrackedIp => "conntrack_l3csum_checked",
            Verified::TrackedIpWrong => "conntrack_l3csum_err",
            Verified::TrackedTransport => "conntrack_l4csum_checked",
            Verified::TrackedTransportWrong => "conntrack_l4csum_err",
        }
    }
}
