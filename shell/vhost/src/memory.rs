//! A guest's memory, and the checked functions that read and write it.
//!
//! [`GuestMemory`] holds the mapped regions of a memory table. [`GuestMemory::part`] translates a guest-physical address and returns a
//! [`Part`], which is inside one region and has a length. A part is read and written only by copies ([`crate::copy`]); each copy is
//! checked against that length. No Rust reference points into guest memory, except references to atomic integers of a ring
//! ([`crate::ring`]).
//!
//! A region stays mapped as long as the `GuestMemory` lives, and every ring holds a reference to the `GuestMemory`. So a translated
//! address stays valid as long as the ring that uses it, whatever messages the guest sends. A guest can still truncate a file that
//! cannot be sealed: then the mapping is replaced by zeros ([`crate::lost_memory`]).
//!
//! Sources: vhost-user specification, "Memory region description".

use crate::copy;
use crate::file_descriptors::seal;
use crate::iotlb::IovaRange;
use crate::memory_table::{Mapping, bytes_max};
use crate::rules::{Fields, Refusal};
use packet::frame::Piece;
use rustix::fs::fstat;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Maximum number of memory regions of one guest: those of one table and hot-plugged ones.
pub(crate) const REGIONS_MAX: usize = 32;

/// Addresses of one region, as the front-end describes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegionLayout {
    /// Its guest-physical address, as the guest's driver uses it.
    pub guest: u64,
    pub size: u64,
    /// Its address in the front-end's address space, in which the addresses of rings are given.
    pub user: u64,
    /// Its offset in the file.
    pub offset: u64,
}

impl RegionLayout {
    /// Bytes of a description.
    pub const BYTES: usize = 32;

    /// Reads the description at byte `at` of a payload.
    pub fn read(payload: &[u8], at: usize) -> Result<RegionLayout, Refusal> {
        let fields = Fields(payload.get(at..).ok_or(Refusal::Short)?);
        Ok(RegionLayout {
            guest: fields.long(0)?,
            size: fields.long(8)?,
            user: fields.long(16)?,
            offset: fields.long(24)?,
        })
    }
}

/// One mapped region.
#[derive(Clone, Debug)]
struct Region {
    layout: RegionLayout,
    /// Address at which its first byte is mapped.
    at: *mut u8,
    mapping: Arc<Mapping>,
    /// Device and inode of its file.
    file: (u64, u64),
}

impl Region {
    /// Seals and maps a region. `bytes_left`: number of bytes that may still be mapped for the guest.
    fn new(layout: RegionLayout, fd: BorrowedFd<'_>, bytes_left: u64) -> Result<Region, Refusal> {
        let ends = [layout.guest, layout.user].map(|start| start.checked_add(layout.size));
        if ends.contains(&None) {
            return Err(Refusal::Memory("a region wraps around"));
        }
        seal(fd)?;
        let mapping = Mapping::new(layout.size, layout.offset, fd, bytes_left)?;
        let offset = usize::try_from(layout.offset).map_err(|_| Refusal::Memory("a region is too large"))?;
        // The mapping begins at the beginning of the file and ends at the region's end.
        let at = mapping.start().wrapping_add(offset);
        Ok(Region { layout, at, mapping: Arc::new(mapping), file: identity(fd)? })
    }

    /// The offset of a guest-physical address in the region; `None`: the address is not in the region.
    #[inline]
    fn offset(&self, address: u64) -> Option<u64> {
        Some(address.wrapping_sub(self.layout.guest)).filter(|offset| *offset < self.layout.size)
    }
}

/// Device and inode of a sealed file. Other files may block the caller.
fn identity(fd: BorrowedFd<'_>) -> Result<(u64, u64), Refusal> {
    let stat = fstat(fd).map_err(|_| Refusal::Memory("a descriptor is not a file"))?;
    Ok((stat.st_dev, stat.st_ino))
}

/// The mapped memory of a guest.
#[derive(Clone, Debug, Default)]
pub(crate) struct GuestMemory {
    regions: Vec<Region>,
}

// SAFETY: the pointers point into shared mappings, which are not bound to a thread. They are used only for copies and atomic accesses,
// which several threads may do at the same time.
unsafe impl Send for GuestMemory {}
// SAFETY: as for `Send`.
unsafe impl Sync for GuestMemory {}

impl GuestMemory {
    /// Maps the regions of a memory table.
    pub fn map(layouts: &[RegionLayout], fds: &[impl AsFd]) -> Result<GuestMemory, Refusal> {
        if layouts.len() != fds.len() || layouts.is_empty() {
            return Err(Refusal::Memory("the number of descriptors is not the number of regions"));
        }
        let mut memory = GuestMemory::default();
        for (layout, fd) in layouts.iter().zip(fds) {
            memory = memory.with(*layout, fd.as_fd())?;
        }
        Ok(memory)
    }

    /// Returns this memory with one more region.
    pub fn with(&self, layout: RegionLayout, fd: BorrowedFd<'_>) -> Result<GuestMemory, Refusal> {
        if self.regions.len() >= REGIONS_MAX {
            return Err(Refusal::Memory("it has too many regions"));
        }
        let overlaps =
            |a: u64, b: u64, size: u64| a < b.saturating_add(size) && b < a.saturating_add(layout.size);
        let other = self.regions.iter().map(|r| r.layout);
        let mut others = other
            .filter(|o| overlaps(layout.guest, o.guest, o.size) || overlaps(layout.user, o.user, o.size));
        if others.next().is_some() {
            return Err(Refusal::Memory("two regions overlap"));
        }
        let used: u64 = self.regions.iter().map(|r| r.mapping.length() as u64).sum();
        let region = Region::new(layout, fd, bytes_max().saturating_sub(used))?;
        let mut memory = self.clone();
        memory.regions.push(region);
        Ok(memory)
    }

    /// Whether it has this region, in this file.
    pub fn has(&self, layout: RegionLayout, fd: BorrowedFd<'_>) -> Result<bool, Refusal> {
        seal(fd)?;
        let file = identity(fd)?;
        Ok(self.regions.iter().any(|r| r.layout == layout && r.file == file))
    }

    /// Returns this memory without the region at these addresses; `None`: there is no such region.
    pub fn without(&self, layout: RegionLayout) -> Option<GuestMemory> {
        let is_same = |l: RegionLayout| (l.guest, l.size, l.user) == (layout.guest, layout.size, layout.user);
        let mut memory = self.clone();
        memory.regions.retain(|r| !is_same(r.layout));
        (memory.regions.len() < self.regions.len()).then_some(memory)
    }

    /// The memory at a guest-physical address, at most `len` bytes: fewer if the region ends before. `None`: the address is in no region.
    /// `last_region`: the index of the region that was found last.
    #[inline]
    pub fn part(&self, address: u64, len: u32, last_region: &mut usize) -> Option<Part<'_>> {
        let (region, offset) =
            match self.regions.get(*last_region).and_then(|r| Some((r, r.offset(address)?))) {
                Some(found) => found,
                None => self.search(address, last_region)?,
            };
        let len = u64::from(len).min(region.layout.size - offset) as u32;
        Some(Part { at: region.at.wrapping_add(offset as usize), len, memory: PhantomData })
    }

    #[cold]
    fn search(&self, address: u64, last_region: &mut usize) -> Option<(&Region, u64)> {
        let found = |(i, r): (usize, &Region)| Some((i, r.offset(address)?));
        let (i, offset) = self.regions.iter().enumerate().find_map(found)?;
        *last_region = i;
        Some((self.regions.get(i)?, offset))
    }

    /// The guest-physical address of a part.
    #[cold]
    pub fn address_of(&self, part: &Part<'_>) -> Option<u64> {
        self.regions.iter().find_map(|r| {
            let offset = part.at.addr().wrapping_sub(r.at.addr()) as u64;
            (offset < r.layout.size).then(|| r.layout.guest + offset)
        })
    }

    /// A copy of the region with this index for a burst; an empty one if there is no such region.
    #[inline]
    pub fn cached_region(&self, index: usize) -> CachedRegion<'_> {
        let none = CachedRegion { guest: 0, size: 0, at: std::ptr::null_mut(), memory: PhantomData };
        self.regions.get(index).map_or(none, |r| CachedRegion {
            guest: r.layout.guest,
            size: r.layout.size,
            at: r.at,
            memory: PhantomData,
        })
    }

    /// The memory at an address of the front-end; `None`: not all `len` bytes are in one region.
    pub fn at_user_address(&self, address: u64, len: u64) -> Option<Part<'_>> {
        self.regions.iter().find_map(|r| {
            let offset = address.checked_sub(r.layout.user)?;
            let fits = offset.checked_add(len)? <= r.layout.size;
            let len = u32::try_from(len).ok()?;
            fits.then(|| Part { at: r.at.wrapping_add(offset as usize), len, memory: PhantomData })
        })
    }

    /// Splits a translation of `range` to the front-end's address `user` at the ends of regions. The result is the addresses of each piece.
    pub fn pieces(&self, range: IovaRange, user: u64) -> Result<Vec<(IovaRange, u64)>, Refusal> {
        let outside = Refusal::Memory("a translation is outside of the memory");
        let (mut pieces, mut first, mut user) = (Vec::new(), range.first, user);
        loop {
            let left = self.left_at_user_address(user).ok_or(outside)?;
            let last = range.last.min(first.saturating_add(left - 1));
            pieces.push((IovaRange { first, last }, user));
            if last == range.last {
                return Ok(pieces);
            }
            // A region does not wrap around, so the address after it exists.
            (first, user) = (last + 1, user + left);
        }
    }

    /// Number of bytes from an address of the front-end to the end of its region; `None`: the address is in no region.
    pub fn left_at_user_address(&self, address: u64) -> Option<u64> {
        self.regions.iter().find_map(|r| {
            let offset = address.checked_sub(r.layout.user)?;
            r.layout.size.checked_sub(offset).filter(|left| *left > 0)
        })
    }
}

/// One region, copied for a burst so that its fields stay in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedRegion<'m> {
    guest: u64,
    size: u64,
    at: *mut u8,
    memory: PhantomData<&'m GuestMemory>,
}

impl<'m> CachedRegion<'m> {
    /// The `len` bytes at a guest-physical address; `None`: they are not all in this region.
    #[inline(always)]
    pub fn part(&self, address: u64, len: u32) -> Option<Part<'m>> {
        let offset = address.wrapping_sub(self.guest);
        let fits = offset < self.size && u64::from(len) <= self.size - offset;
        fits.then(|| Part { at: self.at.wrapping_add(offset as usize), len, memory: PhantomData })
    }
}

/// Bytes of a cache line.
pub(crate) const CACHE_LINE: usize = 64;

/// A range of guest memory within one region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'m> {
    at: *mut u8,
    len: u32,
    memory: PhantomData<&'m GuestMemory>,
}

impl<'m> Part<'m> {
    /// A part without bytes.
    pub const EMPTY: Part<'m> = Part { at: std::ptr::null_mut(), len: 0, memory: PhantomData };

    /// Its length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// The address at which it is mapped.
    pub fn start(&self) -> *mut u8 {
        self.at
    }

    /// The part without its first `n` bytes; empty if it is shorter.
    #[inline]
    pub fn skip(&self, n: usize) -> Part<'m> {
        let n = n.min(self.len());
        Part { at: self.at.wrapping_add(n), len: self.len - n as u32, memory: PhantomData }
    }

    /// Copies its beginning to `to`. Returns the number of bytes: the shorter of the two lengths.
    #[inline(always)]
    pub fn read(&self, to: &mut [u8]) -> usize {
        let n = self.len().min(to.len());
        // SAFETY: a part is inside a region that is mapped as long as 'm, and `n` is at most its length.
        unsafe { copy::read(self.at, &mut to[..n]) };
        n
    }

    /// Copies the beginning of `from` to its beginning. Returns the number of bytes: the shorter of the two lengths.
    #[inline(always)]
    pub fn write(&self, from: &[u8]) -> usize {
        let n = self.len().min(from.len());
        // SAFETY: as in `read`; regions are mapped writable.
        unsafe { copy::write(self.at, &from[..n]) };
        n
    }

    /// Copies the beginning of a piece of another guest's memory to the beginning of this part. Returns the number of bytes: the shorter
    /// of the two lengths.
    ///
    /// # Safety
    ///
    /// The piece is mapped and readable for its length.
    #[inline(always)]
    pub unsafe fn write_guest_piece(&self, piece: Piece) -> usize {
        let n = self.len().min(piece.len);
        // SAFETY: this part is writable for `n` bytes, as in `write`; the caller guarantees that the piece is readable.
        unsafe { copy::between(piece.at, self.at, n) };
        n
    }

    /// Copies the first and the last 16 bytes of `from` to the same offsets; nothing if `from` has fewer bytes or is longer than the part.
    #[inline(always)]
    pub fn write_ends(&self, from: &[u8]) {
        if let (Some(first), Some(last)) = (from.first_chunk(), from.last_chunk())
            && from.len() <= self.len()
        {
            // SAFETY: as in `write`: both ranges are inside the first `from.len()` bytes, which the part has.
            unsafe {
                copy::write_16(self.at, first);
                copy::write_16(self.at.add(from.len() - 16), last);
            }
        }
    }

    /// Reads its first 12 bytes, a virtio header: 8 bytes and 4 bytes. `None`: the part is shorter.
    #[inline(always)]
    pub fn read_header(&self) -> Option<(u64, u32)> {
        // SAFETY: a part is inside a region that is mapped as long as 'm, and this part has at least 12 bytes.
        (self.len >= 12).then(|| unsafe { copy::read_12(self.at) })
    }

    /// Sets its first 12 bytes. Returns false if the part is shorter.
    ///
    /// The bytes are read first and written only if they differ. If the driver does not change headers, its core and this core then share
    /// the cache line; a write would move the line away from the driver's core.
    #[inline(always)]
    pub fn set_header(&self, words: (u64, u32)) -> bool {
        let there = self.read_header();
        if there.is_some_and(|there| there != words) {
            // SAFETY: `read_header` found 12 bytes; regions are mapped writable.
            unsafe { copy::write_12(self.at, words) };
        }
        there.is_some()
    }

    /// Prefetches the cache lines of bytes `range`, for reading.
    #[inline(always)]
    pub fn prefetch(&self, range: Range<usize>) {
        range.step_by(CACHE_LINE).for_each(|n| cpu::prefetch_at(self.at.wrapping_add(n)));
    }

    /// Prefetches the first two cache lines of the `len` bytes that are read from a buffer.
    #[inline(always)]
    pub fn prefetch_first(&self, len: usize) {
        cpu::prefetch_at(self.at);
        cpu::prefetch_at(self.at.wrapping_add(CACHE_LINE.min(len.saturating_sub(1))));
    }

    /// As [`Part::prefetch_first`], for writing a packet with a virtio header of `header` bytes.
    ///
    /// A cache line that contains only the header is prefetched for reading, because the header is written only if it differs (see
    /// [`Part::set_header`]). A prefetch for writing would move the line away from the guest's core, which reads the header of each
    /// packet.
    #[inline(always)]
    pub fn prefetch_first_for_write(&self, header: usize, len: usize) {
        if (self.at.addr() + header).is_multiple_of(CACHE_LINE) {
            cpu::prefetch_at(self.at);
        } else {
            cpu::prefetch_write_at(self.at);
        }
        cpu::prefetch_write_at(self.at.wrapping_add(CACHE_LINE.min(len.saturating_sub(1))));
    }

    /// Prefetches the cache lines of bytes `range`, for writing.
    #[inline(always)]
    pub fn prefetch_write(&self, range: Range<usize>) {
        range.step_by(CACHE_LINE).for_each(|n| cpu::prefetch_write_at(self.at.wrapping_add(n)));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use std::os::fd::OwnedFd;

    /// A memory file of this length.
    pub(crate) fn file(length: u64) -> OwnedFd {
        let fd = memfd_create("guest", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&fd, length).unwrap();
        fd
    }

    fn layout(guest: u64, size: u64, offset: u64) -> RegionLayout {
        RegionLayout { guest, size, user: guest.wrapping_add(0x7f00_0000_0000), offset }
    }

    #[test]
    fn copies_stay_within_their_region() {
        let fd = file(3 << 12);
        let layouts = [layout(0x1000, 0x1000, 0), layout(0x2000, 0x1000, 0x2000)];
        let memory = GuestMemory::map(&layouts, &[&fd, &fd]).unwrap();
        let mut last_region = 0;
        let first = memory.part(0x1ffe, 100, &mut last_region).unwrap();
        assert_eq!((first.len(), first.write(&[1, 2, 3])), (2, 2));
        let second = memory.part(0x2000, 100, &mut last_region).unwrap();
        assert_eq!((last_region, second.len(), second.write(b"abc"), second.skip(1).len()), (1, 100, 3, 99));
        let mut read = [0; 3];
        assert_eq!((memory.part(0x1ffe, 3, &mut last_region).unwrap().read(&mut read), read), (2, [1, 2, 0]));
        let addresses = [first, first.skip(1), second.skip(99)].map(|part| memory.address_of(&part));
        assert_eq!(addresses, [0x1ffe, 0x1fff, 0x2063].map(Some));
        assert_eq!(memory.at_user_address(0x7f00_0000_2001, 2).unwrap().read(&mut read), 2);
        assert_eq!(&read[..2], b"bc");
        let cached_region = memory.cached_region(1);
        assert!(cached_region.part(0x2000, 0x1000).is_some() && cached_region.part(0x2fff, 1).is_some());
        for (address, len) in [(0x2000, 0x1001), (0x3000, 0), (0x1fff, 1), (0x2fff, 2), (u64::MAX, u32::MAX)]
        {
            assert!(
                cached_region.part(address, len).is_none()
                    && memory.cached_region(2).part(address, len).is_none()
            );
        }
        assert_eq!(
            cached_region.part(0x2000, 12).unwrap().read_header().unwrap().0.to_le_bytes()[..3],
            *b"abc"
        );
        let header = cached_region.part(0x2000, 12).unwrap();
        for words in [(7, 9), (7, 9), (7, 8), (6, 8)] {
            assert_eq!((header.set_header(words), header.read_header()), (true, Some(words)));
        }
        let short = cached_region.part(0x2000, 11).unwrap();
        assert!(short.read_header().is_none() && !short.set_header((0, 0)));
        for (address, len) in [(0xfff, 1), (0x3000, 1), (u64::MAX, 1), (0, 100)] {
            assert!(memory.part(address, len, &mut last_region).is_none(), "{address:#x}");
        }
        assert!(memory.at_user_address(0x7f00_0000_1fff, 2).is_none(), "it would cross regions");
        assert!(memory.at_user_address(0x7f00_0000_2000, u64::MAX).is_none());
        // A translation is split between the regions.
        let range = |first, size| IovaRange::new(first, size).unwrap();
        let (first, second) = ((range(7, 0x800), 0x7f00_0000_1800), (range(0x807, 1), 0x7f00_0000_2000));
        assert_eq!(memory.pieces(range(7, 0x801), 0x7f00_0000_1800), Ok(vec![first, second]));
        for (size, user) in [(0x1001, 0x7f00_0000_2000), (u64::MAX, 0x7f00_0000_1000), (1, 0), (1, u64::MAX)]
        {
            assert!(memory.pieces(range(0, size), user).is_err(), "{size:#x} at {user:#x}");
        }
    }

    #[test]
    fn regions_come_and_go() {
        let fd = file(1 << 16);
        let memory = GuestMemory::map(&[layout(0x10000, 0x1000, 0)], &[&fd]).unwrap();
        let overlap = Refusal::Memory("two regions overlap");
        assert_eq!(memory.with(layout(0x10fff, 0x1000, 0), fd.as_fd()).unwrap_err(), overlap);
        let more = memory.with(layout(0x11000, 0x1000, 0x1000), fd.as_fd()).unwrap();
        assert!(more.part(0x11000, 1, &mut 0).is_some() && memory.part(0x11000, 1, &mut 0).is_none());
        let less = more.without(layout(0x10000, 0x1000, 0)).unwrap();
        assert!(less.part(0x10000, 1, &mut 0).is_none() && less.part(0x11fff, 9, &mut 0).is_some());
        assert!(less.without(layout(0x10000, 0x1000, 0)).is_none());
        for bad in [layout(u64::MAX - 10, 0x1000, 0), layout(0x20000, 0, 0), layout(0x20000, 0x1000, 1 << 40)]
        {
            assert!(memory.with(bad, fd.as_fd()).is_err(), "{bad:?}");
        }
        let none: [OwnedFd; 0] = [];
        assert!(GuestMemory::map(&[], &none).is_err());
    }
}
