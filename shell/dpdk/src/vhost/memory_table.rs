//! The table of a guest's memory, tried before the library is given it.
//!
//! The library unmaps the old memory before it maps the new. Where that fails it leaves its rings with addresses of what
//! is gone. So a table is refused beforehand, and the guest keeps what it has, unless
//!
//! * each file is memory that stays as long and writable as it is ([`super::descriptors::pin`]), decided before any other
//!   call on it: a file of another kind may never answer;
//! * all regions can be mapped at once and in the library's way: they are, and given back.
//!
//! What can still fail then (memory of the kernel's runs out; huge pages that a hole was punched for go elsewhere)
//! finds no worker inside: see [`super::front`].

use super::descriptors::pin;
use super::rules::{Fields, Objection};
use rustix::fs::fstat;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Regions that the library takes.
pub(super) const REGIONS_MAX: usize = 8;
const HEADER: usize = 8;
const REGION: usize = 32;

/// Whether all regions of this `SET_MEM_TABLE` can be mapped from these descriptors.
pub(super) fn try_out(payload: &[u8], fds: &[OwnedFd]) -> Result<(), Objection> {
    let count = Fields(payload).word(0)? as usize;
    if count > REGIONS_MAX {
        return Err(Objection::Table("it has too many regions"));
    }
    if count != fds.len() {
        return Err(Objection::Table("it has not one descriptor for each region"));
    }
    fds.iter().try_for_each(|fd| pin(fd.as_fd()))?;
    let mut mapped = Vec::with_capacity(count);
    for (i, fd) in fds.iter().enumerate() {
        let fields = Fields(payload.get(HEADER + i * REGION..).ok_or(Objection::Short)?);
        // Guest physical address, size, address in the front-end, offset in the file.
        mapped.push(Mapping::new(fields.long(8)?, fields.long(24)?, fd.as_fd())?);
    }
    Ok(())
}

/// Unmaps on drop.
struct Mapping {
    at: *mut std::ffi::c_void,
    length: usize,
}

impl Mapping {
    /// From the file's beginning, in whole blocks of its own, as the library does.
    fn new(size: u64, offset: u64, fd: BorrowedFd<'_>) -> Result<Mapping, Objection> {
        let end = offset.checked_add(size).filter(|_| size > 0);
        let end = end.ok_or(Objection::Table("a region has no size, or wraps"))?;
        let block = fstat(fd).ok().and_then(|about| u64::try_from(about.st_blksize).ok());
        let block = block.filter(|b| *b > 0).ok_or(Objection::Table("a descriptor is no file"))?;
        let length = end
            .checked_next_multiple_of(block)
            .and_then(|n| usize::try_from(n).ok())
            .ok_or(Objection::Table("a region is too large"))?;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place; nothing reads or writes there.
        let at = unsafe { mmap(std::ptr::null_mut(), length, rights, MapFlags::SHARED, fd, 0) };
        let at = at.map_err(|_| Objection::Table("a region cannot be mapped"))?;
        Ok(Mapping { at, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: a mapping of ours, to which nothing leads.
        let _ = unsafe { munmap(self.at, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    /// So many descriptors of one file.
    fn memory<const N: usize>(length: u64) -> [OwnedFd; N] {
        let fd = memfd_create("guest", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&fd, length).unwrap();
        std::array::from_fn(|_| fd.try_clone().unwrap())
    }

    fn table(regions: &[(u64, u64)]) -> Vec<u8> {
        let mut out = [regions.len() as u32, 0].map(u32::to_ne_bytes).concat();
        for (size, offset) in regions {
            out.extend([0x4000_0000, *size, 0x7f00_0000_0000, *offset].map(u64::to_ne_bytes).concat());
        }
        out
    }

    #[test]
    fn what_can_be_mapped_passes() {
        let [fd] = memory(1 << 20);
        assert_eq!(try_out(&table(&[]), &[]), Ok(()));
        assert_eq!(try_out(&table(&[(1 << 20, 0)]), &[fd]), Ok(()));
        assert_eq!(try_out(&table(&[(4096, 0), (4096, 4096)]), &memory::<2>(1 << 20)), Ok(()));
        // Longer than its file: what is not there reads as zeros (`lost_memory`).
        assert_eq!(try_out(&table(&[(1 << 30, 0)]), &memory::<1>(1 << 20)), Ok(()));
    }

    #[test]
    fn what_cannot_is_refused() {
        let fd = memory::<1>(1 << 20);
        for (size, offset) in [(0, 0), (u64::MAX, 1), (u64::MAX - 8191, 8192), (u64::MAX, 0), (1 << 62, 0)] {
            assert!(try_out(&table(&[(size, offset)]), &fd).is_err(), "{size:#x} at {offset:#x}");
        }
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let read_only = std::fs::File::open("/proc/self/exe").unwrap();
        for fd in [OwnedFd::from(ours), read_only.into()] {
            let refused = Err(Objection::Table("a file is neither shmem nor hugetlbfs"));
            assert_eq!(try_out(&table(&[(4096, 0)]), &[fd]), refused);
        }
        assert!(try_out(&table(&[(4096, 0)]), &[]).is_err());
        assert!(try_out(&table(&[(4096, 0); 9]), &memory::<9>(1 << 20)).is_err());
        assert!(try_out(&table(&[(4096, 0); 2])[..60], &memory::<2>(1 << 20)).is_err());
        // Each fits; all together do not.
        assert!(try_out(&table(&[(1 << 46, 0); 4]), &memory::<4>(1 << 20)).is_err());
    }
}
