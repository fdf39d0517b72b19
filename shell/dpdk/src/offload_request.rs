//! A packet's offload request in DPDK's form: flags and header lengths of an `rte_mbuf`.
//!
//! The sender has to check first whether the receiver (a device or a guest) supports the request.
//!
//! Source: rte_mbuf_core.h.

use dpdk_sys as sys;
use packet::offload::{GsoKind, Offload};
use packet::segment;

/// Position of the 16-bit field `tso_segsz` in the word `tx_offload`: after `l2_len` (7 bits), `l3_len` (9 bits) and
/// `l4_len` (8 bits).
pub(crate) const SEGMENT_SIZE_SHIFT: u32 = 24;

/// Minimum length of a TCP header in bytes.
const TCP_HEADER: usize = 20;
/// Length of a UDP header in bytes.
const UDP_HEADER: usize = 8;

/// An offload request. The default requests nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OffloadRequest {
    /// The mbuf's `ol_flags`.
    pub(crate) flags: u64,
    /// The mbuf's `tx_offload`: header lengths, and the payload bytes of each segment.
    pub(crate) lengths: u64,
    /// Offset of the transport header.
    pub(crate) l4: usize,
    /// The kind of segmentation, if requested.
    pub(crate) segmentation: Option<GsoKind>,
}

impl OffloadRequest {
    /// Translates a frame's offload request. `None`: DPDK cannot express the request, or the request does not fit the packet.
    pub(crate) fn of(bytes: &[u8], offload: &Offload) -> Option<OffloadRequest> {
        let (csum, layout) = (offload.csum?, segment::layout(bytes)?);
        let kind = layout.kind()?;
        if usize::from(csum.start) != layout.l4 || Some(csum.offset) != layout.checksum_offset() {
            return None;
        }
        let (checksum, segmentation, least) = match kind.is_tcp() {
            true => (sys::SLUICE_RTE_MBUF_F_TX_TCP_CKSUM, sys::SLUICE_RTE_MBUF_F_TX_TCP_SEG, TCP_HEADER),
            false => (sys::SLUICE_RTE_MBUF_F_TX_UDP_CKSUM, sys::SLUICE_RTE_MBUF_F_TX_UDP_SEG, UDP_HEADER),
        };
        let version = if layout.v6 { sys::SLUICE_RTE_MBUF_F_TX_IPV6 } else { sys::SLUICE_RTE_MBUF_F_TX_IPV4 };
        let (header, size, segmentation) = match offload.gso {
            None => (least, 0, 0),
            Some(gso) if gso.kind != kind => return None,
            Some(gso) => (offload.headers(bytes)? - layout.l4, u64::from(gso.size), segmentation),
        };
        let (l2, l3) = (layout.l3, layout.l4 - layout.l3);
        let fits = l2 < 1 << 7 && l3 < 1 << 9 && header < 1 << 8 && layout.l4 + header <= bytes.len();
        fits.then_some(OffloadRequest {
            flags: checksum | version | segmentation,
            lengths: l2 as u64 | (l3 as u64) << 7 | (header as u64) << 16 | size << SEGMENT_SIZE_SHIFT,
            l4: layout.l4,
            segmentation: offload.gso.map(|gso| gso.kind),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::offload::{Gso, PartialChecksum};

    /// A TCP packet over IPv4 with a VLAN tag, 12 bytes of TCP options and some payload.
    fn packet() -> Vec<u8> {
        let mut packet = vec![0; 400];
        packet[12..14].copy_from_slice(&[0x81, 0]);
        packet[16..18].copy_from_slice(&[8, 0]);
        (packet[18], packet[27], packet[38 + 12]) = (0x45, 6, 0x80);
        packet
    }

    #[test]
    fn lengths_are_where_dpdk_reads_them() {
        let csum = Some(PartialChecksum { start: 38, offset: 16 });
        let gso = Some(Gso { kind: GsoKind::Tcp4, size: 0x1234, ecn: false });
        let request = OffloadRequest::of(&packet(), &Offload { csum, gso }).unwrap();
        assert_eq!(request.lengths, 18 | 20 << 7 | 32 << 16 | 0x1234 << 24);
        assert_eq!((request.l4, request.segmentation), (38, Some(GsoKind::Tcp4)));
        let csum_only = OffloadRequest::of(&packet(), &Offload { csum, gso: None }).unwrap();
        assert_eq!(csum_only.flags & sys::SLUICE_RTE_MBUF_F_TX_TCP_SEG, 0);
        assert_ne!(request.flags & sys::SLUICE_RTE_MBUF_F_TX_TCP_SEG, 0);
    }

    #[test]
    fn udp_has_flags_of_its_own() {
        let mut packet = packet();
        packet[27] = 17;
        let csum = Some(PartialChecksum { start: 38, offset: 6 });
        let of = |kind| {
            OffloadRequest::of(&packet, &Offload { csum, gso: Some(Gso { kind, size: 300, ecn: false }) })
        };
        let request = of(GsoKind::Udp4).unwrap();
        let tcp = sys::SLUICE_RTE_MBUF_F_TX_TCP_SEG;
        assert_eq!(request.lengths, 18 | 20 << 7 | 8 << 16 | 300 << 24);
        assert_eq!(
            request.flags & (tcp | sys::SLUICE_RTE_MBUF_F_TX_UDP_SEG),
            sys::SLUICE_RTE_MBUF_F_TX_UDP_SEG
        );
        assert_eq!((request.segmentation, of(GsoKind::Udp6)), (Some(GsoKind::Udp4), None));
    }

    #[test]
    fn requests_that_do_not_fit_are_refused() {
        let of = |start, offset, kind| {
            let gso = Some(Gso { kind, size: 100, ecn: false });
            OffloadRequest::of(&packet(), &Offload { csum: Some(PartialChecksum { start, offset }), gso })
        };
        assert!(of(38, 16, GsoKind::Tcp4).is_some());
        for (start, offset, kind) in [
            (34, 16, GsoKind::Tcp4),
            (38, 6, GsoKind::Tcp4),
            (38, 16, GsoKind::Tcp6),
            (38, 16, GsoKind::Udp4),
        ] {
            assert_eq!(of(start, offset, kind), None);
        }
        let cut_off = &packet()[..60];
        let csum = Some(PartialChecksum { start: 38, offset: 16 });
        let gso = Some(Gso { kind: GsoKind::Tcp4, size: 100, ecn: false });
        assert_eq!(OffloadRequest::of(cut_off, &Offload { csum, gso }), None);
    }
}
