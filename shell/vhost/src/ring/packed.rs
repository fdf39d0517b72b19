//! The words of a packed ring in guest memory.
//!
//! One array of descriptors goes both ways. The guest offers a chain in descriptors that follow each other; the switch
//! gives it back by one descriptor in the place of the first. Two flags of a descriptor say whether it is offered or given
//! back. They are compared with the wrap counter, one bit that changes at each end of the ring. The last word of a descriptor
//! contains these flags, the length and the number of the buffer, so one store offers it or gives it back.
//!
//! Sources: virtio 1.2, 2.8.

use super::InvalidRing;
use super::descriptor::{Addresses, Descriptor};
use super::inflight::{Places, Region, WRAP};
use super::layout::Layout;
use crate::dirty::DirtyLog;
use crate::memory::{GuestMemory, LINE};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// `VIRTQ_DESC_F_AVAIL` and `VIRTQ_DESC_F_USED`
const AVAILABLE: u16 = 1 << 7;
const USED: u16 = 1 << 15;
/// Values of the flags of an event structure: always, never, at one descriptor.
const ENABLE: u32 = 0;
const DISABLE: u32 = 1;
const AT_DESCRIPTOR: u32 = 2;
/// The longest ring.
const SIZE_MAX: u16 = 1 << 15;
/// In shorter rings the guest is always interrupted: one burst could go round them twice.
const SIZE_MIN_EVENT: u16 = 64;
const PER_LINE: u16 = (LINE / Descriptor::BYTES) as u16;

/// A packed ring.
#[derive(Debug)]
pub(crate) struct Packed {
    /// Two words for each descriptor.
    descriptors: *const AtomicU64,
    /// What the driver wants to be told of, and what the device wants to be told of.
    driver_event: *const AtomicU32,
    device_event: *const AtomicU32,
    size: u16,
    memory: Arc<GuestMemory>,
    /// Addresses of the descriptors and of the device's event structure for the guest.
    guest: [Option<u64>; 2],
    /// Where it is noted what is given back.
    region: Option<Region>,
}

// SAFETY: the pointers lead into shared mappings that `memory` keeps, and are used for atomic accesses only.
unsafe impl Send for Packed {}

impl Packed {
    /// The descriptor `n`, at most the ring's size, after `place`, and the wrap counter there.
    #[inline(always)]
    fn slot(&self, place: u16, n: u16) -> (u16, bool) {
        let (at, wrap) = (u32::from(place & !WRAP) + u32::from(n), place & WRAP != 0);
        let size = u32::from(self.size);
        let (at, wrap) = if at >= size { (at - size, !wrap) } else { (at, wrap) };
        (at.min(size - 1) as u16, wrap)
    }

    /// The second word of descriptor `at`: length, number of the buffer, flags.
    #[inline(always)]
    fn last_word(&self, at: u16) -> &AtomicU64 {
        debug_assert!(at < self.size);
        // SAFETY: the ring is mapped for `size` descriptors of two words, and aligned.
        unsafe { &*self.descriptors.add(2 * usize::from(at) + 1) }
    }

    #[inline(always)]
    fn address(&self, at: u16) -> u64 {
        debug_assert!(at < self.size);
        // SAFETY: as above.
        unsafe { &*self.descriptors.add(2 * usize::from(at)) }.load(Ordering::Relaxed)
    }

    #[inline]
    fn driver_event(&self) -> u32 {
        // SAFETY: the structure is mapped for its 4 bytes, and aligned.
        unsafe { &*self.driver_event }.load(Ordering::Relaxed)
    }

    fn set_device_event(&self, value: u32) {
        // SAFETY: as above.
        unsafe { &*self.device_event }.store(value, Ordering::Relaxed);
    }

    /// Whether a descriptor with these flags is offered while the wrap counter is `wrap`.
    #[inline(always)]
    fn is_offered(rest: u64, wrap: bool) -> bool {
        let flags = (rest >> 48) as u16 & (AVAILABLE | USED);
        flags == if wrap { AVAILABLE } else { USED }
    }

    /// Whether the guest does not have the buffer at `place` back: it is still offered there as it was.
    fn is_left(&self, place: u16) -> bool {
        let (at, wrap) = self.slot(place, 0);
        Packed::is_offered(self.last_word(at).load(Ordering::Acquire), wrap)
    }

    /// Notes what is given back, after the other descriptors of those that the first one gives back were copied.
    #[inline(never)]
    fn note(&self, region: &Region, place: u16, n: u16, together: bool) {
        for n in 1..if together { n } else { 0 } {
            let (at, _) = self.slot(place, n);
            region.save(at, self.last_word(at).load(Ordering::Relaxed));
        }
        let together = if together { n } else { 0 };
        region.set_places(Places { before: place, after: self.after(place, n), together });
    }

    /// The place as a number below twice the size: the first round with the counter 1, then that with 0.
    fn linear(&self, place: u16) -> u32 {
        u32::from(place & !WRAP) + if place & WRAP == 0 { u32::from(self.size) } else { 0 }
    }

    /// How far `to` is behind `from`.
    fn distance(&self, from: u16, to: u16) -> u32 {
        let round = 2 * u32::from(self.size);
        (self.linear(to) + round - self.linear(from)) % round
    }
}

impl Layout for Packed {
    const PACKED: bool = true;

    fn new(memory: &Arc<GuestMemory>, at: Addresses, size: u16, _: bool) -> Option<Packed> {
        let part = |address, len, align| {
            let part = memory.at_user_address(address, len)?;
            (part.start().addr() % align == 0).then_some(part)
        };
        let descriptors = part(at.descriptors, u64::from(size) * Descriptor::BYTES as u64, 16)?;
        let [driver, device] = [part(at.available, 4, 4)?, part(at.used, 4, 4)?];
        let ring = Packed {
            descriptors: descriptors.start().cast(),
            driver_event: driver.start().cast(),
            device_event: device.start().cast(),
            size,
            memory: Arc::clone(memory),
            guest: [descriptors, device].map(|part| memory.address_of(&part)),
            region: None,
        };
        (1..=SIZE_MAX).contains(&size).then_some(ring)
    }

    #[inline]
    fn memory(&self) -> &Arc<GuestMemory> {
        &self.memory
    }

    #[inline]
    fn lends(&self) -> bool {
        false
    }

    #[inline]
    fn is_noted(&self) -> bool {
        self.region.is_some()
    }

    #[inline]
    fn size(&self) -> u16 {
        self.size
    }

    fn resume(&self, base: Option<u16>) -> Option<u16> {
        let base = base.unwrap_or(WRAP);
        (base & !WRAP < self.size).then_some(base)
    }

    fn keep(&mut self, region: Region, place: u16) {
        region.set_places(Places { before: place, after: place, together: 0 });
        region.use_it();
        self.region = Some(region);
    }

    fn recover(&self, region: &Region) -> Option<u16> {
        let Places { before, after, together } = region.places();
        self.resume(Some(before))?;
        self.resume(Some(after))?;
        if together > self.size || region.has_in_flight() {
            return None;
        }
        if before == after {
            return Some(before);
        }
        if together > 1 {
            if !self.is_left(before) {
                return Some(self.after(before, together));
            }
            for n in 1..together {
                let (at, _) = self.slot(before, n);
                self.last_word(at).store(region.saved(at), Ordering::Relaxed);
            }
            return Some(before);
        }
        let mut place = before;
        while place != after && !self.is_left(place) {
            place = self.after(place, 1);
        }
        Some(place)
    }

    #[inline(always)]
    fn after(&self, place: u16, slots: u16) -> u16 {
        let (at, wrap) = self.slot(place, slots);
        at | if wrap { WRAP } else { 0 }
    }

    #[inline]
    fn offered(&self, place: u16) -> Result<u16, InvalidRing> {
        let (at, wrap) = self.slot(place, 0);
        let offered = Packed::is_offered(self.last_word(at).load(Ordering::Relaxed), wrap);
        Ok(if offered { self.size } else { 0 })
    }

    /// The guest offers descriptors one after another, so the last one is found by bisection.
    fn waiting(&self, place: u16) -> Result<u16, InvalidRing> {
        let offered = |n| {
            let (at, wrap) = self.slot(place, n);
            Packed::is_offered(self.last_word(at).load(Ordering::Relaxed), wrap)
        };
        let (mut some, mut end) = (0, self.size);
        while some < end {
            let middle = some + (end - some) / 2;
            if offered(middle) {
                some = middle + 1;
            } else {
                end = middle;
            }
        }
        Ok(some)
    }

    #[inline(always)]
    fn read_heads(&self, _: u16, _: &mut [u16]) {}

    #[inline(always)]
    fn first(&self, place: u16, n: u16, head: &mut u16) -> Result<Option<Descriptor>, InvalidRing> {
        let (at, wrap) = self.slot(place, n);
        // What the guest wrote before it offered the descriptor is visible after this.
        let rest = self.last_word(at).load(Ordering::Acquire);
        if !Packed::is_offered(rest, wrap) {
            return Ok(None);
        }
        *head = (rest >> 32) as u16;
        Ok(Some(Packed::in_table(self.address(at), rest)))
    }

    fn following(&self, place: u16, n: u16, _: &Descriptor) -> Option<Descriptor> {
        if n >= self.size {
            return None;
        }
        let (at, _) = self.slot(place, n);
        // All descriptors of a chain were written before its first one was offered.
        Some(Packed::in_table(self.address(at), self.last_word(at).load(Ordering::Relaxed)))
    }

    /// The number of the buffer takes the place of the next descriptor's number.
    #[inline(always)]
    fn in_table(address: u64, rest: u64) -> Descriptor {
        let high = ((rest >> 32) as u32).rotate_left(16);
        Descriptor::from_words(address, rest & u64::from(u32::MAX) | u64::from(high) << 32)
    }

    #[inline]
    fn prefetch_next(&self, place: u16, n: u16) {
        for n in (0..n.min(self.size)).step_by(usize::from(PER_LINE)) {
            let (at, _) = self.slot(place, n);
            cpu::prefetch_at(self.descriptors.wrapping_add(2 * usize::from(at)));
        }
    }

    #[inline]
    fn prefetch_end(&self, _: u16, _: bool) {
        cpu::prefetch_at(self.driver_event);
    }

    #[inline(always)]
    fn begin_used(&self, place: u16, n: u16, together: bool) {
        if let Some(region) = &self.region {
            self.note(region, place, n, together);
        }
    }

    fn begin_hidden(&self, first: u16, place: u16, n: u16) {
        let Some(region) = &self.region else { return };
        for n in 0..n {
            let (at, _) = self.slot(place, n);
            region.save(at, self.last_word(at).load(Ordering::Relaxed));
        }
        let after = self.after(place, n);
        let together = self.distance(first, after) as u16;
        region.set_places(Places { before: first, after, together });
    }

    #[inline(always)]
    fn put_used(&self, place: u16, id: u16, len: u32) {
        let (at, wrap) = self.slot(place, 0);
        let written = if len > 0 { Descriptor::WRITE } else { 0 };
        let flags = written | if wrap { AVAILABLE | USED } else { 0 };
        let word = u64::from(len) | u64::from(id) << 32 | u64::from(flags) << 48;
        // The guest may use the buffer from here on.
        self.last_word(at).store(word, Ordering::Release);
    }

    #[inline(always)]
    fn publish(&self, _: u16) {}

    #[inline]
    fn wants_interrupt(&self, before: Option<u16>, now: u16, event_index: bool) -> bool {
        // The guest must see the buffers before this thread reads whether it wants an interrupt: otherwise it could sleep with
        // packets to handle.
        fence(Ordering::SeqCst);
        let event = self.driver_event();
        match event >> 16 & 3 {
            ENABLE => true,
            DISABLE => false,
            AT_DESCRIPTOR if event_index && self.size >= SIZE_MIN_EVENT => {
                let place = event as u16;
                let known = place & !WRAP < self.size;
                before.is_none_or(|from| !known || self.distance(from, place) < self.distance(from, now))
            }
            // A value that was not negotiated.
            _ => true,
        }
    }

    fn ask_for_kicks(&self, next: Option<u16>, event_index: bool) {
        self.set_device_event(match next {
            Some(next) if event_index => u32::from(next) | AT_DESCRIPTOR << 16,
            Some(_) => ENABLE << 16,
            None => DISABLE << 16,
        });
        // The guest must see the request for kicks before the worker checks the ring once more: otherwise an entry could be missed.
        fence(Ordering::SeqCst);
    }

    #[cold]
    fn log(&self, log: &DirtyLog, _: Option<u64>, before: u16, now: u16) {
        let [descriptors, event] = self.guest;
        event.into_iter().for_each(|at| log.mark(at, 4));
        let Some(descriptors) = descriptors else { return };
        for n in 0..self.distance(before, now).min(u32::from(self.size)) {
            let (at, _) = self.slot(before, n as u16);
            log.mark(descriptors.saturating_add(16 * u64::from(at)), 16);
        }
    }
}
