//! Copies packets into the buffers that a guest has made available: packets that the guest receives.

use super::RingError;
use super::chain::{Direction, Parts};
use super::layout::Layout;
use super::state::{AHEAD, BURST, Burst, Cursor, DeferredFirst, HEADER, Ring};
use super::tail_leases::{GUEST_MEMORY, prefetch_tail, write_tail};
use crate::address_space::AddressSpace;
use crate::feature;
use crate::memory::{CACHE_LINE, Part};
use arrayvec::ArrayVec;
use packet::frame::{Frame, Piece};
use packet::{held_buffers, vnet};

/// A packet to be sent.
pub(crate) trait Packet {
    /// Its bytes without an absent tail.
    fn head(&self) -> &[u8];

    /// Its length including the tail.
    fn len(&self) -> usize;

    /// The frame whose tail may be absent; `None`: the packet has no absent tail.
    fn frame(&self) -> Option<&Frame>;

    /// The virtio header of the packet if it is in one buffer: the first 8 and the last 4 bytes.
    #[inline(always)]
    fn header(&self) -> (u64, u32) {
        (0, ONE_BUFFER)
    }
}

/// A frame without offload requests.
impl Packet for Frame {
    #[inline(always)]
    fn head(&self) -> &[u8] {
        self.head()
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn frame(&self) -> Option<&Frame> {
        Some(self)
    }
}

/// A packet with its virtio header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'f> {
    bytes: &'f [u8],
    header: (u64, u32),
    /// The frame with the bytes, if its tail is absent.
    frame: Option<&'f Frame>,
}

impl<'f> Item<'f> {
    /// A packet without offload requests.
    #[inline]
    pub fn new(bytes: &'f [u8]) -> Item<'f> {
        Item { bytes, header: (0, ONE_BUFFER), frame: None }
    }

    /// A packet in a frame, without offload requests.
    #[inline]
    pub fn from_frame(frame: &'f Frame) -> Item<'f> {
        Item { bytes: frame.head(), header: (0, ONE_BUFFER), frame: (!frame.is_complete()).then_some(frame) }
    }

    /// A packet in a frame, with offload requests for the guest.
    pub fn with_offload(frame: &'f Frame, header: [u8; vnet::LEN]) -> Item<'f> {
        let [a, b, c, d, e, f, g, h, i, j] = header;
        let last = u32::from(u16::from_ne_bytes([i, j])) | ONE_BUFFER;
        Item { header: (u64::from_ne_bytes([a, b, c, d, e, f, g, h]), last), ..Item::from_frame(frame) }
    }
}

impl Packet for Item<'_> {
    #[inline(always)]
    fn head(&self) -> &[u8] {
        self.bytes
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.frame.map_or(self.bytes.len(), Frame::len)
    }

    #[inline(always)]
    fn frame(&self) -> Option<&Frame> {
        self.frame
    }

    #[inline(always)]
    fn header(&self) -> (u64, u32) {
        self.header
    }
}

/// The value 1 in the header's number of buffers, which is the upper half of the last word.
const ONE_BUFFER: u32 = 1 << 16;

/// Result for one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Sent,
    /// The guest's buffer is too short, and a packet may use only one buffer (`VIRTIO_NET_F_MRG_RXBUF` was not negotiated).
    TooLong,
    /// The guest has made too few buffers available.
    Full,
}

/// Result for a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FillResult {
    /// Number of packets, from the first on, that must not be passed again: they were sent or are too long.
    pub handled: usize,
    /// Number of these packets that are too long for the guest's buffers.
    pub too_long: usize,
    pub interrupts: u64,
}

/// Maximum number of chains for one packet; each holds at least one byte. The same limit as
/// [`PARTS_MAX`](super::chain::PARTS_MAX).
const CHAINS_MAX: usize = 280;

impl<L: Layout> Ring<L> {
    /// Copies packets into the guest's buffers until the guest has no more, and calls `sent` for each packet that was sent, with its
    /// bytes (without an absent tail) and its length. [Held](held_buffers) buffers are released before the guest can see the first packet.
    #[inline]
    pub fn fill<P: Packet>(&mut self, items: &[P], mut sent: impl FnMut(&[u8], usize)) -> FillResult {
        let mut filled = FillResult::default();
        if self.invalid.is_some() {
            return filled;
        }
        let mut deferred_first = DeferredFirst { position: self.next, used: None };
        // In a packed ring the guest sees each packet separately. If buffers are held, the first packet is made visible last, so that all
        // packets become visible at once. A ring without an inflight area cannot do that: after a kill, the guest would find used
        // descriptors behind one that is not used.
        let put = match L::PACKED && held_buffers::holds_any() && self.layout.has_inflight_area() {
            true => self.fill_all::<P, true>(items, &mut deferred_first, &mut filled, &mut sent),
            false => self.fill_all::<P, false>(items, &mut deferred_first, &mut filled, &mut sent),
        };
        if let Err(invalid) = put {
            self.invalid = Some(invalid);
        }
        if L::Space::TRANSLATES {
            self.request_ahead();
        }
        if filled.handled > filled.too_long {
            held_buffers::release();
            if let Some((id, len)) = deferred_first.used {
                self.layout.put_used(deferred_first.position, id, len);
            }
            filled.interrupts = self.publish_all();
        }
        filled
    }

    /// Looks up the buffers of the next burst, so that translations that are missing are requested before packets for them arrive.
    #[inline(never)]
    pub fn request_ahead(&self) {
        if self.invalid.is_some_and(|why| why != RingError::Untranslated) {
            return;
        }
        let n = self.layout.offered(self.next).unwrap_or(0);
        // Invalid data is reported by the burst that uses it.
        let _ = self.read_burst(&self.cursor(n), n, Direction::ToGuest, &mut Burst::new(), |_, _| {});
    }

    /// Sends packets in bursts of at most [`BURST`], until the guest has too few buffers.
    #[inline(always)]
    fn fill_all<P: Packet, const DEFER_FIRST: bool>(
        &mut self,
        items: &[P],
        deferred_first: &mut DeferredFirst,
        filled: &mut FillResult,
        sent: &mut impl FnMut(&[u8], usize),
    ) -> Result<(), RingError> {
        for items in items.chunks(BURST) {
            let left = self.offered_for(items.len() as u16)?;
            if left == 0 {
                break;
            }
            let (before, mut cursor) = (filled.handled, self.cursor(left));
            if DEFER_FIRST {
                cursor.deferred_first = *deferred_first;
            }
            let put = self.fill_burst::<P, DEFER_FIRST>(items, &mut cursor, filled, sent);
            if DEFER_FIRST {
                *deferred_first = cursor.deferred_first;
            }
            self.end(&cursor);
            self.set_known_available(&cursor);
            put?;
            if filled.handled < before + items.len() {
                break;
            }
        }
        // The next burst reads these descriptors. The guest wrote them long ago, so the prefetch does not compete with its stores.
        self.prefetch_next(self.known_available());
        Ok(())
    }

    /// Copies packets, at most [`BURST`], into the available chains.
    #[inline(always)]
    fn fill_burst<P: Packet, const DEFER_FIRST: bool>(
        &self,
        items: &[P],
        cursor: &mut Cursor,
        filled: &mut FillResult,
        sent: &mut impl FnMut(&[u8], usize),
    ) -> Result<(), RingError> {
        self.layout.prefetch_end(self.next, self.has(feature::EVENT_IDX));
        let mut burst = Burst::new();
        let n = cursor.left.min(items.len() as u16);
        self.read_burst(cursor, n, Direction::ToGuest, &mut burst, |at, part| {
            part.prefetch_first_for_write(HEADER, items.get(at).map_or(0, |item| HEADER + item.len()));
        })?;
        let ready = write_headers(items, &burst);
        let (first, rest) = items.split_at(ready);
        for (at, item) in first.iter().enumerate() {
            let bytes = item.head();
            // Prefetch only one long packet ahead: the lines of more packets would evict each other from the cache.
            if item.len() > 2 * CACHE_LINE {
                burst.buffer(at + 1).prefetch_write(2 * CACHE_LINE..item.len().min(AHEAD));
                first.get(at + 1).and_then(P::frame).into_iter().for_each(|next| prefetch_tail(next, AHEAD));
            }
            burst.buffer(at).skip(HEADER).write(bytes);
            if item.len() > 2 * CACHE_LINE
                && let Some(frame) = item.frame()
            {
                write_tail(frame, burst.buffer(at));
            }
            sent(bytes, item.len());
        }
        let mut position = cursor.next;
        self.begin_used::<DEFER_FIRST>(cursor, (position, ready as u16), false);
        for (at, item) in first.iter().enumerate() {
            let len = (HEADER + item.len()) as u32;
            self.put_used::<DEFER_FIRST>(cursor, position, burst.head(at), len);
            position = self.layout.after(position, 1);
        }
        filled.handled += ready;
        self.fill_rest::<P, DEFER_FIRST>(rest, (position, ready), &burst, cursor, filled, sent)
    }

    /// Must be called before buffers of `n` descriptors from `position` on are marked as used. See [`Layout::begin_used`].
    #[inline(always)]
    fn begin_used<const DEFER_FIRST: bool>(
        &self,
        cursor: &Cursor,
        (position, n): (u16, u16),
        together: bool,
    ) {
        if DEFER_FIRST {
            return self.layout.begin_deferred(cursor.deferred_first.position, position, n);
        }
        if L::PACKED {
            held_buffers::release();
        }
        self.layout.begin_used(position, n, together);
    }

    /// Marks a buffer with a packet as used. With `DEFER_FIRST`, the first buffer of the call is only remembered: the caller marks it
    /// last, and with it all packets become visible.
    #[inline(always)]
    fn put_used<const DEFER_FIRST: bool>(&self, cursor: &mut Cursor, position: u16, id: u16, len: u32) {
        if DEFER_FIRST && position == cursor.deferred_first.position {
            cursor.deferred_first.used = Some((id, len));
        } else {
            self.layout.put_used(position, id, len);
        }
    }

    /// Sends the rest of a burst, whose first packet does not fit one buffer. `at`: number of entries of `burst` that are used;
    /// `position`: the ring position after them.
    #[inline(never)]
    fn fill_rest<P: Packet, const DEFER_FIRST: bool>(
        &self,
        items: &[P],
        (mut position, mut at): (u16, usize),
        burst: &Burst<'_>,
        cursor: &mut Cursor,
        filled: &mut FillResult,
        sent: &mut impl FnMut(&[u8], usize),
    ) -> Result<(), RingError> {
        let mut outcome = Ok(Outcome::Sent);
        for item in items {
            outcome = self.fill_chains::<P, DEFER_FIRST>(item, (&mut position, &mut at), cursor, burst);
            match outcome {
                Ok(Outcome::Sent) => sent(item.head(), item.len()),
                Ok(Outcome::TooLong) => filled.too_long += 1,
                Ok(Outcome::Full) | Err(_) => break,
            }
            filled.handled += 1;
        }
        cursor.advance(position, at as u16);
        outcome.map(|_| ())
    }

    /// Copies one packet into as many chains as it needs: first the entries of `burst` from `at` on, which were read before, then others.
    /// Adds the used entries to `at` and `position`.
    ///
    /// The guest may have made more chains available since the index was last read, because that read only ensured one chain for each
    /// packet. So the index is read again before the ring counts as full. Otherwise a long packet could not be sent until short packets
    /// had used the known chains.
    #[inline(never)]
    fn fill_chains<P: Packet, const DEFER_FIRST: bool>(
        &self,
        item: &P,
        (position, at): (&mut u16, &mut usize),
        cursor: &mut Cursor,
        burst: &Burst<'_>,
    ) -> Result<Outcome, RingError> {
        let (mut end, mut slots, header_words) = (*position, 0u16, item.header());
        let header_len = self.header();
        let needed = header_len + item.len();
        let (mut parts, mut room) = (Parts::new(), 0usize);
        // Position, buffer id and length of each chain.
        let mut taken = ArrayVec::<(u16, u16, u32), CHAINS_MAX>::new();
        let mut last_region = cursor.last_region;
        while room < needed {
            let used = *at + taken.len();
            if used >= usize::from(cursor.left) {
                // A guest may lower its index, which no driver does: `left` must not fall below the entries already used.
                cursor.left = self.layout.offered(cursor.next)?.max(cursor.left);
            }
            if used >= usize::from(cursor.left) || taken.is_full() {
                return Ok(Outcome::Full);
            }
            let first = match burst.get(used) {
                Some(entry) => Some((entry.head, *entry.first)),
                None => self.entry(end)?,
            };
            let Some(first) = first else { return Ok(Outcome::Full) };
            let chain = self.walk(Direction::ToGuest).chain(end, first, &mut parts, &mut last_region)?;
            room += chain.len as usize;
            slots = slots.saturating_add(chain.slots);
            if slots > self.layout.size() {
                return Err(RingError::Index);
            }
            taken.push((end, chain.id, chain.len));
            end = self.layout.after(end, chain.slots);
            if room < needed && !self.has(feature::MRG_RXBUF) {
                return Ok(Outcome::TooLong);
            }
        }
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&header_words.0.to_ne_bytes());
        header[8..].copy_from_slice(&header_words.1.to_ne_bytes());
        header[vnet::LEN..].copy_from_slice(&(taken.len() as u16).to_le_bytes());
        scatter(&parts, &header[..header_len], item);
        if let Some(log) = &self.eventfds_and_log.log {
            // Log only the bytes that are written: the guest's buffers may have up to 4 GB, which are a million pages.
            let mut left = needed;
            for part in &parts {
                let len = part.len().min(left);
                let address = self.layout.memory().address_of(part);
                address.into_iter().for_each(|at| log.dirty.mark(at, len as u64));
                left -= len;
            }
        }
        drop(parts);
        let mut rest = needed as u32;
        for (_, _, len) in &mut taken {
            *len = rest.min(*len);
            rest -= *len;
        }
        // The first buffer is marked as used last (`together`): a guest that sees it expects the other buffers of the packet.
        self.begin_used::<DEFER_FIRST>(cursor, (*position, slots), true);
        for (position, id, len) in taken.iter().rev() {
            self.put_used::<DEFER_FIRST>(cursor, *position, *id, *len);
        }
        (*position, *at) = (end, *at + taken.len());
        cursor.last_region = last_region;
        Ok(Outcome::Sent)
    }
}

/// Writes the headers of the packets that fit one buffer each, and the first and last bytes of short packets. Stops at the first packet
/// that does not fit, and returns the number of packets before it.
///
/// The first cache line of a buffer is often in the cache of the guest's core, too. Then a prefetch for writing has no effect, and the
/// first store waits until that core has given up the line. Storing to all buffers first lets these waits overlap.
#[inline(always)]
fn write_headers<P: Packet>(items: &[P], burst: &Burst<'_>) -> usize {
    let fits = |(at, item): &(usize, &P)| {
        let (len, buffer) = (item.len(), burst.buffer(*at));
        let fits = buffer.len() >= HEADER + len && buffer.set_header(item.header());
        if fits && len <= 2 * CACHE_LINE {
            buffer.skip(HEADER).write_ends(item.head());
        }
        fits
    };
    items.iter().enumerate().take_while(fits).count()
}

/// Writes the header and then the packet into the parts.
#[inline(always)]
fn scatter(parts: &[Part<'_>], header: &[u8], item: &impl Packet) {
    let mut to = Rest { part: Part::EMPTY, parts };
    to.write(header);
    to.write(item.head());
    let (mut left, mut n) = (item.len() - item.head().len(), 0);
    while left > 0
        && let Some(piece) = item.frame().and_then(|frame| frame.piece(&GUEST_MEMORY, n))
    {
        let len = piece.len.min(left);
        // SAFETY: the piece is readable: the frame still holds its lease, because nothing has used the frame since `frame.piece`.
        unsafe { to.write_guest_piece(Piece { len, ..piece }) };
        (left, n) = (left - len, n + 1);
    }
}

/// Parts that are filled in order: the unfilled rest of one part, and the parts after it.
struct Rest<'p, 'm> {
    part: Part<'m>,
    parts: &'p [Part<'m>],
}

impl<'m> Rest<'_, 'm> {
    /// The memory for the next bytes; `None`: all parts are full.
    #[inline]
    fn next_part(&mut self) -> Option<Part<'m>> {
        if self.part.len() == 0 {
            (self.part, self.parts) = self.parts.split_first().map(|(part, parts)| (*part, parts))?;
        }
        Some(self.part)
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut bytes = bytes;
        while !bytes.is_empty()
            && let Some(part) = self.next_part()
        {
            let n = part.write(bytes);
            (bytes, self.part) = (&bytes[n..], part.skip(n));
        }
    }

    /// Copies a piece of a frame's tail.
    ///
    /// # Safety
    ///
    /// The piece is readable.
    unsafe fn write_guest_piece(&mut self, piece: Piece) {
        let Piece { mut at, mut len } = piece;
        while len > 0
            && let Some(part) = self.next_part()
        {
            // SAFETY: the caller guarantees that the piece is readable.
            let n = unsafe { part.write_guest_piece(Piece { at, len }) };
            (at, len, self.part) = (at.wrapping_add(n), len - n, part.skip(n));
        }
    }
}
