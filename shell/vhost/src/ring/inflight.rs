//! The inflight area: the record of ring positions that a front-end keeps while the switch is restarted.
//!
//! The area is a file that front-end and switch map. The front-end keeps it when the switch is killed, and passes it to the next
//! switch, which reads the position of each ring from the area. This switch marks buffers as used in order within a burst, and marks no
//! descriptor as in flight. So the area only has to record which buffers are used already:
//!
//! - A split ring has this information in the index of its used ring. The area repeats the index. Descriptors that another back-end left
//!   in flight are made available again before the other entries: their slots of the available ring belong to the device.
//! - A packed ring has no index. Before buffers are marked as used, one store records the position before and after them. Single
//!   descriptors are marked as used in order. After a kill, the flags of the remaining descriptors show that they are still available,
//!   and their other fields are unchanged. Of a chain, or of a packet in several buffers, the first descriptor is marked as used last.
//!   The other descriptors are saved in the area before, and restored if the first was not marked.
//!
//! The front-end can write anything into the area, so each value that is read is checked. Source: vhost-user specification, "Inflight
//! I/O tracking".

use crate::bounds::MAX_PAIRS;
use crate::file_descriptors::seal;
use crate::memory_table::{Mapping, bytes_max};
use crate::rules::{Fields, Refusal};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// The wrap counter in the position of a packed ring.
pub(crate) const WRAP: u16 = 1 << 15;

/// Regions begin at multiples of this number of bytes.
const ALIGN: u64 = 64;
/// Maximum number of descriptors of a ring.
const SIZE_MAX: u16 = 1 << 15;
/// The version of the area's layout.
const VERSION: u16 = 1;
/// Bytes of a payload: size and offset of the area (8 each), number of rings and descriptors of each ring (2 each).
const PAYLOAD: usize = 20;

/// Offset of the version in a region, in bytes. 0 in this field: the region was not used yet.
const AT_VERSION: usize = 8;
/// Offset of the number of descriptors in a region.
const AT_SIZE: usize = 10;
/// Offset, for a split ring, of the descriptor that was marked as used last.
const AT_LAST_HEAD: usize = 12;
/// Offset, for a split ring, of the index of its used ring.
const AT_USED: usize = 14;
/// Offset of a packed ring's [`UsedRecord`]. The lowest 16 bits are the descriptor after the buffers, the next 16 bits the descriptor
/// before them; then follow the two wrap counters, a byte each, in the same order. The last 16 bits, which other back-ends do not use,
/// are the number of descriptors if all are returned together with the first one, else 0.
const AT_USED_RECORD: usize = 16;
/// Offset of the descriptors' states, for a split ring.
const SPLIT_DESCRIPTORS: usize = 16;
/// Bytes of a descriptor's state, for a split ring.
const SPLIT_BYTES: usize = 16;
/// Offset of the descriptors' states, for a packed ring.
const PACKED_DESCRIPTORS: usize = 32;
/// Bytes of a descriptor's state, for a packed ring.
const PACKED_BYTES: usize = 32;
// Offsets of the fields in a descriptor's state.
/// Not 0: the descriptor is in flight. For both formats.
const IN_FLIGHT: usize = 0;
/// The descriptor that was marked as used before this one.
const SPLIT_NEXT: usize = 6;
/// A counter, by which descriptors in flight are sorted in the order in which they were received.
const SPLIT_COUNTER: usize = 8;
/// The descriptor's buffer id.
const PACKED_ID: usize = 16;
/// The descriptor's flags.
const PACKED_FLAGS: usize = 18;
/// The descriptor's length.
const PACKED_LEN: usize = 20;

/// A mapped area.
#[derive(Debug)]
pub(crate) struct InflightArea {
    mapping: Mapping,
    /// Its offset in the file, in bytes.
    offset: u64,
    bytes: u64,
    /// Number of rings.
    rings: u16,
    /// Number of descriptors of each ring.
    size: u16,
}

/// Bytes of the region of one ring.
fn stride(size: u16, packed: bool) -> u64 {
    let (head, each) =
        if packed { (PACKED_DESCRIPTORS, PACKED_BYTES) } else { (SPLIT_DESCRIPTORS, SPLIT_BYTES) };
    (head as u64 + each as u64 * u64::from(size)).next_multiple_of(ALIGN)
}

fn half(payload: &[u8], at: usize) -> Result<u16, Refusal> {
    let bytes = payload.get(at..).and_then(<[u8]>::first_chunk).ok_or(Refusal::Short)?;
    Ok(u16::from_ne_bytes(*bytes))
}

/// Reads the number of rings and the number of descriptors of each ring.
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

impl InflightArea {
    /// Creates an area for the rings that a `GET_INFLIGHT_FD` describes, and its file.
    pub fn create(payload: &[u8], packed: bool) -> Result<(InflightArea, OwnedFd), Refusal> {
        let (rings, size) = dimensions(payload)?;
        let bytes = u64::from(rings) * stride(size, packed);
        let file = memfd_create("vhost-inflight", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(|_| Refusal::NoMemory)?;
        ftruncate(&file, bytes).map_err(|_| Refusal::NoMemory)?;
        seal(file.as_fd())?;
        let mapping = Mapping::new(bytes, 0, file.as_fd(), bytes_max())?;
        Ok((InflightArea { mapping, offset: 0, bytes, rings, size }, file))
    }

    /// Maps the area of a `SET_INFLIGHT_FD`.
    pub fn map(payload: &[u8], file: &impl AsFd) -> Result<InflightArea, Refusal> {
        let (bytes, offset) = (Fields(payload).long(0)?, Fields(payload).long(8)?);
        let (rings, size) = dimensions(payload)?;
        if !offset.is_multiple_of(ALIGN) {
            return Err(Refusal::Memory(
                "the offset of the inflight area in its file is not a multiple of 64",
            ));
        }
        seal(file.as_fd())?;
        let mapping = Mapping::new(bytes, offset, file.as_fd(), bytes_max())?;
        Ok(InflightArea { mapping, offset, bytes, rings, size })
    }

    /// The payload of a reply: size and offset of the area, number of rings and descriptors of each ring.
    pub fn payload(&self) -> Vec<u8> {
        let mut payload = [self.bytes, self.offset].map(u64::to_ne_bytes).concat();
        payload.extend([self.rings, self.size].map(u16::to_ne_bytes).concat());
        payload
    }

    /// The region of ring `number`, which has `size` descriptors; `None`: the area has no region for this ring.
    pub fn region(
        self: &Arc<InflightArea>,
        number: usize,
        size: u16,
        packed: bool,
    ) -> Option<InflightRegion> {
        let stride = stride(self.size, packed);
        let start = stride.checked_mul(number as u64)?;
        let fits = number < usize::from(self.rings)
            && (1..=self.size).contains(&size)
            && start.checked_add(stride)? <= self.bytes;
        // The mapping begins at the beginning of the file, not at the area's offset.
        let at = self.mapping.start().wrapping_add(usize::try_from(self.offset.checked_add(start)?).ok()?);
        fits.then(|| InflightRegion { at, size, _area: Arc::clone(self) })
    }

    /// Clears the recorded positions of all rings, because the driver starts again.
    pub fn forget(self: &Arc<InflightArea>, packed: bool) {
        (0..usize::from(self.rings)).filter_map(|n| self.region(n, 1, packed)).for_each(|r| r.forget());
    }
}

/// The part of an area for one ring.
#[derive(Clone, Debug)]
pub(crate) struct InflightRegion {
    at: *mut u8,
    size: u16,
    /// Keeps the memory mapped.
    _area: Arc<InflightArea>,
}

// SAFETY: the pointer points into a shared mapping that `_area` keeps mapped, and is used for atomic accesses only.
unsafe impl Send for InflightRegion {}

/// The record of the buffers of a packed ring that were being marked as used: the positions before and after them. `together`: the
/// number of descriptors, if the guest gets all of them when the first one is marked as used; 0 if each one is marked separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsedRecord {
    pub before: u16,
    pub after: u16,
    pub together: u16,
}

impl UsedRecord {
    /// The record as one word of the area: see [`AT_USED_RECORD`].
    fn word(self) -> u64 {
        let index = |position: u16| u64::from(position & !WRAP);
        let wrap = |position: u16| u64::from(position >> 15);
        index(self.after)
            | index(self.before) << 16
            | wrap(self.after) << 32
            | wrap(self.before) << 40
            | u64::from(self.together) << 48
    }

    fn from_word(word: u64) -> UsedRecord {
        let position = |index: u64, wrap: u64| index as u16 & !WRAP | if wrap & 0xff != 0 { WRAP } else { 0 };
        UsedRecord {
            after: position(word, word >> 32),
            before: position(word >> 16, word >> 40),
            together: (word >> 48) as u16,
        }
    }
}

impl InflightRegion {
    /// The field at offset `n` of the region; `n` is aligned for the field.
    fn byte(&self, n: usize) -> &AtomicU8 {
        // SAFETY: the region is mapped for its length, which contains all fields for `size` descriptors, and `at + n` is aligned.
        unsafe { AtomicU8::from_ptr(self.at.wrapping_add(n)) }
    }

    fn short(&self, n: usize) -> &AtomicU16 {
        // SAFETY: as for `byte`; callers pass offsets that are aligned for this type.
        unsafe { AtomicU16::from_ptr(self.at.wrapping_add(n).cast()) }
    }

    fn word(&self, n: usize) -> &AtomicU32 {
        // SAFETY: as for `byte`; callers pass offsets that are aligned for this type.
        unsafe { AtomicU32::from_ptr(self.at.wrapping_add(n).cast()) }
    }

    fn long(&self, n: usize) -> &AtomicU64 {
        // SAFETY: as for `byte`; callers pass offsets that are aligned for this type.
        unsafe { AtomicU64::from_ptr(self.at.wrapping_add(n).cast()) }
    }

    fn split_field(&self, descriptor: u16, field: usize) -> usize {
        SPLIT_DESCRIPTORS + SPLIT_BYTES * usize::from(descriptor % self.size) + field
    }

    fn packed_field(&self, descriptor: u16, field: usize) -> usize {
        PACKED_DESCRIPTORS + PACKED_BYTES * usize::from(descriptor % self.size) + field
    }

    /// Whether a back-end used the region before for a ring of this size. `None`: it was used for a ring of another size.
    pub fn was_initialized(&self) -> Option<bool> {
        match self.short(AT_VERSION).load(Ordering::Relaxed) {
            0 => Some(false),
            VERSION if self.short(AT_SIZE).load(Ordering::Relaxed) == self.size => Some(true),
            _ => None,
        }
    }

    /// Marks the region as used by a ring of this size.
    pub fn initialize(&self) {
        self.short(AT_SIZE).store(self.size, Ordering::Relaxed);
        self.short(AT_VERSION).store(VERSION, Ordering::Release);
    }

    /// Clears the record of the ring's position.
    pub fn forget(&self) {
        self.short(AT_VERSION).store(0, Ordering::Relaxed);
    }

    /// Records the index of the used ring.
    #[inline]
    pub fn set_used_index(&self, index: u16) {
        self.short(AT_USED).store(index, Ordering::Relaxed);
    }

    /// Returns the descriptors of a split ring that were in flight when its used ring ended at `used`, oldest first, and clears their
    /// marks. `None`: the region is invalid.
    #[cold]
    pub fn take_in_flight(&self, used: u16) -> Option<Vec<u16>> {
        // Descriptors that are in the used ring but still marked as in flight, because the back-end was killed before it cleared the
        // mark: a linked list, from the last one backwards.
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

    /// Whether a descriptor of a packed ring is marked as in flight. This switch never marks any.
    #[cold]
    pub fn has_in_flight(&self) -> bool {
        let marked = |n: u16| self.byte(self.packed_field(n, IN_FLIGHT)).load(Ordering::Relaxed) != 0;
        (0..self.size).any(marked)
    }

    /// Records which buffers of a packed ring are marked as used next.
    #[inline]
    pub fn set_used_record(&self, used_record: UsedRecord) {
        // Release: descriptors were saved before, so they are visible when this record is. Buffers are marked as used only afterwards.
        self.long(AT_USED_RECORD).store(used_record.word(), Ordering::Release);
    }

    /// The last record, unchecked.
    pub fn used_record(&self) -> UsedRecord {
        UsedRecord::from_word(self.long(AT_USED_RECORD).load(Ordering::Relaxed))
    }

    /// Saves the last word of descriptor `n` of a packed ring: length, buffer id, flags.
    pub fn save(&self, n: u16, word: u64) {
        self.word(self.packed_field(n, PACKED_LEN)).store(word as u32, Ordering::Relaxed);
        self.short(self.packed_field(n, PACKED_ID)).store((word >> 32) as u16, Ordering::Relaxed);
        self.short(self.packed_field(n, PACKED_FLAGS)).store((word >> 48) as u16, Ordering::Relaxed);
    }

    /// The word that [`save`](Self::save) stored.
    pub fn saved(&self, n: u16) -> u64 {
        let short = |field| u64::from(self.short(self.packed_field(n, field)).load(Ordering::Relaxed));
        let len = u64::from(self.word(self.packed_field(n, PACKED_LEN)).load(Ordering::Relaxed));
        len | short(PACKED_ID) << 32 | short(PACKED_FLAGS) << 48
    }
}

#[cfg(test)]
impl InflightRegion {
    /// Marks a descriptor of a split ring as in flight, as other back-ends do.
    pub fn mark(&self, n: u16, counter: u64) {
        self.byte(self.split_field(n, IN_FLIGHT)).store(1, Ordering::Relaxed);
        self.long(self.split_field(n, SPLIT_COUNTER)).store(counter, Ordering::Relaxed);
    }

    /// Marks a descriptor of a packed ring.
    pub fn mark_packed(&self, n: u16) {
        self.byte(self.packed_field(n, IN_FLIGHT)).store(1, Ordering::Relaxed);
    }

    /// Sets the descriptor that was marked as used last, and the one before it.
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
            assert!(InflightArea::create(&wanted(rings, size), false).is_err());
        }
        assert!(InflightArea::create(&wanted(2, 8)[..19], true).is_err());
        for packed in [false, true] {
            let (area, file) = InflightArea::create(&wanted(2, 8), packed).unwrap();
            let again = Arc::new(InflightArea::map(&area.payload(), &file).unwrap());
            assert!(again.region(1, 8, packed).is_some() && again.region(2, 8, packed).is_none());
            assert!(again.region(1, 9, packed).is_none() && again.region(usize::MAX, 8, packed).is_none());
            // A front-end that reports more bytes than the file has, or fewer than the rings need.
            let mut payload = area.payload();
            payload[3] = 1;
            assert!(InflightArea::map(&payload, &file).is_err());
            payload[..8].copy_from_slice(&100u64.to_ne_bytes());
            let short = Arc::new(InflightArea::map(&payload, &file).unwrap());
            assert!(short.region(0, 8, packed).is_none());
            payload[8] = 1;
            assert!(InflightArea::map(&payload, &file).is_err());
        }
    }

    #[test]
    fn places_are_one_word() {
        for (before, after, together) in [(0, 0x8007, 0), (0x8063, 0, 99), (0x7fff, 0xffff, 0xffff)] {
            let used_record = UsedRecord { before, after, together };
            assert_eq!(UsedRecord::from_word(used_record.word()), used_record);
        }
    }

    /// The state that another back-end left, as the specification describes it.
    #[test]
    fn descriptors_in_flight_are_found_in_their_order() {
        let (area, _file) = InflightArea::create(&wanted(1, 8), false).unwrap();
        let region = Arc::new(area).region(0, 8, false).unwrap();
        for (counter, n) in [7u16, 2, 5, 0].into_iter().enumerate() {
            region.byte(region.split_field(n, IN_FLIGHT)).store(1, Ordering::Relaxed);
            region.long(region.split_field(n, SPLIT_COUNTER)).store(counter as u64, Ordering::Relaxed);
        }
        // Descriptors 7 and then 5 were used. The index 2 is in the used ring, but not yet in the region.
        region.short(AT_LAST_HEAD).store(5, Ordering::Relaxed);
        region.short(region.split_field(5, SPLIT_NEXT)).store(7, Ordering::Relaxed);
        assert_eq!(region.take_in_flight(2), Some(vec![2, 0]));
        region.set_used_index(2);
        assert_eq!((region.take_in_flight(2), region.take_in_flight(100)), (Some(vec![]), None));
        region.short(AT_LAST_HEAD).store(8, Ordering::Relaxed);
        assert_eq!(region.take_in_flight(3), None);
        assert_eq!(region.was_initialized(), Some(false));
        region.initialize();
        assert_eq!(region.was_initialized(), Some(true));
        region.short(AT_SIZE).store(16, Ordering::Relaxed);
        assert_eq!(region.was_initialized(), None);
    }
}
