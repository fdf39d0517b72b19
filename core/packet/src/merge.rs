//! Generic receive offload: merges TCP segments of one connection into one large frame that can be segmented again. Used for a receiver
//! that accepts such frames: it then handles one packet of up to 64 KiB instead of about 45 packets of 1,500 bytes.
//!
//! [`Offload::finish`] restores the segments that were merged; only the IPv4 identification of packets that must not be fragmented may
//! differ, and has no meaning (RFC 6864 §4.1). Segments are not merged if their headers differ in more than lengths, sequence number,
//! identification, checksums, and FIN and PSH in the last segment, or if a checksum is wrong. No frame waits for others: only frames of one burst
//! are merged, and frames of one connection keep their order.

use crate::frame::{FRAME_MAX, Frame, FrameBatch, FramePool};
use crate::offload::{Gso, GsoKind, Offload, PartialChecksum};
use crate::segment::{self, Layout};

const TCP: u8 = 6;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;
const DONT_FRAGMENT: u8 = 0x40;
/// Maximum length of an IP packet, in bytes.
const IP_MAX: usize = 65_535;
/// Minimum payload of a segment that is merged, in bytes. Shorter segments are rare in bulk transfers.
const PAYLOAD_MIN: usize = 256;
/// Minimum length of the first frame of a run: Ethernet, IPv4 and TCP headers and the minimum payload.
const FIRST_FRAME_MIN: usize = 14 + 20 + 20 + PAYLOAD_MIN;
/// Maximum number of runs in one burst; segments beyond it are not merged.
const RUNS_MAX: usize = 16;

/// Header fields of a frame that may be merged.
#[derive(Clone, Copy)]
struct Segment {
    layout: Layout,
    /// Offset of the payload.
    payload: usize,
    sequence: u32,
    flags: u8,
}

/// Consecutive segments of one connection.
struct Run {
    /// Index in the burst of the frame with the first segment; `last`: of the frame with the last segment.
    first: usize,
    last: usize,
    count: usize,
    segment: Segment,
    /// Total bytes of payload.
    bytes: usize,
    /// No further segment may be added.
    closed: bool,
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]))
}

/// Offset of the end of the IP packet in the frame, from the length in its header.
fn end(bytes: &[u8], l: &Layout) -> usize {
    match l.v6 {
        false => l.l3 + usize::from(be16(bytes, l.l3 + 2)),
        true => l.l3 + 40 + usize::from(be16(bytes, l.l3 + 4)),
    }
}

impl Segment {
    /// Reads a frame. `None`: the frame cannot be merged.
    fn of(frame: &Frame, layout: Layout) -> Option<Segment> {
        let bytes = frame.head();
        let ip = if layout.v6 { 40 } else { 20 };
        let flags = *bytes.get(layout.l4 + 13)?;
        let payload = layout.l4 + usize::from(bytes[layout.l4 + 12] >> 4) * 4;
        let is_plain = layout.l4 - layout.l3 == ip && end(bytes, &layout) == frame.len();
        let is_data = flags & ACK != 0 && flags & !(ACK | PSH | FIN | ECE) == 0;
        let is_long =
            payload >= layout.l4 + 20 && frame.len() >= payload + PAYLOAD_MIN && bytes.len() >= payload;
        let offload = frame.offload();
        let is_one_packet =
            offload.gso.is_none() && offload.csum.is_none_or(|c| usize::from(c.start) == layout.l4);
        let sequence = be32(bytes, layout.l4 + 4);
        (is_plain && is_data && is_long && is_one_packet).then_some(Segment {
            layout,
            payload,
            sequence,
            flags,
        })
    }

    fn payload_len(&self, frame: &Frame) -> usize {
        frame.len() - self.payload
    }
}

/// The bytes that identify the connection: addresses and ports.
fn endpoints<'a>(bytes: &'a [u8], l: &Layout) -> [Option<&'a [u8]>; 2] {
    let addresses = if l.v6 { l.l3 + 8..l.l3 + 40 } else { l.l3 + 12..l.l3 + 20 };
    [bytes.get(addresses), bytes.get(l.l4..l.l4 + 4)]
}

/// Returns whether the headers are equal, except for the fields in which the segments of one frame differ.
fn same_headers(a: &[u8], b: &[u8], s: &Segment) -> bool {
    let Layout { l3, l4, v6, .. } = s.layout;
    let same = |from: usize, to: usize| a[from..to] == b[from..to];
    let ip = match v6 {
        false => same(l3, l3 + 2) && same(l3 + 6, l3 + 10) && same(l3 + 12, l4),
        true => same(l3, l3 + 4) && same(l3 + 6, l4),
    };
    let flags = (a[l4 + 13] ^ b[l4 + 13]) & !(FIN | PSH) == 0;
    same(0, l3)
        && ip
        && same(l4, l4 + 4)
        && same(l4 + 8, l4 + 13)
        && flags
        && same(l4 + 14, l4 + 16)
        && same(l4 + 18, s.payload)
}

/// Returns whether the IPv4 identification is the one that segmentation would assign, or has no meaning (RFC 6864 §4.1).
fn id_follows(first: &[u8], bytes: &[u8], run: &Run) -> bool {
    let Layout { l3, v6, .. } = run.segment.layout;
    let follows = || be16(bytes, l3 + 4) == be16(first, l3 + 4).wrapping_add(run.count as u16);
    v6 || first[l3 + 6] & DONT_FRAGMENT != 0 || follows()
}

/// Returns whether the checksums are right. The checksum of TCP may be unfinished.
fn are_checksums_right(frame: &Frame, s: &Segment) -> bool {
    let (bytes, l) = (frame.bytes(), &s.layout);
    let transport = || frame.offload().csum.is_some() || segment::is_checksum_right(bytes, l);
    segment::is_ip_checksum_right(bytes, l) && transport()
}

impl Run {
    fn accepts(&self, frames: &[Frame], frame: &Frame, s: &Segment) -> bool {
        let (first, size) = (&frames[self.first], self.segment.payload_len(&frames[self.first]));
        let len = s.payload_len(frame);
        let total = self.bytes + len;
        !self.closed
            && s.sequence == self.segment.sequence.wrapping_add(self.bytes as u32)
            && (s.layout, s.payload) == (self.segment.layout, self.segment.payload)
            && len <= size
            && self.segment.payload - s.layout.l3 + total <= IP_MAX
            && self.segment.payload + total <= FRAME_MAX
            && self.count < GsoKind::Tcp4.segments_max()
            && same_headers(first.head(), frame.head(), s)
            && id_follows(first.head(), frame.head(), self)
            && (self.count > 1 || are_checksums_right(first, &self.segment))
            && are_checksums_right(frame, s)
    }

    fn add(&mut self, frames: &[Frame], at: usize, s: &Segment) {
        let (len, size) = (s.payload_len(&frames[at]), self.segment.payload_len(&frames[self.first]));
        (self.last, self.count, self.bytes) = (at, self.count + 1, self.bytes + len);
        // Segmentation makes only the last segment shorter, and sets PSH and FIN only in the last segment.
        self.closed = len < size || s.flags & (PSH | FIN) != 0;
    }
}

/// Finds the runs in a burst. `next`: for each frame of a run, the index of the frame with the next segment.
fn runs(frames: &[Frame], next: &mut Vec<usize>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (at, frame) in frames.iter().enumerate() {
        if runs.is_empty() && frame.len() < FIRST_FRAME_MIN {
            continue;
        }
        let Some(layout) = segment::layout(frame.head()) else {
            // A fragment may belong to any of the connections, and later segments must not overtake it.
            runs.iter_mut().for_each(|r| r.closed = true);
            continue;
        };
        if layout.protocol != TCP {
            continue;
        }
        let endpoints_of_frame = endpoints(frame.head(), &layout);
        let known = runs
            .iter_mut()
            .rfind(|r| endpoints(frames[r.first].head(), &r.segment.layout) == endpoints_of_frame);
        match (known, Segment::of(frame, layout)) {
            (Some(run), Some(s)) if run.accepts(frames, frame, &s) => {
                next.resize(frames.len(), 0);
                next[run.last] = at;
                run.add(frames, at, &s);
            }
            (known, segment) => {
                // Later segments of the connection must not overtake this one.
                known.into_iter().for_each(|r| r.closed = true);
                if let Some(segment) = segment.filter(|_| runs.len() < RUNS_MAX) {
                    let closed = segment.flags & (PSH | FIN) != 0;
                    let bytes = segment.payload_len(frame);
                    runs.push(Run { first: at, last: at, count: 1, segment, bytes, closed });
                }
            }
        }
    }
    runs
}

/// Merges the segments of a run into one frame. `None`: this is impossible, and the segments stay as they are.
fn merged_frame(frames: &[Frame], run: &Run, next: &[usize], pool: &mut FramePool) -> Option<Frame> {
    let Segment { layout, payload: header, .. } = run.segment;
    let first = &frames[run.first];
    let mut merged = pool.alloc(header + run.bytes)?;
    let (mut at, mut end) = (run.first, header);
    merged.bytes_mut()[..header].copy_from_slice(&first.bytes()[..header]);
    for i in 0..run.count {
        let part = &frames[at].bytes()[header..];
        merged.bytes_mut()[end..end + part.len()].copy_from_slice(part);
        end += part.len();
        if i + 1 < run.count {
            at = next[at];
        }
    }
    merged.bytes_mut()[layout.l4 + 13] = frames[run.last].bytes()[layout.l4 + 13];
    segment::set_ip_length(merged.bytes_mut(), &layout)?;
    let (start, offset) = segment::make_partial_checksum(merged.bytes_mut())?;
    let size = u16::try_from(run.segment.payload_len(first)).ok()?;
    let gso = Some(Gso { kind: layout.kind()?, size, ecn: false });
    merged.set_offload(Offload { csum: Some(PartialChecksum { start, offset }), gso });
    Some(merged)
}

/// Merges segments. Returns by how many frames the burst has become shorter.
pub fn merge(frames: &mut FrameBatch, pool: &mut FramePool) -> usize {
    if frames.len() < 2 {
        return 0;
    }
    let mut next = Vec::new();
    let runs = runs(frames, &mut next);
    let mut gone = vec![false; if next.is_empty() { 0 } else { frames.len() }];
    for run in runs.iter().filter(|r| r.count > 1) {
        let Some(merged) = merged_frame(frames, run, &next, pool) else { continue };
        let mut at = run.first;
        while at != run.last {
            at = next[at];
            gone[at] = true;
        }
        pool.free(std::mem::replace(&mut frames[run.first], merged));
    }
    let before = frames.len();
    remove(frames, &gone, pool);
    before - frames.len()
}

/// Removes frames that were merged into others; the remaining frames keep their order.
fn remove(frames: &mut FrameBatch, gone: &[bool], pool: &mut FramePool) {
    if gone.is_empty() {
        return;
    }
    let mut kept = 0;
    for (at, _) in gone.iter().enumerate().filter(|(_, gone)| !**gone) {
        frames.swap(kept, at);
        kept += 1;
    }
    frames.drain(kept..).for_each(|frame| pool.free(frame));
}

#[cfg(test)]
mod tests;
