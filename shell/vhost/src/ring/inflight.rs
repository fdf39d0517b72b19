//! The inflight area: what a front-end keeps of a ring while the switch is away.
//!
//! The area is a file that front-end and switch map. The front-end keeps it when the switch dies, and gives it to the next
//! switch, which so finds out where each ring was. Buffers are given back in order within their burst, and none is marked as
//! in flight, so the area only has to say which of them the guest already got back:
//!
//! - A split ring says so itself, by the index of its used ring. The area repeats it. What another back-end left in flight is
//!   put in front of the entries that follow: their slots of the available ring belong to the device.
//! - A packed ring has no index. Before buffers are given back, one store notes the place and the place after them. Single
//!   descriptors are given back one after another, in order; after a kill those that the guest does not have yet are seen by
//!   their flags, and are unchanged. Of a chain, or of a packet in several buffers, the first descriptor is given back last.
//!   The others are copied to the area before, and written back if the guest did not get the first.
//!
//! The front-end can write anything into the area: what is read is checked. Source: vhost-user specification, "Inflight I/O
//! tracking".

use crate::bounds::MAX_PAIRS;
use crate::descriptors::seal;
use crate::memory_table::{Mapping, bytes_max};
use crate::rules::{Fields, Refusal};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// The bit of a place in a packed ring that is the wrap counter.
pub(crate) const WRAP: u16 = 1 << 15;

/// Regions begin at multiples of this.
const ALIGN: u64 = 64;
/// Descriptors of a ring at most.
const SIZE_MAX: u16 = 1 << 15;
const VERSION: u16 = 1;
/// Bytes of a payload: size and place in the file, number of rings, descriptors of each.
const PAYLOAD: usize = 20;

/// Places of fields in a region, in bytes.
const AT_VERSION: usize = 8;
const AT_SIZE: usize = 10;
/// Of a split ring: the descriptor that was given back last, and the index of the used ring.
const AT_LAST_HEAD: usize = 12;
const AT_USED: usize = 14;
/// Of a packed ring: the places after and before the buffers that are given back. The lowest 16 bits are the descriptor after
/// them, then that before; then the two wrap counters, a byte each. The last 16 bits, which other back-ends do not use, are
/// the number of descriptors if all are given back by the first one, else 0.
const AT_PLACES: usize = 16;
/// Descriptors of a split and of a packed ring.
const SPLIT_DESCRIPTORS: usize = 16;
const SPLIT_BYTES: usize = 16;
const PACKED_DESCRIPTORS: usize = 32;
const PACKED_BYTES: usize = 32;
/// Fields of a descriptor.
const IN_FLIGHT: usize = 0;
const SPLIT_NEXT: usize = 6;
const SPLIT_COUNTER: usize = 8;
const PACKED_ID: usize = 16;
const PACKED_FLAGS: usize = 18;
const PACKED_LEN: usize = 20;

/// A mapped area.
#[derive(Debug)]
pub(crate) struct Area {
    mapping: Mapping,
    /// Its place in the file.
    offset: u64,
    bytes: u64,
    rings: u16,
    size: u16,
}

/// Bytes of the region of a ring.
fn stride(size: u16, packed: bool) -> u64 {
    let (head, each) =
        if packed { (PACKED_DESCRIPTORS, PACKED_BYTES) } else { (SPLIT_DESCRIPTORS, SPLIT_BYTES) };
    (head as u64 + each as u64 * u64::from(size)).next_multiple_of(ALIGN)
}

fn half(payload: &[u8], at: usize) -> Result<u16, Refusal> {
    let bytes = payload.get(at..).and_then(<[u8]>::first_chunk).ok_or(Refusal::Short)?;
    Ok(u16::from_ne_bytes(*bytes))
}

/// The number of rings and their descriptors.
fn dimensions(payload: &[u8]) -> Result<(u16, u16), Refusal> {
    let (rings, size) = (half(payload, PAYLOAD - 4)?, half(payload, PAYLOAD - 2)?);
    if rings == 0 || usize::from(rings) > 2 * MAX_PAIRS {
        return Err(Refusal::NoRing(u32::from(rings)));
    }
    if size == 0 || size > SIZE_MAX {
        return Err(Refusal::Size(u32::from(size)));
    }
    Ok((rings, size))
}

impl Area {
    /// A new area for the rings that a `GET_INFLIGHT_FD` names, and its file.
    pub fn create(payload: &[u8], packed: bool) -> Result<(Area, OwnedFd), Refusal> {
        let (rings, size) = dimensions(payload)?;
        let bytes = u64::from(rings) * stride(size, packed);
        let file = memfd_create("vhost-inflight", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(|_| Refusal::NoMemory)?;
        ftruncate(&file, bytes).map_err(|_| Refusal::NoMemory)?;
        seal(file.as_fd())?;
        let mapping = Mapping::new(bytes, 0, file.as_fd(), bytes_max())?;
        Ok((Area { mapping, offset: 0, bytes, rings, size }, file))
    }

    /// The area of a `SET_INFLIGHT_FD`.
    pub fn map(payload: &[u8], file: &impl AsFd) -> Result<Area, Refusal> {
        let (bytes, offset) = (Fields(payload).long(0)?, Fields(payload).long(8)?);
        let (rings, size) = dimensions(payload)?;
        if !offset.is_multiple_of(ALIGN) {
            return Err(Refusal::Table("the inflight area is at an odd place of its file"));
        }
        seal(file.as_fd())?;
        let mapping = Mapping::new(bytes, offset, file.as_fd(), bytes_max())?;
        Ok(Area { mapping, offset, bytes, rings, size })
    }

    /// The payload of a reply: where the area is.
    pub fn payload(&self) -> Vec<u8> {
        let mut payload = [self.bytes, self.offset].map(u64::to_ne_bytes).concat();
        payload.extend([self.rings, self.size].map(u16::to_ne_bytes).concat());
        payload
    }

    /// The region of ring `number`, which has `size` descriptors; `None`: the area has none for it.
    pub fn region(self: &Arc<Area>, number: usize, size: u16, packed: bool) -> Option<Region> {
        let stride = stride(self.size, packed);
        let start = stride.checked_mul(number as u64)?;
        let fits = number < usize::from(self.rings)
            && (1..=self.size).contains(&size)
            && start.checked_add(stride)? <= self.bytes;
        // The mapping begins where the file does.
        let at = self.mapping.start().wrapping_add(usize::try_from(self.offset.checked_add(start)?).ok()?);
        fits.then(|| Region { at, size, _area: Arc::clone(self) })
    }

    /// Forgets where the rings were: their driver starts again.
    pub fn forget(self: &Arc<Area>, packed: bool) {
        (0..usize::from(self.rings)).filter_map(|n| self.region(n, 1, packed)).for_each(|r| r.forget());
    }
}

/// The part of an area for one ring.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    at: *mut u8,
    size: u16,
    /// Keeps the memory mapped.
    _area: Arc<Area>,
}

// SAFETY: the pointer leads into a shared mapping that `_area` keeps, and is used for atomic accesses only.
unsafe impl Send for Region {}

/// Where a packed ring was: the places before and after the buffers that were being given back. `together`: the number of
/// descriptors, if the first one gives all of them back; 0 if each is given back by its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    pub before: u16,
    pub after: u16,
    pub together: u16,
}

impl Places {
    fn word(self) -> u64 {
        let index = |place: u16| u64::from(place & !WRAP);
        let wrap = |place: u16| u64::from(place >> 15);
        index(self.after)
            | index(self.before) << 16
            | wrap(self.after) << 32
            | wrap(self.before) << 40
            | u64::from(self.together) << 48
    }

    fn from_word(word: u64) -> Places {
        let place = |index: u64, wrap: u64| index as u16 & !WRAP | if wrap & 0xff != 0 { WRAP } else { 0 };
        Places {
            after: place(word, word >> 32),
            before: place(word >> 16, word >> 40),
            together: (word >> 48) as u16,
        }
    }
}

impl Region {
    /// `n` is a place of a field within the region, aligned for it.
    fn byte(&self, n: usize) -> &AtomicU8 {
        // SAFETY: the region is mapped for its length, which contains all fields for `size` descriptors, and is aligned.
        unsafe { AtomicU8::from_ptr(self.at.wrapping_add(n)) }
    }

    fn short(&self, n: usize) -> &AtomicU16 {
        // SAFETY: as above.
        unsafe { AtomicU16::from_ptr(self.at.wrapping_add(n).cast()) }
    }

    fn word(&self, n: usize) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.at.wrapping_add(n).cast()) }
    }

    fn long(&self, n: usize) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.at.wrapping_add(n).cast()) }
    }

    fn split_field(&self, descriptor: u16, field: usize) -> usize {
        SPLIT_DESCRIPTORS + SPLIT_BYTES * usize::from(descriptor % self.size) + field
    }

    fn packed_field(&self, descriptor: u16, field: usize) -> usize {
        PACKED_DESCRIPTORS + PACKED_BYTES * usize::from(descriptor % self.size) + field
    }

    /// Whether a switch used the region before, and for a ring of this size. `None`: for another one.
    pub fn was_used(&self) -> Option<bool> {
        match self.short(AT_VERSION).load(Ordering::Relaxed) {
            0 => Some(false),
            VERSION if self.short(AT_SIZE).load(Ordering::Relaxed) == self.size => Some(true),
            _ => None,
        }
    }

    /// From now on the region is used.
    pub fn use_it(&self) {
        self.short(AT_SIZE).store(self.size, Ordering::Relaxed);
        self.short(AT_VERSION).store(VERSION, Ordering::Release);
    }

    /// Forgets where the ring was.
    pub fn forget(&self) {
        self.short(AT_VERSION).store(0, Ordering::Relaxed);
    }

    /// Notes the index of the used ring.
    #[inline]
    pub fn set_used_index(&self, index: u16) {
        self.short(AT_USED).store(index, Ordering::Relaxed);
    }

    /// The descriptors of a split ring that were in flight when its used ring ended at `used`, oldest first; none of them is
    /// marked any more. `None`: the region is invalid.
    #[cold]
    pub fn take_in_flight(&self, used: u16) -> Option<Vec<u16>> {
        // Descriptors that the guest got back, and that were still marked then: a list from the last one back.
        let missed = used.wrapping_sub(self.short(AT_USED).load(Ordering::Relaxed));
        let mut head = self.short(AT_LAST_HEAD).load(Ordering::Relaxed);
        if missed > self.size {
            return None;
        }
        for _ in 0..missed {
            if head >= self.size {
                return None;
            }
            self.byte(self.split_field(head, IN_FLIGHT)).store(0, Ordering::Relaxed);
            head = self.short(self.split_field(head, SPLIT_NEXT)).load(Ordering::Relaxed);
        }
        let marked = |n: &u16| self.byte(self.split_field(*n, IN_FLIGHT)).swap(0, Ordering::Relaxed) != 0;
        let counted = |n: u16| (self.long(self.split_field(n, SPLIT_COUNTER)).load(Ordering::Relaxed), n);
        let mut heads: Vec<_> = (0..self.size).filter(marked).map(counted).collect();
        heads.sort_unstable();
        Some(heads.into_iter().map(|(_, head)| head).collect())
    }

    /// Whether a descriptor of a packed ring is marked as in flight, which this switch never does.
    #[cold]
    pub fn has_in_flight(&self) -> bool {
        let marked = |n: u16| self.byte(self.packed_field(n, IN_FLIGHT)).load(Ordering::Relaxed) != 0;
        (0..self.size).any(marked)
    }

    /// Notes which buffers of a packed ring are given back next.
    #[inline]
    pub fn set_places(&self, places: Places) {
        // What was saved is there before; nothing is given back before this.
        self.long(AT_PLACES).store(places.word(), Ordering::Release);
    }

    /// What was noted last, unchecked.
    pub fn places(&self) -> Places {
        Places::from_word(self.long(AT_PLACES).load(Ordering::Relaxed))
    }

    /// Keeps the last word of descriptor `n` of a packed ring: length, number, flags.
    pub fn save(&self, n: u16, word: u64) {
        self.word(self.packed_field(n, PACKED_LEN)).store(word as u32, Ordering::Relaxed);
        self.short(self.packed_field(n, PACKED_ID)).store((word >> 32) as u16, Ordering::Relaxed);
        self.short(self.packed_field(n, PACKED_FLAGS)).store((word >> 48) as u16, Ordering::Relaxed);
    }

    /// The word that was kept.
    pub fn saved(&self, n: u16) -> u64 {
        let short = |field| u64::from(self.short(self.packed_field(n, field)).load(Ordering::Relaxed));
        let len = u64::from(self.word(self.packed_field(n, PACKED_LEN)).load(Ordering::Relaxed));
        len | short(PACKED_ID) << 32 | short(PACKED_FLAGS) << 48
    }
}

#[cfg(test)]
impl Region {
    /// Marks a descriptor of a split ring as in flight, as other back-ends do.
    pub fn mark(&self, n: u16, counter: u64) {
        self.byte(self.split_field(n, IN_FLIGHT)).store(1, Ordering::Relaxed);
        self.long(self.split_field(n, SPLIT_COUNTER)).store(counter, Ordering::Relaxed);
    }

    /// Marks a descriptor of a packed ring.
    pub fn mark_packed(&self, n: u16) {
        self.byte(self.packed_field(n, IN_FLIGHT)).store(1, Ordering::Relaxed);
    }

    /// Sets the descriptor that was given back last, and the one before it.
    pub fn set_last(&self, head: u16, next: u16) {
        self.short(AT_LAST_HEAD).store(head, Ordering::Relaxed);
        self.short(self.split_field(head, SPLIT_NEXT)).store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(rings: u16, size: u16) -> Vec<u8> {
        [&[0; 16][..], &rings.to_ne_bytes(), &size.to_ne_bytes()].concat()
    }

    #[test]
    fn areas_have_room_for_what_they_name_only() {
        for (rings, size) in [(0, 8), (257, 8), (2, 0), (2, 0x8001)] {
            assert!(Area::create(&wanted(rings, size), false).is_err());
        }
        assert!(Area::create(&wanted(2, 8)[..19], true).is_err());
        for packed in [false, true] {
            let (area, file) = Area::create(&wanted(2, 8), packed).unwrap();
            let again = Arc::new(Area::map(&area.payload(), &file).unwrap());
            assert!(again.region(1, 8, packed).is_some() && again.region(2, 8, packed).is_none());
            assert!(again.region(1, 9, packed).is_none() && again.region(usize::MAX, 8, packed).is_none());
            // A front-end that says that there is more than the file has, or less than the rings need.
            let mut payload = area.payload();
            payload[3] = 1;
            assert!(Area::map(&payload, &file).is_err());
            payload[..8].copy_from_slice(&100u64.to_ne_bytes());
            let short = Arc::new(Area::map(&payload, &file).unwrap());
            assert!(short.region(0, 8, packed).is_none());
            payload[8] = 1;
            assert!(Area::map(&payload, &file).is_err());
        }
    }

    #[test]
    fn places_are_one_word() {
        for (before, after, together) in [(0, 0x8007, 0), (0x8063, 0, 99), (0x7fff, 0xffff, 0xffff)] {
            let places = Places { before, after, together };
            assert_eq!(Places::from_word(places.word()), places);
        }
    }

    /// What another back-end left, as the specification describes it.
    #[test]
    fn descriptors_in_flight_are_found_in_their_order() {
        let (area, _file) = Area::create(&wanted(1, 8), false).unwrap();
        let region = Arc::new(area).region(0, 8, false).unwrap();
        for (counter, n) in [7u16, 2, 5, 0].into_iter().enumerate() {
            region.byte(region.split_field(n, IN_FLIGHT)).store(1, Ordering::Relaxed);
            region.long(region.split_field(n, SPLIT_COUNTER)).store(counter as u64, Ordering::Relaxed);
        }
        // 7 and then 5 were given back; the index 2 is in the used ring, and not yet in the region.
        region.short(AT_LAST_HEAD).store(5, Ordering::Relaxed);
        region.short(region.split_field(5, SPLIT_NEXT)).store(7, Ordering::Relaxed);
        assert_eq!(region.take_in_flight(2), Some(vec![2, 0]));
        region.set_used_index(2);
        assert_eq!((region.take_in_flight(2), region.take_in_flight(100)), (Some(vec![]), None));
        region.short(AT_LAST_HEAD).store(8, Ordering::Relaxed);
        assert_eq!(region.take_in_flight(3), None);
        assert_eq!(region.was_used(), Some(false));
        region.use_it();
        assert_eq!(region.was_used(), Some(true));
        region.short(AT_SIZE).store(16, Ordering::Relaxed);
        assert_eq!(region.was_used(), None);
    }
}
