//! Offloads of a device on transmission.

use dpdk_sys as sys;

/// Offloads that a device performs on transmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxOffloads {
    /// Checksum of the IPv4 header.
    pub ip_checksum: bool,
    /// Checksums of TCP and UDP.
    pub checksum: bool,
    /// Segmentation of TCP.
    pub segmentation: bool,
}

impl TxOffloads {
    /// The offloads that a device with these capabilities (`RTE_ETH_TX_OFFLOAD_*`) performs.
    pub(super) fn of(capabilities: u64) -> TxOffloads {
        let has = |flags: u64| capabilities & flags == flags;
        let checksum =
            has(sys::SLUICE_RTE_ETH_TX_OFFLOAD_TCP_CKSUM | sys::SLUICE_RTE_ETH_TX_OFFLOAD_UDP_CKSUM);
        TxOffloads {
            ip_checksum: has(sys::SLUICE_RTE_ETH_TX_OFFLOAD_IPV4_CKSUM),
            checksum,
            // Packets to be segmented consist of several mbuf segments.
            segmentation: checksum
                && has(sys::SLUICE_RTE_ETH_TX_OFFLOAD_TCP_TSO | sys::SLUICE_RTE_ETH_TX_OFFLOAD_MULTI_SEGS),
        }
    }

    /// The offloads as DPDK's flags.
    pub(super) fn as_flags(self) -> u64 {
        let of = |on, flags| if on { flags } else { 0 };
        of(self.ip_checksum, sys::SLUICE_RTE_ETH_TX_OFFLOAD_IPV4_CKSUM)
            | of(
                self.checksum,
                sys::SLUICE_RTE_ETH_TX_OFFLOAD_TCP_CKSUM | sys::SLUICE_RTE_ETH_TX_OFFLOAD_UDP_CKSUM,
            )
            | of(
                self.segmentation,
                sys::SLUICE_RTE_ETH_TX_OFFLOAD_TCP_TSO | sys::SLUICE_RTE_ETH_TX_OFFLOAD_MULTI_SEGS,
            )
    }
}
