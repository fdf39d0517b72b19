//! Unfinished offloads of a frame: a checksum that must be finished, segmentation.
//!
//! A kernel that sends to a virtual device leaves both to the receiver, and a NIC may deliver such frames too. The switch stores them with
//! the frame and passes them to the device that transmits the frame. Only if that device does not support them, [`Offload::finish`] does
//! the work in software. So TCP, and UDP whose sender requests segmentation, cross the switch in frames of up to 64 KiB.
//!
//! Invariants for code that changes a frame. Bytes added or removed in front of the transport header must be reported by
//! [`Offload::shift`]. While `csum` is set, the checksum field contains the sum of the pseudo header, **not** complemented: a change of IP
//! addresses must be added to the field, and a change of ports does not affect it. A frame that must be segmented always has such a
//! checksum.

pub use crate::gso::GsoKind;
use crate::rx_checksums::{RX_CHECKSUMS, RxChecksums};
use crate::segment;

/// Offset of the byte with the header length in a TCP header.
const TCP_DATA_OFFSET: usize = 12;
/// Length of a TCP header without options, in bytes.
const TCP_HEADER: usize = 20;
/// Length of a TCP header with the maximum of options, in bytes.
const TCP_HEADER_MAX: usize = 60;
/// Length of a UDP header, in bytes.
const UDP_HEADER: usize = 8;

/// An unfinished checksum: its field contains only the sum of the pseudo header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialChecksum {
    /// Start of the checksummed data, from the start of the frame.
    pub start: u16,
    /// Offset of the checksum field, from `start`.
    pub offset: u16,
}

/// Describes how a frame must be segmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gso {
    /// Protocol of the frame.
    pub kind: GsoKind,
    /// Number of payload bytes of each segment.
    pub size: u16,
    /// TCP uses ECN: only the first segment keeps the CWR flag.
    pub ecn: bool,
}

/// The unfinished offloads of a frame. Default: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// The checksum must be finished.
    pub csum: Option<PartialChecksum>,
    /// The frame must be segmented.
    pub gso: Option<Gso>,
}

/// Bit of [`OffloadWord`]: `csum` is set.
const CSUM: u64 = 1;
/// Bit of [`OffloadWord`]: `gso` is set.
const GSO: u64 = 2;
/// Bit of [`OffloadWord`]: `gso` is set and TCP uses ECN.
const ECN: u64 = 4;

/// An [`Offload`] in one word, so that every frame has the same size: start of the checksum, its offset, segment size (16 bits each, from
/// the most significant), kind (8), flags (8). If the flag [`RX_CHECKSUMS`] is set, the word contains [`RxChecksums`] instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OffloadWord(u64);

impl OffloadWord {
    /// Returns whether an offload is unfinished, or a device has reported something about checksums.
    #[inline]
    pub(crate) fn is_some(self) -> bool {
        self.0 != 0
    }

    pub(crate) fn new(offload: Offload) -> OffloadWord {
        let csum = offload.csum.map_or(0, |c| u64::from(c.start) << 48 | u64::from(c.offset) << 32 | CSUM);
        let gso = offload.gso.map_or(0, |g| {
            u64::from(g.size) << 16 | (g.kind as u64) << 8 | if g.ecn { GSO | ECN } else { GSO }
        });
        OffloadWord(csum | gso)
    }

    /// No unfinished offload, and what a device has reported about checksums.
    pub(crate) fn of_rx_checksums(stated: RxChecksums) -> OffloadWord {
        OffloadWord(stated.word())
    }

    pub(crate) fn rx_checksums(self) -> Option<RxChecksums> {
        RxChecksums::of_word(self.0)
    }

    pub(crate) fn offload(self) -> Offload {
        if self.0 & RX_CHECKSUMS != 0 {
            return Offload::default();
        }
        let part = |shift: u32| (self.0 >> shift) as u16;
        let kind = GsoKind::ALL[usize::from(part(8)) % GsoKind::ALL.len()];
        Offload {
            csum: (self.0 & CSUM != 0).then(|| PartialChecksum { start: part(48), offset: part(32) }),
            gso: (self.0 & GSO != 0).then(|| Gso { kind, size: part(16), ecn: self.0 & ECN != 0 }),
        }
    }
}

impl Offload {
    /// Returns whether any offload is unfinished.
    #[inline]
    pub fn is_some(&self) -> bool {
        self.csum.is_some() || self.gso.is_some()
    }

    /// Updates the offsets after `by` bytes were inserted in front of the transport header (negative: removed).
    pub fn shift(&mut self, by: i16) {
        if let Some(csum) = &mut self.csum {
            csum.start = csum.start.saturating_add_signed(by);
        }
    }

    /// Returns whether the offsets lie within `frame` and the values are plausible. Must be checked for offloads that come from a guest or
    /// a device.
    pub fn fits(&self, frame: &[u8]) -> bool {
        self.fits_head(frame, frame.len())
    }

    /// Number of bytes at the beginning of a frame that the methods of this type read, such as `headers` and `fits_head`.
    pub fn needed_head_len(&self) -> usize {
        self.csum.map_or(0, |csum| usize::from(csum.start) + TCP_HEADER_MAX)
    }

    /// [`fits`](Self::fits) for a frame of `len` bytes of which only the beginning is present: at least [`Offload::needed_head_len`] bytes.
    pub fn fits_head(&self, head: &[u8], len: usize) -> bool {
        let Some(csum) = self.csum else { return self.gso.is_none() };
        if usize::from(csum.start) + usize::from(csum.offset) + 2 > len {
            return false;
        }
        let Some(gso) = self.gso else { return true };
        let payload = self.headers(head).and_then(|headers| len.checked_sub(headers));
        payload.is_some_and(|payload| payload <= gso.kind.segments_max() * usize::from(gso.size))
    }

    /// Length of the headers in front of the payload of a frame that must be segmented; each segment has them. `None`: the transport header
    /// is truncated or invalid.
    pub fn headers(&self, frame: &[u8]) -> Option<usize> {
        let start = usize::from(self.csum?.start);
        if !self.gso?.kind.is_tcp() {
            return Some(start + UDP_HEADER);
        }
        let header = usize::from(frame.get(start + TCP_DATA_OFFSET)? >> 4) * 4;
        (header >= TCP_HEADER).then_some(start + header)
    }

    /// The same offloads, without segmentation if the payload of the frame is not longer than one segment. As Linux does
    /// (`virtio_net_hdr_to_skb`): devices and guests may refuse such a request. `head`: as for [`fits_head`](Self::fits_head).
    #[must_use]
    pub fn without_needless_segmentation(self, head: &[u8], len: usize) -> Offload {
        if self.longest_segment_head(head, len) == len { Offload { gso: None, ..self } } else { self }
    }

    /// Length of the longest packet into which `frame` will be segmented, to compare with an MTU.
    pub fn longest_segment(&self, frame: &[u8]) -> usize {
        self.longest_segment_head(frame, frame.len())
    }

    /// [`longest_segment`](Self::longest_segment) for a frame of `len` bytes of which at least [`Offload::needed_head_len`] bytes are present.
    pub fn longest_segment_head(&self, head: &[u8], len: usize) -> usize {
        match (self.gso, self.headers(head)) {
            (Some(gso), Some(headers)) => len.min(headers + usize::from(gso.size)),
            _ => len,
        }
    }

    /// Total length of the packets into which `frame` will be segmented, with the headers of each, to compare with a rate.
    pub fn total(&self, frame: &[u8]) -> u64 {
        let len = frame.len() as u64;
        match (self.gso, self.headers(frame)) {
            (Some(gso), Some(headers)) if gso.size > 0 && frame.len() > headers => {
                let pieces = (frame.len() - headers).div_ceil(usize::from(gso.size));
                len + (pieces as u64 - 1) * headers as u64
            }
            _ => len,
        }
    }

    /// Finishes the offloads of `frame` and passes each resulting packet to `emit`. Returns the number of packets. `None`: nothing was
    /// emitted, because the offload does not fit the frame.
    pub fn finish(&self, frame: &mut [u8], mut emit: impl FnMut(&[u8])) -> Option<usize> {
        if let Some(gso) = self.gso {
            let layout = segment::layout(frame)?;
            // The inner packet of a tunnel is not segmented here, because the outer headers would have to be repeated as well.
            if layout.kind()? != gso.kind || self.csum.is_some_and(|c| usize::from(c.start) != layout.l4) {
                return None;
            }
            return segment::segment(frame, &layout, gso.size, emit);
        }
        if let Some(csum) = self.csum {
            segment::finish_checksum(frame, csum.start, csum.offset)?;
        }
        emit(frame);
        Some(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_moves_the_start() {
        let mut offload = Offload { csum: Some(PartialChecksum { start: 34, offset: 16 }), gso: None };
        offload.shift(4);
        assert_eq!(offload.csum, Some(PartialChecksum { start: 38, offset: 16 }));
        offload.shift(-4);
        assert_eq!(offload.csum.map(|c| c.start), Some(34));
        assert!(offload.is_some());
    }

    #[test]
    fn a_word_holds_it() {
        let csum = [
            None,
            Some(PartialChecksum { start: 0, offset: 0 }),
            Some(PartialChecksum { start: 65535, offset: 16 }),
        ];
        let gso = GsoKind::ALL.map(|kind| Some(Gso { kind, size: 1400, ecn: kind == GsoKind::Tcp6 }));
        for csum in csum {
            for gso in gso.into_iter().chain([None]) {
                let offload = Offload { csum, gso };
                assert_eq!(OffloadWord::new(offload).offload(), offload);
                assert_eq!(OffloadWord::new(offload).is_some(), offload.is_some());
            }
        }
    }

    #[test]
    fn offloads_from_outside_are_checked() {
        let mut frame = [0u8; 100];
        frame[34 + TCP_DATA_OFFSET] = 0x80;
        let csum = |start, offset| Some(PartialChecksum { start, offset });
        let offload = |csum, kind, size| Offload { csum, gso: Some(Gso { kind, size, ecn: false }) };
        let good = offload(csum(34, 16), GsoKind::Tcp4, 32);
        assert!(good.fits(&frame) && Offload::default().fits(&[]));
        let mut long = vec![0; 66 + 31 * GsoKind::Tcp4.segments_max() + 1];
        long[34 + TCP_DATA_OFFSET] = 0x80;
        assert!(good.fits(&long) && !offload(csum(34, 16), GsoKind::Tcp4, 31).fits(&long));
        assert_eq!((good.headers(&frame), good.longest_segment(&frame)), (Some(66), 98));
        assert_eq!(offload(csum(34, 16), GsoKind::Tcp4, 1400).longest_segment(&frame), 100);
        assert_eq!(offload(csum(34, 6), GsoKind::Udp4, 40).longest_segment(&frame), 82);
        assert!(!offload(None, GsoKind::Tcp4, 1400).fits(&frame));
        assert!(!offload(csum(34, 16), GsoKind::Tcp4, 0).fits(&frame));
        for (start, offset) in [(99, 0), (34, 65), (65535, 65535)] {
            assert!(!Offload { csum: csum(start, offset), gso: None }.fits(&frame));
        }
        // A header without length, one that ends beyond the frame, one that begins at its end.
        for (start, words) in [(34, 4), (50, 15), (98, 5)] {
            let mut frame = [0u8; 100];
            if let Some(byte) = frame.get_mut(start + TCP_DATA_OFFSET) {
                *byte = words << 4;
            }
            assert!(!offload(csum(start as u16, 0), GsoKind::Tcp4, 100).fits(&frame));
        }
    }

    #[test]
    fn udp_frames_have_fewer_segments() {
        let csum = Some(PartialChecksum { start: 54, offset: 6 });
        let offload = |size| Offload { csum, gso: Some(Gso { kind: GsoKind::Udp6, size, ecn: false }) };
        let with = |payload| vec![0; 54 + 8 + payload];
        assert_eq!(offload(100).headers(&[]), Some(62));
        assert!(offload(100).fits(&with(12_800)) && !offload(100).fits(&with(12_801)));
        assert!(!offload(0).fits(&with(1)) && !offload(100).fits(&with(0)[..61]));
        assert_eq!(offload(100).total(&with(250)), 62 + 250 + 2 * 62);
        for (payload, is_needed) in [(99, false), (100, false), (101, true)] {
            let reduced = offload(100).without_needless_segmentation(&with(payload), 62 + payload);
            assert_eq!(reduced, Offload { csum, gso: offload(100).gso.filter(|_| is_needed) });
        }
    }

    #[test]
    fn an_offload_that_does_not_fit_is_refused() {
        let offload = Offload { csum: Some(PartialChecksum { start: 60, offset: 16 }), gso: None };
        assert_eq!(offload.finish(&mut [0; 60], |_| panic!("emitted")), None);
        let nothing = Offload::default();
        assert_eq!(nothing.finish(&mut [1, 2], |f| assert_eq!(f, [1, 2])), Some(1));
    }
}
