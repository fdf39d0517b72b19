//! Offloads of a device on transmission.

use dpdk_sys as sys;
use packet::gso::{GsoKind, GsoKinds};

/// Offloads that a device performs on transmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxOffloads {
    /// Checksum of the IPv4 header.
    pub ip_checksum: bool,
    /// Checksums of TCP and UDP.
    pub checksum: bool,
    /// The kinds of segmentation.
    pub segmentation: GsoKinds,
}

impl TxOffloads {
    /// The offloads that a device with these capabilities (`RTE_ETH_TX_OFFLOAD_*`) performs.
    pub(super) fn of(capabilities: u64) -> TxOffloads {
        let has = |flags: u64| capabilities & flags == flags;
        let checksum =
            has(sys::SLUICE_RTE_ETH_TX_OFFLOAD_TCP_CKSUM | sys::SLUICE_RTE_ETH_TX_OFFLOAD_UDP_CKSUM);
        // Packets to be segmented consist of several mbuf segments.
        let may_segment = checksum && has(sys::SLUICE_RTE_ETH_TX_OFFLOAD_MULTI_SEGS);
        TxOffloads {
            ip_checksum: has(sys::SLUICE_RTE_ETH_TX_OFFLOAD_IPV4_CKSUM),
            checksum,
            segmentation: GsoKinds::default()
                .with_if(may_segment && has(sys::SLUICE_RTE_ETH_TX_OFFLOAD_TCP_TSO), GsoKinds::TCP)
                .with_if(may_segment && has(sys::SLUICE_RTE_ETH_TX_OFFLOAD_UDP_TSO), GsoKinds::UDP),
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
            | of(self.segmentation != GsoKinds::default(), sys::SLUICE_RTE_ETH_TX_OFFLOAD_MULTI_SEGS)
            | of(self.segmentation.contains(GsoKind::Tcp4), sys::SLUICE_RTE_ETH_TX_OFFLOAD_TCP_TSO)
            | of(self.segmentation.contains(GsoKind::Udp4), sys::SLUICE_RTE_ETH_TX_OFFLOAD_UDP_TSO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_the_offloads_that_are_used() {
        let sums = sys::SLUICE_RTE_ETH_TX_OFFLOAD_TCP_CKSUM | sys::SLUICE_RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
        let (tcp, udp) = (sys::SLUICE_RTE_ETH_TX_OFFLOAD_TCP_TSO, sys::SLUICE_RTE_ETH_TX_OFFLOAD_UDP_TSO);
        let chains = sys::SLUICE_RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
        for all in [sums, sums | chains | tcp, sums | chains | udp, sums | chains | tcp | udp] {
            let used = TxOffloads::of(all);
            assert_eq!((used.as_flags(), used.checksum), (all, true));
            let kinds = [GsoKind::Tcp6, GsoKind::Udp6].map(|kind| used.segmentation.contains(kind));
            assert_eq!(kinds, [all & tcp != 0, all & udp != 0]);
        }
        assert_eq!(TxOffloads::of(sums | tcp | udp).segmentation, GsoKinds::default());
        assert_eq!(TxOffloads::of(chains | tcp | udp), TxOffloads::default());
    }
}
