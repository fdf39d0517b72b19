//! Puts packets into the buffers that a guest offers: packets that the guest receives.

use super::InvalidRing;
use super::chain::{Direction, Parts};
use super::layout::Layout;
use super::loans::{GUEST, prefetch_tail, write_tail};
use super::split::{AHEAD, BURST, Burst, Cursor, HEADER, Hidden, Ring};
use crate::feature;
use crate::memory::{LINE, Part};
use arrayvec::ArrayVec;
use packet::frame::{Frame, Piece};
use packet::{held, vnet};

/// A packet to be sent.
pub(crate) trait Packet {
    /// Its bytes, without a tail that is absent.
    fn head(&self) -> &[u8];

    /// Its length, with the tail.
    fn len(&self) -> usize;

    /// The frame that has the tail.
    fn frame(&self) -> Option<&Frame>;

    /// The virtio header of a packet in one buffer, in two words.
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

/// A packet with its header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'f> {
    bytes: &'f [u8],
    header: (u64, u32),
    /// The frame that has the bytes, if its tail is absent.
    frame: Option<&'f Frame>,
}

impl<'f> Item<'f> {
    /// A packet without offload requests.
    #[inline]
    pub fn new(bytes: &'f [u8]) -> Item<'f> {
        Item { bytes, header: (0, ONE_BUFFER), frame: None }
    }

    /// A packet that is complete, in a frame.
    #[inline]
    pub fn of(frame: &'f Frame) -> Item<'f> {
        Item { bytes: frame.head(), header: (0, ONE_BUFFER), frame: (!frame.is_whole()).then_some(frame) }
    }

    /// A packet with offload requests for the guest.
    pub fn with(frame: &'f Frame, header: [u8; vnet::LEN]) -> Item<'f> {
        let [a, b, c, d, e, f, g, h, i, j] = header;
        let last = u32::from(u16::from_ne_bytes([i, j])) | ONE_BUFFER;
        Item { header: (u64::from_ne_bytes([a, b, c, d, e, f, g, h]), last), ..Item::of(frame) }
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

/// The number of buffers, in the last word of a header.
const ONE_BUFFER: u32 = 1 << 16;

/// Result for one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Sent,
    /// The guest's buffer is too short, and packets may not be spread over several.
    TooLong,
    /// The guest offers too few buffers.
    Full,
}

/// Result for a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filled {
    /// Number of packets, from the first on, that need not be offered again: sent or too long.
    pub handled: usize,
    /// How many of these did not fit the guest's buffers.
    pub too_long: usize,
    pub interrupts: u64,
}

/// Maximum number of chains for one packet; each holds at least one byte.
const CHAINS_MAX: usize = 280;

impl<L: Layout> Ring<L> {
    /// Puts packets into the guest's buffers until these run out, and calls `sent` for each that was sent, with its bytes
    /// except an absent tail, and its length. What is [`held`] is released before the guest can see the first packet.
    #[inline]
    pub fn fill<P: Packet>(&mut self, items: &[P], mut sent: impl FnMut(&[u8], usize)) -> Filled {
        let mut filled = Filled::default();
        if self.invalid.is_some() {
            return filled;
        }
        let mut hidden = Hidden { place: self.next, used: None };
        // A packed ring shows its packets one by one. If buffers are held, all packets are shown at once. That a ring that is not noted
        // cannot do: after a kill, descriptors would be left that are not in order.
        let put = match L::PACKED && held::any() && self.memory.is_noted() {
            true => self.put_all::<P, true>(items, &mut hidden, &mut filled, &mut sent),
            false => self.put_all::<P, false>(items, &mut hidden, &mut filled, &mut sent),
        };
        if let Err(invalid) = put {
            self.invalid = Some(invalid);
        }
        if filled.handled > filled.too_long {
            held::release();
            if let Some((id, len)) = hidden.used {
                self.memory.put_used(hidden.place, id, len);
            }
            filled.interrupts = self.publish_all();
        }
        filled
    }

    #[inline(always)]
    fn put_all<P: Packet, const HIDES: bool>(
        &mut self,
        items: &[P],
        hidden: &mut Hidden,
        filled: &mut Filled,
        sent: &mut impl FnMut(&[u8], usize),
    ) -> Result<(), InvalidRing> {
        for items in items.chunks(BURST) {
            let left = self.offered_for(items.len() as u16)?;
            if left == 0 {
                break;
            }
            let (before, mut cursor) = (filled.handled, self.cursor(left));
            if HIDES {
                cursor.hidden = *hidden;
            }
            let put = self.put_burst::<P, HIDES>(items, &mut cursor, filled, sent);
            if HIDES {
                *hidden = cursor.hidden;
            }
            self.end(&cursor);
            self.set_known(&cursor);
            put?;
            if filled.handled < before + items.len() {
                break;
            }
        }
        // The next burst reads these descriptors; the guest wrote them long ago, so this core takes their lines without a race.
        self.prefetch_next(self.known());
        Ok(())
    }

    /// Puts packets, at most [`BURST`], into the chains that the guest offers.
    #[inline(always)]
    fn put_burst<P: Packet, const HIDES: bool>(
        &self,
        items: &[P],
        cursor: &mut Cursor,
        filled: &mut Filled,
        sent: &mut impl FnMut(&[u8], usize),
    ) -> Result<(), InvalidRing> {
        self.memory.prefetch_end(self.next, self.has(feature::EVENT_IDX));
        let mut burst = Burst::new();
        let n = cursor.left.min(items.len() as u16);
        self.read_burst(cursor, n, Direction::ToGuest, &mut burst, |at, part| {
            part.prefetch_first_for_write(HEADER, items.get(at).map_or(0, |item| HEADER + item.len()));
        })?;
        let ready = write_headers(items, &burst);
        let (first, rest) = items.split_at(ready);
        for (at, item) in first.iter().enumerate() {
            let bytes = item.head();
            // Prefetch only one long packet ahead: more would evict each other from the cache.
            if item.len() > 2 * LINE {
                burst.whole(at + 1).prefetch_write(2 * LINE..item.len().min(AHEAD));
                first.get(at + 1).and_then(P::frame).into_iter().for_each(|next| prefetch_tail(next, AHEAD));
            }
            burst.whole(at).skip(HEADER).write(bytes);
            if item.len() > 2 * LINE
                && let Some(frame) = item.frame()
            {
                write_tail(frame, burst.whole(at));
            }
            sent(bytes, item.len());
        }
        let mut place = cursor.next;
        self.begin_used::<HIDES>(cursor, (place, ready as u16), false);
        for (at, item) in first.iter().enumerate() {
            let len = (HEADER + item.len()) as u32;
            self.put_used::<HIDES>(cursor, place, burst.head(at), len);
            place = self.memory.after(place, 1);
        }
        filled.handled += ready;
        self.put_others::<P, HIDES>(rest, (place, ready), &burst, cursor, filled, sent)
    }

    /// To be called before packets are put into buffers of `n` descriptors from `place` on. See [`Layout::begin_used`].
    #[inline(always)]
    fn begin_used<const HIDES: bool>(&self, cursor: &Cursor, (place, n): (u16, u16), together: bool) {
        if HIDES {
            return self.memory.begin_hidden(cursor.hidden.place, place, n);
        }
        if L::PACKED {
            held::release();
        }
        self.memory.begin_used(place, n, together);
    }

    /// Gives a buffer with a packet back; `HIDES`: all but the first one of the call, which would show them.
    #[inline(always)]
    fn put_used<const HIDES: bool>(&self, cursor: &mut Cursor, place: u16, id: u16, len: u32) {
        if HIDES && place == cursor.hidden.place {
            cursor.hidden.used = Some((id, len));
        } else {
            self.memory.put_used(place, id, len);
        }
    }

    /// Puts the rest of a burst, whose first packet does not fit one buffer. `at`: number of entries of `burst` that are used;
    /// `place`: the place after them.
    #[inline(never)]
    fn put_others<P: Packet, const HIDES: bool>(
        &self,
        items: &[P],
        (mut place, mut at): (u16, usize),
        burst: &Burst<'_>,
        cursor: &mut Cursor,
        filled: &mut Filled,
        sent: &mut impl FnMut(&[u8], usize),
    ) -> Result<(), InvalidRing> {
        let mut outcome = Ok(Outcome::Sent);
        for item in items {
            outcome = self.put::<P, HIDES>(item, (&mut place, &mut at), cursor, burst);
            match outcome {
                Ok(Outcome::Sent) => sent(item.head(), item.len()),
                Ok(Outcome::TooLong) => filled.too_long += 1,
                Ok(Outcome::Full) | Err(_) => break,
            }
            filled.handled += 1;
        }
        cursor.advance(place, at as u16);
        outcome.map(|_| ())
    }

    /// Puts one packet into as many chains as it needs: first the entries of `burst` from `at` on, which were read before, then others.
    /// Adds the entries that it used to `at` and `place`.
    ///
    /// The guest may have offered more chains since the index was last read, because that read only made sure of one chain for each
    /// packet. So the index is read again before the ring counts as full. Otherwise a long packet could not be sent until short packets
    /// had used the known chains.
    #[inline(never)]
    fn put<P: Packet, const HIDES: bool>(
        &self,
        item: &P,
        (place, at): (&mut u16, &mut usize),
        cursor: &mut Cursor,
        burst: &Burst<'_>,
    ) -> Result<Outcome, InvalidRing> {
        let (mut end, mut slots, header_words) = (*place, 0u16, item.header());
        let header_len = self.header();
        let needed = header_len + item.len();
        let (mut parts, mut room) = (Parts::new(), 0usize);
        // The place of each chain, its number and its length.
        let mut taken = ArrayVec::<(u16, u16, u32), CHAINS_MAX>::new();
        let mut hint = cursor.hint;
        while room < needed {
            let used = *at + taken.len();
            if used >= usize::from(cursor.left) {
                // A guest may lower its index, which no driver does: `left` must not fall below the entries already used.
                cursor.left = self.memory.offered(cursor.next)?.max(cursor.left);
            }
            if used >= usize::from(cursor.left) || taken.is_full() {
                return Ok(Outcome::Full);
            }
            let first = match burst.get(used) {
                Some(entry) => Some((entry.head, *entry.first)),
                None => self.entry(end)?,
            };
            let Some(first) = first else { return Ok(Outcome::Full) };
            let chain = self.walk(Direction::ToGuest).chain(end, first, &mut parts, &mut hint)?;
            room += chain.len as usize;
            slots = slots.saturating_add(chain.slots);
            if slots > self.memory.size() {
                return Err(InvalidRing::Index);
            }
            taken.push((end, chain.id, chain.len));
            end = self.memory.after(end, chain.slots);
            if room < needed && !self.has(feature::MRG_RXBUF) {
                return Ok(Outcome::TooLong);
            }
        }
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&header_words.0.to_ne_bytes());
        header[8..].copy_from_slice(&header_words.1.to_ne_bytes());
        header[vnet::LEN..].copy_from_slice(&(taken.len() as u16).to_le_bytes());
        scatter(&parts, &header[..header_len], item);
        if let Some(log) = &self.wiring.log {
            // Only what is written: the guest offers up to 4 GB, a million pages.
            let mut left = needed;
            for part in &parts {
                let len = part.len().min(left);
                let address = self.memory.memory().address_of(part);
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
        // A guest that sees the first buffer of a packet expects the others.
        self.begin_used::<HIDES>(cursor, (*place, slots), true);
        for (place, id, len) in taken.iter().rev() {
            self.put_used::<HIDES>(cursor, *place, *id, *len);
        }
        (*place, *at) = (end, *at + taken.len());
        cursor.hint = hint;
        Ok(Outcome::Sent)
    }
}

/// Writes the headers of the packets that fit one buffer each, and the first and last bytes of short packets. Stops at the first packet
/// that does not fit, and returns the number of packets before it.
///
/// The first cache line of a buffer is often in the guest's cache too. Then a prefetch for writing has no effect, and the first store
/// waits until the guest's core has given the line up. Storing to all buffers first lets these waits overlap.
#[inline(always)]
fn write_headers<P: Packet>(items: &[P], burst: &Burst<'_>) -> usize {
    let fits = |(at, item): &(usize, &P)| {
        let (len, whole) = (item.len(), burst.whole(*at));
        let fits = whole.len() >= HEADER + len && whole.set_header(item.header());
        if fits && len <= 2 * LINE {
            whole.skip(HEADER).write_ends(item.head());
        }
        fits
    };
    items.iter().enumerate().take_while(fits).count()
}

/// Writes the header, then the packet, into the parts.
#[inline(always)]
fn scatter(parts: &[Part<'_>], header: &[u8], item: &impl Packet) {
    let mut to = Rest { part: Part::EMPTY, parts };
    to.write(header);
    to.write(item.head());
    let (mut left, mut n) = (item.len() - item.head().len(), 0);
    while left > 0
        && let Some(piece) = item.frame().and_then(|frame| frame.piece(&GUEST, n))
    {
        let len = piece.len.min(left);
        // SAFETY: the piece is readable: the frame has not been used since.
        unsafe { to.write_outside(Piece { len, ..piece }) };
        (left, n) = (left - len, n + 1);
    }
}

/// Parts that are filled in order: what is left of one, and those after it.
struct Rest<'p, 'm> {
    part: Part<'m>,
    parts: &'p [Part<'m>],
}

impl<'m> Rest<'_, 'm> {
    /// The place for the next bytes; `None`: all parts are full.
    #[inline]
    fn place(&mut self) -> Option<Part<'m>> {
        if self.part.len() == 0 {
            (self.part, self.parts) = self.parts.split_first().map(|(part, parts)| (*part, parts))?;
        }
        Some(self.part)
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut bytes = bytes;
        while !bytes.is_empty()
            && let Some(place) = self.place()
        {
            let n = place.write(bytes);
            (bytes, self.part) = (&bytes[n..], place.skip(n));
        }
    }

    /// Copies a piece of a frame's tail.
    ///
    /// # Safety
    ///
    /// The piece is readable.
    unsafe fn write_outside(&mut self, piece: Piece) {
        let Piece { mut at, mut len } = piece;
        while len > 0
            && let Some(place) = self.place()
        {
            // SAFETY: the caller's promise.
            let n = unsafe { place.write_outside(Piece { at, len }) };
            (at, len, self.part) = (at.wrapping_add(n), len - n, place.skip(n));
        }
    }
}
