//! Takes the packets that a guest sends from its ring.

use super::InvalidRing;
use super::chain::{Chain, Direction, Parts};
use super::layout::Layout;
use super::loans::{HEAD, LONG, Loans};
use super::split::{AHEAD, Burst, Cursor, Entry, HEADER, Ring, Taken};
use crate::feature;
use crate::guest::Received;
use crate::memory::{LINE, Part};
use packet::frame::{DATA_ROOM, FRAME_MAX, Frame, FrameBatch, FramePool};
use packet::offload::{GsoKind, Offload};
use packet::queue::RX_BURST;
use packet::{segment, vnet};

/// Bytes of an Ethernet header: no packet is shorter.
const ETHERNET: usize = 14;
// The code below reads packet headers in the machine's byte order; virtio 1 defines them as little-endian.
const _: () = assert!(cfg!(target_endian = "little"));

impl<L: Layout> Ring<L> {
    /// Takes up to `max` packets off the ring and appends them to `out`. After invalid data the ring is not read again. With
    /// `loans`, of which none may be out, long packets may keep their tails, and a ring that is noted in an inflight area holds its
    /// buffers: then the guest gets them back by [`Ring::publish_lent`].
    #[inline(never)]
    pub fn receive(
        &mut self,
        max: usize,
        pool: &mut FramePool,
        out: &mut FrameBatch,
        loans: Option<&mut Loans>,
    ) -> Received {
        let before = out.len();
        if self.invalid.is_some() {
            return Received::default();
        }
        let mut packets = 0;
        let holds = loans.is_some() && self.memory.is_noted();
        let loans = loans.filter(|_| self.memory.lends());
        let held = std::mem::take(&mut self.held);
        let mut to = To { pool, out, loans, held };
        let taken = match L::PACKED && holds {
            true => self.take::<true>(max, &mut to, &mut packets),
            false => self.take::<false>(max, &mut to, &mut packets),
        };
        if let Err(invalid) = taken {
            self.invalid = Some(invalid);
        }
        let lent = holds && packets > 0 || to.loans.is_some_and(|loans| !loans.is_empty());
        self.held = to.held;
        let interrupts = match packets {
            0 => self.publish_late(),
            _ if lent => {
                self.lent = true;
                0
            }
            _ => self.publish_most(),
        };
        Received { packets, refused: packets - (out.len() - before), interrupts, lent }
    }

    /// `packets` counts those that were taken. `HOLDS`: buffers of a packed ring are held; those of a split ring are in any case as long
    /// as the index is not written.
    #[inline(always)]
    fn take<const HOLDS: bool>(
        &mut self,
        max: usize,
        to: &mut To<'_>,
        packets: &mut usize,
    ) -> Result<(), InvalidRing> {
        let max = max.min(RX_BURST) as u16;
        if self.busy {
            // Prefetch the descriptors together with the index. Not while the guest sends nothing: it may be writing them, and the
            // prefetch would take the lines from its core.
            self.prefetch_next(max);
        }
        let left = self.offered_for(max)?.min(max);
        self.busy = left > 0;
        if left == 0 {
            return Ok(());
        }
        self.memory.prefetch_end(self.next, self.has(feature::EVENT_IDX));
        to.out.reserve(usize::from(left));
        let mut cursor = self.cursor(left);
        let mut taken = Ok(());
        while cursor.left > 0 && taken.is_ok() {
            let before = cursor.left;
            taken = self.take_burst::<HOLDS>(&mut cursor, to);
            *packets += usize::from(before - cursor.left);
            if L::PACKED && before == cursor.left {
                break;
            }
        }
        self.end(&cursor);
        taken
    }

    /// Takes the next packets, at most [`RX_BURST`].
    #[inline(always)]
    fn take_burst<const HOLDS: bool>(&self, cursor: &mut Cursor, to: &mut To<'_>) -> Result<(), InvalidRing> {
        let mut burst = Burst::new();
        self.read_burst(cursor, cursor.left, Direction::FromGuest, &mut burst, |_, part| {
            part.prefetch_first(part.len());
        })?;
        let (mut place, mut at) = (cursor.next, 0);
        let mut taken = Ok(());
        if !HOLDS {
            self.memory.begin_used(place, burst.len(), false);
        }
        while let Some(entry) = burst.get(at) {
            // Prefetch only one long packet ahead: more would evict each other from the cache.
            let next = burst.whole(at + 1);
            if next.len() > 2 * LINE {
                to.prefetch_rest(&next);
            }
            if (HEADER + ETHERNET..=HEADER + DATA_ROOM).contains(&entry.whole.len()) {
                self.whole_packet(&entry.whole, to);
                if HOLDS {
                    to.held.push(Taken { place, id: entry.head, slots: 1 });
                } else {
                    self.memory.put_used(place, entry.head, 0);
                }
                place = self.memory.after(place, 1);
            } else {
                match self.packet(place, entry, &mut cursor.hint, to) {
                    Ok((frame, chain)) => {
                        to.out.extend(frame);
                        let taken = Taken { place, id: chain.id, slots: chain.slots };
                        if HOLDS {
                            to.held.push(taken);
                        } else {
                            self.give_back(taken);
                        }
                        place = self.memory.after(place, chain.slots);
                    }
                    Err(invalid) => {
                        taken = Err(invalid);
                        break;
                    }
                }
            }
            at += 1;
        }
        cursor.advance(place, at as u16);
        taken
    }

    /// Gives one buffer back; `begin_used` was called for those of one descriptor.
    #[inline(always)]
    fn give_back(&self, Taken { place, id, slots }: Taken) {
        if slots > 1 {
            self.memory.begin_used(place, slots, true);
        }
        self.memory.put_used(place, id, 0);
    }

    /// Gives the buffers back that are held. The guest is interrupted later, by [`Ring::publish_lent`].
    pub fn release(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        let mut rest = &held[..];
        while let Some(first) = rest.first() {
            let n = rest.iter().take_while(|taken| taken.slots == 1).count();
            if n > 0 {
                self.memory.begin_used(first.place, n as u16, false);
            }
            let (group, others) = rest.split_at(n.max(1));
            group.iter().for_each(|taken| self.give_back(*taken));
            rest = others;
        }
        held.clear();
        self.held = held;
        self.memory.publish(self.next);
    }

    /// Appends the packet in one buffer, whose length was checked. Drops it if it requests an offload that was not negotiated.
    #[inline(always)]
    fn whole_packet(&self, part: &Part<'_>, to: &mut To<'_>) {
        let Some((first, last)) = part.read_header() else { return };
        let Some(frame) = to.pool.alloc_in(part.len() - HEADER, to.out) else { return };
        if part.len() > 2 * LINE {
            self.long_packet(part, frame, &mut to.loans);
            to.pool.prefetch_next(if frame.is_whole() { part.len() } else { HEAD });
        } else {
            part.skip(HEADER).read(frame.bytes_mut());
        }
        // The last two bytes, the number of buffers, have no meaning in this direction.
        if first != 0 || last as u16 != 0 {
            let mut header = [0; HEADER];
            header[..8].copy_from_slice(&first.to_ne_bytes());
            header[8..].copy_from_slice(&last.to_ne_bytes());
            let frame = to.out.pop().and_then(|frame| self.with_offload(&header, frame, to.pool));
            to.out.extend(frame);
        }
    }

    /// Fills a frame with a packet of more than two cache lines; its tail may stay in the guest's memory.
    #[inline(never)]
    fn long_packet(&self, part: &Part<'_>, frame: &mut Frame, loans: &mut Option<&mut Loans>) {
        let packet = part.skip(HEADER);
        if packet.len() >= LONG
            && let Some(loans) = loans
        {
            packet.read(frame.head_of_mut(HEAD).get_mut(..HEAD).unwrap_or_default());
            let tail = std::iter::once(packet.skip(HEAD));
            if loans.lend(frame, HEAD, tail, self.memory.memory()) {
                return;
            }
        }
        packet.read(frame.bytes_mut());
    }

    /// The packet of one chain. `None`: its length is invalid, or it requests an offload that was not negotiated.
    #[inline(never)]
    fn packet(
        &self,
        place: u16,
        entry: Entry<'_, '_>,
        hint: &mut usize,
        to: &mut To<'_>,
    ) -> Result<(Option<Frame>, Chain), InvalidRing> {
        let mut parts = Parts::new();
        let first = (entry.head, *entry.first);
        let chain = self.walk(Direction::FromGuest).chain(place, first, &mut parts, hint)?;
        let total = chain.len as usize;
        let mut header = [0; HEADER];
        let header_len = self.header();
        let Some(len) = total.checked_sub(header_len) else { return Err(InvalidRing::Header) };
        let Some(mut frame) = (ETHERNET..=FRAME_MAX).contains(&len).then(|| to.pool.alloc(len)).flatten()
        else {
            return Ok((None, chain));
        };
        let rest = gather(&parts, &mut header[..header_len]);
        let mut lent = false;
        if len >= LONG
            && let Some(loans) = &mut to.loans
        {
            let begin = frame.bytes_mut().get_mut(..HEAD).unwrap_or_default();
            let (part, more) = gather_from(rest, begin).unwrap_or((None, &[]));
            let tail = part.into_iter().chain(more.iter().copied()).filter(|part| part.len() > 0);
            lent = loans.lend(&mut frame, HEAD, tail, self.memory.memory());
        }
        if !lent {
            gather_from(rest, frame.bytes_mut());
        }
        if header[..vnet::LEN] == [0; vnet::LEN] {
            return Ok((Some(frame), chain));
        }
        Ok((self.with_offload(&header, frame, to.pool), chain))
    }

    /// The frame with the guest's offload request; `None`: the request is refused.
    #[cold]
    fn with_offload(&self, header: &[u8; HEADER], mut frame: Frame, pool: &mut FramePool) -> Option<Frame> {
        if self.set_offload(header, &mut frame) {
            return Some(frame);
        }
        pool.free(frame);
        None
    }

    /// Sets the guest's offload request. Returns false if it does not fit the packet or was not negotiated.
    fn set_offload(&self, header: &[u8; HEADER], frame: &mut Frame) -> bool {
        let Some(header) = header.first_chunk() else { return false };
        let len = frame.len();
        let begin = frame.head_of_mut(reach(header));
        let Some(offload) = vnet::decode_head(header, begin, len) else { return false };
        let needs = offload.csum.map_or(0, |_| feature::CSUM)
            | match offload.gso.map(|gso| gso.kind) {
                None => 0,
                Some(GsoKind::Tcp4) => feature::HOST_TSO4,
                Some(GsoKind::Tcp6) => feature::HOST_TSO6,
                Some(GsoKind::Udp) => return false,
            };
        if self.features() & needs != needs {
            return false;
        }
        let Some(csum) = offload.csum else { return true };
        // The rest of the switch supports only a checksum of the outermost transport header. Another one, of a packet inside a tunnel,
        // is computed here.
        let layout = segment::layout(begin);
        if layout.is_some_and(|l| l.l4 == usize::from(csum.start) && l.checksum() == Some(csum.offset)) {
            return set(frame, offload, layout.and_then(|l| l.kind()));
        }
        offload.gso.is_none() && segment::complete(frame.bytes_mut(), csum.start, csum.offset).is_some()
    }
}

/// Where received packets go.
struct To<'a> {
    pool: &'a mut FramePool,
    out: &'a mut FrameBatch,
    loans: Option<&'a mut Loans>,
    held: Vec<Taken>,
}

impl To<'_> {
    /// Prefetches what follows the first two cache lines of a packet, as far as it is copied now.
    #[inline]
    fn prefetch_rest(&self, packet: &Part<'_>) {
        let is_lent = self.loans.is_some() && packet.len() >= HEADER + LONG;
        let end = if is_lent { HEADER + HEAD } else { AHEAD };
        packet.prefetch(2 * LINE..packet.len().min(end));
    }
}

/// Bytes of a packet that decide about a request for offloads: the transport header, whose start the request names, with the
/// headers that make it plausible.
fn reach(header: &[u8; vnet::LEN]) -> usize {
    const HEADERS: usize = 60;
    let [flags, kind, .., start_a, start_b, _, _] = *header;
    if flags == 0 && kind != 0 {
        // The headers of a packet to be segmented are searched for.
        return usize::MAX;
    }
    usize::from(u16::from_ne_bytes([start_a, start_b])) + HEADERS
}

/// Sets the request, unless it asks to segment a packet of another kind.
fn set(frame: &mut Frame, offload: Offload, kind: Option<GsoKind>) -> bool {
    let fits = offload.gso.is_none_or(|gso| Some(gso.kind) == kind);
    if fits {
        frame.set_offload(offload);
    }
    fits
}

/// As [`gather`], from where that ended.
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

/// Fills `to` from the parts. Returns the rest of the part that was read last, and the parts after it; `None` if nothing
/// is left.
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
