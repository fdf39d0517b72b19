//! The words of a split ring in guest memory.
//!
//! [`Split`] is made from addresses that were translated and checked for the ring's whole length and alignment, and
//! keeps the memory mapped. All accesses are atomic loads and stores, with an index that is reduced to the ring's size.

use super::InvalidRing;
use super::descriptor::{Addresses, Descriptor};
use super::inflight::Region;
use super::layout::Layout;
use crate::dirty::DirtyLog;
use crate::memory::{GuestMemory, LINE};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

/// `VRING_AVAIL_F_NO_INTERRUPT`
const NO_INTERRUPT: u16 = 1;
/// `VRING_USED_F_NO_NOTIFY`
const NO_NOTIFY: u16 = 1;
/// Words of the available and the used ring before their entries: flags and index.
const HEAD_WORDS: usize = 2;
/// Descriptors in a cache line.
const PER_LINE: u16 = (LINE / Descriptor::BYTES) as u16;

/// A split ring.
#[derive(Debug)]
pub(crate) struct Split {
    descriptors: *const AtomicU64,
    available: *const AtomicU16,
    used: *const AtomicU32,
    size: u16,
    memory: Arc<GuestMemory>,
    /// Where the index of the used ring is repeated.
    region: Option<Region>,
}

// SAFETY: the pointers lead into shared mappings that `memory` keeps, and are used for atomic accesses only.
unsafe impl Send for Split {}

impl Split {
    #[inline]
    fn slot(&self, index: u16) -> usize {
        usize::from(index & (self.size - 1))
    }

    #[inline]
    fn available_word(&self, n: usize) -> &AtomicU16 {
        debug_assert!(n < usize::from(self.size) + HEAD_WORDS + 1);
        // SAFETY: the ring is mapped for its length, `size` entries and three words, and is aligned for this type.
        unsafe { &*self.available.add(n) }
    }

    /// 32-bit word `n` of the used ring: flags and index, then two words for each entry.
    #[inline]
    fn used_word(&self, n: usize) -> &AtomicU32 {
        debug_assert!(n < 2 * usize::from(self.size) + 1);
        // SAFETY: as above: `size` entries of 8 bytes after one word.
        unsafe { &*self.used.add(n) }
    }

    /// 16-bit word `n` of the used ring: flags, index, and after the entries the event index.
    #[inline]
    fn used_half(&self, n: usize) -> &AtomicU16 {
        debug_assert!(n < HEAD_WORDS || n == 4 * usize::from(self.size) + HEAD_WORDS);
        // SAFETY: as above. The entries have 4 such words each. No word is accessed in two sizes.
        unsafe { &*self.used.cast::<AtomicU16>().add(n) }
    }

    /// The index after the last entry that the guest offers (acquire: entries and buffers that it wrote before are visible).
    #[inline]
    fn available_index(&self) -> u16 {
        self.available_word(1).load(Ordering::Acquire)
    }

    /// The descriptor that entry `index` offers, not checked.
    #[inline]
    fn available(&self, index: u16) -> u16 {
        self.available_word(HEAD_WORDS + self.slot(index)).load(Ordering::Relaxed)
    }

    /// Descriptor `n`; `None`: it is beyond the ring.
    #[inline]
    fn descriptor(&self, n: u16) -> Option<Descriptor> {
        if n >= self.size {
            return None;
        }
        // SAFETY: the table is mapped for `size` descriptors of two words, and aligned.
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

    /// The index that the used ring has in guest memory.
    fn used_index(&self) -> u16 {
        self.used_half(1).load(Ordering::Relaxed)
    }
}

impl Layout for Split {
    const PACKED: bool = false;

    fn new(memory: &Arc<GuestMemory>, at: Addresses, size: u16, event_index: bool) -> Option<Split> {
        let n = u64::from(size);
        // Flags, index, entries, and the event index if it was negotiated.
        let event = if event_index { 2 } else { 0 };
        let (available, used) = (4 + 2 * n + event, 4 + 8 * n + event);
        let part = |address, len, align| {
            let start = memory.at_user_address(address, len)?.start();
            (start.addr() % align == 0).then_some(start)
        };
        let ring = Split {
            descriptors: part(at.descriptors, 16 * n, 16)?.cast(),
            available: part(at.available, available, 2)?.cast(),
            used: part(at.used, used, 4)?.cast(),
            size,
            memory: Arc::clone(memory),
            region: None,
        };
        size.is_power_of_two().then_some(ring)
    }

    #[inline]
    fn memory(&self) -> &Arc<GuestMemory> {
        &self.memory
    }

    #[inline]
    fn lends(&self) -> bool {
        self.region.is_none()
    }

    #[inline]
    fn is_noted(&self) -> bool {
        self.region.is_some()
    }

    #[inline]
    fn size(&self) -> u16 {
        self.size
    }

    /// The ring continues where its used ring ends: buffers are in use during a burst only, so after a switch that was
    /// killed no other index is right.
    fn resume(&self, _: Option<u16>) -> Option<u16> {
        Some(self.used_index())
    }

    fn keep(&mut self, region: Region, place: u16) {
        region.set_used_index(place);
        region.use_it();
        self.region = Some(region);
    }

    /// Descriptors that another back-end left in flight are offered again, oldest first. The slots before those that it had
    /// not taken yet are the device's until these descriptors are given back, whatever order they had there.
    fn recover(&self, region: &Region) -> Option<u16> {
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
    fn after(&self, place: u16, slots: u16) -> u16 {
        place.wrapping_add(slots)
    }

    #[inline]
    fn offered(&self, place: u16) -> Result<u16, InvalidRing> {
        let n = self.available_index().wrapping_sub(place);
        if n > self.size { Err(InvalidRing::Index) } else { Ok(n) }
    }

    fn waiting(&self, place: u16) -> Result<u16, InvalidRing> {
        self.offered(place)
    }

    #[inline(always)]
    fn read_heads(&self, place: u16, heads: &mut [u16]) {
        let mut line = u16::MAX;
        for (head, i) in heads.iter_mut().zip(0..) {
            *head = self.available(place.wrapping_add(i));
            // Drivers use descriptors in order: most share a line with the one before.
            if *head / PER_LINE != line {
                line = *head / PER_LINE;
                self.prefetch(*head);
            }
        }
    }

    #[inline(always)]
    fn first(&self, _: u16, _: u16, head: &mut u16) -> Result<Option<Descriptor>, InvalidRing> {
        self.descriptor(*head).map(Some).ok_or(InvalidRing::Head)
    }

    #[inline]
    fn following(&self, _: u16, _: u16, before: &Descriptor) -> Option<Descriptor> {
        self.descriptor(before.next())
    }

    #[inline]
    fn in_table(address: u64, rest: u64) -> Descriptor {
        Descriptor::from_words(address, rest)
    }

    /// If the guest has not written these entries yet, they still name the descriptors of the previous round, which drivers mostly use
    /// again. Drivers use descriptors in order, so one address for each cache line is enough.
    #[inline]
    fn prefetch_next(&self, place: u16, n: u16) {
        for i in (0..n).step_by(usize::from(PER_LINE)) {
            self.prefetch(self.available(place.wrapping_add(i)));
        }
    }

    #[inline]
    fn prefetch_end(&self, place: u16, event_index: bool) {
        let wish = if event_index { HEAD_WORDS + usize::from(self.size) } else { 0 };
        cpu::prefetch_at(self.available.wrapping_add(wish));
        cpu::prefetch_write_at(self.used);
        cpu::prefetch_write_at(self.used.wrapping_add(1 + 2 * self.slot(place)));
    }

    #[inline(always)]
    fn begin_used(&self, _: u16, _: u16, _: bool) {}

    #[inline]
    fn put_used(&self, place: u16, id: u16, len: u32) {
        let slot = 1 + 2 * self.slot(place);
        self.used_word(slot).store(u32::from(id), Ordering::Relaxed);
        self.used_word(slot + 1).store(len, Ordering::Relaxed);
    }

    #[inline]
    fn publish(&self, place: u16) {
        self.used_half(1).store(place, Ordering::Release);
        if let Some(region) = &self.region {
            region.set_used_index(place);
        }
    }

    #[inline]
    fn wants_interrupt(&self, before: Option<u16>, now: u16, event_index: bool) -> bool {
        // The guest must see the entries before this thread reads whether it wants an interrupt: otherwise it could sleep with
        // entries to handle.
        fence(Ordering::SeqCst);
        if !event_index {
            return self.available_word(0).load(Ordering::Relaxed) & NO_INTERRUPT == 0;
        }
        let event = self.available_word(HEAD_WORDS + usize::from(self.size)).load(Ordering::Relaxed);
        before.is_none_or(|before| now.wrapping_sub(event).wrapping_sub(1) < now.wrapping_sub(before))
    }

    fn ask_for_kicks(&self, next: Option<u16>, event_index: bool) {
        if let (Some(next), true) = (next, event_index) {
            self.used_half(4 * usize::from(self.size) + HEAD_WORDS).store(next, Ordering::Relaxed);
        } else if !event_index {
            let flags = if next.is_some() { 0 } else { NO_NOTIFY };
            self.used_half(0).store(flags, Ordering::Relaxed);
        }
        // The guest must see the request for kicks before the worker checks the ring once more: otherwise an entry could be missed.
        fence(Ordering::SeqCst);
    }

    #[cold]
    fn log(&self, log: &DirtyLog, used: Option<u64>, before: u16, now: u16) {
        let Some(used) = used else { return };
        log.mark(used, 4);
        for n in 0..now.wrapping_sub(before) {
            log.mark(used.saturating_add(4 + 8 * self.slot(before.wrapping_add(n)) as u64), 8);
        }
    }
}
