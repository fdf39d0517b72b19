//! Receives the packets that a guest sends.

use super::RingError;
use super::chain::{Chain, Direction, Parts};
use super::layout::Layout;
use super::state::{AHEAD, Burst, Cursor, Entry, HEADER, ReceivedBuffer, Ring};
use super::tail_leases::{HEAD_LEN, TAIL_MIN_PACKET, TailLeases};
use crate::feature;
use crate::guest::Received;
use crate::memory::{CACHE_LINE, Part};
use packet::frame::{FRAME_MAX, Frame, FrameBatch, FramePool, USUAL_FRAME_MAX};
use packet::offload::{GsoKind, Offload};
use packet::queue::RX_BURST;
use packet::{segment, vnet};

/// Bytes of an Ethernet header. Shorter packets are dropped.
const ETHERNET: usize = 14;
// The code below reads packet headers in the machine's byte order; virtio 1 defines them as little-endian.
const _: () = assert!(cfg!(target_endian = "little"));

impl<L: Layout> Ring<L> {
    /// Receives up to `max` packets and appends them to `out`. After invalid data the ring is not read again.
    ///
    /// With `leases`, which must be empty, long packets may keep their tails in guest memory, and the buffers of a ring with an inflight
    /// area are held. In both cases the used entries are published later, by [`Ring::publish_deferred`].
    #[inline(never)]
    pub fn receive(
        &mut self,
        max: usize,
        pool: &mut FramePool,
        out: &mut FrameBatch,
        leases: Option<&mut TailLeases>,
    ) -> Received {
        let before = out.len();
        if self.invalid.is_some() {
            return Received::default();
        }
        let mut packets = 0;
        let holds = leases.is_some() && self.layout.has_inflight_area();
        let leases = leases.filter(|_| self.layout.supports_leases());
        let held = std::mem::take(&mut self.held);
        let mut to = Destination { pool, out, leases, held };
        let taken = match L::PACKED && holds {
            true => self.receive_packets::<true>(max, &mut to, &mut packets),
            false => self.receive_packets::<false>(max, &mut to, &mut packets),
        };
        if let Err(invalid) = taken {
            self.invalid = Some(invalid);
        }
        let needs_return = holds && packets > 0 || to.leases.is_some_and(|leases| !leases.is_empty());
        self.held = to.held;
        let interrupts = match packets {
            0 => self.publish_if_idle(),
            _ if needs_return => {
                self.deferred = true;
                0
            }
            _ => self.publish_received(),
        };
        Received { packets, refused: packets - (out.len() - before), interrupts, needs_return }
    }

    /// Receives bursts until `max` packets were received or the ring is empty; `packets` counts the packets. `HOLDS`: buffers of a packed
    /// ring are held, in the list `to.held`. A split ring needs no such list: its buffers are held as long as its used index is not written.
    #[inline(always)]
    fn receive_packets<const HOLDS: bool>(
        &mut self,
        max: usize,
        to: &mut Destination<'_>,
        packets: &mut usize,
    ) -> Result<(), RingError> {
        let max = max.min(RX_BURST) as u16;
        if self.had_packets {
            // Prefetch the descriptors together with the index. Not while the guest sends nothing: the guest may be writing the
            // descriptors, and the prefetch would take their cache lines from its core.
            self.prefetch_next(max);
        }
        let left = self.offered_for(max)?.min(max);
        self.had_packets = left > 0;
        if left == 0 {
            return Ok(());
        }
        self.layout.prefetch_end(self.next, self.has(feature::EVENT_IDX));
        to.out.reserve(usize::from(left));
        let mut cursor = self.cursor(left);
        let mut taken = Ok(());
        while cursor.left > 0 && taken.is_ok() {
            let before = cursor.left;
            taken = self.receive_burst::<HOLDS>(&mut cursor, to);
            *packets += usize::from(before - cursor.left);
            if L::PACKED && before == cursor.left {
                break;
            }
        }
        self.end(&cursor);
        taken
    }

    /// Receives the next packets, at most [`BURST`](super::state::BURST).
    #[inline(always)]
    fn receive_burst<const HOLDS: bool>(
        &self,
        cursor: &mut Cursor,
        to: &mut Destination<'_>,
    ) -> Result<(), RingError> {
        let mut burst = Burst::new();
        self.read_burst(cursor, cursor.left, Direction::FromGuest, &mut burst, |_, part| {
            part.prefetch_first(part.len());
        })?;
        let (mut position, mut at) = (cursor.next, 0);
        let mut taken = Ok(());
        if !HOLDS {
            self.layout.begin_used(position, burst.len(), false);
        }
        while let Some(entry) = burst.get(at) {
            // Prefetch only one long packet ahead: the lines of more packets would evict each other from the cache.
            let next = burst.buffer(at + 1);
            if next.len() > 2 * CACHE_LINE {
                to.prefetch_rest(&next);
            }
            if (HEADER + ETHERNET..=HEADER + USUAL_FRAME_MAX).contains(&entry.buffer.len()) {
                self.receive_single(&entry.buffer, to);
                if HOLDS {
                    to.held.push(ReceivedBuffer { position, id: entry.head, slots: 1 });
                } else {
                    self.layout.put_used(position, entry.head, 0);
                }
                position = self.layout.after(position, 1);
            } else {
                match self.receive_chain(position, entry, &mut cursor.last_region, to) {
                    Ok((frame, chain)) => {
                        to.out.extend(frame);
                        let taken = ReceivedBuffer { position, id: chain.id, slots: chain.slots };
                        if HOLDS {
                            to.held.push(taken);
                        } else {
                            self.put_used_chain(taken);
                        }
                        position = self.layout.after(position, chain.slots);
                    }
                    Err(invalid) => {
                        taken = Err(invalid);
                        break;
                    }
                }
            }
            at += 1;
        }
        cursor.advance(position, at as u16);
        taken
    }

    /// Marks one buffer as used. For a buffer of one descriptor the caller must have called `begin_used`; for longer ones this function does.
    #[inline(always)]
    fn put_used_chain(&self, ReceivedBuffer { position, id, slots }: ReceivedBuffer) {
        if slots > 1 {
            self.layout.begin_used(position, slots, true);
        }
        self.layout.put_used(position, id, 0);
    }

    /// Marks the held buffers as used and publishes them. The guest is interrupted later, by [`Ring::publish_deferred`].
    pub fn release(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        let mut rest = &held[..];
        while let Some(first) = rest.first() {
            let n = rest.iter().take_while(|taken| taken.slots == 1).count();
            if n > 0 {
                self.layout.begin_used(first.position, n as u16, false);
            }
            let (group, others) = rest.split_at(n.max(1));
            group.iter().for_each(|taken| self.put_used_chain(*taken));
            rest = others;
        }
        held.clear();
        self.held = held;
        self.layout.publish(self.next);
    }

    /// Appends the packet in one buffer, whose length was checked. Drops a packet that requests an offload that was not negotiated, or
    /// for which the pool has no buffer.
    #[inline(always)]
    fn receive_single(&self, part: &Part<'_>, to: &mut Destination<'_>) {
        let Some((first, last)) = part.read_header() else { return };
        let Some(frame) = to.pool.alloc_in(part.len() - HEADER, to.out) else { return };
        if part.len() > 2 * CACHE_LINE {
            self.fill_long(part, frame, &mut to.leases);
            to.pool.prefetch_next(if frame.is_complete() { part.len() } else { HEAD_LEN });
        } else {
            part.skip(HEADER).read(frame.bytes_mut());
        }
        // The last two bytes of the header, the number of buffers, have no meaning for packets from the guest.
        if first != 0 || last as u16 != 0 {
            let mut header = [0; HEADER];
            header[..8].copy_from_slice(&first.to_ne_bytes());
            header[8..].copy_from_slice(&last.to_ne_bytes());
            let frame = to.out.pop().and_then(|frame| self.with_offload(&header, frame, to.pool));
            to.out.extend(frame);
        }
    }

    /// Fills a frame with a packet of more than two cache lines. The packet's tail may stay in guest memory.
    #[inline(never)]
    fn fill_long(&self, part: &Part<'_>, frame: &mut Frame, leases: &mut Option<&mut TailLeases>) {
        let packet = part.skip(HEADER);
        if packet.len() >= TAIL_MIN_PACKET
            && let Some(leases) = leases
        {
            packet.read(frame.head_of_mut(HEAD_LEN).get_mut(..HEAD_LEN).unwrap_or_default());
            let tail = std::iter::once(packet.skip(HEAD_LEN));
            if leases.lease_tail(frame, HEAD_LEN, tail, self.layout.memory()) {
                return;
            }
        }
        packet.read(frame.bytes_mut());
    }

    /// Receives the packet of one chain. `None`: the packet is dropped, because its length is invalid, the pool is empty, or it requests
    /// an offload that was not negotiated.
    #[inline(never)]
    fn receive_chain(
        &self,
        position: u16,
        entry: Entry<'_, '_>,
        last_region: &mut usize,
        to: &mut Destination<'_>,
    ) -> Result<(Option<Frame>, Chain), RingError> {
        let mut parts = Parts::new();
        let first = (entry.head, *entry.first);
        let chain = self.walk(Direction::FromGuest).chain(position, first, &mut parts, last_region)?;
        let total = chain.len as usize;
        let mut header = [0; HEADER];
        let header_len = self.header();
        let Some(len) = total.checked_sub(header_len) else { return Err(RingError::Header) };
        let Some(mut frame) = (ETHERNET..=FRAME_MAX).contains(&len).then(|| to.pool.alloc(len)).flatten()
        else {
            return Ok((None, chain));
        };
        let rest = gather(&parts, &mut header[..header_len]);
        let mut leased = false;
        if len >= TAIL_MIN_PACKET
            && let Some(leases) = &mut to.leases
        {
            let begin = frame.bytes_mut().get_mut(..HEAD_LEN).unwrap_or_default();
            let (part, more) = gather_from(rest, begin).unwrap_or((None, &[]));
            let tail = part.into_iter().chain(more.iter().copied()).filter(|part| part.len() > 0);
            leased = leases.lease_tail(&mut frame, HEAD_LEN, tail, self.layout.memory());
        }
        if !leased {
            gather_from(rest, frame.bytes_mut());
        }
        if header[..vnet::LEN] == [0; vnet::LEN] {
            return Ok((Some(frame), chain));
        }
        Ok((self.with_offload(&header, frame, to.pool), chain))
    }

    /// Adds the guest's offload request to the frame; `None`: the request is refused, and the frame was freed.
    #[cold]
    fn with_offload(&self, header: &[u8; HEADER], mut frame: Frame, pool: &mut FramePool) -> Option<Frame> {
        if self.set_offload(header, &mut frame) {
            return Some(frame);
        }
        pool.free(frame);
        None
    }

    /// Sets the guest's offload request. Returns false if the request does not fit the packet or was not negotiated.
    fn set_offload(&self, header: &[u8; HEADER], frame: &mut Frame) -> bool {
        let Some(header) = header.first_chunk() else { return false };
        let len = frame.len();
        let begin = frame.head_of_mut(header_bytes_needed(header));
        let Some(offload) = vnet::decode_head(header, begin, len) else { return false };
        let needs = offload.csum.map_or(0, |_| feature::CSUM)
            | offload.gso.map_or(0, |gso| feature::segmentation_by_switch(gso.kind));
        if self.features() & needs != needs {
            return false;
        }
        let Some(csum) = offload.csum else { return true };
        // The rest of the switch supports only a checksum of the outermost transport header. Another checksum, of a packet inside a
        // tunnel, is computed here.
        let layout = segment::layout(begin);
        if layout.is_some_and(|l| l.l4 == usize::from(csum.start) && l.checksum_offset() == Some(csum.offset))
        {
            return set_if_kind_fits(frame, offload, layout.and_then(|l| l.kind()));
        }
        offload.gso.is_none()
            && segment::finish_checksum(frame.bytes_mut(), csum.start, csum.offset).is_some()
    }
}

/// Where received packets are stored.
struct Destination<'a> {
    pool: &'a mut FramePool,
    out: &'a mut FrameBatch,
    leases: Option<&'a mut TailLeases>,
    held: Vec<ReceivedBuffer>,
}

impl Destination<'_> {
    /// Prefetches the bytes that follow the first two cache lines of a packet, as far as they are copied on reception.
    #[inline]
    fn prefetch_rest(&self, packet: &Part<'_>) {
        let keeps_tail = self.leases.is_some() && packet.len() >= HEADER + TAIL_MIN_PACKET;
        let end = if keeps_tail { HEADER + HEAD_LEN } else { AHEAD };
        packet.prefetch(2 * CACHE_LINE..packet.len().min(end));
    }
}

/// Number of bytes at the beginning of a packet that are needed to check its offload request: up to the transport header, whose start
/// the request contains, and `HEADERS` more.
fn header_bytes_needed(header: &[u8; vnet::LEN]) -> usize {
    const HEADERS: usize = 60;
    let [flags, kind, .., start_a, start_b, _, _] = *header;
    if flags == 0 && kind != 0 {
        // A segmentation request without a checksum request: the headers have to be searched for.
        return usize::MAX;
    }
    usize::from(u16::from_ne_bytes([start_a, start_b])) + HEADERS
}

/// Sets the request, unless it requests segmentation of another kind than the packet's headers have.
fn set_if_kind_fits(frame: &mut Frame, offload: Offload, kind: Option<GsoKind>) -> bool {
    let fits = offload.gso.is_none_or(|gso| Some(gso.kind) == kind);
    if fits {
        let len = frame.len();
        frame.set_offload(
            offload.without_needless_segmentation(frame.head_of(offload.needed_head_len()), len),
        );
    }
    fits
}

/// As [`gather`], continued from its result.
#[inline(always)]
fn gather_from<'p, 'm>(
    from: Option<(Option<Part<'m>>, &'p [Part<'m>])>,
    to: &mut [u8],
) -> Option<(Option<Part<'m>>, &'p [Part<'m>])> {
    let (part, more) = from?;
    let read = part.map_or(0, |part| part.read(to));
    if read == to.len() {
        return Some((part.map(|part| part.skip(read)), more));
    }
    gather(more, &mut to[read..])
}

/// Fills `to` from the parts. Returns the rest of the part that was read last, and the parts after it; `None` if the parts end before
/// `to` is full.
#[inline(always)]
fn gather<'p, 'm>(parts: &'p [Part<'m>], to: &mut [u8]) -> Option<(Option<Part<'m>>, &'p [Part<'m>])> {
    let mut done = 0;
    for (i, part) in parts.iter().enumerate() {
        let n = part.read(&mut to[done..]);
        done += n;
        if done == to.len() {
            return Some((Some(part.skip(n)), &parts[i + 1..]));
        }
    }
    None
}
