//! The header that describes offloads: `struct virtio_net_hdr` in its 10-byte form.
//!
//! Packet sockets (`PACKET_VNET_HDR`) and tun devices (`IFF_VNET_HDR`) put this header before each frame, in the byte order of the machine.
//! Sources: Virtual I/O Device specification 5.1.6; linux/virtio_net.h.

use crate::gso::GsoKind;
use crate::ip::ipproto;
use crate::offload::{Gso, Offload, PartialChecksum};
use crate::segment;

/// Length of the header, in bytes.
pub const LEN: usize = 10;

const NEEDS_CSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// Decodes the header of `frame`. If the frame must be segmented and has a finished checksum, the checksum is replaced by an unfinished
/// one, because only then can the frame be segmented. `None`: the offloads are not supported, or do not fit the frame.
pub fn decode(header: &[u8; LEN], frame: &mut [u8]) -> Option<Offload> {
    decode_head(header, frame, frame.len())
}

/// [`decode`] for a frame of `len` bytes of which only `head` is present. Also `None` if decoding needs bytes after `head`.
pub fn decode_head(header: &[u8; LEN], head: &mut [u8], len: usize) -> Option<Offload> {
    let [flags, kind, _, _, size_a, size_b, start_a, start_b, offset_a, offset_b] = *header;
    let mut csum = (flags & NEEDS_CSUM != 0).then_some(PartialChecksum {
        start: u16::from_ne_bytes([start_a, start_b]),
        offset: u16::from_ne_bytes([offset_a, offset_b]),
    });
    if kind == 0 {
        let offload = Offload { csum, gso: None };
        return offload.fits_head(head, len).then_some(offload);
    }
    let ecn = kind & GSO_ECN != 0;
    let kind = match kind & !GSO_ECN {
        GSO_TCPV4 => GsoKind::Tcp4,
        GSO_TCPV6 => GsoKind::Tcp6,
        // The type does not tell the IP version, so it is read from the frame. ECN is a part of TCP, so UDP with ECN is refused.
        GSO_UDP_L4 if !ecn => GsoKind::of(ipproto::UDP, segment::find_ip(head)?.1)?,
        _ => return None,
    };
    if csum.is_none() {
        let (start, offset) = segment::make_partial_checksum_head(head, len)?;
        csum = Some(PartialChecksum { start, offset });
    }
    let size = u16::from_ne_bytes([size_a, size_b]);
    let offload = Offload { csum, gso: Some(Gso { kind, size, ecn }) };
    offload.fits_head(head, len).then_some(offload)
}

/// Encodes the header for a frame to send, of which at least [`Offload::needed_head_len`] bytes are present.
pub fn encode(offload: &Offload, frame: &[u8]) -> [u8; LEN] {
    let mut header = [0; LEN];
    if let Some(csum) = offload.csum {
        header[0] = NEEDS_CSUM;
        header[6..8].copy_from_slice(&csum.start.to_ne_bytes());
        header[8..10].copy_from_slice(&csum.offset.to_ne_bytes());
        if let Some(gso) = offload.gso {
            header[1] = match gso.kind {
                GsoKind::Tcp4 => GSO_TCPV4,
                GsoKind::Tcp6 => GSO_TCPV6,
                GsoKind::Udp4 | GsoKind::Udp6 => GSO_UDP_L4,
            } | if gso.ecn { GSO_ECN } else { 0 };
            let headers = offload.headers(frame).and_then(|n| u16::try_from(n).ok()).unwrap_or_default();
            header[2..4].copy_from_slice(&headers.to_ne_bytes());
            header[4..6].copy_from_slice(&gso.size.to_ne_bytes());
        }
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An Ethernet header with a tag, the header of this IP version, and a UDP header and 100 bytes of payload.
    fn udp(v6: bool) -> Vec<u8> {
        let mut frame = vec![0; 18 + if v6 { 40 } else { 20 } + 8 + 100];
        frame[12..14].copy_from_slice(&[0x81, 0]);
        frame[16..18].copy_from_slice(if v6 { &[0x86, 0xdd] } else { &[8, 0] });
        frame[18] = if v6 { 0x60 } else { 0x45 };
        frame[if v6 { 18 + 6 } else { 18 + 9 }] = 17;
        frame
    }

    #[test]
    fn udp_gets_its_kind_from_the_ip_version() {
        for (v6, kind, start) in [(false, GsoKind::Udp4, 38), (true, GsoKind::Udp6, 58)] {
            let csum = Some(PartialChecksum { start, offset: 6 });
            let offload = Offload { csum, gso: Some(Gso { kind, size: 30, ecn: false }) };
            let mut frame = udp(v6);
            let header = encode(&offload, &frame);
            assert_eq!((header[1], header[2]), (GSO_UDP_L4, start as u8 + 8));
            assert_eq!(decode(&header, &mut frame), Some(offload));
            // Without a partial checksum: the checksum, here zero, is replaced by one.
            let [_, rest @ ..] = header;
            let mut finished = [0; LEN];
            finished[1..].copy_from_slice(&rest);
            assert_eq!(decode(&finished, &mut frame), Some(offload));
            assert_ne!(frame[usize::from(start) + 6..][..2], [0, 0]);
            for (at, lie) in [(1, GSO_UDP_L4 | GSO_ECN), (1, 3), (4, 0), (6, 200)] {
                let mut header = header;
                header[at] = lie;
                assert_eq!(decode(&header, &mut frame), None, "{lie} at {at}");
            }
            frame[17] = 0x99;
            assert_eq!(decode(&header, &mut frame), None, "no IP header");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_written(flags in 0u8..2, kind in prop_oneof![Just(0u8), Just(1), Just(4), Just(5), Just(0x81)],
                                   size: u16, start in 0u16..60, offset in 0u16..60, mut frame in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut header = [0; LEN];
            header[0] = flags;
            header[1] = kind;
            header[4..6].copy_from_slice(&size.to_ne_bytes());
            header[6..8].copy_from_slice(&start.to_ne_bytes());
            header[8..10].copy_from_slice(&offset.to_ne_bytes());
            if let Some(offload) = decode(&header, &mut frame) {
                let again = decode(&encode(&offload, &frame), &mut frame);
                prop_assert_eq!(again, Some(offload));
            }
        }
    }
}
