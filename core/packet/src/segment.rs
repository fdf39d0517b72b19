//! Offloads in software, for a port that does not support them: finishing the checksum of a packet, and segmentation of a TCP or UDP packet.
//!
//! Frames come from guests and devices, and their offload metadata may not fit them. A frame that cannot be parsed is refused with `None`;
//! the caller drops and counts it. Sources: RFC 1071, RFC 9293 3.1, RFC 768; metadata as in [`crate::offload`].

use crate::gso::GsoKind;

/// Offset of the Ethernet type in a frame without VLAN tags.
const ETHERTYPE_AT: usize = 12;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const IPPROTO_TCP: u8 = 6;
const IPPROTO_UDP: u8 = 17;
/// Offset of the checksum in an SCTP header.
const SCTP_CHECKSUM: u16 = 8;
const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;
/// Maximum length of a frame that is segmented, in bytes. Longer frames are refused as invalid. Guests send up to 64 KiB and headers.
const SEGMENTED_FRAME_MAX: usize = 1 << 17;

/// Adds the bytes as big-endian numbers of 32 bits to `start`, not folded; folded, this is the sum of their 16-bit words. A single last byte
/// is the upper half of its word.
fn sum(bytes: &[u8], start: u64) -> u64 {
    let mut words = bytes.chunks_exact(8);
    let mut total = start;
    for w in &mut words {
        if let [a, b, c, d, e, f, g, h] = *w {
            total +=
                u64::from(u32::from_be_bytes([a, b, c, d])) + u64::from(u32::from_be_bytes([e, f, g, h]));
        }
    }
    for pair in words.remainder().chunks(2) {
        total += u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |b| u64::from(*b));
    }
    total
}

fn fold(mut total: u64) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

/// Finishes a checksum whose field contains the sum of the pseudo header. The checksum of SCTP, recognised by the offset of its field, is a
/// CRC (RFC 9260 6.8) and is computed completely.
pub fn finish_checksum(frame: &mut [u8], start: u16, offset: u16) -> Option<()> {
    let start = usize::from(start);
    let at = start.checked_add(usize::from(offset))?;
    frame.get(at..at + 2)?;
    if offset == SCTP_CHECKSUM {
        frame.get_mut(at..at + 4)?.fill(0);
        let crc = cpu::crc32c(frame.get(start..)?);
        frame.get_mut(at..at + 4)?.copy_from_slice(&crc.to_le_bytes());
        return Some(());
    }
    let mut checksum = !fold(sum(frame.get(start..)?, 0));
    // In UDP, 0 means "no checksum". In TCP, 0 and 0xffff are the same number.
    if checksum == 0 {
        checksum = 0xffff;
    }
    frame.get_mut(at..at + 2)?.copy_from_slice(&checksum.to_be_bytes());
    Some(())
}

/// Header offsets of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Start of the IP header.
    pub l3: usize,
    /// The packet is IPv6.
    pub v6: bool,
    /// Start of the transport header.
    pub l4: usize,
    /// Protocol number of the transport header.
    pub protocol: u8,
}

impl Layout {
    /// The kind of segmentation of a packet with this layout. `None`: it cannot be segmented.
    pub fn kind(&self) -> Option<GsoKind> {
        GsoKind::of(self.protocol, self.v6)
    }

    /// Offset of the checksum field in the transport header.
    pub fn checksum_offset(&self) -> Option<u16> {
        match self.protocol {
            IPPROTO_TCP => Some(16),
            IPPROTO_UDP => Some(6),
            _ => None,
        }
    }
}

/// Finds the IP header after VLAN tags: its offset, and whether it is that of IPv6. `None`: there are too many tags, or no IP header.
pub fn find_ip(frame: &[u8]) -> Option<(usize, bool)> {
    let mut at = ETHERTYPE_AT;
    let mut kind = be16(frame, at)?;
    let mut tags = 0;
    while matches!(kind, 0x8100 | 0x88a8) && tags < 4 {
        at += 4;
        tags += 1;
        kind = be16(frame, at)?;
    }
    match kind {
        ETHERTYPE_IPV4 => Some((at + 2, false)),
        ETHERTYPE_IPV6 => Some((at + 2, true)),
        _ => None,
    }
}

/// Finds the IP header and what follows it; VLAN tags are skipped. `None` for IPv4 fragments; for IPv6 fragments, `protocol` is 44.
pub fn layout(frame: &[u8]) -> Option<Layout> {
    let (l3, v6) = find_ip(frame)?;
    if v6 {
        let (l4, protocol) = skip_extensions(frame, l3 + 40, *frame.get(l3 + 6)?)?;
        return Some(Layout { l3, v6, l4, protocol });
    }
    let l4 = l3 + usize::from(frame.get(l3)? & 15) * 4;
    let protocol = *frame.get(l3 + 9)?;
    let is_fragment = be16(frame, l3 + 6)? & 0x3fff != 0;
    (l4 >= l3 + 20 && !is_fragment).then_some(Layout { l3, v6, l4, protocol })
}

fn skip_extensions(frame: &[u8], mut at: usize, mut next: u8) -> Option<(usize, u8)> {
    const MAX_HEADERS: usize = 8;
    for _ in 0..MAX_HEADERS {
        if !matches!(next, 0 | 43 | 60) {
            return Some((at, next));
        }
        next = *frame.get(at)?;
        at += (usize::from(*frame.get(at + 1)?) + 1) * 8;
    }
    None
}

fn be16(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?))
}

fn pseudo_header(frame: &[u8], l: &Layout, l4_len: usize) -> Option<u64> {
    let addresses = if l.v6 { frame.get(l.l3 + 8..l.l3 + 40)? } else { frame.get(l.l3 + 12..l.l3 + 20)? };
    Some(sum(addresses, u64::from(l.protocol) + l4_len as u64))
}

/// Replaces a finished checksum by the sum of the pseudo header; returns `start` and `offset` of a
/// [`PartialChecksum`](crate::offload::PartialChecksum). Used for packets that will be segmented again, which requires an unfinished
/// checksum.
pub fn make_partial_checksum(frame: &mut [u8]) -> Option<(u16, u16)> {
    make_partial_checksum_head(frame, frame.len())
}

/// [`make_partial_checksum`] for a frame of `len` bytes of which only the beginning is present.
pub fn make_partial_checksum_head(frame: &mut [u8], len: usize) -> Option<(u16, u16)> {
    let l = layout(frame)?;
    let offset = l.checksum_offset()?;
    let len = len.checked_sub(l.l4)?;
    let pseudo = fold(pseudo_header(frame, &l, len)?);
    write16(frame, l.l4 + usize::from(offset), pseudo)?;
    Some((u16::try_from(l.l4).ok()?, offset))
}

/// Returns whether the checksum of an IPv4 header is right. Always true for IPv6, which has no header checksum.
pub(crate) fn is_ip_checksum_right(frame: &[u8], l: &Layout) -> bool {
    l.v6 || frame.get(l.l3..l.l4).is_some_and(|header| fold(sum(header, 0)) == 0xffff)
}

/// Returns whether the transport checksum of a packet that ends with its frame is right.
pub(crate) fn is_checksum_right(frame: &[u8], l: &Layout) -> bool {
    let segment = frame.get(l.l4..).unwrap_or_default();
    pseudo_header(frame, l, segment.len()).is_some_and(|pseudo| fold(sum(segment, pseudo)) == 0xffff)
}

/// Detects an unfinished checksum in a frame without offload metadata: the checksum field contains the sum of the pseudo header.
/// Returns `start` and `offset`. One in 65,536 packets with a finished checksum looks the same; this error is harmless, because finishing
/// the checksum again gives the same value.
pub fn find_partial_checksum(frame: &[u8]) -> Option<(u16, u16)> {
    let l = layout(frame)?;
    let offset = l.checksum_offset()?;
    let ip_len = match l.v6 {
        false => usize::from(be16(frame, l.l3 + 2)?),
        true => usize::from(be16(frame, l.l3 + 4)?) + 40,
    };
    // Bytes after the IP packet would be included in the sum.
    if l.l3 + ip_len != frame.len() {
        return None;
    }
    let len = frame.len().checked_sub(l.l4)?;
    let pseudo = fold(pseudo_header(frame, &l, len)?);
    (be16(frame, l.l4 + usize::from(offset))? == pseudo).then_some((u16::try_from(l.l4).ok()?, offset))
}

/// Segments a packet into packets with `mss` bytes of payload, with correct lengths and checksums, and passes each to `emit`. `l`: layout
/// of the packet. Returns the number of packets. `None`: nothing was emitted, because the packet cannot be segmented.
pub fn segment(frame: &[u8], l: &Layout, mss: u16, mut emit: impl FnMut(&[u8])) -> Option<usize> {
    let header = match l.protocol {
        IPPROTO_TCP => l.l4 + usize::from(*frame.get(l.l4 + 12)? >> 4) * 4,
        IPPROTO_UDP => l.l4 + 8,
        _ => return None,
    };
    let payload = frame.get(header..)?;
    if mss == 0 || payload.is_empty() || header < l.l4 + 8 || frame.len() > SEGMENTED_FRAME_MAX {
        return None;
    }
    if l.protocol == IPPROTO_TCP && header < l.l4 + 20 {
        return None;
    }
    let mss = usize::from(mss);
    let count = payload.len().div_ceil(mss);
    let mut out = Vec::with_capacity(header + mss);
    for (i, part) in payload.chunks(mss).enumerate() {
        out.clear();
        out.extend_from_slice(frame.get(..header)?);
        out.extend_from_slice(part);
        fix_ip(&mut out, l, i)?;
        fix_transport(&mut out, l, i * mss, i == 0, i + 1 == count)?;
        emit(&out);
    }
    Some(count)
}

fn write16(frame: &mut [u8], at: usize, value: u16) -> Option<()> {
    frame.get_mut(at..at + 2)?.copy_from_slice(&value.to_be_bytes());
    Some(())
}

fn fix_ip(out: &mut [u8], l: &Layout, i: usize) -> Option<()> {
    if !l.v6 {
        let id = be16(out, l.l3 + 4)?;
        write16(out, l.l3 + 4, id.wrapping_add(i as u16))?;
    }
    set_ip_length(out, l)
}

/// Sets the length in the IP header to the length of the frame, and updates the checksum of IPv4.
pub(crate) fn set_ip_length(out: &mut [u8], l: &Layout) -> Option<()> {
    if l.v6 {
        return write16(out, l.l3 + 4, u16::try_from(out.len() - l.l3 - 40).ok()?);
    }
    write16(out, l.l3 + 2, u16::try_from(out.len() - l.l3).ok()?)?;
    write16(out, l.l3 + 10, 0)?;
    let checksum = !fold(sum(out.get(l.l3..l.l4)?, 0));
    write16(out, l.l3 + 10, checksum)
}

fn fix_transport(out: &mut [u8], l: &Layout, done: usize, first: bool, last: bool) -> Option<()> {
    let len = out.len() - l.l4;
    if l.protocol == IPPROTO_TCP {
        let at = l.l4 + 4;
        let sequence = u32::from_be_bytes(out.get(at..at + 4)?.try_into().ok()?).wrapping_add(done as u32);
        out.get_mut(at..at + 4)?.copy_from_slice(&sequence.to_be_bytes());
        let flags = out.get_mut(l.l4 + 13)?;
        if !last {
            *flags &= !FIN_PSH;
        }
        if !first {
            *flags &= !CWR;
        }
    } else {
        write16(out, l.l4 + 4, u16::try_from(len).ok()?)?;
    }
    let offset = l.checksum_offset()?;
    let pseudo = fold(pseudo_header(out, l, len)?);
    write16(out, l.l4 + usize::from(offset), pseudo)?;
    finish_checksum(out, l.l4 as u16, offset)
}

#[cfg(test)]
mod tests;
