//! The words of a packed ring in guest memory.
//!
//! Guest and switch write into one array of descriptors. The guest makes a chain available in consecutive descriptors. The switch
//! marks the chain as used by one descriptor, which it writes at the position of the first. Two flags of a descriptor show whether it is
//! available or used. They are compared with the wrap counter, one bit that is inverted at each end of the ring. The last word of a
//! descriptor contains these flags, the length and the buffer id, so one store makes the descriptor available or used.
//!
//! Sources: virtio 1.2, 2.8.

use super::RingError;
use super::descriptor::{Addresses, Descriptor};
use super::inflight::{InflightRegion, UsedRecord, WRAP};
use super::layout::Layout;
use crate::address_space::AddressSpace;
use crate::dirty::DirtyLog;
use crate::iotlb::Access;
use crate::memory::{CACHE_LINE, GuestMemory};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// `VIRTQ_DESC_F_AVAIL`
const AVAILABLE: u16 = 1 << 7;
/// `VIRTQ_DESC_F_USED`
const USED: u16 = 1 << 15;
/// Flags of an event suppression structure: always notify.
const ENABLE: u32 = 0;
/// Flags of an event suppression structure: never notify.
const DISABLE: u32 = 1;
/// Flags of an event suppression structure: notify when the descriptor in the structure is used or made available.
const AT_DESCRIPTOR: u32 = 2;
/// Maximum number of descriptors of a ring.
const SIZE_MAX: u16 = 1 << 15;
/// In rings with fewer descriptors the event descriptor is ignored: the guest is interrupted unless it has disabled interrupts. One burst
/// could go round a short ring twice.
const SIZE_MIN_EVENT: u16 = 64;
/// Number of descriptors in a cache line.
const PER_LINE: u16 = (CACHE_LINE / Descriptor::BYTES) as u16;

/// A packed ring.
#[derive(Debug)]
pub(crate) struct Packed<S = Arc<GuestMemory>> {
    /// Two words for each descriptor.
    descriptors: *const AtomicU64,
    /// The driver's event suppression structure (virtio 1.2, 2.8.10): when the guest requests interrupts.
    driver_event: *const AtomicU32,
    /// The device's event suppression structure: when the switch requests kicks.
    device_event: *const AtomicU32,
    size: u16,
    space: S,
    /// Guest-physical addresses of the descriptors and of the device's event suppression structure, for the dirty log.
    logged_addresses: [Option<u64>; 2],
    /// The ring's region of the inflight area, if there is one.
    region: Option<InflightRegion>,
}

// SAFETY: the pointers point into shared mappings that `space` keeps mapped, and are used for atomic accesses only.
unsafe impl<S: Send> Send for Packed<S> {}

/// Whether a descriptor whose last word is `rest` is available while the wrap counter is `wrap`.
#[inline(always)]
fn is_available(rest: u64, wrap: bool) -> bool {
    let flags = (rest >> 48) as u16 & (AVAILABLE | USED);
    flags == if wrap { AVAILABLE } else { USED }
}

/// A descriptor from its two words: moves the buffer id to the bits that hold the number of the next descriptor in a split ring.
#[inline(always)]
fn descriptor(address: u64, rest: u64) -> Descriptor {
    let high = ((rest >> 32) as u32).rotate_left(16);
    Descriptor::from_words(address, rest & u64::from(u32::MAX) | u64::from(high) << 32)
}

impl<S: AddressSpace> Packed<S> {
    /// The descriptor `n` descriptors after `position`, and the wrap counter there. `n` is at most the ring's size.
    #[inline(always)]
    fn slot(&self, position: u16, n: u16) -> (u16, bool) {
        let (at, wrap) = (u32::from(position & !WRAP) + u32::from(n), position & WRAP != 0);
        let size = u32::from(self.size);
        let (at, wrap) = if at >= size { (at - size, !wrap) } else { (at, wrap) };
        (at.min(size - 1) as u16, wrap)
    }

    /// The second word of descriptor `at`: length, buffer id, flags.
    #[inline(always)]
    fn last_word(&self, at: u16) -> &AtomicU64 {
        debug_assert!(at < self.size);
        // SAFETY: the ring is mapped for `size` descriptors of two words, `at` is less than `size`, and the words are aligned.
        unsafe { &*self.descriptors.add(2 * usize::from(at) + 1) }
    }

    #[inline(always)]
    fn address(&self, at: u16) -> u64 {
        debug_assert!(at < self.size);
        // SAFETY: as in `last_word`.
        unsafe { &*self.descriptors.add(2 * usize::from(at)) }.load(Ordering::Relaxed)
    }

    #[inline]
    fn driver_event(&self) -> u32 {
        // SAFETY: `new` checked that the structure's 4 bytes are mapped and aligned.
        unsafe { &*self.driver_event }.load(Ordering::Relaxed)
    }

    fn set_device_event(&self, value: u32) {
        // SAFETY: `new` checked that the structure's 4 bytes are mapped and aligned.
        unsafe { &*self.device_event }.store(value, Ordering::Relaxed);
    }

    /// Whether the buffer at `position` is still available, that is, not yet marked as used.
    fn is_still_available(&self, position: u16) -> bool {
        let (at, wrap) = self.slot(position, 0);
        is_available(self.last_word(at).load(Ordering::Acquire), wrap)
    }

    /// Records in the inflight area which descriptors the switch is about to mark as used. `together`: the first descriptor is marked last,
    /// which returns all of them to the guest; so the contents of the others are saved now.
    #[inline(never)]
    fn record_used(&self, region: &InflightRegion, position: u16, n: u16, together: bool) {
        for n in 1..if together { n } else { 0 } {
            let (at, _) = self.slot(position, n);
            region.save(at, self.last_word(at).load(Ordering::Relaxed));
        }
        let together = if together { n } else { 0 };
        region.set_used_record(UsedRecord { before: position, after: self.after(position, n), together });
    }

    /// The position as a number below twice the size: first the positions with wrap counter 1, then those with 0.
    fn linear(&self, position: u16) -> u32 {
        u32::from(position & !WRAP) + if position & WRAP == 0 { u32::from(self.size) } else { 0 }
    }

    /// Number of descriptors from `from` to `to`.
    fn distance(&self, from: u16, to: u16) -> u32 {
        let round = 2 * u32::from(self.size);
        (self.linear(to) + round - self.linear(from)) % round
    }
}

impl<S: AddressSpace> Layout for Packed<S> {
    const PACKED: bool = true;

    type Space = S;

    fn new(space: &S, at: Addresses, size: u16, _: bool) -> Result<Option<Packed<S>>, RingError> {
        let part = |address, len, align, access| {
            let part = space.ring_part(address, len, access)?;
            Ok(part.filter(|part| part.start().addr() % align == 0))
        };
        // As for a split ring, missing translations are requested together.
        let descriptors = part(at.descriptors, u64::from(size) * Descriptor::BYTES as u64, 16, Access::BOTH);
        let [driver, device] = [part(at.available, 4, 4, Access::READ), part(at.used, 4, 4, Access::WRITE)];
        let parts = (descriptors?, driver?, device?);
        let (Some(descriptors), Some(driver), Some(device)) = parts else { return Ok(None) };
        let ring = Packed {
            descriptors: descriptors.start().cast(),
            driver_event: driver.start().cast(),
            device_event: device.start().cast(),
            size,
            space: space.clone(),
            logged_addresses: [descriptors, device].map(|part| space.memory().address_of(&part)),
            region: None,
        };
        Ok((1..=SIZE_MAX).contains(&size).then_some(ring))
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
        false
    }

    #[inline]
    fn has_inflight_area(&self) -> bool {
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

    fn attach_inflight(&mut self, region: InflightRegion, position: u16) {
        region.set_used_record(UsedRecord { before: position, after: position, together: 0 });
        region.initialize();
        self.region = Some(region);
    }

    fn recover(&self, region: &InflightRegion) -> Option<u16> {
        let UsedRecord { before, after, together } = region.used_record();
        self.resume(Some(before))?;
        self.resume(Some(after))?;
        if together > self.size || region.has_in_flight() {
            return None;
        }
        if before == after {
            return Some(before);
        }
        if together > 1 {
            if !self.is_still_available(before) {
                return Some(self.after(before, together));
            }
            for n in 1..together {
                let (at, _) = self.slot(before, n);
                self.last_word(at).store(region.saved(at), Ordering::Relaxed);
            }
            return Some(before);
        }
        let mut position = before;
        while position != after && !self.is_still_available(position) {
            position = self.after(position, 1);
        }
        Some(position)
    }

    #[inline(always)]
    fn after(&self, position: u16, slots: u16) -> u16 {
        let (at, wrap) = self.slot(position, slots);
        at | if wrap { WRAP } else { 0 }
    }

    #[inline]
    fn offered(&self, position: u16) -> Result<u16, RingError> {
        let (at, wrap) = self.slot(position, 0);
        let offered = is_available(self.last_word(at).load(Ordering::Relaxed), wrap);
        Ok(if offered { self.size } else { 0 })
    }

    /// The guest makes descriptors available in order, so the end of the available descriptors is found by bisection.
    fn available(&self, position: u16) -> Result<u16, RingError> {
        let is_available_at = |n| {
            let (at, wrap) = self.slot(position, n);
            is_available(self.last_word(at).load(Ordering::Relaxed), wrap)
        };
        let (mut low, mut high) = (0, self.size);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_available_at(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    #[inline(always)]
    fn read_heads(&self, _: u16, _: &mut [u16]) {}

    #[inline(always)]
    fn first(&self, position: u16, n: u16, head: &mut u16) -> Result<Option<Descriptor>, RingError> {
        let (at, wrap) = self.slot(position, n);
        // Acquire: data that the guest wrote before it made the descriptor available is visible after this load.
        let rest = self.last_word(at).load(Ordering::Acquire);
        if !is_available(rest, wrap) {
            return Ok(None);
        }
        *head = (rest >> 32) as u16;
        Ok(Some(descriptor(self.address(at), rest)))
    }

    fn following(&self, position: u16, n: u16, _: &Descriptor) -> Option<Descriptor> {
        if n >= self.size {
            return None;
        }
        let (at, _) = self.slot(position, n);
        // Relaxed: the guest wrote all descriptors of a chain before it made the first one available, which `first` has loaded.
        Some(descriptor(self.address(at), self.last_word(at).load(Ordering::Relaxed)))
    }

    #[inline(always)]
    fn in_table(address: u64, rest: u64) -> Descriptor {
        descriptor(address, rest)
    }

    #[inline]
    fn prefetch_next(&self, position: u16, n: u16) {
        for n in (0..n.min(self.size)).step_by(usize::from(PER_LINE)) {
            let (at, _) = self.slot(position, n);
            cpu::prefetch_at(self.descriptors.wrapping_add(2 * usize::from(at)));
        }
    }

    #[inline]
    fn prefetch_end(&self, _: u16, _: bool) {
        cpu::prefetch_at(self.driver_event);
    }

    #[inline(always)]
    fn begin_used(&self, position: u16, n: u16, together: bool) {
        if let Some(region) = &self.region {
            self.record_used(region, position, n, together);
        }
    }

    fn begin_deferred(&self, first: u16, position: u16, n: u16) {
        let Some(region) = &self.region else { return };
        for n in 0..n {
            let (at, _) = self.slot(position, n);
            region.save(at, self.last_word(at).load(Ordering::Relaxed));
        }
        let after = self.after(position, n);
        let together = self.distance(first, after) as u16;
        region.set_used_record(UsedRecord { before: first, after, together });
    }

    #[inline(always)]
    fn put_used(&self, position: u16, id: u16, len: u32) {
        let (at, wrap) = self.slot(position, 0);
        let written = if len > 0 { Descriptor::WRITE } else { 0 };
        let flags = written | if wrap { AVAILABLE | USED } else { 0 };
        let word = u64::from(len) | u64::from(id) << 32 | u64::from(flags) << 48;
        // Release: the guest may use the buffer as soon as it sees this word.
        self.last_word(at).store(word, Ordering::Release);
    }

    #[inline(always)]
    fn publish(&self, _: u16) {}

    #[inline]
    fn needs_interrupt(&self, before: Option<u16>, now: u16, event_index: bool) -> bool {
        // The guest must see the used buffers before this thread reads whether the guest requests an interrupt. Otherwise the guest
        // could sleep although it has packets to handle.
        fence(Ordering::SeqCst);
        let event = self.driver_event();
        match event >> 16 & 3 {
            ENABLE => true,
            DISABLE => false,
            AT_DESCRIPTOR if event_index && self.size >= SIZE_MIN_EVENT => {
                let position = event as u16;
                let valid = position & !WRAP < self.size;
                before.is_none_or(|from| !valid || self.distance(from, position) < self.distance(from, now))
            }
            // A short ring, or a value that is reserved or not negotiated: interrupt.
            _ => true,
        }
    }

    fn request_kicks(&self, next: Option<u16>, event_index: bool) {
        self.set_device_event(match next {
            Some(next) if event_index => u32::from(next) | AT_DESCRIPTOR << 16,
            Some(_) => ENABLE << 16,
            None => DISABLE << 16,
        });
        // The guest must see the request for kicks before the worker checks the ring once more. Otherwise an entry could be missed.
        fence(Ordering::SeqCst);
    }

    #[cold]
    fn mark_dirty(&self, log: &DirtyLog, _: Option<u64>, before: u16, now: u16) {
        let [descriptors, event] = self.logged_addresses;
        event.into_iter().for_each(|at| log.mark(at, 4));
        let Some(descriptors) = descriptors else { return };
        for n in 0..self.distance(before, now).min(u32::from(self.size)) {
            let (at, _) = self.slot(before, n as u16);
            log.mark(descriptors.saturating_add(16 * u64::from(at)), 16);
        }
    }
}
