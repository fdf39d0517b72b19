//! The address space of a ring: how the addresses in its descriptors are translated to guest memory.
//!
//! Guests without an IOMMU use guest-physical addresses, and their address space is the memory table. Guests with an IOMMU use I/O virtual
//! addresses, which the [`Iotlb`] translates. The code of a burst is compiled for each, so guests without an IOMMU do not pay for it.

use crate::iotlb::{Access, Iotlb, IovaRange, PAGE};
use crate::memory::{CachedRegion, GuestMemory, Part};
use crate::ring::RingError;
use arrayvec::ArrayVec;
use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::sync::Arc;

/// An address space. Each ring has its own.
pub(crate) trait AddressSpace: Clone + Debug + Send {
    /// Whether addresses are I/O virtual addresses: then a translation may be missing.
    const TRANSLATES: bool;

    /// The guest's memory, which this address space keeps mapped.
    fn memory(&self) -> &Arc<GuestMemory>;

    /// The region with index `last_region`, for [`AddressSpace::buffer`].
    fn cached_region(&self, last_region: usize) -> CachedRegion<'_>;

    /// The buffer of `len` bytes at `address`, if it can be accessed directly; otherwise `None`.
    fn buffer<'m>(
        &'m self,
        cached_region: &CachedRegion<'m>,
        address: u64,
        len: u32,
        access: Access,
    ) -> Option<Part<'m>>;

    /// The memory at `address`, at least one and at most `len` bytes. `last_region`: see [`GuestMemory::part`].
    fn part(
        &self,
        address: u64,
        len: u32,
        access: Access,
        last_region: &mut usize,
    ) -> Result<Part<'_>, RingError>;

    /// A part of the ring itself, of `len` bytes, at an address from `SET_VRING_ADDR`. `None`: it is not in the guest's memory.
    fn ring_part(&self, address: u64, len: u64, access: Access) -> Result<Option<Part<'_>>, RingError>;
}

impl AddressSpace for Arc<GuestMemory> {
    const TRANSLATES: bool = false;

    #[inline(always)]
    fn memory(&self) -> &Arc<GuestMemory> {
        self
    }

    #[inline(always)]
    fn cached_region(&self, last_region: usize) -> CachedRegion<'_> {
        GuestMemory::cached_region(self, last_region)
    }

    #[inline(always)]
    fn buffer<'m>(
        &'m self,
        cached_region: &CachedRegion<'m>,
        address: u64,
        len: u32,
        _: Access,
    ) -> Option<Part<'m>> {
        cached_region.part(address, len)
    }

    #[inline(always)]
    fn part(
        &self,
        address: u64,
        len: u32,
        _: Access,
        last_region: &mut usize,
    ) -> Result<Part<'_>, RingError> {
        GuestMemory::part(self, address, len, last_region).ok_or(RingError::Address)
    }

    fn ring_part(&self, address: u64, len: u64, _: Access) -> Result<Option<Part<'_>>, RingError> {
        Ok(self.at_user_address(address, len))
    }
}

/// A page whose translation is missing, and the access for which it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Miss {
    pub page: u64,
    pub access: Access,
}

/// Maximum number of missing pages that a ring requests at once: one for each buffer of a burst. The memory of a ring of 32,768 descriptors
/// is requested in several steps.
pub(crate) const MISSES_MAX: usize = 32;

pub(crate) type Misses = ArrayVec<Miss, MISSES_MAX>;

/// A part of a ring: its I/O virtual addresses, and where the ring accesses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingPart {
    pub range: IovaRange,
    /// Its address in the front-end's address space.
    pub user: u64,
    pub access: Access,
}

/// The parts of one ring: descriptors, available ring, used ring.
pub(crate) type RingParts = ArrayVec<RingPart, 3>;

/// The I/O virtual addresses of a guest with an IOMMU, as one ring uses them.
#[derive(Clone, Debug)]
pub(crate) struct IovaSpace {
    memory: Arc<GuestMemory>,
    iotlb: Arc<Iotlb>,
    /// Index of the translation that was found last.
    last_entry: Cell<usize>,
    /// Pages whose translations were missing and are not requested yet.
    misses: RefCell<Misses>,
    ring_parts: RefCell<RingParts>,
}

impl IovaSpace {
    pub fn new(memory: &Arc<GuestMemory>, iotlb: &Arc<Iotlb>) -> IovaSpace {
        IovaSpace {
            memory: Arc::clone(memory),
            iotlb: Arc::clone(iotlb),
            last_entry: Cell::new(0),
            misses: RefCell::default(),
            ring_parts: RefCell::default(),
        }
    }

    /// Uses other translations from now on.
    pub fn set_iotlb(&mut self, iotlb: &Arc<Iotlb>) {
        self.iotlb = Arc::clone(iotlb);
    }

    /// Whether pages are missing that were not requested yet.
    #[inline]
    pub fn has_misses(&self) -> bool {
        !self.misses.borrow().is_empty()
    }

    /// The pages that are missing and were not requested yet.
    pub fn misses(&self) -> Misses {
        self.misses.borrow().clone()
    }

    /// Sets the pages that are still to be requested.
    pub fn set_misses(&self, misses: Misses) {
        *self.misses.borrow_mut() = misses;
    }

    /// The parts of the ring that were translated by [`AddressSpace::ring_part`].
    pub fn ring_parts(&self) -> RingParts {
        self.ring_parts.borrow().clone()
    }

    #[inline]
    fn find(&self, address: u64, access: Access) -> Option<(u64, u64)> {
        let mut last_entry = self.last_entry.get();
        let found = self.iotlb.find(address, access, &mut last_entry);
        self.last_entry.set(last_entry);
        found
    }

    /// Records the missing pages of a range, as many as fit into the list.
    #[cold]
    fn miss(&self, range: IovaRange, access: Access) {
        let (mut misses, mut at) = (self.misses.borrow_mut(), range.first);
        // A long buffer may have many translated pages before the first missing one. That one is recorded when the chain is walked.
        for _ in 0..MISSES_MAX {
            let page = at & !(PAGE - 1);
            // Number of bytes to the end of the translation, or of the missing page.
            let left = match self.find(at, access) {
                Some((_, left)) => left,
                None => {
                    if !misses.contains(&Miss { page, access })
                        && misses.try_push(Miss { page, access }).is_err()
                    {
                        return;
                    }
                    PAGE - (at - page)
                }
            };
            match at.checked_add(left) {
                Some(next) if next <= range.last => at = next,
                _ => break,
            }
        }
    }
}

impl AddressSpace for IovaSpace {
    const TRANSLATES: bool = true;

    fn memory(&self) -> &Arc<GuestMemory> {
        &self.memory
    }

    /// No region: each buffer is looked up in the IOTLB.
    fn cached_region(&self, _: usize) -> CachedRegion<'_> {
        self.memory.cached_region(usize::MAX)
    }

    /// The missing pages of the buffer are recorded, so that those of a burst are requested together.
    #[inline]
    fn buffer<'m>(
        &'m self,
        _: &CachedRegion<'m>,
        address: u64,
        len: u32,
        access: Access,
    ) -> Option<Part<'m>> {
        let range = IovaRange::new(address, u64::from(len))?;
        if let Some((user, left)) = self.find(address, access)
            && u64::from(len) <= left
        {
            return self.memory.at_user_address(user, u64::from(len));
        }
        self.miss(range, access);
        None
    }

    fn part(&self, address: u64, len: u32, access: Access, _: &mut usize) -> Result<Part<'_>, RingError> {
        let Some((user, left)) = self.find(address, access) else {
            let last = address.saturating_add(u64::from(len).saturating_sub(1));
            self.miss(IovaRange { first: address, last }, access);
            return Err(RingError::Untranslated);
        };
        // An entry is within one region, so all of these bytes are in the memory.
        self.memory.at_user_address(user, left.min(u64::from(len))).ok_or(RingError::Address)
    }

    fn ring_part(&self, address: u64, len: u64, access: Access) -> Result<Option<Part<'_>>, RingError> {
        let range = IovaRange::new(address, len).ok_or(RingError::Scattered)?;
        let user = self.iotlb.find_contiguous(range, access).inspect_err(|_| self.miss(range, access))?;
        let part = self.memory.at_user_address(user, len).ok_or(RingError::Scattered)?;
        let _ = self.ring_parts.borrow_mut().try_push(RingPart { range, user, access });
        Ok(Some(part))
    }
}
