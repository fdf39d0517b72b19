//! The words of a split ring in guest memory.
//!
//! [`Split`] is created from addresses that were translated and checked for the ring's whole length and alignment, and it keeps the
//! memory mapped. All accesses are atomic loads and stores, with indexes modulo the ring's size.

use super::RingError;
use super::descriptor::{Addresses, Descriptor};
use super::inflight::InflightRegion;
use super::layout::Layout;
use crate::address_space::AddressSpace;
use crate::dirty::DirtyLog;
use crate::iotlb::Access;
use crate::memory::{CACHE_LINE, GuestMemory};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

/// `VRING_AVAIL_F_NO_INTERRUPT`
const NO_INTERRUPT: u16 = 1;
/// `VRING_USED_F_NO_NOTIFY`
const NO_NOTIFY: u16 = 1;
/// 16-bit words of the available and the used ring before their entries: flags and index.
const HEAD_WORDS: usize = 2;
/// Number of descriptors in a cache line.
const PER_LINE: u16 = (CACHE_LINE / Descriptor::BYTES) as u16;

/// A split ring.
#[derive(Debug)]
pub(crate) struct Split<S = Arc<GuestMemory>> {
    descriptors: *const AtomicU64,
    available: *const AtomicU16,
    used: *const AtomicU32,
    size: u16,
    space: S,
    /// The ring's region of the inflight area, if there is one. It repeats the index of the used ring.
    region: Option<InflightRegion>,
}

// SAFETY: the pointers point into shared mappings that `space` keeps mapped, and are used for atomic accesses only.
unsafe impl<S: Send> Send for Split<S> {}

impl<S: AddressSpace> Split<S> {
    #[inline]
    fn slot(&self, index: u16) -> usize {
        usize::from(index & (self.size - 1))
    }

    /// 16-bit word `n` of the available ring: flags, index, entries, event index.
    #[inline]
    fn available_word(&self, n: usize) -> &AtomicU16 {
        debug_assert!(n < usize::from(self.size) + HEAD_WORDS + 1);
        // SAFETY: the available ring is mapped for `size` entries and up to three more words, and is aligned for 16-bit words. The last
        // word, the event index, is accessed only if `new` checked it (`event_index`).
        unsafe { &*self.available.add(n) }
    }

    /// 32-bit word `n` of the used ring: flags and index, then two words for each entry.
    #[inline]
    fn used_word(&self, n: usize) -> &AtomicU32 {
        debug_assert!(n < 2 * usize::from(self.size) + 1);
        // SAFETY: the used ring is mapped for one 32-bit word and `size` entries of 8 bytes, and is aligned for 32-bit words.
        unsafe { &*self.used.add(n) }
    }

    /// 16-bit word `n` of the used ring: flags, index, and after the entries the event index.
    #[inline]
    fn used_half(&self, n: usize) -> &AtomicU16 {
        debug_assert!(n < HEAD_WORDS || n == 4 * usize::from(self.size) + HEAD_WORDS);
        // SAFETY: as in `used_word`; an entry has four 16-bit words. The word after the entries, the event index, is accessed only if
        // `new` checked it (`event_index`). No word is accessed in two sizes: this function accesses flags, index and event index,
        // `used_word` accesses entries.
        unsafe { &*self.used.cast::<AtomicU16>().add(n) }
    }

    /// The index after the last available entry. Acquire: entries and buffers that the guest wrote before are visible.
    #[inline]
    fn available_index(&self) -> u16 {
        self.available_word(1).load(Ordering::Acquire)
    }

    /// The descriptor number in available entry `index`, not checked.
    #[inline]
    fn available_head(&self, index: u16) -> u16 {
        self.available_word(HEAD_WORDS + self.slot(index)).load(Ordering::Relaxed)
    }

    /// Reads descriptor `n`; `None`: `n` is beyond the ring.
    #[inline]
    fn descriptor(&self, n: u16) -> Option<Descriptor> {
        if n >= self.size {
            return None;
        }
        // SAFETY: the table is mapped for `size` descriptors of two words, `n` is less than `size`, and the words are aligned.
        let words = unsafe {
            (&*self.descriptors.add(2 * usize::from(n)), &*self.descriptors.add(2 * usize::from(n) + 1))
        };
        Some(Descriptor::from_words(words.0.load(Ordering::Relaxed), words.1.load(Ordering::Relaxed)))
    }

    /// Prefetches descriptor `n`.
    #[inline]
    fn prefetch(&self, n: u16) {
        cpu::prefetch_at(self.descriptors.wrapping_add(2 * usize::from(n)));
    }

    /// The index of the used ring in guest memory.
    fn used_index(&self) -> u16 {
        self.used_half(1).load(Ordering::Relaxed)
    }
}

impl<S: AddressSpace> Layout for Split<S> {
    const PACKED: bool = false;

    type Space = S;

    fn new(space: &S, at: Addresses, size: u16, event_index: bool) -> Result<Option<Split<S>>, RingError> {
        let n = u64::from(size);
        // Each ring has flags, an index, entries, and an event index if that was negotiated.
        let event = if event_index { 2 } else { 0 };
        let (available, used) = (4 + 2 * n + event, 4 + 8 * n + event);
        let part = |address, len, align, access| {
            let part = space.ring_part(address, len, access)?;
            Ok(part.map(|part| part.start()).filter(|start| start.addr() % align == 0))
        };
        // All are looked up before any error is returned, so that missing translations are requested together.
        let parts = [
            part(at.descriptors, 16 * n, 16, Access::READ),
            part(at.available, available, 2, Access::READ),
            part(at.used, used, 4, Access::BOTH),
        ];
        let [descriptors, available, used] = parts;
        let parts = (descriptors?, available?, used?);
        let (Some(descriptors), Some(available), Some(used)) = parts else { return Ok(None) };
        let ring = Split {
            descriptors: descriptors.cast(),
            available: available.cast(),
            used: used.cast(),
            size,
            space: space.clone(),
            region: None,
        };
        Ok(size.is_power_of_two().then_some(ring))
    }

    #[inline(always)]
    fn space(&self) -> &S {
        &self.space
    }

    fn space_mut(&mut self) -> &mut S {
        &mut self.space
    }

    #[inline]
    fn supports_leases(&self) -> bool {
        !S::TRANSLATES && self.region.is_none()
    }

    #[inline]
    fn has_inflight_area(&self) -> bool {
        self.region.is_some()
    }

    #[inline]
    fn size(&self) -> u16 {
        self.size
    }

    /// The ring continues where its used ring ends, even if an earlier switch was killed. Packets whose used entries the killed
    /// switch had not [published](super::publish_used) are received again: the last few, or those of the last burst. A `base` from the front-end
    /// may be outdated.
    fn resume(&self, _: Option<u16>) -> Option<u16> {
        Some(self.used_index())
    }

    fn attach_inflight(&mut self, region: InflightRegion, position: u16) {
        region.set_used_index(position);
        region.initialize();
        self.region = Some(region);
    }

    /// Makes descriptors that another back-end left in flight available again, oldest first. The available ring still has one slot for
    /// each of these descriptors, from the used index on. The driver does not write these slots until the descriptors are used, so this
    /// function may overwrite them with the numbers of the descriptors. (The other back-end may have used descriptors in another order, so
    /// the old numbers may be wrong.)
    fn recover(&self, region: &InflightRegion) -> Option<u16> {
        let used = self.used_index();
        let heads = region.take_in_flight(used)?;
        if heads.len() > usize::from(self.offered(used).ok()?) {
            return None;
        }
        for (head, n) in heads.into_iter().zip(0..) {
            let slot = HEAD_WORDS + self.slot(used.wrapping_add(n));
            self.available_word(slot).store(head, Ordering::Relaxed);
        }
        Some(used)
    }

    #[inline(always)]
    fn after(&self, position: u16, slots: u16) -> u16 {
        position.wrapping_add(slots)
    }

    #[inline]
    fn offered(&self, position: u16) -> Result<u16, RingError> {
        let n = self.available_index().wrapping_sub(position);
        if n > self.size { Err(RingError::Index) } else { Ok(n) }
    }

    fn available(&self, position: u16) -> Result<u16, RingError> {
        self.offered(position)
    }

    #[inline(always)]
    fn read_heads(&self, position: u16, heads: &mut [u16]) {
        let mut line = u16::MAX;
        for (head, i) in heads.iter_mut().zip(0..) {
            *head = self.available_head(position.wrapping_add(i));
            // Drivers use descriptors in order, so most descriptors share a cache line with the one before.
            if *head / PER_LINE != line {
                line = *head / PER_LINE;
                self.prefetch(*head);
            }
        }
    }

    #[inline(always)]
    fn first(&self, _: u16, _: u16, head: &mut u16) -> Result<Option<Descriptor>, RingError> {
        self.descriptor(*head).map(Some).ok_or(RingError::Head)
    }

    #[inline]
    fn following(&self, _: u16, _: u16, before: &Descriptor) -> Option<Descriptor> {
        self.descriptor(before.next())
    }

    #[inline]
    fn in_table(address: u64, rest: u64) -> Descriptor {
        Descriptor::from_words(address, rest)
    }

    /// If the guest has not written these entries yet, they contain the numbers of the entries one ring size earlier, and drivers mostly
    /// use the same descriptors again. Drivers use descriptors in order, so one prefetch for each cache line is enough.
    #[inline]
    fn prefetch_next(&self, position: u16, n: u16) {
        for i in (0..n).step_by(usize::from(PER_LINE)) {
            self.prefetch(self.available_head(position.wrapping_add(i)));
        }
    }

    #[inline]
    fn prefetch_end(&self, position: u16, event_index: bool) {
        let event_index_at = if event_index { HEAD_WORDS + usize::from(self.size) } else { 0 };
        cpu::prefetch_at(self.available.wrapping_add(event_index_at));
        cpu::prefetch_write_at(self.used);
        cpu::prefetch_write_at(self.used.wrapping_add(1 + 2 * self.slot(position)));
    }

    #[inline(always)]
    fn begin_used(&self, _: u16, _: u16, _: bool) {}

    #[inline]
    fn put_used(&self, position: u16, id: u16, len: u32) {
        let slot = 1 + 2 * self.slot(position);
        self.used_word(slot).store(u32::from(id), Ordering::Relaxed);
        self.used_word(slot + 1).store(len, Ordering::Relaxed);
    }

    #[inline]
    fn publish(&self, position: u16) {
        self.used_half(1).store(position, Ordering::Release);
        if let Some(region) = &self.region {
            region.set_used_index(position);
        }
    }

    #[inline]
    fn needs_interrupt(&self, before: Option<u16>, now: u16, event_index: bool) -> bool {
        // The guest must see the used entries before this thread reads whether the guest requests an interrupt. Otherwise the guest
        // could sleep although it has entries to handle.
        fence(Ordering::SeqCst);
        if !event_index {
            return self.available_word(0).load(Ordering::Relaxed) & NO_INTERRUPT == 0;
        }
        let event = self.available_word(HEAD_WORDS + usize::from(self.size)).load(Ordering::Relaxed);
        before.is_none_or(|before| now.wrapping_sub(event).wrapping_sub(1) < now.wrapping_sub(before))
    }

    fn request_kicks(&self, next: Option<u16>, event_index: bool) {
        if let (Some(next), true) = (next, event_index) {
            self.used_half(4 * usize::from(self.size) + HEAD_WORDS).store(next, Ordering::Relaxed);
        } else if !event_index {
            let flags = if next.is_some() { 0 } else { NO_NOTIFY };
            self.used_half(0).store(flags, Ordering::Relaxed);
        }
        // The guest must see the request for kicks before the worker checks the ring once more. Otherwise an entry could be missed.
        fence(Ordering::SeqCst);
    }

    #[cold]
    fn mark_dirty(&self, log: &DirtyLog, used: Option<u64>, before: u16, now: u16) {
        let Some(used) = used else { return };
        log.mark(used, 4);
        for n in 0..now.wrapping_sub(before) {
            log.mark(used.saturating_add(4 + 8 * self.slot(before.wrapping_add(n)) as u64), 8);
        }
    }
}
