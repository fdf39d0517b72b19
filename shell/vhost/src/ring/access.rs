//! The words of a split ring in guest memory.
//!
//! [`RingMemory`] is made from addresses that were translated and checked for the ring's whole length and alignment, and
//! keeps the memory mapped. All accesses are atomic loads and stores, with an index that is reduced to the ring's size.

use crate::memory::GuestMemory;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

/// Addresses of a ring in the front-end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub descriptors: u64,
    pub used: u64,
    pub available: u64,
}

/// One descriptor, as it was read: two words. The fields are extracted where they are used. Storing them one by one
/// would make the processor wait when they are copied together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub address: u64,
    rest: u64,
}

impl Descriptor {
    pub const BYTES: usize = 16;
    pub const NEXT: u16 = 1;
    pub const WRITE: u16 = 2;
    pub const INDIRECT: u16 = 4;

    /// From its two words.
    #[inline]
    pub fn from_words(address: u64, rest: u64) -> Descriptor {
        Descriptor { address, rest }
    }

    #[inline]
    pub fn len(&self) -> u32 {
        self.rest as u32
    }

    #[inline]
    pub fn next(&self) -> u16 {
        (self.rest >> 48) as u16
    }

    /// Which of these flags it has.
    #[inline]
    pub fn flags(&self, of: u16) -> u16 {
        (self.rest >> 32) as u16 & of
    }

    #[inline]
    pub fn has(&self, flag: u16) -> bool {
        self.flags(flag) != 0
    }
}

/// `VRING_AVAIL_F_NO_INTERRUPT`
const NO_INTERRUPT: u16 = 1;
/// `VRING_USED_F_NO_NOTIFY`
const NO_NOTIFY: u16 = 1;
/// Words of the available and the used ring before their entries: flags and index.
const HEAD_WORDS: usize = 2;

/// A split ring.
#[derive(Debug)]
pub(crate) struct RingMemory {
    descriptors: *const AtomicU64,
    available: *const AtomicU16,
    used: *const AtomicU32,
    size: u16,
    memory: Arc<GuestMemory>,
}

// SAFETY: the pointers lead into shared mappings that `memory` keeps, and are used for atomic accesses only.
unsafe impl Send for RingMemory {}

impl RingMemory {
    /// `None`: a part of the ring is not in the guest's memory, or not aligned, or its size is not a power of two. The
    /// event indexes are accessed only if `event_index`.
    pub fn new(memory: &Arc<GuestMemory>, at: Addresses, size: u16, event_index: bool) -> Option<RingMemory> {
        let n = u64::from(size);
        // Flags, index, entries, and the event index if it was negotiated.
        let event = if event_index { 2 } else { 0 };
        let (available, used) = (4 + 2 * n + event, 4 + 8 * n + event);
        let part = |address, len, align| {
            let start = memory.at_user_address(address, len)?.start();
            (start.addr() % align == 0).then_some(start)
        };
        let ring = RingMemory {
            descriptors: part(at.descriptors, 16 * n, 16)?.cast(),
            available: part(at.available, available, 2)?.cast(),
            used: part(at.used, used, 4)?.cast(),
            size,
            memory: Arc::clone(memory),
        };
        size.is_power_of_two().then_some(ring)
    }

    #[inline]
    pub fn memory(&self) -> &GuestMemory {
        &self.memory
    }

    /// The same, for who keeps it.
    #[inline]
    pub fn shared_memory(&self) -> &Arc<GuestMemory> {
        &self.memory
    }

    #[inline]
    pub fn size(&self) -> u16 {
        self.size
    }

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
    pub fn available_index(&self) -> u16 {
        self.available_word(1).load(Ordering::Acquire)
    }

    /// The descriptor that entry `index` offers, not checked.
    #[inline]
    pub fn available(&self, index: u16) -> u16 {
        self.available_word(HEAD_WORDS + self.slot(index)).load(Ordering::Relaxed)
    }

    /// Descriptor `n`; `None`: it is beyond the ring.
    #[inline]
    pub fn descriptor(&self, n: u16) -> Option<Descriptor> {
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
    pub fn prefetch(&self, n: u16) {
        cpu::prefetch_at(self.descriptors.wrapping_add(2 * usize::from(n)));
    }

    /// Prefetches what the end of a burst reads and writes: the field by which the guest suppresses interrupts, and the used ring from
    /// entry `index` on.
    #[inline]
    pub fn prefetch_end(&self, index: u16, event_index: bool) {
        let wish = if event_index { HEAD_WORDS + usize::from(self.size) } else { 0 };
        cpu::prefetch_at(self.available.wrapping_add(wish));
        cpu::prefetch_write_at(self.used);
        cpu::prefetch_write_at(self.used.wrapping_add(1 + 2 * self.slot(index)));
    }

    /// The index that the used ring has in guest memory.
    pub fn used_index(&self) -> u16 {
        self.used_half(1).load(Ordering::Relaxed)
    }

    /// Writes an entry of the used ring. The guest sees it after [`RingMemory::publish`].
    #[inline]
    pub fn put_used(&self, index: u16, id: u16, len: u32) {
        let slot = 1 + 2 * self.slot(index);
        self.used_word(slot).store(u32::from(id), Ordering::Relaxed);
        self.used_word(slot + 1).store(len, Ordering::Relaxed);
    }

    /// Shows the guest all entries before `index`.
    #[inline]
    pub fn publish(&self, index: u16) {
        self.used_half(1).store(index, Ordering::Release);
    }

    /// Whether the guest wants an interrupt for entries from `before` to `now`; `event_index`: it was negotiated.
    #[inline]
    pub fn wants_interrupt(&self, before: Option<u16>, now: u16, event_index: bool) -> bool {
        // The guest must see the entries before this thread reads whether it wants an interrupt: otherwise it could sleep with
        // entries to handle.
        fence(Ordering::SeqCst);
        if !event_index {
            return self.available_word(0).load(Ordering::Relaxed) & NO_INTERRUPT == 0;
        }
        let event = self.available_word(HEAD_WORDS + usize::from(self.size)).load(Ordering::Relaxed);
        before.is_none_or(|before| now.wrapping_sub(event).wrapping_sub(1) < now.wrapping_sub(before))
    }

    /// Asks the guest to kick when it offers entry `next`, or not to kick.
    pub fn ask_for_kicks(&self, next: Option<u16>, event_index: bool) {
        if let (Some(next), true) = (next, event_index) {
            self.used_half(4 * usize::from(self.size) + HEAD_WORDS).store(next, Ordering::Relaxed);
        } else if !event_index {
            let flags = if next.is_some() { 0 } else { NO_NOTIFY };
            self.used_half(0).store(flags, Ordering::Relaxed);
        }
        // The guest must see the request for kicks before the worker checks the ring once more: otherwise an entry could be missed.
        fence(Ordering::SeqCst);
    }
}
